"""Columns of features that tell nothing any more: of one node, or of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from nlgnn.analysis.feature_columns import averaged, by_distance, shuffled
from nlgnn.graph.graph import Graph

X = np.array([[1, 0, 0, 4], [0, 1, 0, 5], [0, 0, 1, 6], [0, 0, 1, 17]], np.float32)
KIND, SIZE = slice(0, 3), slice(3, 4)
FORMS = [np.asarray, sparse.csr_array]


def graph_of(form: Any) -> Graph:
    return Graph(form(X), [[0], [1]], [0, 1, 0, 1])


def dense(graph: Graph) -> np.ndarray:
    return graph.x.toarray() if isinstance(graph.x, sparse.csr_array) else np.asarray(graph.x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("node", range(4))
def test_one_column_of_one_node_is_as_on_average(form: Any, node: int) -> None:
    graph = graph_of(form)
    wanted = X.copy()
    wanted[node, :3] = [0.25, 0.25, 0.5]
    np.testing.assert_array_equal(dense(averaged(graph, node, KIND)), wanted)
    wanted = X.copy()
    wanted[node, 3] = 8
    np.testing.assert_array_equal(dense(averaged(graph, node, SIZE)), wanted)
    np.testing.assert_array_equal(dense(graph), X)  # untouched
    assert isinstance(averaged(graph, node, SIZE).x, type(graph.x))


@pytest.mark.parametrize("form", FORMS)
def test_a_shuffled_column_stays_together_and_the_others_where_they_are(form: Any) -> None:
    graph = graph_of(form)
    seen = set()
    for seed in range(9):
        found = dense(shuffled(graph, KIND, seed))
        np.testing.assert_array_equal(found[:, 3:], X[:, 3:])
        np.testing.assert_array_equal(np.sort(found[:, :3] @ [1, 2, 3]), [1, 2, 3, 3])
        seen.add(found.tobytes())
        np.testing.assert_array_equal(dense(shuffled(graph, KIND, seed)), found)
    assert len(seen) > 3
    np.testing.assert_array_equal(dense(graph), X)


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_are_unusual_come_first(form: Any) -> None:
    slots = {"kind": KIND, "size": SIZE}
    assert by_distance(graph_of(form), 3, slots) == ["size", "kind"]
    small = Graph(form(X * np.float32([1, 1, 1, 0.01])), [[0], [1]], [0, 1, 0, 1])
    assert by_distance(small, 3, slots) == ["kind", "size"]
