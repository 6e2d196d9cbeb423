"""Run folders: whole or not at all, taken up again to the same figures, and clear about what is wrong with them."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from training_samples import (
    Linear,
    assert_same_runs,
    easy_graph,
    files_in,
    fit_module,
    recipe,
    small_plan,
    splits_of,
    without_seconds,
)

from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.training import loop
from nlgnn.training.fit import fit, prepare
from nlgnn.training.loop import evaluate
from nlgnn.training.run import Run, RunFolder, load_weights, read_tensors
from nlgnn.training.train import Plan, Trained, read_plan, resume, train

GRAPH = easy_graph()


def quiet_train(plan: Plan, path: Path, graph: Graph = GRAPH) -> Trained:
    return train(plan, graph, path, progress=False)


def quiet_resume(path: Path, graph: Graph = GRAPH) -> Trained:
    return resume(RunFolder.open(path), graph, progress=False)


@pytest.fixture
def checkpoint_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "CHECKPOINT_SECONDS", -1.0)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What an uninterrupted training of the small plan gives."""
    return quiet_train(small_plan(), tmp_path_factory.mktemp("whole") / "run")


def assert_same_folder(path: Path, whole: Path) -> None:
    """The same files with the same content, but for the seconds; nothing half-written."""
    found, wanted = files_in(path), files_in(whole)
    assert found.keys() == wanted.keys()
    for name in found.keys() - {"summary.json"}:
        assert found[name] == wanted[name], name
    summaries = [json.loads(files["summary.json"])["runs"] for files in (found, wanted)]
    for run in (run for summary in summaries for run in summary):
        run.pop("seconds")
    assert summaries[0] == summaries[1]


def test_what_a_folder_holds(expected: Trained) -> None:
    path = expected.folder.path
    assert sorted(files_in(path)) == [
        "config.json",
        "curves.jsonl",
        "models/00.safetensors",
        "models/01.safetensors",
        "predictions.parquet",
        "summary.json",
    ]
    config = json.loads((path / "config.json").read_text())
    assert config["recipe"] == expected.recipe.model_dump()
    assert config["fingerprint"] == GRAPH.fingerprint
    assert config["model_arguments"]["hidden_channels"] == 4
    assert config["versions"]["torch"] == torch.__version__
    lines = [json.loads(line) for line in (path / "curves.jsonl").read_text().splitlines()]
    assert [(line["run"], line["epoch"]) for line in lines] == [(run, epoch) for run in (0, 1) for epoch in range(1, 4)]
    assert [line["val_loss"] for line in lines[3:]] == expected.runs[1].curves["val_loss"]
    runs = json.loads((path / "summary.json").read_text())["runs"]
    assert runs == [run.summary() for run in expected.runs]


def test_a_folder_gives_back_its_runs(expected: Trained) -> None:
    folder = RunFolder.open(expected.folder.path)
    assert_same_runs([folder.finished_run(0), folder.finished_run(1)], expected.runs)
    assert folder.finished_run(2) is None
    assert read_plan(folder) == expected.plan


def test_predictions_are_the_mean_of_the_runs(expected: Trained) -> None:
    table = pq.read_table(expected.folder.path / "predictions.parquet").to_pydict()
    probabilities = []
    for run in expected.runs:
        model = expected.factory()
        model.load_state_dict(run.state)
        probabilities.append(evaluate(model, prepare(model, GRAPH.scale_features("unit-sum"))).softmax(1).numpy())
    mean = (probabilities[0] + probabilities[1]) / 2
    assert not np.allclose(*probabilities)
    np.testing.assert_allclose(table["probability of class 0"], mean[:, 0], atol=1e-6)
    np.testing.assert_allclose(table["probability of class 1"], mean[:, 1], atol=1e-6)
    assert table["prediction"] == [f"class {label}" for label in mean.argmax(1)]
    assert table["node"] == list(range(30))
    assert table["label"] == [f"class {label}" for label in GRAPH.y]


def test_predictions_name_nodes_and_leave_unknown_labels_out(tmp_path: Path) -> None:
    y = GRAPH.y.copy()
    y[3] = -1
    names = [f"node {number}" for number in range(30)]
    graph = Graph(GRAPH.x, GRAPH.edge_index, y, class_names=("no", "yes"), node_names=names)
    quiet_train(small_plan(runs=1), tmp_path / "run", graph)
    table = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pydict()
    assert table["node"] == names
    assert table["label"][2:5] == ["no", None, "no"]
    assert table["prediction"][3] in ("no", "yes")


