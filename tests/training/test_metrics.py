"""Metrics against hand values and scikit-learn."""

from __future__ import annotations

import math
from itertools import permutations
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch import Tensor
from torch.nn import functional as F

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.training.metrics import (
    at_top,
    check_metric,
    log_probabilities,
    measure,
    measure_all,
    needs_two_classes,
    validate,
)
from nlgnn.training.recipe import METRICS

# Predicted 0, 0, 1, 1 of true 0, 1, 1, 1.
LOGITS = torch.tensor([[2.0, 1.0], [0.5, 0.0], [0.0, 1.0], [0.0, 3.0]])
Y = torch.tensor([0, 1, 1, 1])


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("accuracy", 75.0),
        ("macro-f1", 100 * (2 / 3 + 4 / 5) / 2),
        ("balanced-accuracy", 100 * (1 + 2 / 3) / 2),
        ("f1", 80.0),
        ("roc-auc", 100.0),  # the one of class 0 has the lowest margin, -1
        ("average-precision", 100.0),
        ("log-loss", -100 * sum(math.log1p(math.exp(-margin)) for margin in (1, -0.5, 1, 3)) / 4),
    ],
)
def test_by_hand(metric: str, expected: float) -> None:
    assert measure(metric, LOGITS, Y) == pytest.approx(expected, abs=1e-9)


def test_equal_margins_count_half() -> None:
    assert measure("roc-auc", torch.zeros(4, 2), Y) == 50
    assert measure("roc-auc", -LOGITS, Y) == 0


def random_case(seed: int, classes: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.standard_normal((15, classes))), torch.from_numpy(rng.integers(classes, size=15))


@given(st.integers(0, 2**20), st.integers(1, 4))
def test_against_scikit_learn(seed: int, classes: int) -> None:
    logits, y = random_case(seed, classes)
    predicted, truth = logits.softmax(1).numpy(), y.numpy()
    chosen, occurring = predicted.argmax(1), np.unique(truth)
    expected = {
        "accuracy": sk.accuracy_score(truth, chosen),
        "balanced-accuracy": sk.recall_score(truth, chosen, labels=occurring, average="macro"),
        "macro-f1": sk.f1_score(truth, chosen, average="macro", zero_division=0),
    }
    if classes == 2:
        expected["f1"] = sk.f1_score(truth, chosen, zero_division=0)
        expected["roc-auc"] = sk.roc_auc_score(truth, predicted[:, 1]) if len(occurring) == 2 else 0.5
        expected["average-precision"] = sk.average_precision_score(truth, predicted[:, 1]) if truth.any() else 0.0
    expected["log-loss"] = np.log(predicted[np.arange(15), truth]).mean()
    found = measure_all(logits, y)
    assert found == pytest.approx({name: 100 * value for name, value in expected.items()}, abs=1e-9)
    assert list(found) == list(expected)


@given(st.integers(0, 2**20))
def test_average_precision_with_ties(seed: int) -> None:
    rng = np.random.default_rng(seed)
    margins, truth = rng.integers(4, size=20), rng.integers(2, size=20)
    logits = torch.from_numpy(np.stack([np.zeros(20), margins], axis=1))
    expected = 100 * sk.average_precision_score(truth, margins) if truth.any() else 0.0
    assert measure("average-precision", logits, torch.from_numpy(truth)) == pytest.approx(expected, abs=1e-9)


AT_K = ("precision-at-2", "recall-at-0.3", "lift-at-5", "precision-at-1000")


@given(st.integers(0, 2**20), st.sampled_from([1, 2, 4, 5, 100, 0.01, 0.25, 0.5]))
def test_the_highest_scored_nodes_with_ties(seed: int, k: float) -> None:
    """Nodes with equal scores come in any order: the figures are means over all orders."""
    rng = np.random.default_rng(seed)
    scores, truth = rng.integers(3, size=5), rng.integers(2, size=5)
    number = min(5, int(k) if k >= 1 else max(1, round(k * 5)))
    orders = [sorted(order, key=lambda node: -scores[node]) for order in permutations(range(5))]
    hits = fmean(truth[order[:number]].sum() for order in orders)
    found = at_top(scores, truth, k)
    assert (found.k, found.hits) == (number, pytest.approx(hits))
    assert found.precision == pytest.approx(hits / number)
    assert found.recall == pytest.approx(hits / truth.sum() if truth.any() else 0)
    assert found.lift == pytest.approx(found.precision / truth.mean() if truth.any() else 0)


