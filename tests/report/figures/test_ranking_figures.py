"""Precision–recall and ROC curves: their points against scikit-learn, and the point of the chosen threshold."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import precision_recall_curve, roc_curve

from nlgnn.report.figures.ranking import (
    STEPS,
    TOGETHER,
    chosen_columns,
    precision_recall_figure,
    ranking_columns,
    roc_figure,
)
from nlgnn.training.decision import Decision
from nlgnn.training.thresholds import Answers


def answers(seed: int, nodes: int = 40, share: float = 0.3) -> Answers:
    rng = np.random.default_rng(seed)
    labels = (rng.random(nodes) < share).astype(int)
    scores = np.round(np.clip(0.3 * labels + 0.7 * rng.random(nodes), 0, 1), 1 if seed % 2 else 6)
    return Answers(np.column_stack([1 - scores, scores]), labels)


RUNS = [answers(0), answers(1)]


def points(line: str, *names: str) -> set[tuple[float, ...]]:
    columns = ranking_columns(RUNS, 1)
    own = np.array(columns["line"]) == line
    return {tuple(row) for row in np.round(np.column_stack([np.asarray(columns[name])[own] for name in names]), 6)}


@pytest.mark.parametrize(("line", "one"), [("run 0", RUNS[0]), ("run 1", RUNS[1]), (TOGETHER, Answers.together(RUNS))])
def test_points_are_those_of_scikit_learn(line: str, one: Answers) -> None:
    scores = one.probabilities[:, 1]
    precision, recall, _ = precision_recall_curve(one.labels, scores)
    wanted = np.round(100 * np.column_stack([precision, recall])[:-1], 6)  # the last one is made up
    assert points(line, "precision", "recall") - {(precision_of_first(scores, one), 0.0)} == {*map(tuple, wanted)} - {
        (precision_of_first(scores, one), 0.0)
    }
    alarms, recall, _ = roc_curve(one.labels, scores, drop_intermediate=False)
    assert points(line, "false positive rate", "recall") == {*map(tuple, np.round(100 * np.c_[alarms, recall], 6))}


def precision_of_first(scores: np.ndarray, one: Answers) -> float:
    return float(np.round(100 * one.labels[scores == scores.max()].mean(), 6))


def test_many_nodes_are_thinned_and_keep_their_ends() -> None:
    columns = ranking_columns([answers(2, 20_000)], 1)
    assert len(columns["line"]) <= 2 * (2 * STEPS + 3)
    assert np.asarray(columns["recall"])[[0, -1]].tolist() == [0, 100]


def test_a_run_without_the_class_has_no_curve() -> None:
    none = Answers(RUNS[0].probabilities, np.zeros(40, int))
    assert set(ranking_columns([none, RUNS[1]], 1)["line"]) == {"run 1", TOGETHER}
    assert len(ranking_columns([none], 1)["line"]) == 0


def test_the_chosen_threshold() -> None:
    one = Answers.together(RUNS)
    reached = one.probabilities[:, 1] >= 0.6
    found = chosen_columns(Decision("0.6", threshold=0.6), RUNS)
    assert np.asarray(found["precision"])[0] == pytest.approx(100 * one.labels[reached].mean())
    assert np.asarray(found["recall"])[0] == pytest.approx(100 * reached[one.labels == 1].mean())
    assert np.asarray(found["false positive rate"])[0] == pytest.approx(100 * reached[one.labels == 0].mean())
    assert np.asarray(chosen_columns(Decision(), RUNS)["threshold"])[0] == 0.5


def test_charts_are_valid() -> None:
    for draw in (precision_recall_figure, roc_figure):
        figure = draw(Decision("0.6", positive_class="yes", threshold=0.6), RUNS)
        figure.chart.to_dict()
        assert set(figure.tables) == {"rows", "chosen"}
        assert "yes" in figure.caption
