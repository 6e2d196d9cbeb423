"""ShardedOperator: the rows of a square sparse matrix that belong to one rank, and products over all ranks."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from nlgnn.nn.kernels.ranks import Halo, Ranks, active_ranks
from nlgnn.nn.kernels.sparse import Operator


class ShardedOperator(Operator):
    """The rows of one rank of a square matrix.

    `product` takes and returns the rows of this rank. Rows of other ranks that it reads are fetched first. Columns are
    renumbered, own nodes first and then the fetched ones; the entries of a row keep their order.

    Args:
        ranks: The ranks.
        matrix: A matrix of all nodes, of which the rows of this rank are read.
        symmetric: Whether the matrix of all ranks equals its transpose.
    """

    def __init__(self, ranks: Ranks, matrix: sparse.csr_array, symmetric: bool = False) -> None:
        first, stop = ranks.first, ranks.stop
        begin, end = int(matrix.indptr[first]), int(matrix.indptr[stop])
        pointers = torch.from_numpy(matrix.indptr[first : stop + 1]).long() - begin
        columns = torch.from_numpy(matrix.indices[begin:end]).long()
        values = torch.from_numpy(matrix.data[begin:end].copy())
        own = (columns >= first) & (columns < stop)
        needed = columns[~own].unique()
        local = torch.where(own, columns - first, torch.searchsorted(needed, columns) + ranks.num_own)
        super().__init__(pointers.int(), local.int(), values, (ranks.num_own, ranks.num_own), symmetric)
        self.halo = Halo(ranks, needed)
        counts = ranks.table(torch.tensor(len(columns)))
        self.first_entry, self._num_entries = int(counts[: ranks.rank].sum()), int(counts.sum())

    @property
    def num_entries(self) -> int:
        """Return the number of entries of all ranks, so that all of them choose the same kernel."""
        return self._num_entries

    @cached_property
    def rectangle(self) -> Operator:
        """Return the operator from own and fetched rows to own rows."""
        shape = self.shape[0], self.shape[0] + len(self.halo)
        return Operator(self.pointers, self.columns, self.values, shape)

    @cached_property
    def square(self) -> Operator:
        """Return the operator between own and fetched rows; the fetched ones have no entries as receivers."""
        pointers = F.pad(self.pointers, (0, len(self.halo)), value=len(self.columns))
        size = self.shape[0] + len(self.halo)
        return Operator(pointers, self.columns, self.values, (size, size))

    def product(self, dense: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        return self.rectangle.product(self.halo.fetch(dense))

    def extended(self, rows: Float[Tensor, "n f"]) -> tuple[Operator, Float[Tensor, "m f"]]:
        return self.square, self.halo.extend(rows)

    def own_rows(self, rows: Float[Tensor, "m f"]) -> Float[Tensor, "n f"]:
        return rows[: self.shape[0]]

    @property
    def transpose(self) -> Operator:
        return self if self.symmetric else TransposedShards(self)

    def to(self, *args: Any, **kwargs: Any) -> ShardedOperator:
        """Change the floating-point type, like `Tensor.to`."""
        values = self.values.to(*args, **kwargs)
        if values is self.values:
            return self
        changed = copy.copy(self)
        changed.values = values
        for cached in ("rectangle", "square", "matrix"):
            vars(changed).pop(cached, None)
        return changed


class TransposedShards(Operator):
    """The transpose of a sharded operator: what its rows send to rows of other ranks is returned to these."""

    def __init__(self, original: ShardedOperator) -> None:
        super().__init__(original.pointers, original.columns, original.values, original.shape)
        self.original = original

    @property
    def num_entries(self) -> int:
        return self.original.num_entries

    @property
    def transpose(self) -> Operator:
        return self.original

    def product(self, dense: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        return self.original.halo.give_back(self.original.rectangle.transpose.product(dense))


def propagation(matrix: sparse.csr_array, symmetric: bool = False) -> Operator:
    """Return the operator of a square matrix, or the rows of this rank where several ranks share the nodes.

    Args:
        matrix: The matrix of all nodes. Under `sharing`, only the rows of this rank count.
        symmetric: Whether the whole matrix equals its transpose.
    """
    ranks = active_ranks()
    return Operator.from_scipy(matrix, symmetric) if ranks is None else ShardedOperator(ranks, matrix, symmetric)


def own_table(table: sparse.csr_array) -> Operator:
    """Return the operator of a table with a row for each node of this rank, such as features."""
    operator, ranks = Operator.from_scipy(table), active_ranks()
    if ranks is not None:
        operator.first_entry = int(ranks.table(torch.tensor(table.nnz))[: ranks.rank].sum())
    return operator


def sums(matrix: sparse.csr_array, axis: int) -> NDArray[np.floating]:
    """Return the sums of all rows (axis 1) or columns (axis 0) of a square matrix, over all ranks."""
    ranks = active_ranks()
    if ranks is None:
        return _sums(matrix, axis)
    first, stop = ranks.first, ranks.stop
    begin, end = int(matrix.indptr[first]), int(matrix.indptr[stop])
    pointers = matrix.indptr[first : stop + 1] - begin
    shape = (ranks.num_own, matrix.shape[1])
    own = sparse.csr_array((matrix.data[begin:end], matrix.indices[begin:end], pointers), shape=shape)
    summed = torch.from_numpy(_sums(own, axis))
    return (ranks.gather(summed) if axis == 1 else ranks.add(summed)).numpy()


def _sums(matrix: sparse.csr_array, axis: int) -> NDArray[np.float64]:
    if axis == 0:
        return np.bincount(matrix.indices, matrix.data, matrix.shape[1]).astype(np.float64)
    if matrix.dtype == bool:  # SciPy would convert it to numbers, which copies it
        counts: NDArray[np.float64] = np.diff(matrix.indptr).astype(np.float64)
        return counts
    found: NDArray[np.float64] = np.asarray(matrix.sum(axis=1, dtype=np.float64))
    return found