def test_metrics_at_k() -> None:
    at_k = ("precision-at-2", "recall-at-2", "lift-at-2", "precision-at-0.75", "recall-at-100", "precision-at-100")
    wanted = [100, 200 / 3, 400 / 3, 100, 100, 75]  # margins are -1, -0.5, 1 and 3
    assert [measure(metric, LOGITS, Y) for metric in at_k] == pytest.approx(wanted)
    assert measure_all(LOGITS, Y, "lift-at-2")["lift-at-2"] == pytest.approx(400 / 3)
    for wrong in ("precision-at-0", "precision-at-", "precision-at-1.5", "f1-at-3", "lift-at-x"):
        with pytest.raises(OptionError, match="is unknown"):
            measure(wrong, LOGITS, Y)
    with pytest.raises(OptionError, match="needs two classes"):
        check_metric("precision-at-5", 3)


def test_a_constant_score_finds_no_more_than_chance() -> None:
    logits = torch.zeros(4, 2)
    assert measure("precision-at-2", logits, Y) == pytest.approx(75)
    assert measure("lift-at-1", logits, Y) == pytest.approx(100)


def test_one_class_alone_has_no_order() -> None:
    assert measure("roc-auc", LOGITS, torch.ones(4, dtype=torch.long)) == 50


def test_no_nodes_no_figures() -> None:
    assert measure_all(LOGITS[:0], Y[:0]) == {}


@pytest.mark.parametrize("classes", [1, 3])
def test_roc_auc_needs_two_classes(classes: int) -> None:
    for ask in (lambda: check_metric("roc-auc", classes), lambda: measure("roc-auc", torch.zeros(4, classes), Y)):
        with pytest.raises(OptionError, match=f"two classes, this graph has {classes}"):
            ask()
    check_metric("roc-auc", 2)
    check_metric("accuracy", classes)


def test_unknown_metric() -> None:
    with pytest.raises(OptionError, match="'precision' is unknown"):
        measure("precision", LOGITS, Y)


@given(st.integers(0, 2**20), st.integers(1, 3), st.sampled_from((*METRICS, *AT_K)), st.booleans())
def test_of_several_models_at_once(seed: int, models: int, metric: str, turned: bool) -> None:
    """Each over nodes of its own; also of logits that lie with classes first in memory, and with ties."""
    rng = np.random.default_rng(seed)
    classes = 2 if needs_two_classes(metric) else int(rng.integers(1, 5))
    logits = torch.from_numpy(rng.integers(-3, 4, size=(models, 15, classes)) / 2)
    logits = logits.mT.contiguous().mT if turned else logits
    y = torch.from_numpy(rng.integers(classes, size=15))
    nodes = torch.from_numpy(np.stack([rng.permutation(15)[:6] for _ in range(models)]))
    losses, figures = validate(metric, logits, y, nodes)
    each = list(zip(logits, nodes, strict=True))
    assert losses == pytest.approx([F.cross_entropy(one[own], y[own]).item() for one, own in each], abs=1e-12)
    assert figures == pytest.approx([measure(metric, one[own], y[own]) for one, own in each], abs=1e-12)


@each_of("metric", (*METRICS[1:], *AT_K))
@each_of("truth", [Y, torch.ones_like(Y)])
def test_of_what_is_no_number_nothing_is_measured(metric: str, truth: Tensor) -> None:
    """The other model has its own figure."""
    logits = torch.stack([torch.full_like(LOGITS, torch.nan), LOGITS])
    losses, figures = validate(metric, logits, truth, torch.arange(4).expand(2, -1))
    assert [np.isnan(losses[0]), np.isnan(figures[0])] == [True, True]
    assert figures[1] == pytest.approx(measure(metric, LOGITS, truth), rel=1e-6)


@each_of("dtype", [np.float32, np.float64])
def test_logarithms_of_probabilities_are_finite(dtype: type) -> None:
    given = np.array([[0.25, 0.75], [1.0, 0.0]], dtype)
    for found in (log_probabilities(given), log_probabilities(torch.from_numpy(given))):
        assert found.numpy().dtype == dtype
        np.testing.assert_allclose(found[0], np.log(given[0]), rtol=1e-6)
        assert found[1, 0] == 0 > found[1, 1] > -math.inf
