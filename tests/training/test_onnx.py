"""ONNX files: onnxruntime gives what the model itself gives, on any graph; what cannot be exported is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from numpy.typing import NDArray

import nlgnn
from each_of import each_of
from nlgnn import errors
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.models.build import configure
from nlgnn.training import onnx as exporting
from nlgnn.training.device import model_like
from nlgnn.training.fit import predict
from nlgnn.training.onnx import Portable, export_onnx
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, Trained
from training_samples import GRAPH, easy_graph, own_logits

CASES: dict[str, dict[str, Any]] = {
    "mlp": {"features": "none", "num_layers": 1},
    "gcn": {"features": "unit-sum", "num_layers": 3},
    "nlmlp": {"features": "unit-l2", "head": "residual", "standardise_score": True, "num_convs": 3, "kernel_size": 3},
    "nlgcn": {"features": "unit-sum", "score_bias": True, "kernel_size": 7, "embedding": 5},
    "nlgcn without scores": {"features": "none", "multiply_score": False, "num_convs": 1, "kernel_size": 1},
}


def made(folder: Path, model: str, runs: int = 1, **options: Any) -> Trained:
    """As if trained: all weights drawn, those that start at zero too, so that none could be forgotten unseen."""
    factory, recipe = configure(model, GRAPH, "paper", hidden=16, **options)
    finished = []
    for index in range(runs):
        generator = torch.Generator().manual_seed(index)
        shapes = model_like(factory).state_dict()
        state = {name: 0.4 * torch.randn(value.shape, generator=generator) for name, value in shapes.items()}
        finished.append(Run(index, index, "random-60", index, state=state))
    return Trained(Plan("easy", model), recipe, factory, RunFolder(folder, {}), finished)


def foreign(path: Path, graph: Graph) -> NDArray[np.float32]:
    session = onnxruntime.InferenceSession(path)
    given = {"x": graph.dense_features(), "edge_index": graph.edge_index}
    result: NDArray[np.float32] = session.run(None, {one.name: given[one.name] for one in session.get_inputs()})[0]
    return result


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Trained, Path]]:
    """Each case, written once."""
    folder = tmp_path_factory.mktemp("onnx")

    @cache
    def write(case: str) -> tuple[Trained, Path]:
        trained, path = made(folder, case.split()[0], **CASES[case]), folder / f"{case}.onnx"
        result = export_onnx(trained, GRAPH, path)
        assert (result.checked_nodes, result.moved_nodes, result.same_class) == (30, 0, 30)
        assert result.largest_difference < 1e-4
        assert (
            len(np.unique(own_logits(trained, GRAPH), axis=0)) == 30
        )  # nodes are told apart: there is an order to lose
        return trained, path

    return write


def graph_of(num_nodes: int, edges: object, seed: int = 0) -> Graph:
    """Features of either sign; those of the first node are all zero."""
    x = np.random.default_rng(seed).normal(size=(num_nodes, 4))
    x[0] = 0
    return Graph(x, edges, np.zeros(num_nodes, int), class_names=("one", "two"))


NO_EDGES = np.empty((2, 0), int)
GRAPHS = {
    "the training graph": GRAPH,
    "larger, with loops and repetitions": easy_graph(120, seed=4),
    "smaller than the kernel": graph_of(2, [[0], [1]]),
    "one node": graph_of(1, NO_EDGES),
    "one node with a loop": graph_of(1, [[0, 0], [0, 0]]),
    "no edges": graph_of(9, NO_EDGES),
    "isolated nodes": graph_of(9, [[1, 2, 1, 2], [2, 1, 2, 3]]),
    "equal nodes": Graph(np.ones((9, 4)), NO_EDGES, np.zeros(9, int), class_names=("one", "two")),
}


@pytest.mark.parametrize("case", CASES)
def test_portable_form_is_the_model(tmp_path: Path, case: str) -> None:
    """In torch, which takes no seconds to write a file."""
    trained = made(tmp_path, case.split()[0], **CASES[case])
    model = model_like(trained.factory)
    model.load_state_dict(trained.runs[0].state)
    portable = Portable([model], trained.recipe.features, mean=False)
    for name, graph in GRAPHS.items():
        with torch.no_grad():
            logits, *_ = portable(torch.tensor(graph.dense_features()), torch.tensor(graph.edge_index))
        np.testing.assert_allclose(logits, own_logits(trained, graph), rtol=1e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize(
    "case", [case if case == "nlgcn" else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_same_as_the_model(exported: Callable[[str], tuple[Trained, Path]], case: str, graph: Graph) -> None:
    trained, path = exported(case)
    own, other = own_logits(trained, graph), foreign(path, graph)
    np.testing.assert_allclose(other, own, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(other.argmax(1), own.argmax(1))


def test_however_edges_are_given(exported: Callable[[str], tuple[Trained, Path]]) -> None:
    path = exported("nlgcn")[1]
    once = np.array([[0, 1, 3, 5], [1, 2, 4, 6]])
    wanted = foreign(path, graph_of(8, once))
    loops = np.array([[0, 7, 7], [0, 7, 7]])
    for edges in (once[::-1], np.hstack([once, once[::-1]]), np.hstack([once[:, ::-1], once, loops])):
        np.testing.assert_allclose(foreign(path, graph_of(8, edges)), wanted, atol=1e-6)
    assert np.abs(foreign(path, graph_of(8, once[:, 1:])) - wanted).max() > 0.01


def test_mean_of_all_runs_and_equal_scores(tmp_path: Path) -> None:
    """In the last run all scores are equal: nodes go by their number."""
    trained, path = made(tmp_path, "nlmlp", runs=3, score_bias=True, features="unit-l2"), tmp_path / "mean.onnx"
    trained.runs[1].failure = "run 1: the loss became nan"
    trained.runs[2].state["order.score.weight"].zero_()
    result = export_onnx(trained, GRAPH, path, mean=True)
    assert (result.inputs, result.output, result.runs) == (("x",), "probabilities", (0, 2))
    assert (result.moved_nodes, result.same_class) == (0, 30)
    graph = easy_graph(80, seed=4)
    wanted = predict(trained.factory, graph, trained.finished, trained.recipe).mean(0)
    np.testing.assert_allclose(foreign(path, graph), wanted, atol=1e-5)


def test_what_the_file_says_of_itself(exported: Callable[[str], tuple[Trained, Path]]) -> None:
    path = exported("nlgcn")[1]
    session = onnxruntime.InferenceSession(path)
    facts = session.get_modelmeta().custom_metadata_map
    assert (facts["model"], facts["graph"], facts["nlgnn"]) == ("nlgcn", "easy", nlgnn.__version__)
    assert json.loads(facts["classes"]) == ["class 0", "class 1"]
    assert (json.loads(facts["runs"]), facts["features"]) == ([0], "unit-sum")
    assert [(one.name, one.type, one.shape) for one in session.get_inputs()] == [
        ("x", "tensor(float)", ["nodes", 4]),
        ("edge_index", "tensor(int64)", [2, "edges"]),
    ]
    assert [(one.name, one.shape) for one in session.get_outputs()] == [
        ("logits", ["nodes", 2]),
        ("scores", [1, "nodes"]),
    ]
    assert onnx.load(path).opset_import[0].version == exporting.OPSET
    assert b"nlgnn/training" not in path.read_bytes()  # no paths of this machine


@each_of(
    ("model", "options", "why"),
    [
        ("gat", {}, "GAT cannot be exported"),
        ("nlgat", {}, "NLGAT with GAT in it cannot be exported"),
        ("nl-sage", {}, "NonLocalGraphSAGE with GraphSAGE in it cannot"),
        ("nlgcn", {"order": "random"}, "NLGCN cannot be exported with RandomOrder"),
        ("gcn", {"norm": "batch"}, "GCN cannot be exported with norm"),
        (
            "nlmlp",
            {"label_input": 0.5},
            "NLMLP cannot be exported with norm, residual, jumping, row_norm or label_input",
        ),
    ],
)
def test_what_cannot_be_exported(tmp_path: Path, model: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(OptionError) as refused:
        export_onnx(made(tmp_path, model, **options), GRAPH, tmp_path / "x.onnx")
    assert why in refused.value.what
    assert refused.value.how
    assert list(tmp_path.iterdir()) == []


def test_runs_that_are_not_there(tmp_path: Path) -> None:
    trained = made(tmp_path, "mlp", runs=2)
    trained.runs[0].failure = "run 0: the loss became nan"
    with pytest.raises(OptionError, match=r"no finished run 0 \(run 0: the loss became nan\)(.|\n)*It has: 1"):
        export_onnx(trained, GRAPH, tmp_path / "x.onnx", run=0)


def test_packages_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(NlgnnError, match=r"not installed: onnxscript(.|\n)*pip install 'nlgnn\[onnx\]'"):
        export_onnx(made(tmp_path, "mlp"), GRAPH, tmp_path / "x.onnx")


class Answers:
    """Stands for the export and for onnxruntime, which take seconds: changed scores, and results in their order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, scores: float = 0, last_score: float = 0, result: float = 0):
        self.asked: list[Graph] = []

        def write(portable: Portable, *_: object) -> bytes:
            self.portable = portable
            return b"content"

        def answer(content: bytes, graph: Graph) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
            self.asked.append(graph)
            models = list(self.portable.models)
            inputs = nlgnn.prepare(models[0], graph.scale_features(self.portable.features))
            given = exporting._run_models(models, inputs, mean=False)[1] + np.float32(scores)
            given[:, -1:] += np.float32(last_score)
            return exporting._run_models(models, inputs, False, given)[0] + np.float32(result), given

        monkeypatch.setattr(exporting, "_onnx", write)
        monkeypatch.setattr(exporting, "_run_file", answer)


