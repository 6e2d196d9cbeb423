"""Tables of predictions: what is in them, and under which names."""

from __future__ import annotations

import numpy as np

from each_of import each_of
from nlgnn.graph.graph import Graph
from nlgnn.training.predict import prediction_columns

GRAPH = Graph(
    np.ones((3, 1)), [[0], [1]], [0, -1, 1], class_names=["cat", "=1+1"], node_names=["x", "-y", "3"], name="small"
)
PROBABILITIES = np.array([[0.9, 0.1], [0.25, 0.75], [0.5, 0.5]])
LABELS = np.array([0, 1, 0])
FIGURES = ["confidence", "was labelled", "probability of cat", "probability of =1+1"]


def test_a_row_for_each_node_that_is_asked_for() -> None:
    found = prediction_columns(GRAPH, PROBABILITIES, LABELS, np.array([1, 0]))
    assert list(found) == ["id", "label", *FIGURES]
    assert (found["id"], found["label"]) == (["-y", "x"], ["=1+1", "cat"])
    assert [list(found[name]) for name in FIGURES] == [[0.75, 0.9], [False, True], [0.25, 0.9], [0.75, 0.1]]


def test_the_confidence_is_the_probability_of_the_label() -> None:
    found = prediction_columns(GRAPH, PROBABILITIES, np.array([1, 1, 0]), np.arange(3))
    assert found["label"] == ["=1+1", "=1+1", "cat"]
    assert list(found["confidence"]) == [0.1, 0.75, 0.5]


@each_of(
    ("given", "wanted"),
    [
        (("url", "topic"), ["url", "topic"]),
        ((None, "topic"), ["id", "topic"]),
        (("label", "id"), ["label", "id"]),  # their own names, whatever they are
        (("confidence", "topic"), ["id", "label"]),
        (("url", "probability of cat"), ["id", "label"]),
        (("label", None), ["id", "label"]),
    ],
)
def test_columns_go_by_the_users_names_unless_others_have_them(
    given: tuple[str | None, str | None], wanted: list[str]
) -> None:
    found = prediction_columns(GRAPH, PROBABILITIES, LABELS, np.arange(3), *given)
    assert list(found) == [*wanted, *FIGURES]
    assert found[wanted[0]] == ["x", "-y", "3"]
