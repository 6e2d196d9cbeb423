"""Descriptions of nodes: features, rows of adjacency matrices, means over neighbours, degrees.

A description is a matrix with one row per node. The name of a description says what its rows hold:

================  ====================================================================================
`features`        the features of the node
`links`           the nodes that it is linked with: its row of the adjacency matrix, columns weighted
`means`           the mean of the features over its neighbours
`two-hop-means`   the mean of `means` over its neighbours
`degrees`         log(1 + out-degree) and log(1 + in-degree)
================  ====================================================================================

Links and means ignore the direction of edges. The prefix `out-` restricts them to edges that start at the node, and
`in-` to edges that end at it: `out-links`, `in-two-hop-means`. If edges have types, `links by NAME` and `means by NAME`
take the edges of one type. Loops, repeated edges and edge weights are ignored.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from nlgnn.errors import OptionError, nearest
from nlgnn.graph.arrays import row_norms
from nlgnn.graph.graph import Graph

Description: TypeAlias = NDArray[Any] | sparse.csr_array

KINDS = ("links", "means", "two-hop-means")
DIRECTIONS = ("", "out-", "in-")
BY, BY_TYPE = " by ", ("links", "means")  # descriptions of the edges of one type
DESCRIPTIONS = ("features", *(direction + kind for kind in KINDS for direction in DIRECTIONS), "degrees")


def description_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of the descriptions that tell nodes of a graph apart.

    Links and means need edges, features and means need features. Directions are left out if edges have no direction or
    if every edge has its reverse, because all three descriptions would be the same.

    Args:
        graph: The graph.

    Returns:
        Names in the order of `DESCRIPTIONS`.

    Example:
        >>> description_names(Graph([[1.0], [0.0]], [[0], [1]], [0, 1]))
        ('features', 'links', 'means', 'two-hop-means', 'degrees')
    """
    names = list(DESCRIPTIONS)
    if graph.num_features == 0:
        names = [name for name in names if not uses_features(name)]
    if graph.directed_adjacency.nnz == 0:
        names = [name for name in names if name == "features"]
    if not has_direction(graph):
        names = [name for name in names if _parse(name).direction == ""]
    for kind in BY_TYPE:
        if kind in names:
            names += [f"{kind}{BY}{one}" for one, relation in graph.relations.items() if relation.num_edges]
    return tuple(names)


def is_description(name: str) -> bool:
    """Return whether a text is the name of a description, of all edges or of those of one type."""
    kind, by, _ = name.partition(BY)
    return kind in (BY_TYPE if by else DESCRIPTIONS)


def uses_features(name: str) -> bool:
    """Return whether a description is made of features."""
    return name == "features" or name.partition(BY)[0].endswith("means")


def identifies_nodes(name: str) -> bool:
    """Return whether the columns of a description are nodes, so that it cannot be compared between graphs."""
    return name.partition(BY)[0].endswith("links")


def listed_descriptions(text: str) -> tuple[str, ...]:
    """Return the names in a text such as out-links+means; "all" stands for all but means over two hops.

    Raises:
        OptionError: If a name is unknown.

    Example:
        >>> listed_descriptions("out-links+means")
        ('out-links', 'means')
    """
    if text == "all":
        return tuple(name for name in DESCRIPTIONS if not name.endswith("two-hop-means"))
    names = tuple(text.split("+"))
    for name in names:
        if not is_description(name):
            raise OptionError(f"descriptions={text!r}: {name!r} is not a description.", nearest(name, DESCRIPTIONS))
    return names


def describe(graph: Graph, name: str) -> Description:
    """Return a description of all nodes.

    The columns of `links` are divided by the square root of their sums, so that two nodes that are linked with the same
    rarely linked node are closer than two that are linked with the same hub. A node without neighbours has a row of
    zeros in links and means.

    Args:
        graph: The graph.
        name: A name in `DESCRIPTIONS`, or one of them for a type of edges, such as `means by call`.

    Returns:
        A matrix of one row per node, sparse (CSR) if the features or links that it is made of are.

    Raises:
        OptionError: If the name is unknown.
        DataError: If it is made of features that are on disk.

    Example:
        >>> path = Graph(x=[[1.0], [0.0], [2.0]], edge_index=[[0, 1], [1, 2]], y=[0, 1, 0], directed=True)
        >>> describe(path, "means").tolist()
        [[0.0], [1.5], [0.0]]
        >>> describe(path, "out-links").toarray().tolist()
        [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]
    """
    if not is_description(name):
        raise OptionError(f"{name!r} is not a description of nodes.", nearest(name, DESCRIPTIONS))
    if name == "features":
        return _features(graph)
    if name == "degrees":
        degrees = [np.diff(adjacency(graph, direction).indptr) for direction in ("out-", "in-")]
        return np.log1p(np.stack(degrees, axis=1), dtype=np.float32)
    name, by, edge_type = name.partition(BY)
    direction, kind = _parse(name)
    neighbours = relation_adjacency(graph, edge_type, direction) if by else adjacency(graph, direction)
    if kind == "links":
        return weighted_columns(neighbours)
    means = mean_matrix(neighbours)
    once = means @ _features(graph)
    return once if kind == "means" else means @ once


