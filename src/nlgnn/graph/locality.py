"""Numbering of nodes by locality: neighbours get near numbers, so that few edges leave a range of nodes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from nlgnn.errors import DataError

BYTES_PER_LINK, BYTES_PER_NODE = 5, 40
MOST_ENTRIES = np.iinfo(np.int32).max


def local_order(indptr: NDArray[np.int64], indices: NDArray[np.int32], memory: int | None = None) -> NDArray[np.int32]:
    """Return the nodes in the order of reverse Cuthill and McKee.

    Args:
        indptr: The places where each row of a symmetric adjacency begins, `[num_nodes + 1]`.
        indices: The neighbours.
        memory: The number of bytes to use; None for no limit.

    Returns:
        The old number of each node, in the new order.

    Raises:
        DataError: If the graph is too large.

    Example:
        >>> indptr, indices = np.array([0, 1, 2, 4]), np.array([2, 2, 0, 1], np.int32)  # 0 – 2 – 1
        >>> local_order(indptr, indices).tolist()
        [1, 2, 0]
    """
    n, entries = len(indptr) - 1, len(indices)
    needed = BYTES_PER_LINK * entries + BYTES_PER_NODE * n
    if entries > MOST_ENTRIES or n > MOST_ENTRIES:
        raise DataError(f"A graph of {entries:,} links is too large to be renumbered.", "Leave --renumber out.")
    if memory is not None and needed > memory:
        raise DataError(
            f"Renumbering {n:,} nodes with {entries:,} links takes {needed / 2**30:.1f} GiB.",
            "Allow more (--memory), or leave --renumber out.",
        )
    ones = np.ones(entries, np.int8)
    matrix = sparse.csr_array((ones, indices.astype(np.int32, copy=False), indptr.astype(np.int32)), shape=(n, n))
    order: NDArray[np.int32] = reverse_cuthill_mckee(matrix, symmetric_mode=True)
    return order
