"""Killed or interrupted at any moment, a training goes on to the figures of an uninterrupted one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from nlgnn.nn.base import Model
from nlgnn.training.fit import fit
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Trained
from run_folders import assert_same_folder, files_in
from training_samples import (
    GRAPH,
    NO_PROCESS,
    Linear,
    assert_same_runs,
    half_written_by,
    quiet_resume,
    quiet_train,
    recipe,
    signal_at,
    small_plan,
    splits_of,
)


class Killed(BaseException):
    """Ends a process without letting anybody clean up, as far as a test can."""


@pytest.mark.usefixtures("checkpoint_every_epoch")
@pytest.mark.parametrize("moment", ["before", pytest.param("after", marks=pytest.mark.slow)])
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
                shutil.copy(source, half_written_by(NO_PROCESS, target))
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
    # The claim; the number of threads; three checkpoints of both runs at once; weights, probabilities of validation
    # nodes, curves and summary of each; decision; predictions.
    assert deaths == 2 + 3 + 2 * 4 + 2


SCRIPT = """
from pathlib import Path
import signal
import sys
import time
from training_samples import easy_graph, fit_module, small_plan
from nlgnn.training.train import train
fit_module.CHECKPOINT_SECONDS = -1.0
folder, awaited = Path(sys.argv[1]), sys.argv[2]
rename, started = Path.replace, time.monotonic()

def waiting(source, target):
    rename(source, target)
    interrupt = signal.getsignal(signal.SIGINT).__self__ if target == folder / awaited else None
    while interrupt and not interrupt.requested and time.monotonic() - started < 120:
        time.sleep(0.01)

Path.replace = waiting
train(small_plan(runs=3, epochs=20), easy_graph(), folder, progress=False)
"""


@contextmanager
def training_process(path: Path, awaited: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of its own that trains, and waits for a signal once it has written a file.

    The environment makes it find the helpers of the tests.
    """
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, path, awaited], env=environment, stderr=subprocess.PIPE)
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
    return quiet_train(small_plan(runs=3, epochs=20), tmp_path_factory.mktemp("whole") / "run")


@pytest.mark.slow
def test_kill_9(tmp_path: Path, whole: Trained) -> None:
    """A real process, killed after a checkpoint, and after the weights of a run were written but not recorded."""
    awaited = ["checkpoint.safetensors", "models/00.safetensors", "models/01.safetensors"]
    for number, file in enumerate(awaited):
        path = tmp_path / str(number)
        with training_process(path, file) as process:
            wait_for((path / file).exists, process)
            os.kill(process.pid, signal.SIGKILL)
            assert process.wait() == -signal.SIGKILL
        assert not (path / "predictions.parquet").exists()
        assert_same_runs(quiet_resume(path).runs, whole.runs)
        assert_same_folder(path, whole.folder.path)


@pytest.mark.slow
def test_ctrl_c_of_a_process(tmp_path: Path, whole: Trained) -> None:
    with training_process(tmp_path / "run", "checkpoint.safetensors") as process:
        wait_for((tmp_path / "run" / "checkpoint.safetensors").exists, process)
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    assert (tmp_path / "run" / "checkpoint.safetensors").exists()
    assert_same_runs(quiet_resume(tmp_path / "run").runs, whole.runs)


# --- interrupted ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "epoch", "at_once"),
    [("nlmlp", 1, 1), ("nlmlp", 2, 2), ("nlmlp", 3, 1), ("nlmlp", 5, 1), ("nlgcn", 2, 2), ("gat", 2, 1), ("gat", 2, 2)],
)
def test_ctrl_c_then_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, epoch: int, at_once: int
) -> None:
    """The checkpoint holds the weights, Adam's averages, the best epoch, the curves and the random numbers."""
    plan = small_plan(model, replicas=at_once)
    whole = quiet_train(plan, tmp_path / "whole")
    before = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        seen = signal_at(epoch, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(plan, tmp_path / "run")
        assert len(seen) == epoch  # at the end of that very epoch
    assert signal.getsignal(signal.SIGINT) is before
    saved = RunFolder.open(tmp_path / "run").checkpoints()
    assert list(saved) == ([0, 1] if at_once == 2 else [(epoch - 1) // 3])
    assert {len(one.curves["val_loss"]) for one in saved.values()} == {(epoch - 1) % 3 + 1}
    with monkeypatch.context() as patch:
        seen = signal_at(0, signal.SIGINT, patch)
        resumed = quiet_resume(tmp_path / "run")
        assert len(seen) == 6 // at_once - epoch  # nothing is trained twice
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
@pytest.mark.parametrize("epoch", [1, 3, 4])  # in the first phase of CPGCN, at its end, after it
@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("cpgcn", {"pretrain_epochs": 3, "hops": 2}),
        ("geom-gcn", {"lr": 1.0, "lr_factor": 0.5, "lr_patience": 1}),
        ("simp-gcn", {}),
        ("nl-linkx", {}),
    ],
)
def test_two_at_once_of_systems_with_ways_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, options: dict[str, Any], epoch: int
) -> None:
    plan = small_plan(model, replicas=2, **{"epochs": 6} | options)
    whole = quiet_train(plan, tmp_path / "whole")
    with monkeypatch.context() as patch:
        signal_at(epoch, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(plan, tmp_path / "run")
    assert_same_runs(quiet_resume(tmp_path / "run").runs, whole.runs)


@pytest.mark.usefixtures("checkpoint_every_epoch")
@pytest.mark.parametrize("interrupted_after", [2, 4, 5])
def test_phases(interrupted_after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Pretrained(Linear, Model):
        stackable = False
        pretrains = True
        deterministic = False  # type: ignore[assignment]

        def pretrain_loss(self, output: torch.Tensor, y: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            steps.append(1)
            return output.square().sum()

        def end_pretraining(self, inputs: tuple[Any, ...], y: torch.Tensor, nodes: torch.Tensor) -> None:
            initialised.append(1)
            next(self.parameters()).data.mul_(1.5)

    steps: list[int] = []
    initialised: list[int] = []
    settings = recipe(pretrain_epochs=4)
    whole = fit(Pretrained, GRAPH, splits_of(GRAPH), settings, progress=False)
    folder = RunFolder.create(tmp_path / "run", {})
    with monkeypatch.context() as patch:
        signal_at(interrupted_after, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            fit(Pretrained, GRAPH, splits_of(GRAPH), settings, folder=folder, progress=False)
    steps.clear()
    initialised.clear()
    resumed = fit(Pretrained, GRAPH, splits_of(GRAPH), settings, folder=RunFolder.open(folder.path), progress=False)
    runs = len(splits_of(GRAPH))
    assert len(steps) == 4 * runs - min(4, interrupted_after)  # the first run's are not repeated
    assert len(initialised) == runs - (interrupted_after > 4)
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