@pytest.mark.parametrize("change", [{"result": 0.1}, {"result": np.nan}, {"scores": 0.1}, {"last_score": np.nan}])
def test_an_export_that_is_wrong_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, float]
) -> None:
    trained, path = made(tmp_path, "nlmlp"), tmp_path / "x.onnx"
    path.write_text("before")
    Answers(monkeypatch, **change)
    with pytest.raises(NlgnnError, match="other logits than nlmlp itself, for 30 of 30 nodes; nothing was written"):
        export_onnx(trained, GRAPH, path)
    assert path.read_text() == "before"


def test_nodes_that_rounding_moves_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all scores are equal, one that is lower in its last digits moves its node from the end to the front."""
    trained = made(tmp_path, "nlmlp", score_bias=True, kernel_size=1)
    trained.runs[0].state["order.score.weight"].zero_()
    trained.runs[0].state["order.score.bias"].fill_(1.0)
    Answers(monkeypatch, last_score=-1e-4)
    result = export_onnx(trained, GRAPH, tmp_path / "x.onnx")
    assert (result.moved_nodes, result.largest_difference) == (0, 0)  # a kernel of 1 sees no order
    trained = made(tmp_path, "nlmlp", score_bias=True, kernel_size=3)
    trained.runs[0].state["order.score.weight"].zero_()
    trained.runs[0].state["order.score.bias"].fill_(1.0)
    result = export_onnx(trained, GRAPH, tmp_path / "x.onnx")
    assert 0 < result.moved_nodes < 30
    assert result.largest_difference == 0
    assert (tmp_path / "x.onnx").read_bytes() == b"content"


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
def test_large_graphs_are_checked_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_disk: bool) -> None:
    trained, graph = made(tmp_path, "gcn"), GRAPH
    if on_disk:
        np.save(tmp_path / "x.npy", GRAPH.x)
        graph = replace(GRAPH, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    answers = Answers(monkeypatch)
    monkeypatch.setattr(exporting, "CHECKED_NODES", 10)
    assert export_onnx(trained, graph, tmp_path / "x.onnx").checked_nodes == 10
    assert answers.asked[0].num_nodes == 10
    assert answers.asked[0].num_edges == int(GRAPH.undirected_adjacency[:10, :10].nnz) // 2 > 0
