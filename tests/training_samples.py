"""Small graphs, models and helpers for the tests of this folder."""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.files import part_path
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.nn.base import prepare
from nlgnn.training import loop
from nlgnn.training.device import model_like
from nlgnn.training.loop import Stack
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, Trained, resume, train

# The module: the package's `fit` is the function.
fit_module: ModuleType = importlib.import_module("nlgnn.training.fit")


def easy_graph(num_nodes: int = 30, num_classes: int = 2, seed: int = 0) -> Graph:
    """A feature tells the class; edges are random."""
    rng = np.random.default_rng(seed)
    y = np.arange(num_nodes) % num_classes
    x = rng.random((num_nodes, 4))
    x[np.arange(num_nodes), y] += 2
    names = [f"class {label}" for label in range(num_classes)]
    return Graph(x, rng.integers(num_nodes, size=(2, 2 * num_nodes)), y, name="easy", class_names=names)


def splits_of(graph: Graph, runs: int = 1) -> list[Split]:
    return make_splits(graph, "random-60", runs)


def recipe(**options: Any) -> Recipe:
    """A short training without early stopping, unless the test says otherwise."""
    return Recipe(**({"epochs": 5, "lr": 0.05, "stopping": "never", "device": "cpu"} | options))


def small_plan(model: str = "nlmlp", runs: int = 2, **options: Any) -> Plan:
    """With dropout, so that going on needs the state of the random numbers."""
    wanted = {"hidden": 4, "dropout": 0.5, "epochs": 3, "lr": 0.05, "stopping": "never", "device": "cpu"} | options
    return Plan("easy", model, runs=runs, preset="paper", options=wanted)


class Linear(nn.Module):
    """The smallest model: it looks at features only, and at one class more than the other if told so."""

    def __init__(self, in_channels: int = 4, out_channels: int = 2) -> None:
        super().__init__()
        self.map = nn.Linear(in_channels, out_channels)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.map(x)


def without_seconds(run: Run) -> dict[str, Any]:
    return {name: value for name, value in run.summary().items() if name != "seconds"}


def assert_same_runs(runs: list[Run], others: list[Run]) -> None:
    """Equal in all but the time that they took."""
    assert len(runs) == len(others)
    for run, other in zip(runs, others, strict=True):
        assert without_seconds(run) == without_seconds(other)
        assert run.curves == other.curves
        assert run.state.keys() == other.state.keys()
        for name, value in run.state.items():
            assert torch.equal(value, other.state[name]), name


def assert_close_runs(runs: list[Run], others: list[Run], tolerance: float = 1e-9) -> None:
    """Equal but for what the order of additions does to float64 numbers, and for the time that they took."""
    assert len(runs) == len(others)
    for run, other in zip(runs, others, strict=True):
        one, two = without_seconds(run), without_seconds(other)
        for part in ("val", "test"):
            assert one.pop(part) == pytest.approx(two.pop(part), rel=0, abs=tolerance)
        assert one == two
        for name, curve in run.curves.items():
            assert curve == pytest.approx(other.curves[name], rel=0, abs=tolerance), name
        assert run.state.keys() == other.state.keys()
        for name, value in run.state.items():
            assert value.dtype == torch.float64 or not value.is_floating_point()
            torch.testing.assert_close(value, other.state[name], rtol=0, atol=tolerance, msg=name)


def doubled(model_class: Callable[..., nn.Module], *sizes: int, **options: Any) -> partial[nn.Module]:
    """What makes float64 models; those that differ in rates only are of one shape."""
    return partial(_in_float64, model_class, *sizes, **options)


def _in_float64(model_class: Callable[..., nn.Module], *sizes: int, **options: Any) -> nn.Module:
    return model_class(*sizes, **options).double()


def watch_stacks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the stacks that are trained from here on."""
    sizes: list[int] = []

    class Watched(Stack):
        def __init__(self, replicas: Any, *arguments: Any) -> None:
            sizes.append(len(replicas))
            super().__init__(replicas, *arguments)

    monkeypatch.setattr(loop, "Stack", Watched)
    return sizes


def own_logits(trained: Trained, graph: Graph) -> NDArray[np.float32]:
    """What the first run's model itself gives."""
    model = model_like(trained.factory).eval()
    model.load_state_dict(trained.runs[0].state)
    with torch.no_grad():
        logits: torch.Tensor = model(*prepare(model, graph.scale_features(trained.recipe.features)))
    return logits.numpy()


GRAPH = easy_graph()


def quiet_train(plan: Plan, path: Path, graph: Graph = GRAPH) -> Trained:
    return train(plan, graph, path, progress=False)


def quiet_resume(path: Path, graph: Graph = GRAPH) -> Trained:
    return resume(RunFolder.open(path), graph, progress=False)


NO_PROCESS = 99_999_999  # more than a system gives


def half_written_by(process: int, path: Path) -> Path:
    """What a process of that number writes under before it is called `path`."""
    return path.with_name(part_path(path).name.replace(f".{os.getpid()}.", f".{process}."))


def signal_at(update: int, number: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Send a signal to this process in the given epoch, counted over all runs; the epochs seen are in the list."""
    seen: list[int] = []

    def counting(bar: object, epoch: int, *_: object) -> None:
        seen.append(epoch)
        if len(seen) == update:
            signal.raise_signal(number)

    monkeypatch.setattr(fit_module.TrainingProgress, "update", counting)
    return seen
