"""The ensemble: greedy weights against a literal reference, when it is used, and what it does not see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from each_of import each_of
from nlgnn import NodeClassifier
from nlgnn.errors import RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.selection import ensemble
from nlgnn.selection.auto import choose_model
from nlgnn.selection.clock import Clock
from nlgnn.selection.ensemble import MOST_STEPS, greedy_weights, unseen_mean
from nlgnn.training.metrics import measure
from nlgnn.training.recipe import METRICS
from nlgnn.training.trained import mean_of_members

QUICK: dict[str, Any] = {"hidden": 8, "epochs": 30, "lr": 0.05, "time_budget": "none", "progress": False}


def noisy_graph(test_labels: int = 0) -> Graph:
    """Features and neighbours each tell a little about the class. `test_labels` turns the labels of test nodes."""
    rng = np.random.default_rng(0)
    y = np.arange(160) % 2
    x = rng.random((160, 3))
    x[np.arange(160), y] += rng.random(160)
    edges = rng.integers(160, size=(2, 900))
    edges = edges[:, (y[edges[0]] == y[edges[1]]) | (rng.random(900) < 0.6)]
    test = np.arange(120, 160)
    y[test] = (y[test] + test_labels) % 2
    orders = [rng.permutation(120) for _ in range(3)]
    splits = [
        Split.from_indices(160, order[:60], order[60:], test, "geom-gcn", index) for index, order in enumerate(orders)
    ]
    return Graph(x, edges, y, name="texas", splits={"geom-gcn": splits})


@pytest.fixture
def few_nodes(monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> None:
    """Ensembles of small graphs, which are ahead because they are measured on the nodes that chose their weights."""

    def seen_mean(members: list[torch.Tensor], y: torch.Tensor, metric: str) -> torch.Tensor:
        weights = greedy_weights(members, y, metric)
        return torch.stack([weight * one for weight, one in zip(weights, members, strict=True)]).sum(0)

    monkeypatch.setattr(ensemble, "FEWEST_NODES", 5)
    monkeypatch.setattr(ensemble, "unseen_mean", seen_mean)


def some_members(count: int, nodes: int, classes: int, seed: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return probabilities that tell a little about the labels, and the labels."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(classes, (nodes,), generator=generator)
    y[:classes] = torch.arange(classes)
    logits = torch.randn((count, nodes, classes), generator=generator)
    logits += torch.rand((count, 1, 1), generator=generator) * torch.eye(classes)[y]
    return list(logits.softmax(2)), y


def greedy_ensemble(members: list[torch.Tensor], y: torch.Tensor, metric: str) -> list[float]:
    """Return the weights literally: each mean is made from its members."""

    def score(bag: list[int]) -> tuple[float, float]:
        mean = torch.stack([members[place].double() for place in bag]).mean(0).log()
        return measure(metric, mean, y), measure("log-loss", mean, y)

    bags: list[list[int]] = [[]]
    for _ in range(MOST_STEPS):
        bags.append(max(([*bags[-1], place] for place in range(len(members))), key=score))
    best = max(bags[1:], key=score)
    return [best.count(place) / len(best) for place in range(len(members))]


@each_of("metric", METRICS)
def test_greedy_selection(metric: str) -> None:
    for seed in range(4):
        members, y = some_members(count=6, nodes=60, classes=2, seed=seed)
        weights = greedy_weights(members, y, metric)
        expected = greedy_ensemble(members, y, metric)
        assert weights == pytest.approx(expected)
        assert sum(weights) == pytest.approx(1)
        mean = sum(weight * member for weight, member in zip(weights, members, strict=True))
        best = max(measure(metric, member.log(), y) for member in members)
        assert measure(metric, torch.as_tensor(mean).log(), y) >= best - 1e-6


def test_greedy_selection_of_several_classes_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    members, y = some_members(count=7, nodes=50, classes=4, seed=1)
    whole = greedy_weights(members, y, "macro-f1")
    monkeypatch.setattr(ensemble, "COMPARED_TOGETHER", 3 * members[0].numel())
    assert greedy_weights(members, y, "macro-f1") == whole
    expected = greedy_ensemble(members, y, "macro-f1")
    assert whole == pytest.approx(expected)


def test_a_duplicate_adds_nothing() -> None:
    members, y = some_members(count=4, nodes=80, classes=3, seed=2)
    weights = greedy_weights(members, y, "accuracy")
    assert greedy_weights([*members, *members], y, "accuracy") == [*weights, 0, 0, 0, 0]
    assert greedy_weights(members[:1] * 5, y, "log-loss") == [1, 0, 0, 0, 0]


def test_one_step_takes_the_best() -> None:
    members, y = some_members(count=5, nodes=80, classes=3, seed=3)
    figures = [measure("log-loss", member.log(), y) for member in members]
    assert np.argmax(greedy_weights(members, y, "log-loss", steps=1)) == np.argmax(figures)


@pytest.mark.parametrize("metric", ["log-loss", "average-precision"])
def test_test_labels_are_not_seen(metric: str, few_nodes: None) -> None:
    (one, members), (other, _) = (
        choose_model(noisy_graph(test_labels=turned), "geom-gcn", metric=metric, **QUICK) for turned in (0, 1)
    )
    assert (one.entry, one.words) == (other.entry, other.words)
    (row, other_row) = (found.board.row("ensemble") for found in (one, other))
    assert one.ensemble is not None
    assert row is not None
    assert other_row is not None
    assert one.ensemble.weights == other.ensemble.weights  # type: ignore[union-attr]
    assert row.validation == other_row.validation
    assert row.test != other_row.test
    graph = noisy_graph()
    for index, found in enumerate(
        mean_of_members(list(members.values()), one.ensemble.weights, one.ensemble.runs, graph)
    ):
        split = graph.splits["geom-gcn"][index]
        logits, labels = torch.from_numpy(found).log()[split.test], torch.from_numpy(graph.y[split.test])
        assert measure(metric, logits, labels) == pytest.approx(row.test[index][metric])


def test_figures_are_of_nodes_that_did_not_choose() -> None:
    """Models that know nothing look better on the nodes that chose their weights, but not on others."""
    members, y = some_members(count=20, nodes=300, classes=2, seed=4)
    noise = list(torch.rand((20, 300, 2), generator=torch.Generator().manual_seed(5)).softmax(2))
    weights = greedy_weights(noise, y, "roc-auc")
    chosen = sum(weight * one for weight, one in zip(weights, noise, strict=True))
    assert measure("roc-auc", torch.as_tensor(chosen).log(), y) > 60
    assert 42 < measure("roc-auc", unseen_mean(noise, y, "roc-auc").log(), y) < 58
    turned = y.clone()
    turned[:10] = 1 - turned[:10]
    assert not torch.equal(unseen_mean(members, y, "log-loss"), unseen_mean(members, turned, "log-loss"))


def test_weights_and_rank(few_nodes: None) -> None:
    choice, members = choose_model(noisy_graph(), "geom-gcn", metric="log-loss", **QUICK)
    assert choice.ensemble is not None
    np.testing.assert_allclose(np.sum(choice.ensemble.weights, axis=1), 1)
    assert list(members) == list(choice.ensemble.names)
    assert not any(name.endswith("kernel 1") for name in members)  # a control
    ranked = choice.board.ranked()
    assert [row.entry.name for row in ranked].count("ensemble") == 1
    best, row = ranked[1], ranked[0]
    assert row.mean("log-loss") > best.mean("log-loss")
    assert row.predict_seconds == pytest.approx(
        sum(choice.board.row(name).predict_seconds for name in members)  # type: ignore[union-attr, misc]
    )


def test_too_few_validation_nodes(short_portfolio: None) -> None:
    choice, members = choose_model(noisy_graph(), "geom-gcn", **QUICK)
    assert choice.ensemble is None
    assert list(members) == [choice.entry.name]
    (row,) = [row for row in choice.board.rows if row.entry.name == "ensemble"]
    assert (row.status, row.reason) == ("not started", "a split has 60 validation nodes, fewer than 200")


def test_no_time_for_the_predictions_of_its_members(few_nodes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Clock, "remaining", 0.0)
    choice, members = choose_model(noisy_graph(), "geom-gcn", **QUICK)
    assert choice.ensemble is None
    assert list(members) == [choice.entry.name]
    (row,) = [row for row in choice.board.rows if row.entry.name == "ensemble"]
    assert row.status == "stopped"
    assert "predictions of its" in row.reason


def test_switched_off(few_nodes: None) -> None:
    choice, _ = choose_model(noisy_graph(), "geom-gcn", ensemble=False, **QUICK)
    assert "ensemble" not in choice.board


def test_in_an_estimator(few_nodes: None, tmp_path: Path) -> None:
    graph = noisy_graph()
    options: dict[str, Any] = {"time_budget": "none", "n_runs": 2, "options": {"epochs": 8, "hidden": 4}}
    fitted = NodeClassifier(**options).fit(graph)
    assert fitted.model_ == "ensemble"
    assert sum(fitted.weights_.values()) == pytest.approx(1)
    probabilities = fitted.predict_proba()
    np.testing.assert_allclose(probabilities.sum(1), 1)
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model", graph)
    np.testing.assert_array_equal(loaded.predict_proba(), probabilities)
    assert (loaded.weights_, loaded.recipe_, loaded.model_) == (fitted.weights_, fitted.recipe_, "ensemble")
    assert NodeClassifier(ensemble=False, **options).fit(graph).model_ != "ensemble"
    (tmp_path / "model" / "00.safetensors").unlink()
    with pytest.raises(RunFolderError, match="is missing"):
        NodeClassifier.load(tmp_path / "model", graph)
