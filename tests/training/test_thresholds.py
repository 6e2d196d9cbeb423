"""Rules for thresholds, and thresholds against a slow search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.training.thresholds import (
    Answers,
    Rule,
    choose_threshold,
    parse_threshold,
    point_at,
    run_thresholds,
    thresholds,
)


@each_of(
    ("text", "rule"),
    [
        ("best-f1", Rule("best-f1")),
        ("precision=0.9", Rule("precision", 0.9)),
        ("recall=.8", Rule("recall", 0.8)),
        ("0.3", Rule("fixed", 0.3)),
        (" 1 ", Rule("fixed", 1.0)),
        ("0", Rule("fixed", 0.0)),
    ],
)
def test_rules(text: str, rule: Rule) -> None:
    assert parse_threshold(text) == rule


@each_of(
    "text", ["", "f1", "best", "precision", "precision=", "precision=90", "precision=0", "recall=-1", "1.5", "nan"]
)
def test_texts_that_are_no_rules(text: str) -> None:
    with pytest.raises(OptionError, match="is not a threshold"):
        parse_threshold(text)


def scored(seed: int, nodes: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Scores with ties, and at least one positive node."""
    rng = np.random.default_rng(seed)
    scores, positive = rng.integers(0, 9, nodes) / 10, rng.random(nodes) < 0.3
    positive[0] = True
    return scores, positive


@given(st.integers(0, 2**20))
def test_every_outcome_of_a_threshold(seed: int) -> None:
    scores, positive = scored(seed)
    table = thresholds(scores, positive)
    wanted = [point_at(score, scores, positive) for score in sorted(set(scores.tolist()), reverse=True)]
    np.testing.assert_allclose(table[:, 1:3], [point[1:] for point in wanted])
    for threshold, precision, recall, alarms in table.tolist():
        assert point_at(threshold, scores, positive) == pytest.approx((threshold, precision, recall))
        assert alarms == pytest.approx((scores[~positive] >= threshold).mean() if (~positive).any() else 0)


@given(st.integers(0, 2**20), st.sampled_from([0.2, 0.5, 0.8, 0.95, 1.0]))
def test_no_other_threshold_is_better(seed: int, wanted: float) -> None:
    scores, positive = scored(seed)
    every = [point_at(score, scores, positive) for score in np.unique(scores)]
    best = choose_threshold(Rule("best-f1"), scores, positive)
    assert best.f1 == pytest.approx(max(point.f1 for point in every))
    reached = [point for point in every if point.precision >= wanted]
    found = choose_threshold(Rule("precision", wanted), scores, positive)
    if reached:
        assert found.precision >= wanted
        assert found.recall == pytest.approx(max(point.recall for point in reached))
    else:
        assert found.precision == pytest.approx(max(point.precision for point in every))
    found = choose_threshold(Rule("recall", wanted), scores, positive)
    assert found.recall >= wanted - 1e-9
    enough = [point.precision for point in every if point.recall >= wanted]
    assert found.precision == pytest.approx(max(enough))


def test_adjacent_scores_are_still_told_apart() -> None:
    low = 0.25
    high = np.nextafter(low, 1)
    point = choose_threshold(Rule("best-f1"), np.array([high, low]), np.array([True, False]))
    assert point == (high, 1, 1)


def test_every_run_chooses_on_its_own_nodes() -> None:
    def run(*pairs: tuple[float, int]) -> Answers:
        scores, labels = zip(*pairs, strict=True)
        return Answers(np.column_stack([1 - np.array(scores), scores]), np.array(labels))

    runs = [run((0.9, 1), (0.1, 0)), run((0.5, 1), (0.3, 0)), run((0.7, 0))]  # the last one has no positive node
    found = run_thresholds(Rule("best-f1"), runs, 1)
    assert [point.threshold for point in found] == pytest.approx([0.5, 0.4])
    assert run_thresholds(Rule("best-f1"), runs[2:], 1) == []
