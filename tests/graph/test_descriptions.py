"""Descriptions of nodes: equal to loops over neighbours, and which of them a graph has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from random_graphs import graph_parts
from scipy import sparse

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.graph import Graph
from nlgnn.graph.descriptions import DESCRIPTIONS, Description, describe, description_names, unit_rows


def dense(rows: Description) -> np.ndarray:
    return rows.toarray() if isinstance(rows, sparse.csr_array) else rows


def neighbours(graph: Graph, node: int, direction: str) -> list[int]:
    """Return the neighbours of a node, by a loop over all edges."""
    found = set()
    for source, target in graph.edge_index.T.tolist():
        if source == node and source != target and (direction != "in-" or not graph.directed):
            found.add(target)
        if target == node and source != target and (direction != "out-" or not graph.directed):
            found.add(source)
    return sorted(found)


def literal(graph: Graph, name: str) -> list[list[float]]:
    """Return a description by its definition, one node after the other."""
    n, x = graph.num_nodes, dense(graph.x).astype(np.float64)
    if name == "features":
        return x.tolist()
    if name == "degrees":
        return [[math.log(1 + len(neighbours(graph, v, d))) for d in ("out-", "in-")] for v in range(n)]
    direction = next((prefix for prefix in ("out-", "in-") if name.startswith(prefix)), "")
    near = [neighbours(graph, v, direction) for v in range(n)]
    if name.endswith("links"):
        popularity = [sum(u in near[v] for v in range(n)) for u in range(n)]
        return [[popularity[u] ** -0.5 if u in near[v] else 0.0 for u in range(n)] for v in range(n)]

    def mean(rows: np.ndarray) -> np.ndarray:
        return np.array([rows[near[v]].mean(0) if near[v] else 0 * rows[v] for v in range(n)])

    return (mean(mean(x)) if "two-hop" in name else mean(x)).tolist()


@given(graph_parts())
def test_descriptions_equal_their_definition(parts: dict[str, Any]) -> None:
    for directed in (False, True):
        for convert in (np.asarray, sparse.csr_array):
            graph = Graph(**{**parts, "x": convert(parts["x"])}, directed=directed)
            for name in DESCRIPTIONS:
                np.testing.assert_allclose(dense(describe(graph, name)), literal(graph, name), atol=1e-6)


@given(graph_parts())
def test_unit_rows(parts: dict[str, Any]) -> None:
    rows = describe(Graph(**parts), "links")
    norms = np.linalg.norm(dense(unit_rows(rows)), axis=1)
    np.testing.assert_allclose(norms, dense(rows).any(axis=1), atol=1e-6)
    np.testing.assert_allclose(dense(unit_rows(rows)), dense(unit_rows(dense(rows))), atol=1e-6)


def test_directions_are_offered_only_if_they_differ() -> None:
    x, y = [[1.0], [2.0], [3.0]], [0, 1, 0]
    one_way, both_ways = [[0, 1], [1, 2]], [[0, 1, 1, 2], [1, 0, 2, 1]]
    plain = ("features", "links", "means", "two-hop-means", "degrees")
    assert description_names(Graph(x, one_way, y, directed=True)) == DESCRIPTIONS
    assert description_names(Graph(x, one_way, y)) == plain
    symmetric = Graph(x, both_ways, y, directed=True)
    assert description_names(symmetric) == plain
    for kind in ("links", "means", "two-hop-means"):
        for direction in ("out-", "in-"):
            np.testing.assert_array_equal(
                dense(describe(symmetric, direction + kind)), dense(describe(symmetric, kind))
            )


@each_of(
    ("columns", "edges", "names"),
    [
        (0, [[0], [1]], ("links", "degrees")),
        (1, [[], []], ("features",)),
        (1, [[1], [1]], ("features",)),  # a loop is no link
        (0, [[], []], ()),
    ],
)
def test_descriptions_of_poor_graphs(columns: int, edges: list[list[int]], names: tuple[str, ...]) -> None:
    graph = Graph(np.ones((2, columns)), np.array(edges, np.int64), [0, 1])
    assert description_names(graph) == names
    for name in DESCRIPTIONS:
        assert np.isfinite(dense(describe(graph, name))).all()


def test_unknown_name() -> None:
    with pytest.raises(OptionError, match="out-links"):
        describe(Graph([[1.0]], np.zeros((2, 0), np.int64), [0]), "outlinks")


def test_real_graph(real_graph: Callable[[str], Graph]) -> None:
    graph = real_graph("texas")
    for name in ("out-links", "in-means", "two-hop-means"):
        np.testing.assert_allclose(dense(describe(graph, name)), literal(graph, name), atol=1e-5)
