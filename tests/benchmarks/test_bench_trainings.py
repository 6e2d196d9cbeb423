"""Whole trainings: the peer's loop is the same training as fit, and one that is not is found out."""

from __future__ import annotations

import itertools

import pytest
import torch

from benchmarks import steps, trainings
from benchmarks.peers import NotEqualError
from benchmarks.plain_nlgcn import PlainNLGCN
from benchmarks.steps import Effort, Problem
from benchmarks.trainings import (
    check_losses,
    check_search,
    check_training,
    measure_search,
    peer_epochs,
    search_settings,
)
from nlgnn.datasets import load_graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.recipe import Recipe

PROBLEM = Problem.named("mushroom-body")
SPLITS = make_splits(PROBLEM.graph, "random-60", 2)


def test_problem_is_the_first_split_of_scaled_features() -> None:
    assert PROBLEM.train.tolist() == SPLITS[0].train.nonzero()[0].tolist()
    assert PROBLEM.graph.fingerprint == load_graph("mushroom-body").scale_features("unit-sum").fingerprint


def test_fit_trains_as_the_peer() -> None:
    check_training(PROBLEM, SPLITS)


def test_another_training_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "LR", 0.011)  # the peer's; ours has it from before
    with pytest.raises(NotEqualError, match="in epoch 1"):
        check_training(PROBLEM, SPLITS)


def test_curves_that_differ() -> None:
    check_losses([1.0, 2.0], [1.0, 2.0001])
    with pytest.raises(NotEqualError, match="epoch 2"):
        check_losses([1.0, 2.0], [1.0, 2.001])
    with pytest.raises(NotEqualError):
        check_losses([float("nan")], [1.0])


def test_peer_trains_one_split_after_another() -> None:
    made: list[PlainNLGCN] = []

    def make_peer() -> PlainNLGCN:
        torch.manual_seed(0)
        made.append(PlainNLGCN(*PROBLEM.widths))
        return made[-1]

    losses = list(itertools.islice(peer_epochs(make_peer, PROBLEM, SPLITS, epochs=3), 7))
    assert len(made) == 3
    assert losses[0] == losses[6]  # the first split again, from the start
    assert losses[0] != losses[3]
    assert losses[2] < losses[0]


def test_settings_of_the_search() -> None:
    settings = search_settings(PROBLEM, 200)
    assert len({(factory.keywords["dropout"], recipe.weight_decay, recipe.lr) for factory, recipe in settings}) == 36
    assert {(recipe.epochs, recipe.stopping) for _, recipe in settings} == {(200, "never")}
    sample = [factory.keywords["dropout"] for factory, _ in settings[:: steps.Effort().sampled]]
    assert sample == [0, 0, 0.5, 0.5, 0.8, 0.8]  # with dropout an epoch costs more: the sample has it as often


def test_settings_are_trained_together_as_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    check_search(PROBLEM, SPLITS)
    monkeypatch.setattr(trainings, "alone", lambda recipe: recipe.model_copy(update={"weight_decay": 0.1}))
    with pytest.raises(NotEqualError, match="in epoch 1"):
        check_search(PROBLEM, SPLITS)


def test_sample_of_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each round trains every sixth setting alone, other ones than the round before, and all of them at once."""
    singly: list[Recipe] = []
    at_once: list[int] = []
    monkeypatch.setattr(trainings, "check_search", lambda *given: None)
    monkeypatch.setattr(trainings, "fit", lambda factory, graph, splits, recipe, progress: singly.append(recipe))
    monkeypatch.setattr(trainings, "fit_settings", lambda settings, *given, **_: at_once.append(len(settings)))
    result = measure_search("mushroom-body", Effort(whole_rounds=6, sampled=6))
    assert at_once == [36] * 6
    assert {recipe.replicas for recipe in singly} == {1}
    expected = [recipe for _, recipe in search_settings(PROBLEM, 200)]
    order = [expected[start + 6 * number] for start in range(6) for number in range(6)]
    assert [recipe.model_copy(update={"replicas": "auto"}) for recipe in singly] == order
    assert "one by one: 6 evenly spaced settings a round" in result["protocol"]
