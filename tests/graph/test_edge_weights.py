"""Weights of edges: which matrices they make, what is refused, and what stays as it was without them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import graph_parts

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.graph import Graph, audit, homophily_table

X, Y = np.eye(4), np.array([0, 1, 0, -1])
# 0 → 1 in two parts, and back with less; a loop; an edge of no weight.
EDGES = np.array([[0, 1, 0, 2, 3], [1, 0, 1, 2, 2]])
WEIGHTS = [1, 2.5, 3, 9, 0]


@pytest.fixture
def graph() -> Graph:
    return Graph(X, EDGES, Y, name="tiny", edge_weight=WEIGHTS)


def test_repetitions_add_up_and_the_heavier_direction_counts(graph: Graph) -> None:
    assert graph.edge_weight.dtype == np.float32
    assert graph.directed_weights.toarray().tolist() == [[0, 4, 0, 0], [2.5, 0, 0, 0], [0] * 4, [0] * 4]
    assert graph.undirected_weights.toarray().tolist() == [[0, 4, 0, 0], [4, 0, 0, 0], [0] * 4, [0] * 4]


def test_an_edge_of_weight_0_is_none(graph: Graph) -> None:
    assert graph.num_edges == 1
    assert graph.directed_adjacency.toarray().tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [0] * 4, [0] * 4]
    assert audit(graph).isolated_nodes == 2


@given(graph_parts(), st.data())
def test_matrices_equal_a_plain_loop(parts: dict[str, Any], data: st.DataObject) -> None:
    count = parts["edge_index"].shape[1]
    weight = data.draw(st.lists(st.integers(0, 12), min_size=count, max_size=count))
    graph = Graph(**parts, edge_weight=np.array(weight) / 4)
    one_way = np.zeros((graph.num_nodes,) * 2)
    for (source, target), of_edge in zip(parts["edge_index"].T, weight, strict=True):
        one_way[source, target] += (source != target) * of_edge / 4
    both = np.maximum(one_way, one_way.T)
    for found, expected in [(graph.directed_weights, one_way), (graph.undirected_weights, both)]:
        np.testing.assert_array_equal(found.toarray(), expected)
        assert found.has_canonical_format
    np.testing.assert_array_equal(graph.directed_adjacency.toarray(), one_way > 0)
    np.testing.assert_array_equal(graph.undirected_adjacency.toarray(), both > 0)


@given(graph_parts())
def test_either_or_both_directions_give_a_pair_one_weight(parts: dict[str, Any]) -> None:
    edges = np.unique(parts["edge_index"], axis=1)
    edges = edges[:, edges[0] < edges[1]]
    weight = 1.0 + np.arange(edges.shape[1])
    once = Graph(parts["x"], edges, parts["y"], edge_weight=weight)
    turned = Graph(parts["x"], edges[::-1], parts["y"], edge_weight=weight)
    twice = Graph(parts["x"], np.hstack([edges, edges[::-1]]), parts["y"], edge_weight=np.tile(weight, 2))
    for other in (turned, twice):
        assert (once.undirected_weights != other.undirected_weights).nnz == 0


def test_without_weights_there_is_one_matrix_only() -> None:
    graph = Graph(X, EDGES, Y)
    assert graph.undirected_weights is graph.undirected_adjacency
    assert graph.directed_weights is graph.directed_adjacency


def test_the_fingerprint_follows_weights_where_there_are_some(graph: Graph) -> None:
    others = [replace(graph, edge_weight=other) for other in (None, [1] * 5, [2.5, 1, 3, 9, 0])]
    assert len({graph.fingerprint, *(other.fingerprint for other in others)}) == 4
    assert replace(graph, edge_weight=np.array(WEIGHTS, np.float64)).fingerprint == graph.fingerprint
    assert Graph(X, EDGES, Y).fingerprint == "f4c30902a0f8db4a"  # as before there were weights


def test_weights_stay_where_features_change(graph: Graph) -> None:
    assert graph.scale_features("unit-l2").edge_weight.tolist() == WEIGHTS


def test_agreement_looks_at_no_weights(graph: Graph) -> None:
    rng = np.random.default_rng(0)
    edges = rng.integers(4, size=(2, 20))
    alike, different = (Graph(X, edges, Y, edge_weight=weight) for weight in (None, rng.random(20) + 0.1))
    assert homophily_table(alike) == homophily_table(different)


@each_of(
    ("weights", "message"),
    [
        ([1, 2, -3, 1, -1], r"edge 2, which joins nodes \(0, 1\), has weight -3 \(2 such weights in all\)"),
        ([1, np.nan, 1, 1, 1], "edge 1, .* has weight nan"),
        ([1, 1, 1, 1, 1e39], "edge 4, .* has weight inf"),
        ([1, 1, 1], r"5 edges, but weights of shape \(3,\)"),
        ([[1]] * 5, r"weights of shape \(5, 1\)"),
        (["a"] * 5, "weights are not an array of numbers: could not convert"),
        ([3e38] * 5, "add up to more than 3e38"),
    ],
)
def test_what_does_not_fit_is_named(graph: Graph, weights: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as error:
        replace(graph, edge_weight=weights)
    assert "'tiny'" in error.value.what
    assert error.value.how
