"""`nlgnn export`: an ONNX file from a run folder, what is printed of it, and what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from cli_samples import Command
from nlgnn import errors
from nlgnn.cli.export import check_words
from nlgnn.datasets import load_graph
from nlgnn.training import onnx as exporting
from nlgnn.training.fit import predict
from nlgnn.training.onnx import Exported
from nlgnn.training.train import Plan, read_trained, train


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of run folders."""
    graph, folder = load_graph("mushroom-body"), tmp_path_factory.mktemp("export")
    for name, model in (("X", "nlgcn"), ("gat", "gat")):
        train(Plan(graph.name, model, runs=2, options={"epochs": 3}), graph, folder / name, progress=False)
    return folder


@pytest.fixture
def folders(trained: Path, command: Command) -> None:
    """Copies of them where commands are run."""
    shutil.copytree(trained, ".", dirs_exist_ok=True)


@pytest.mark.usefixtures("folders")
def test_mean_of_the_runs(command: Command) -> None:
    done = command("export", "X", "model.onnx", "--mean")
    assert (done.code, done.err) == (0, "")
    file, what, check = done.out.splitlines()
    assert file == "exported: model.onnx"
    assert what == "x, edge_index -> probabilities: nlgcn trained on mushroom-body-left, mean of the runs 0, 1"
    assert "on all 209 nodes of mushroom-body-left: probabilities within " in check
    assert "the same class for 209." in check
    one, graph = read_trained(Path("X"))
    wanted = predict(one.factory, graph, one.runs, one.recipe).mean(0)
    given = {"x": graph.dense_features(), "edge_index": graph.edge_index}
    found = onnxruntime.InferenceSession("model.onnx").run(["probabilities"], given)[0]
    np.testing.assert_allclose(found, wanted, atol=1e-4)


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(("flags", "run"), [((), 0), (("--run", 1), 1)])
def test_which_run(command: Command, monkeypatch: pytest.MonkeyPatch, flags: tuple[object, ...], run: int) -> None:
    def written(trained: object, graph: object, path: Path, chosen: int | None, mean: bool) -> Exported:
        return Exported(("x",), "logits", (trained.finished_run(chosen).index,), 209, 0, 209, 0.0)  # type: ignore[attr-defined]

    monkeypatch.setattr(exporting, "export_onnx", written)
    assert f"x -> logits: nlgcn trained on mushroom-body-left, run {run}\n" in command("export", "X", "m", *flags).out


def test_words_of_the_check() -> None:
    part = Exported(("x",), "logits", (0,), 10_000, 12, 9_999, 3e-6)
    words = check_words(part, "large", 20_000)
    for one in ("the first 10000 nodes of large", "logits within 3e-06", "class for 9999", "of 12 nodes differs"):
        assert one in words
    assert "all 10000 nodes" in check_words(part, "large", 10_000)


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize(
    ("arguments", "what", "how"),
    [
        (("nowhere", "m.onnx"), "There is no folder nowhere", "that a training made"),
        (("X", "m.onnx", "--run", 2), "no finished run 2", "It has: 0, 1"),
        (("X", "m.onnx", "--run", -1), "no finished run -1", "It has: 0, 1"),
        (("X", "m.onnx", "--run", 0, "--mean"), "--mean exports all runs", "one of them"),
        (("X", "X"), "X cannot be written: it is not an ordinary file", "in a folder that exists"),
        (("X", "pipe"), "pipe cannot be written: it is not an ordinary file", "in a folder that exists"),
        (("X", "no/m.onnx"), "there is no folder no", "in a folder that exists"),
        (("X", "m" * 300), "File name too long", "in a folder that exists"),
        (("gat", "m.onnx"), "GAT cannot be exported", "mlp, gcn, nlmlp or nlgcn"),
    ],
)
def test_bad_input(command: Command, arguments: tuple[object, ...], what: str, how: str) -> None:
    os.mkfifo("pipe")  # stands for a device, which a file must not take the place of
    before = sorted(Path().rglob("*"))
    done = command("export", *arguments)
    assert (done.code, done.out) == (2, "")
    first, second = done.err.splitlines()
    assert what in first
    assert how in second
    assert sorted(Path().rglob("*")) == before
    assert Path("pipe").is_fifo()


@pytest.mark.usefixtures("folders")
def test_without_the_packages(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    done = command("export", "X", "m.onnx")
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == [
        "error: packages that are needed for onnx are not installed: onnx, onnxruntime, onnxscript.",
        "Install them: pip install 'nlgnn[onnx]'",
    ]
