"""Arrays of a graph: conversion of what users give, and matrices of edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError
from nlgnn.graph.features import FeaturesOnDisk


def row_norms(rows: NDArray[np.floating] | sparse.csr_array, power: int) -> NDArray[np.float64]:
    """Return the L1 or L2 norm of each row; 1 for rows of zeros, so that division does not change them."""
    norms: NDArray[np.float64] = (abs(rows).astype(np.float64) ** power).sum(axis=1) ** (1 / power)
    norms[norms == 0] = 1
    return norms


def as_features(values: object, what: str) -> NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk:
    """Return features as float32: dense, CSR or on disk as given. Raise an error if the values are not numbers."""
    if isinstance(values, FeaturesOnDisk):
        return values
    if isinstance(values, np.memmap) and values.filename is not None:  # a copy of a map has no file
        return FeaturesOnDisk.from_memmap(values, what)
    if not sparse.issparse(values):
        return as_floats(values, what)
    with np.errstate(over="ignore"):
        # A copy, because the next two lines work in place and give equal matrices one form.
        x = sparse.csr_array(values, dtype=np.float32, copy=True)
    x.sum_duplicates()
    x.eliminate_zeros()
    return x


def as_floats(values: object, what: str) -> NDArray[np.float32]:
    """Return an array of float32. Raise an error if the values are not numbers."""
    try:
        with np.errstate(over="ignore"):  # values too large for float32 become inf, which is reported later
            return np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not an array of numbers: {error}.", "Encode text and categories first.") from error


def as_integers(values: object, what: str) -> NDArray[np.int64]:
    """Return integers as int64. Raise an error if the values are not whole numbers."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        how = "Give whole numbers. For names: class_names, y = np.unique(names, return_inverse=True)."
        raise DataError(f"{what} are of type {array.dtype}.", how)
    return array.astype(np.int64, copy=False)


def weight_matrix(
    edge_index: NDArray[np.int64],
    weight: NDArray[np.float32] | None,
    num_nodes: int,
    both_directions: bool,
    loops: bool = False,
) -> sparse.csr_array:
    """Return the matrix of edge weights (row = source, column = target).

    Weights of repetitions add up, and entries of 0 are removed. Without weights every entry is 1. With both directions,
    a pair of nodes has the larger weight of the two, so that it makes no difference whether an edge is given in one
    direction or in both. Kipf and Welling take the maximum too.
    """
    source, target = edge_index
    kept = (source != target) | loops
    # SciPy would convert them to this type anyway, after a copy of twice the size.
    number = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    ends = source[kept].astype(number), target[kept].astype(number)
    values = np.ones(len(ends[0]), np.float32) if weight is None else weight[kept]
    matrix = sparse.csr_array((values, ends), shape=(num_nodes, num_nodes))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if weight is None:
        matrix.data[:] = 1
    return sparse.csr_array(matrix.maximum(matrix.T)) if both_directions else matrix


def pattern_of(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with 1 for every entry; both share their index arrays."""
    ones = np.ones(matrix.nnz, np.float32)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
