r"""Similarities: kernels between nodes of one graph, each computed from a description of the nodes.

.. math::
    k(u, v) = \exp(-\gamma (1 - \cos(d_u, d_v)))

for the rows :math:`d` of a description of :mod:`nlgnn.graph.descriptions`. For degrees, :math:`1 - \cos` is replaced by
the squared distance :math:`\lVert d_u - d_v \rVert^2`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.descriptions import Description, comparable_rows
from nlgnn.graph.graph import Graph

KEPT_BYTES = 1 << 30  # for matrices of all pairs of nodes, which the splits of a graph share
CHUNK_ENTRIES = 1 << 24  # entries of a kernel matrix that are computed at once
MOST_KERNELS = 4  # in a sum
DENSE_SHARE = 0.02  # share of entries from which on a dense product is faster than a sparse one


class Kernel(NamedTuple):
    """A kernel in a weighted sum of kernels."""

    description: str
    gamma: float
    weight: float


class Similarities:
    """Kernels between nodes of one graph.

    Matrices of all pairs of nodes are kept as long as they fit into `KEPT_BYTES`, so that several splits share them.
    For larger graphs, entries are computed where they are needed, from the latest `MOST_KERNELS` descriptions.

    Args:
        graph: The graph. Only a weak reference to it is kept.
    """

    def __init__(self, graph: Graph) -> None:
        self.num_nodes = graph.num_nodes
        self._graph = weakref.ref(graph)
        self._rows: dict[str, Description] = {}
        self._pairs: dict[str, NDArray[np.float32]] = {}

    def rows(self, description: str) -> Description:
        """Return the rows of a description as `closeness` takes them."""
        if description not in self._rows:
            graph = self._graph()
            assert graph is not None, "the graph of these similarities was deleted"
            if len(self._rows) == MOST_KERNELS:
                del self._rows[next(iter(self._rows))]
            self._rows[description] = stored_rows(graph, description)
        return self._rows[description]

    def closeness(self, description: str, nodes: NDArray[np.int64], others: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the closeness of nodes to other nodes, `[nodes, others]`."""
        size = 4 * self.num_nodes**2
        if description not in self._pairs and size * (len(self._pairs) + 1) <= KEPT_BYTES:
            rows = self.rows(description)
            self._pairs[description] = closeness(description, rows, rows)
        if description in self._pairs:
            return self._pairs[description].take(nodes, axis=0).take(others, axis=1)  # faster than [nodes][:, others]
        rows = self.rows(description)
        return closeness(description, rows[nodes], rows[others])


_LATEST: weakref.WeakKeyDictionary[Graph, Similarities] = weakref.WeakKeyDictionary()


def similarities_of(graph: Graph) -> Similarities:
    """Return the similarities of a graph; those of the latest graph are kept until it is deleted."""
    found = _LATEST.get(graph)
    if found is None:
        _LATEST.clear()
        found = _LATEST[graph] = Similarities(graph)
    return found


def stored_rows(graph: Graph, description: str) -> Description:
    """Return the comparable rows of a description, dense where dense products are faster.

    Raises:
        DataError: If a value is missing.
    """
    rows = comparable_rows(graph, description)
    size = rows.shape[0] * rows.shape[1]
    if isinstance(rows, sparse.csr_array) and rows.nnz > DENSE_SHARE * size and 4 * size <= KEPT_BYTES:
        return rows.toarray()
    return rows


def closeness(description: str, rows: Description, others: Description) -> NDArray[np.float32]:
    """Return the cosine - 1 of every two rows, or minus the squared distance for degrees: 0 for equal rows.

    Args:
        description: The name of the description.
        rows: Rows of `stored_rows`.
        others: Rows of `stored_rows`.
    """
    if description == "degrees":
        result: NDArray[np.float32] = np.zeros((rows.shape[0], others.shape[0]), np.float32)
        for column in range(rows.shape[1]):
            result -= (rows[:, column, None] - others[None, :, column]) ** 2
        return result
    cosines = rows @ others.T
    result = cosines.toarray() if isinstance(cosines, sparse.csr_array) else cosines
    result -= 1
    return result


def kernel_values(close: NDArray[np.float32], kernel: Kernel) -> NDArray[np.float32]:
    """Return weight × exp(γ × closeness)."""
    values = close * np.float32(kernel.gamma)
    np.exp(values, out=values)
    values *= np.float32(kernel.weight)
    return values


def node_chunks(nodes: NDArray[np.int64], num_columns: int) -> Iterator[NDArray[np.int64]]:
    """Yield parts of the nodes such that a matrix of a part and `num_columns` columns is small."""
    step = max(1, CHUNK_ENTRIES // max(1, num_columns))
    for start in range(0, len(nodes), step):
        yield nodes[start : start + step]
