"""Where a model is right: the rows that its figures are drawn from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nlgnn.analysis.projection import Projection
from nlgnn.analysis.quality import Accuracy, HeldBack
from nlgnn.graph.graph import Graph
from nlgnn.report.figures.quality import (
    MOST_CLASSES,
    calibration_figure,
    compatibility_figures,
    confusion_figure,
    groups_figure,
    matrix_rows,
    projection_figure,
    quality_figures,
)

GRAPH = Graph(
    np.zeros((5, 1)), [[0, 1, 2], [1, 2, 3]], [0, 0, 1, 1, -1], class_names=["dog", "cat"], node_names=list("abcde")
)
# Two runs; nodes 0 and 2 are tested in both.
TESTED = HeldBack(
    nodes=np.array([0, 2, 0, 2], np.int32),
    runs=np.array([0, 0, 1, 1], np.int32),
    labels=np.array([0, 1, 0, 1], np.int32),
    predictions=np.array([0, 0, 0, 1], np.int32),
    confidences=np.array([0.95, 0.55, 0.91, 0.75]),
)


def rows_of(table: Any) -> list[dict[str, Any]]:
    return [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]


def test_matrix_has_counts_and_shares_of_rows() -> None:
    assert matrix_rows(["a", "b"], np.array([[3, 1], [0, 0]]), "label", "prediction") == [
        {"label": "a", "prediction": "a", "count": 3, "rate": 0.75},
        {"label": "a", "prediction": "b", "count": 1, "rate": 0.25},
        {"label": "b", "prediction": "a", "count": 0, "rate": 0},
        {"label": "b", "prediction": "b", "count": 0, "rate": 0},
    ]


def test_confusion() -> None:
    figure = confusion_figure(TESTED, GRAPH)
    found = {(row["label"], row["prediction"]): (row["count"], row["rate"]) for row in rows_of(figure.tables["rows"])}
    assert found == {("dog", "dog"): (2, 1), ("dog", "cat"): (0, 0), ("cat", "dog"): (1, 0.5), ("cat", "cat"): (1, 0.5)}
    figure.chart.to_dict()


@pytest.mark.parametrize(("sizes", "words"), [((5, 2), "cat"), ((4, 2), ""), ((5, 1), "")])
def test_a_small_class_that_is_never_recognised_is_named_with_what_helps(sizes: tuple[int, int], words: str) -> None:
    """Not where classes are about equal, nor where there is a single node to learn from or to test."""
    labels = np.repeat([0, 1], sizes)
    graph = Graph(np.zeros((len(labels), 1)), np.zeros((2, 0), int), labels, class_names=["dog", "cat"])
    ends = np.array([0, len(labels) - 1], np.int32)
    zeros = np.zeros(2, np.int32)
    for predictions, said in (
        (zeros, f"Never recognised: {words}. With --class-weight balanced "),
        (np.array([0, 1], np.int32), ""),
    ):
        tested = HeldBack(ends, zeros, labels[ends].astype(np.int32), predictions, np.array([0.9, 0.9]))
        by_class = next(one for one in quality_figures(tested, graph) if one.title == "Accuracy by class")
        assert by_class.text.startswith(said if words else "")
        assert bool(by_class.text) == bool(words and said)


def test_compatibility() -> None:
    (figure,) = compatibility_figures(["dog", "cat"], np.array([[0.25, 0.75], [0, 0]]))
    rates = [row["rate"] for row in rows_of(figure.tables["rows"])]
    assert rates == [0.25, 0.75, 0, 0]
    figure.chart.to_dict()


def test_calibration() -> None:
    figure = calibration_figure(TESTED)
    rows = rows_of(figure.tables["rows"])
    assert [(row["count"], row["accuracy"]) for row in rows] == [(1, 0), (1, 100), (2, 100)]
    assert [row["confidence"] for row in rows] == pytest.approx([55, 75, 93])
    assert figure.caption.endswith(f"calibration error: {(55 + 25 + 2 * 7) / 4:.1f} points.")
    figure.chart.to_dict()


def test_groups() -> None:
    groups = [Accuracy("dog", 12, 10, 80.0, 5.0), Accuracy("cat", 3, 3, 60.0, None)]
    figure = groups_figure("class", groups)
    assert rows_of(figure.tables["rows"]) == [
        {"group": "dog", "bar": "dog (10)", "accuracy": 80, "low": 75, "high": 85, "nodes": 10, "predictions": 12},
        {"group": "cat", "bar": "cat (3)", "accuracy": 60, "low": 60, "high": 60, "nodes": 3, "predictions": 3},
    ]
    figure.chart.to_dict()


def test_projection() -> None:
    projection = Projection(
        np.array([4, 1]), np.array([[0, 1], [2, 3]], np.float32), np.array([0.9, 0.05]), "embeddings"
    )
    figure = projection_figure(projection, GRAPH, np.array([1, 1, 0, 0, 0]), 3)
    assert rows_of(figure.tables["rows"]) == [
        {"node": "e", "label": "unknown", "prediction": "dog", "first": 0, "second": 1},
        {"node": "b", "label": "dog", "prediction": "cat", "first": 2, "second": 3},
    ]
    assert figure.caption.startswith("Run 3, principal components of embeddings; they hold 90% and 5% of the variance.")
    assert "2 of 5 nodes" in figure.caption
    figure.chart.to_dict()


def test_all_of_them() -> None:
    titles = [figure.title for figure in quality_figures(TESTED, GRAPH)]
    assert titles == [
        "Confusion matrix",
        "Calibration",
        "Accuracy by class",
        "Accuracy by number of neighbours",
        "Accuracy by agreement of neighbours",
    ]


def test_nothing_is_shown_of_no_test_nodes() -> None:
    none = HeldBack(*(values[:0] for values in TESTED))
    assert quality_figures(none, GRAPH) == []


def test_many_classes_have_no_matrix() -> None:
    classes = MOST_CLASSES + 1
    y = np.arange(classes, dtype=np.int32)
    graph = Graph(np.zeros((classes, 1)), [[0], [1]], y)
    tested = HeldBack(y, np.zeros_like(y), y, y, np.full(classes, 0.5))
    titles = [figure.title for figure in quality_figures(tested, graph)]
    assert titles == [
        "Calibration",
        "Accuracy by number of neighbours",
        "Accuracy by agreement of neighbours",
    ]
