"""Means, standard deviations and extremes of columns over the neighbours of each node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse

STATISTICS = ("mean", "standard deviation", "minimum", "maximum")
VALUES_AT_ONCE = 1 << 23


def neighbour_means(adjacency: sparse.csr_array, columns: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return the mean of each column over the neighbours of each node.

    Missing values (NaN) are left out. The mean of no value is 0.

    Args:
        adjacency: The 0/1 matrix whose row v has the neighbours of v.
        columns: The columns, `[n, d]`.

    Example:
        >>> path = sparse.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]], np.float32))
        >>> neighbour_means(path, np.array([[1], [2], [5]], np.float32)).ravel().tolist()
        [2.0, 3.0, 0.0]
    """
    missing = np.isnan(columns)
    if not missing.any():
        sums = adjacency @ columns
        counts = np.diff(adjacency.indptr).astype(np.float32)[:, None]
    else:
        sums = adjacency @ np.where(missing, np.float32(0), columns)
        counts = adjacency @ (~missing).astype(np.float32)
    sums /= np.maximum(counts, 1)
    return np.asarray(sums)


def neighbour_spreads(
    adjacency: sparse.csr_array, columns: Float[np.ndarray, "n d"], means: Float[np.ndarray, "n d"]
) -> Iterator[tuple[NDArray[np.int64], Float[np.ndarray, "3 k d"]]]:
    """Yield standard deviation, minimum and maximum of each column over neighbours, for some nodes at a time.

    Values of neighbours are gathered in chunks of a fixed size. Nodes without neighbours are left out, and missing
    values (NaN) too; of no value, all three are 0.

    Args:
        adjacency: The 0/1 matrix whose row v has the neighbours of v.
        columns: The columns, `[n, d]`.
        means: The result of `neighbour_means`.

    Yields:
        The node numbers and `[3, len(nodes), d]`.
    """
    for start, stop in edge_chunks(adjacency.indptr, max(1, VALUES_AT_ONCE // max(1, columns.shape[1]))):
        degree = np.diff(adjacency.indptr[start : stop + 1])
        nodes = start + np.flatnonzero(degree)
        if len(nodes) == 0:
            continue
        degree = degree[degree > 0]
        first = np.cumsum(degree) - degree
        values = columns[adjacency.indices[adjacency.indptr[start] : adjacency.indptr[stop]]]
        missing = np.isnan(values)
        some_missing = bool(missing.any())
        smallest = np.minimum.reduceat(np.where(missing, np.inf, values) if some_missing else values, first)
        largest = np.maximum.reduceat(np.where(missing, -np.inf, values) if some_missing else values, first)
        deviations = values - np.repeat(means[nodes], degree, axis=0)
        deviations[missing] = 0
        counts = np.add.reduceat(~missing, first, dtype=np.float32) if some_missing else degree[:, None]
        deviation = np.sqrt(np.add.reduceat(deviations * deviations, first) / np.maximum(counts, 1))
        spreads = np.stack([deviation, smallest, largest])
        spreads[:, np.broadcast_to(counts == 0, deviation.shape)] = 0
        yield nodes, spreads.astype(np.float32)


def edge_chunks(indptr: NDArray[np.integer], edges_at_once: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about a given number of entries each; a longer row is a range of its own."""
    start, last = 0, len(indptr) - 1
    while start < last:
        stop = int(np.searchsorted(indptr, indptr[start] + edges_at_once, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        yield start, stop
        start = stop