def comparable_rows(graph: Graph, name: str) -> Description:
    """Return a description whose rows have length 1, so that it can be compared; degrees are returned as they are.

    Raises:
        DataError: If a value is missing.
    """
    if uses_features(name):
        graph.require_features()
    rows = describe(graph, name)
    return rows if name == "degrees" else unit_rows(rows)


def has_direction(graph: Graph) -> bool:
    """Return whether the direction of edges has a meaning, and some edge has no reverse."""
    return graph.directed and bool(graph.directed_adjacency.nnz != graph.undirected_adjacency.nnz)


def adjacency(graph: Graph, direction: str = "", weighted: bool = False) -> sparse.csr_array:
    """Return the matrix whose row holds the out-neighbours, in-neighbours or all neighbours of a node.

    Args:
        graph: The graph.
        direction: "out-", "in-" or "" for all. Edges of a graph that is not directed count in both directions.
        weighted: Whether entries are the weights of edges, if they have any, instead of 1.
    """
    if direction == "" or not graph.directed:
        return graph.undirected_weights if weighted else graph.undirected_adjacency
    outgoing = graph.directed_weights if weighted else graph.directed_adjacency
    return outgoing if direction == "out-" else sparse.csr_array(outgoing.T)


def relation_adjacency(graph: Graph, edge_type: str, direction: str = "") -> sparse.csr_array:
    """Return the matrix of `adjacency` for the edges of one type, which is empty if the graph has no such edge."""
    relation = graph.relations.get(edge_type)
    if relation is None:
        return sparse.csr_array((graph.num_nodes, graph.num_nodes), dtype=np.float32)
    return adjacency(relation, direction)


def mean_matrix(weights: sparse.csr_array, dtype: DTypeLike = np.float32) -> sparse.csr_array:
    """Return the matrix that takes weighted means over neighbours: rows divided by their sums.

    Rows of zeros stay zero.

    Example:
        >>> mean_matrix(sparse.csr_array([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0]])).toarray().tolist()
        [[0.0, 0.75, 0.25], [0.0, 0.0, 0.0]]
    """
    sums = weights.sum(axis=1, dtype=np.float64)
    return scaled_matrix(weights, (1 / np.where(sums > 0, sums, 1)).astype(dtype))


def unit_rows(description: Description) -> Description:
    """Return a description with rows of L2 norm 1. Rows of zeros stay zero.

    Example:
        >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0]], np.float32)).round(3).tolist()
        [[0.6000000238418579, 0.800000011920929], [0.0, 0.0]]
    """
    factors = (1 / row_norms(description, 2)).astype(description.dtype)
    if isinstance(description, sparse.csr_array):
        return scaled_matrix(description, factors)
    return description * factors[:, None]


def weighted_columns(neighbours: sparse.csr_array) -> sparse.csr_array:
    """Return a 0/1 matrix with columns divided by the square root of their sums."""
    sums = np.bincount(neighbours.indices, minlength=neighbours.shape[1])
    factors = (np.maximum(sums, 1) ** -0.5).astype(np.float32)
    return scaled_matrix(neighbours, np.ones(neighbours.shape[0], np.float32), factors)


def scaled_matrix(
    matrix: sparse.csr_array, of_row: NDArray[Any], of_column: NDArray[Any] | None = None
) -> sparse.csr_array:
    """Return a matrix whose entries are multiplied by one factor per row and, if given, one per column.

    The values are computed in place and the indices are shared, because these arrays are large.
    """
    values = np.repeat(of_row, np.diff(matrix.indptr))
    values *= matrix.data
    if of_column is not None:
        values *= of_column[matrix.indices]
    return sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape)


class _Parts(NamedTuple):
    direction: str
    kind: str


def _parse(name: str) -> _Parts:
    """Return the direction and the kind in the name of a description."""
    for direction in ("out-", "in-"):
        if name.startswith(direction):
            return _Parts(direction, name.removeprefix(direction))
    return _Parts("", name)


def _features(graph: Graph) -> Description:
    return graph.x if isinstance(graph.x, sparse.csr_array) else graph.dense_features()
