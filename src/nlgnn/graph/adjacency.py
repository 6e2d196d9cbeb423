"""Matrices of a list of edges: row = source, column = target, repetitions merged."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def zero_one_matrix(edge_index: NDArray[np.int64], num_nodes: int, both_directions: bool) -> sparse.csr_array:
    """1 where there is an edge; self loops dropped."""
    rows, columns, _ = _ends(edge_index, num_nodes, loops=False)
    if both_directions:
        rows, columns = np.concatenate([rows, columns]), np.concatenate([columns, rows])
    ones = np.ones(len(rows), np.float32)
    adjacency = sparse.csr_array((ones, (rows, columns)), shape=(num_nodes, num_nodes))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1
    return adjacency


def weight_matrix(
    edge_index: NDArray[np.int64],
    weight: NDArray[np.float32],
    num_nodes: int,
    both_directions: bool,
    loops: bool = False,
) -> sparse.csr_array:
    """The weights of edges: those of repetitions add up, and what weighs 0 is no edge.

    With both directions, a pair of nodes weighs as much as the heavier of the two: the same, whether an edge is given
    in one direction or, as is usual, in both. Kipf and Welling take the maximum too.
    """
    rows, columns, kept = _ends(edge_index, num_nodes, loops)
    matrix = sparse.csr_array((weight[kept], (rows, columns)), shape=(num_nodes, num_nodes))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    return sparse.csr_array(matrix.maximum(matrix.T)) if both_directions else matrix


def pattern_of(matrix: sparse.csr_array) -> sparse.csr_array:
    """The same with 1 for every entry; where they are is stored once for both."""
    ones = np.ones(matrix.nnz, np.float32)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)


def _ends(
    edge_index: NDArray[np.int64], num_nodes: int, loops: bool
) -> tuple[NDArray[np.integer], NDArray[np.integer], NDArray[np.bool_]]:
    """Sources and targets, and which of the edges they are of."""
    source, target = edge_index
    # SciPy would convert them anyway, to this type, after we had copied numbers of twice the size.
    number = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    kept = (source != target) | loops
    return source[kept].astype(number), target[kept].astype(number), kept
