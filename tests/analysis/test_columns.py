"""Columns of features that tell nothing any more: of one node, or of all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from nlgnn.analysis.columns import row_and_average, shuffled, with_rows
from nlgnn.graph.graph import Graph

X = np.array([[1, 0, 0, 4], [0, 1, 0, 5], [0, 0, 1, 6], [0, 0, 1, 17]], np.float32)
KIND = slice(0, 3)
FORMS = [np.asarray, sparse.csr_array]


def graph_of(form: Any) -> Graph:
    return Graph(form(X), [[0], [1]], [0, 1, 0, 1])


def dense(graph: Graph) -> np.ndarray:
    return graph.x.toarray() if isinstance(graph.x, sparse.csr_array) else np.asarray(graph.x)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("node", [0, 2, 3])
def test_one_row_is_replaced(form: Any, node: int) -> None:
    graph = graph_of(form)
    row, average = row_and_average(graph, node)
    np.testing.assert_array_equal(row, X[node])
    np.testing.assert_array_equal(average, [0.25, 0.25, 0.5, 8])
    wanted = X.copy()
    wanted[node] = average
    changed = with_rows(graph, [node], average)
    np.testing.assert_array_equal(dense(changed), wanted)
    np.testing.assert_array_equal(dense(graph), X)  # untouched
    assert isinstance(changed.x, type(graph.x))


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