def test_failed_runs_are_kept_as_such_and_left_out_of_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run gets a learning rate that overflows."""
    plan = small_plan(runs=2)
    usual = loop._optimizer
    calls: list[nn.Module] = []

    def second_overflows(model: nn.Module, of: Any) -> torch.optim.Optimizer:
        calls.append(model)
        return usual(model, of if len(calls) != 2 else of.model_copy(update={"lr": 1e38}))

    monkeypatch.setattr(loop, "_optimizer", second_overflows)
    trained = quiet_train(plan, tmp_path / "run")
    assert [bool(run.failure) for run in trained.runs] == [False, True]
    kept = RunFolder.open(tmp_path / "run").finished_run(1)
    assert kept is not None
    assert kept.summary() == trained.runs[1].summary()
    model = trained.factory()
    model.load_state_dict(trained.runs[0].state)
    alone = evaluate(model, prepare(model, GRAPH.scale_features("unit-sum"))).softmax(1)[:, 0]
    table = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pydict()
    np.testing.assert_allclose(table["probability of class 0"], alone, atol=1e-6)
    assert_same_runs(quiet_resume(tmp_path / "run").runs, trained.runs)  # a failed run is not trained again


def test_going_on_with_a_finished_folder_changes_nothing(expected: Trained, tmp_path: Path) -> None:
    shutil.copytree(expected.folder.path, tmp_path / "run")
    assert_same_runs(quiet_resume(tmp_path / "run").runs, expected.runs)
    assert files_in(tmp_path / "run") == files_in(expected.folder.path)


# --- killed ---------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Ends a process without letting anybody clean up, as far as a test can."""


