"""Estimates of the memory and time of a training before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.training import memory, requirements
from nlgnn.training.memory import TRIAL_NODES, epoch_seconds
from nlgnn.training.replica import Job
from nlgnn.training.requirements import Requirements, estimate_requirements
from training_samples import easy_graph


def required(graph: Graph, model: str = "nlmlp", **options: Any) -> Requirements:
    factory, recipe = configure(model, graph, "paper", epochs=7, **options)
    return estimate_requirements(factory, graph, make_splits(graph, "random-60", 3), recipe)


def test_a_small_graph_is_tried_as_it_is() -> None:
    found = required(easy_graph())
    assert found.fits
    assert (found.epochs, found.runs, found.recompute) == (7, 3, False)
    assert found.epoch > 0
    assert found.step > 0
    assert "3 runs of at most 7 epochs" in str(found)


def test_what_does_not_fit_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hidden layers are computed in parts before memory is too small."""
    monkeypatch.setattr(requirements, "step_bytes", lambda job, graph, recompute: 2**40 if recompute else 2**41)
    found = required(easy_graph(), memory="8GiB")
    assert not found.fits
    assert found.recompute
    assert found.step == 2**40
    assert "it does not fit" in str(found)


def test_time_grows_linearly(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def seconds(job: Job, graph: Graph, nodes: int, edges: int, recompute: bool) -> float:
        asked.append(nodes)
        return 1 + 2e-5 * nodes + 3e-5 * edges

    monkeypatch.setattr(memory, "_trial_seconds", seconds)
    large = Large(3_000_000, 9_000_000)
    assert epoch_seconds(None, large, False) == pytest.approx(1 + 60 + 270)  # type: ignore[arg-type]
    assert asked == [150_000, 300_000]
    small = Large(2 * TRIAL_NODES, 4)
    assert epoch_seconds(None, small, False) == pytest.approx(1 + 2e-5 * 2 * TRIAL_NODES + 12e-5)  # type: ignore[arg-type]
    assert asked[2:] == [2 * TRIAL_NODES]


class Large:
    """The sizes of a graph."""

    def __init__(self, nodes: int, edges: int) -> None:
        self.num_nodes, self.edge_index = nodes, self
        self.shape = 2, edges


def test_a_model_that_cannot_be_tried() -> None:
    graph = easy_graph()
    factory, recipe = configure("trees", graph)
    with pytest.raises(OptionError, match="cannot be estimated"):
        estimate_requirements(factory, graph, make_splits(graph, "random-60", 3), recipe)
