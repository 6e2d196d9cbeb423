"""Metrics against hand values and scikit-learn."""

from __future__ import annotations

import math

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
from nlgnn.training.metrics import TWO_CLASSES, check_metric, measure, measure_all, validate
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


@given(st.integers(0, 2**20), st.integers(1, 3), st.sampled_from(METRICS), st.booleans())
def test_of_several_models_at_once(seed: int, models: int, metric: str, turned: bool) -> None:
    """Each over nodes of its own; also of logits that lie with classes first in memory, and with ties."""
    rng = np.random.default_rng(seed)
    classes = 2 if metric in TWO_CLASSES else int(rng.integers(1, 5))
    logits = torch.from_numpy(rng.integers(-3, 4, size=(models, 15, classes)) / 2)
    logits = logits.mT.contiguous().mT if turned else logits
    y = torch.from_numpy(rng.integers(classes, size=15))
    nodes = torch.from_numpy(np.stack([rng.permutation(15)[:6] for _ in range(models)]))
    losses, figures = validate(metric, logits, y, nodes)
    each = list(zip(logits, nodes, strict=True))
    assert losses == pytest.approx([F.cross_entropy(one[own], y[own]).item() for one, own in each], abs=1e-12)
    assert figures == pytest.approx([measure(metric, one[own], y[own]) for one, own in each], abs=1e-12)


@each_of("metric", METRICS[1:])
@each_of("truth", [Y, torch.ones_like(Y)])
def test_of_what_is_no_number_nothing_is_measured(metric: str, truth: Tensor) -> None:
    """The other model has its own figure."""
    logits = torch.stack([torch.full_like(LOGITS, torch.nan), LOGITS])
    losses, figures = validate(metric, logits, truth, torch.arange(4).expand(2, -1))
    assert [np.isnan(losses[0]), np.isnan(figures[0])] == [True, True]
    assert figures[1] == pytest.approx(measure(metric, LOGITS, truth), rel=1e-6)