@pytest.mark.usefixtures("checkpoint_every_epoch")
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_any_rename(tmp_path: Path, expected: Trained, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Before or after each file gets its name: what is there can be read, and leads to the same end."""
    rename = Path.replace
    kept = files_in(expected.folder.path)
    deaths = 0
    while True:
        path = tmp_path / str(deaths)
        left = deaths

        def dying(source: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if left < 0 and moment == "before":
                shutil.copy(source, f"{source}0")  # what a process of another number leaves behind
                raise Killed
            rename(source, target)
            if left < 0:
                raise Killed
            return target

        monkeypatch.setattr(Path, "replace", dying)
        try:
            quiet_train(small_plan(), path)
            break
        except Killed:
            deaths += 1
        finally:
            monkeypatch.setattr(Path, "replace", rename)
        folder = RunFolder.open(path)
        for index in (0, 1):
            if (run := folder.finished_run(index)) is not None:
                assert_same_runs([run], [expected.runs[index]])
        assert_same_runs(quiet_resume(path).runs, expected.runs)
        assert files_in(path).keys() == kept.keys()
    assert deaths == 2 * (3 + 3) + 1  # three checkpoints, weights, curves and summary a run, then predictions


SCRIPT = """
from pathlib import Path
import sys
from training_samples import easy_graph, fit_module, small_plan
from nlgnn.training.train import train
fit_module.CHECKPOINT_SECONDS = -1.0
train(small_plan(runs=3, epochs=120), easy_graph(), Path(sys.argv[1]), progress=False)
"""


@contextmanager
def training_process(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that trains; the environment makes it find this folder's helpers."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, path], env=environment, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, (process.stderr.read() if process.stderr else b"").decode()
        assert time.monotonic() < deadline
        time.sleep(0.002)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What the process would give if nobody stopped it."""
    return quiet_train(small_plan(runs=3, epochs=120), tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.slow
def test_kill_9(tmp_path: Path, whole: Trained) -> None:
    """A real process, killed in its first run, in its second, and in its third."""
    awaited = ["checkpoint.safetensors", "models/00.safetensors", "models/01.safetensors"]
    for number, file in enumerate(awaited):
        path = tmp_path / str(number)
        with training_process(path) as process:
            wait_for((path / file).exists, process)
            time.sleep(0.02 * number)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        assert not (path / "predictions.parquet").exists()
        assert_same_runs(quiet_resume(path).runs, whole.runs)
        assert_same_folder(path, whole.folder.path)


@pytest.mark.slow
def test_ctrl_c_of_a_process(tmp_path: Path, whole: Trained) -> None:
    with training_process(tmp_path / "run") as process:
        wait_for((tmp_path / "run" / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    assert_same_runs(quiet_resume(tmp_path / "run").runs, whole.runs)


# --- interrupted ----------------------------------------------------------------------------------------------------


def signal_at(update: int, number: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send a signal to this process in the given epoch, counted over all runs; the epochs seen are in the list."""
    seen: list[int] = []

    def counting(bar: object, epoch: int, *_: object) -> None:
        seen.append(epoch)
        if len(seen) == update:
            signal.raise_signal(number)

    monkeypatch.setattr(fit_module.TrainingProgress, "update", counting)
    return seen


@pytest.mark.parametrize(
    ("model", "epoch"), [("nlmlp", 1), ("nlmlp", 2), ("nlmlp", 3), ("nlmlp", 5), ("nlgcn", 2), ("gat", 2)]
)
def test_ctrl_c_then_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, epoch: int) -> None:
    """The checkpoint holds the weights, Adam's averages, the best epoch, the curves and the random numbers."""
    whole = quiet_train(small_plan(model), tmp_path / "whole")
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        seen = signal_at(epoch, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(small_plan(model), tmp_path / "run")
        assert len(seen) == epoch  # at the end of that very epoch
    assert signal.getsignal(signal.SIGINT) is before
    saved = RunFolder.open(tmp_path / "run").checkpoint((epoch - 1) // 3)
    assert saved is not None
    assert len(saved.curves["val_loss"]) == (epoch - 1) % 3 + 1
    with monkeypatch.context() as patch:
        seen = signal_at(0, signal.SIGINT, patch)
        resumed = quiet_resume(tmp_path / "run")
        assert len(seen) == 6 - epoch  # nothing is trained twice
    assert_same_runs(resumed.runs, whole.runs)
    assert_same_folder(tmp_path / "run", whole.folder.path)


def test_a_polite_kill_is_answered_the_same_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal_at(2, signal.SIGTERM, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        quiet_train(small_plan(), tmp_path / "run")
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_ctrl_c_twice_in_a_write_leaves_no_half_written_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    signal_at(2, signal.SIGINT, monkeypatch)
    monkeypatch.setattr(os, "fsync", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        quiet_train(small_plan(), tmp_path / "run")
    assert list(files_in(tmp_path / "run")) == ["config.json"]


def test_interrupted_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    signal_at(2, signal.SIGINT, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        fit(Linear, GRAPH, splits_of(GRAPH), recipe(), progress=False)


@pytest.mark.usefixtures("checkpoint_every_epoch")
def test_pretraining_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pretrained(Linear):
        def pretrain_loss(self, output: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            steps.append(1)
            return output.square().sum()

    steps: list[int] = []
    settings = recipe(pretrain_epochs=4)
    whole = fit(Pretrained, GRAPH, splits_of(GRAPH), settings, progress=False)
    folder = RunFolder.create(tmp_path / "run", {})
    with monkeypatch.context() as patch:
        signal_at(3, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            fit(Pretrained, GRAPH, splits_of(GRAPH), settings, folder=folder, progress=False)
    steps.clear()
    resumed = fit(Pretrained, GRAPH, splits_of(GRAPH), settings, folder=RunFolder.open(folder.path), progress=False)
    assert steps == []
    assert_same_runs(resumed, whole)


@pytest.mark.usefixtures("checkpoint_every_epoch")
def test_checkpoints_hold_buffers_shared_weights_and_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight  # one tensor under two names
            self.norm, self.last = nn.BatchNorm1d(4), nn.Linear(4, 2)
            self.double()

        def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
            return self.last(self.norm(self.second(self.first(x))))

    whole = fit(Odd, GRAPH, splits_of(GRAPH), recipe(), progress=False)
    folder = RunFolder.create(tmp_path / "run", {})
    with monkeypatch.context() as patch:
        signal_at(2, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            fit(Odd, GRAPH, splits_of(GRAPH), recipe(), folder=folder, progress=False)
    assert_same_runs(fit(Odd, GRAPH, splits_of(GRAPH), recipe(), folder=folder, progress=False), whole)


# --- no room --------------------------------------------------------------------------------------------------------


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing more fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def a_run(index: int = 0) -> Run:
    curves = {"train_loss": [0.5] * 200, "val_loss": [0.25] * 200, "val_metric": [50.0] * 200}
    return Run(index, 0, "column", 0, epochs=200, chosen_epoch=1, curves=curves, state={"a": torch.ones(3000)})


@pytest.mark.parametrize(
    ("room", "file"),
    [(2_000, "models/01.safetensors"), (20_000, "curves.jsonl"), (400, "checkpoint.safetensors")],
)
def test_a_full_disk_loses_nothing(tmp_path: Path, room: int, file: str) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.save_run(a_run(0))
    model = Linear()
    training = loop.Training(model, torch.optim.Adam(model.parameters()))
    folder.save_checkpoint(training.checkpoint(1))
    before = files_in(folder.path)
    checkpoint = training.checkpoint(2)
    with files_of_at_most(room), pytest.raises(RunFolderError, match="File too large") as caught:
        folder.save_checkpoint(checkpoint) if file == "checkpoint.safetensors" else folder.save_run(a_run(1))
    assert caught.value.what.startswith(f"{folder.path / file} cannot be written")
    assert f"--resume {folder.path}" in caught.value.how
    found = files_in(folder.path)
    assert not [name for name in found if Path(name).name.startswith(".")]
    assert {name: found[name] for name in before} == before
    reopened = RunFolder.open(folder.path)
    assert_same_runs([reopened.finished_run(0)], [a_run(0)])
    assert reopened.finished_run(1) is None
    folder.save_run(a_run(1))  # with room again
    assert_same_runs([RunFolder.open(folder.path).finished_run(1)], [a_run(1)])


@pytest.mark.usefixtures("checkpoint_every_epoch")
def test_a_disk_that_fills_up_while_training(
    tmp_path: Path, expected: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write in turn; afterwards it goes on to the same figures."""

    def full(_: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for writes in (0, 2, 3, 4, 5, 7, 12):
        left, path = writes, tmp_path / str(writes)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(RunFolderError, match="cannot be written: No space left on device"):
                quiet_train(small_plan(), path)
        assert not [name for name in files_in(path) if Path(name).name.startswith(".")]
        assert_same_runs(quiet_resume(path).runs, expected.runs)
        assert_same_folder(path, expected.folder.path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with files_of_at_most(10), pytest.raises(RunFolderError, match="cannot be made: File too large"):
        RunFolder.create(tmp_path / "run", {"some": "settings"})
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be made: Not a directory"):
        RunFolder.create(tmp_path / "file" / "run", {})
    assert list(files_in(tmp_path)) == ["file"]


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("data")
    with pytest.raises(RunFolderError, match="exists already") as caught:
        quiet_train(small_plan(), tmp_path / "run")
    assert f"--resume {tmp_path / 'run'}" in caught.value.how
    assert files_in(tmp_path) == {"run/precious": b"data"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "nlmlpp"}, "there is no model 'nlmlpp'"),
        ({"preset": "papers"}, "there is no preset 'papers'"),
        ({"protocol": "random-61"}, "has no splits 'random-61'"),
        ({"options": {"epochs": 0}}, "epochs=0"),
        ({"options": {"kernel_size": 4}}, "kernel_size=4"),
        ({"options": {"hidden": -3}}, "hidden=-3"),
        ({"options": {"pretrain_epochs": 3}}, "NLMLP has no pre-training"),
        ({"options": {"device": "quantum"}}, "device 'quantum'"),
    ],
)
def test_a_bad_plan_makes_no_folder(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    plan = Plan(**({"graph": "easy", "model": "nlmlp", "runs": 1} | changes))
    with pytest.raises(NlgnnError, match=message):
        quiet_train(plan, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


# --- damaged --------------------------------------------------------------------------------------------------------


@pytest.fixture
def copied(expected: Trained, tmp_path: Path) -> Path:
    """A finished folder to damage."""
    path: Path = shutil.copytree(expected.folder.path, tmp_path / "run")
    return path


def test_a_folder_of_a_newer_version(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"format_version": 2}))
    with pytest.raises(RunFolderError, match="newer version") as caught:
        RunFolder.open(copied)
    assert "Update" in caught.value.how


def test_no_config(copied: Path) -> None:
    (copied / "config.json").unlink()
    with pytest.raises(RunFolderError, match=r"is not a run folder: it has no config\.json"):
        RunFolder.open(copied)
    with pytest.raises(RunFolderError, match="is not a run folder"):
        RunFolder.open(copied / "nowhere")


@pytest.mark.parametrize("file", ["config.json", "summary.json", "curves.jsonl"])
@pytest.mark.parametrize("content", [b'{"runs": [', b"[1, 2]", b"\xff\xfe", b'{"runs": [{}], "format_version": 1}'])
def test_damaged_json(copied: Path, file: str, content: bytes) -> None:
    (copied / file).write_bytes(content)
    with pytest.raises(RunFolderError) as caught:
        quiet_resume(copied)
    assert str(copied) in caught.value.what
    assert (copied / file).read_bytes() == content


@pytest.mark.parametrize("size", [0, 5, 100])
def test_damaged_weights(copied: Path, size: int) -> None:
    file = copied / "models" / "01.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(RunFolderError, match=r"01\.safetensors is damaged"):
        quiet_resume(copied)


def test_missing_weights(copied: Path) -> None:
    (copied / "models" / "00.safetensors").unlink()
    with pytest.raises(RunFolderError, match=r"00\.safetensors is missing"):
        quiet_resume(copied)


@pytest.mark.parametrize("kind", ["cut", "weights alone"])
def test_damaged_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with monkeypatch.context() as patch:
        signal_at(2, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(small_plan(), tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:300])
    else:
        save_file({"a": torch.zeros(3)}, file)
    with pytest.raises(RunFolderError, match=r"checkpoint\.safetensors is damaged"):
        quiet_resume(tmp_path / "run")


def test_a_checkpoint_of_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for hidden in (4, 5):
        with monkeypatch.context() as patch:
            signal_at(2, signal.SIGINT, patch)
            with pytest.raises(KeyboardInterrupt):
                quiet_train(small_plan(hidden=hidden), tmp_path / str(hidden))
    shutil.copy(tmp_path / "5" / "checkpoint.safetensors", tmp_path / "4")
    with pytest.raises(RunFolderError, match=r"another model: local\.layers\.0\.bias is \(5,\) there, \(4,\) in NLMLP"):
        quiet_resume(tmp_path / "4")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"map.bias": torch.zeros(3), "map.weight": torch.zeros(2, 4)}, r"map\.bias is \(3,\) there, \(2,\) in Linear"),
        ({"map.bias": torch.zeros(2)}, r"map\.weight is missing there, \(2, 4\) in Linear"),
        (
            {"map.bias": torch.zeros(2), "map.weight": torch.zeros(2, 4), "more": torch.zeros(1)},
            r"more is \(1,\) there, missing in Linear",
        ),
    ],
)
def test_weights_of_another_model(state: dict[str, torch.Tensor], message: str) -> None:
    model = Linear()
    before = model.map.bias.clone()
    with pytest.raises(RunFolderError, match=message):
        load_weights(model, state, "there")
    assert model.map.bias.equal(before)


def test_another_version_of_the_graph(copied: Path) -> None:
    with pytest.raises(RunFolderError, match="another version of 'easy'"):
        quiet_resume(copied, easy_graph(seed=1))


def test_a_config_that_lacks_something(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    for key in ("model", "options", "fingerprint"):
        rest = {name: value for name, value in config.items() if name != key}
        (copied / "config.json").write_text(json.dumps(rest))
        with pytest.raises(RunFolderError, match=f"config.json lacks '{key}'"):
            quiet_resume(copied)


def test_weights_are_plain_safetensors(expected: Trained) -> None:
    """Anybody can read them, and nothing in them is executed."""
    file = expected.folder.path / "models" / "00.safetensors"
    assert read_tensors(file).keys() == load_file(file).keys() == expected.runs[0].state.keys()


def test_ms_per_epoch() -> None:
    assert Run(0, 0, "column", 0, epochs=4, seconds=2.0).ms_per_epoch == 500
    assert Run(0, 0, "column", 0).ms_per_epoch == 0


def test_seconds_add_up_over_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        signal_at(2, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(small_plan(runs=1), tmp_path / "run")
    saved = RunFolder.open(tmp_path / "run").checkpoint(0)
    assert saved is not None
    run = quiet_resume(tmp_path / "run").runs[0]
    assert run.seconds > saved.seconds > 0
    assert without_seconds(run)["epochs"] == 3
