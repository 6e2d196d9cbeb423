"""Preparation of inputs over several ranks: products of sparse matrices and tables whose rows are divided.

All matrices have the shape of the whole graph, and each rank fills its own rows. In one process, every function
computes what its SciPy counterpart computes.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.part import rows_of
from nlgnn.nn.kernels.ranks import Halo, Ranks, active_ranks
from nlgnn.nn.kernels.sharded import ShardedOperator

Table: TypeAlias = NDArray[Any] | sparse.csr_array
COLUMNS_AT_ONCE = 16


def transposed(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the transpose of a square matrix."""
    ranks = active_ranks()
    if ranks is None:
        return sparse.csr_array(matrix.T)
    own = rows_of(matrix, ranks.first, ranks.stop).tocoo()
    return sent_to_rows(ranks, own.col, own.row, own.data, matrix.shape)


def sent_to_rows(
    ranks: Ranks, rows: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], shape: tuple[int, int]
) -> sparse.csr_array:
    """Send entries to the ranks of their rows, and return the matrix of those that arrive; equal entries add up."""
    order = np.argsort(rows, kind="stable")
    numbers = torch.from_numpy(rows[order].astype(np.int64))
    owners = torch.searchsorted(ranks.starts[1:].contiguous(), numbers, right=True)
    counts = torch.bincount(owners, minlength=ranks.size)
    send, receive = counts.tolist(), ranks.table(counts)[:, ranks.rank].tolist()
    parts = [numbers, torch.from_numpy(columns[order].astype(np.int64)), torch.from_numpy(values[order])]
    found = [ranks.exchange(part, send, receive, "lists").numpy() for part in parts]
    matrix = sparse.csr_array((found[2], (found[0], found[1])), shape=shape)
    matrix.sum_duplicates()
    return matrix


def product_of_rows(matrix: sparse.csr_array, table: Table) -> Table:
    """Return the product of a square matrix with a table that has a row for each node of this rank."""
    ranks = active_ranks()
    if ranks is None:
        product: Table = matrix @ table
        return product
    if isinstance(table, sparse.csr_array):
        placed = sparse.csr_array(
            (table.data, table.indices, _moved_pointers(table, ranks)), shape=(ranks.num_nodes, table.shape[1])
        )
        found: sparse.csr_array = (matrix @ with_read_rows(ranks, matrix, placed))[ranks.first : ranks.stop]
        return found
    operator = ShardedOperator(ranks, matrix)
    result = np.empty((ranks.num_own, table.shape[1]), np.result_type(matrix.dtype, table.dtype))
    operator = operator.to(torch.from_numpy(result[:0]).dtype)
    for first in range(0, table.shape[1], COLUMNS_AT_ONCE):
        columns = np.ascontiguousarray(table[:, first : first + COLUMNS_AT_ONCE], result.dtype)
        result[:, first : first + COLUMNS_AT_ONCE] = operator.product(torch.from_numpy(columns)).numpy()
    return result


def square(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the product of a square matrix with itself."""
    ranks = active_ranks()
    if ranks is None:
        return matrix @ matrix
    own = rows_of(matrix, ranks.first, ranks.stop)
    return own @ with_read_rows(ranks, own, own)


def with_read_rows(ranks: Ranks, reader: sparse.csr_array, table: sparse.csr_array) -> sparse.csr_array:
    """Return a table with those rows of other ranks filled that a product `reader @ table` reads."""
    begin, end = reader.indptr[ranks.first], reader.indptr[ranks.stop]
    columns = np.unique(reader.indices[begin:end])
    needed = columns[(columns < ranks.first) | (columns >= ranks.stop)].astype(np.int64)
    halo = Halo(ranks, torch.from_numpy(needed))
    lengths = torch.from_numpy(np.diff(table.indptr[ranks.first : ranks.stop + 1]).astype(np.int64))
    received = halo.fetch(lengths)[ranks.num_own :]
    send, receive = (
        [int(part.sum()) for part in counts.split(sizes)]
        for counts, sizes in ((lengths[halo.index], halo.send), (received, halo.receive))
    )
    wanted = table[halo.index.numpy() + ranks.first]  # the rows that others read, by their rank
    indices, data = (
        ranks.exchange(torch.from_numpy(array), send, receive, "lists").numpy()
        for array in (wanted.indices, wanted.data)
    )
    all_lengths = np.zeros(ranks.num_nodes, np.int64)
    all_lengths[ranks.first : ranks.stop], all_lengths[needed] = lengths, received
    pointers = np.append(0, all_lengths.cumsum())
    cut = int(all_lengths[: ranks.first].sum())
    own = slice(int(table.indptr[ranks.first]), int(table.indptr[ranks.stop]))
    indices = np.concatenate([indices[:cut], table.indices[own], indices[cut:]])
    data = np.concatenate([data[:cut], table.data[own], data[cut:]])
    return sparse.csr_array((data, indices, pointers), shape=table.shape)


def _moved_pointers(table: sparse.csr_array, ranks: Ranks) -> NDArray[np.int64]:
    pointers = np.full(ranks.num_nodes + 1, table.nnz, np.int64)
    pointers[: ranks.first] = 0
    pointers[ranks.first : ranks.stop + 1] = table.indptr
    return pointers
