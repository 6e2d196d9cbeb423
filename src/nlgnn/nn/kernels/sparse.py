"""Propagation kernel: the product of a sparse and a dense matrix, with a cached transpose."""

from __future__ import annotations

import warnings
import weakref
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor
from torch.nn import functional as F

from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.function import Kernel

# Replicas with fewer multiplications than `SMALL_PRODUCT` are combined into one wide product, because a call would cost
# more than its work. Above it, products have at most `FOLDED_WIDTH` columns: a narrow one costs as much as one of 16
# columns, and the columns of a wider one do not stay in the cache.
SMALL_PRODUCT, FOLDED_WIDTH = 50_000, 32
# Rows of a wide dense matrix that stay in the cache, if an operator has this many entries per row for them. Above
# `BLOCKED_ENTRIES` the memory for a second copy of the operator counts for more.
BLOCK_ROWS, BLOCK_ROW_ENTRIES, BLOCKED_ENTRIES = 1024, 16, 2**24

with warnings.catch_warnings():
    # torch warns once per process that CSR is in beta. Users cannot act on it, so it is triggered and hidden here.
    warnings.simplefilter("ignore")
    torch.eye(1).to_sparse_csr()


class Operator:
    """Sparse matrix that is multiplied many times, with a cached transpose.

    For a graph, rows are receivers and columns are senders. Duplicate entries are stored separately and add up.

    Args:
        pointers: The start of each row and the end of the last one, as in CSR.
        columns: The column of every entry, in the order of rows.
        values: The values of the entries, or one row of values per replica.
        shape: The number of rows and columns.
        symmetric: Whether the matrix equals its transpose, which is then not stored.

    Attributes:
        first_entry: The number of entries in rows of earlier processes, if several share the rows.
    """

    first_entry: int = 0

    def __init__(
        self,
        pointers: Int[Tensor, " p"],
        columns: Int[Tensor, " m"],
        values: Float[Tensor, "*replicas m"],
        shape: tuple[int, int],
        symmetric: bool = False,
    ) -> None:
        self.pointers, self.columns, self.values = pointers, columns, values
        self.shape, self.symmetric = shape, symmetric
        self._transpose: Operator | None = None
        self._transpose_of: weakref.ref[Operator] | None = None
        self._copies: dict[int, Operator] = {}

    @classmethod
    def from_coo(
        cls, rows: Int[Tensor, " m"], columns: Int[Tensor, " m"], values: Float[Tensor, " m"], shape: tuple[int, int]
    ) -> Operator:
        order = (rows * shape[1] + columns).argsort(stable=True)
        pointers = torch.zeros(shape[0] + 1, dtype=torch.int64, device=rows.device)
        pointers[1:] = torch.bincount(rows, minlength=shape[0]).cumsum(0)
        index = _index_type(len(columns), shape)
        return cls(pointers.to(index), columns[order].to(index), values[order], shape)

    @classmethod
    def from_scipy(cls, matrix: sparse.csr_array, symmetric: bool = False) -> Operator:
        index = _index_type(matrix.nnz, matrix.shape)
        pointers, columns = (torch.from_numpy(array).to(index) for array in (matrix.indptr, matrix.indices))
        return cls(pointers, columns, torch.from_numpy(matrix.data), matrix.shape, symmetric)

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def num_entries(self) -> int:
        """Return the number of stored entries."""
        return len(self.columns)

    @cached_property
    def rows(self) -> Int[Tensor, " m"]:
        """Return the row of every entry."""
        numbers = torch.arange(self.shape[0], device=self.values.device, dtype=self.columns.dtype)
        return torch.repeat_interleave(numbers, self.pointers.diff())

    @cached_property
    def transpose_order(self) -> Int[Tensor, " m"]:
        """Return the index into the values for each value of the transpose."""
        return self._transposition[2]

    @property
    def transpose(self) -> Operator:
        """Return the transpose, which is built once.

        It refers to the original only weakly, because a reference cycle would stay in memory until the garbage
        collector runs.
        """
        if self.symmetric:
            return self
        if self._transpose_of is not None and (original := self._transpose_of()) is not None:
            return original
        if self._transpose is None:
            pointers, columns, order = self._transposition
            self._transpose = Operator(pointers, columns, self.values.index_select(-1, order), self.shape[::-1])
            self._transpose._transpose_of = weakref.ref(self)
        return self._transpose

    @cached_property
    def _transposition(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return pointers and columns of the transpose, and `transpose_order`.

        SciPy is used because it sorts by counting, while torch sorts by comparing.
        """
        pointers, columns = self.pointers.cpu().numpy(), self.columns.cpu().numpy()
        places = np.arange(len(columns), dtype=columns.dtype)
        turned = sparse.csr_array((places, columns, pointers), shape=self.shape).tocsc()
        arrays = (turned.indptr, turned.indices, turned.data)
        device, dtype = self.columns.device, self.columns.dtype
        turned_pointers, turned_columns, order = [torch.from_numpy(array).to(device, dtype) for array in arrays]
        if self.symmetric:  # avoids a second copy
            return self.pointers, self.columns, order
        return turned_pointers, turned_columns, order

    def with_values(self, values: Float[Tensor, "*replicas m"]) -> Operator:
        """Return an operator with the same pattern and other values."""
        changed = Operator(self.pointers, self.columns, values, self.shape)
        changed._transposition = self._transposition  # shared by all operators of this pattern
        return changed

    def copies(self, number: int) -> Operator:
        """Return the block diagonal of several copies of this operator, which is built once for each number."""
        if number == 1:
            return self
        if number not in self._copies:
            blocks = torch.arange(number, device=self.device, dtype=self.columns.dtype).unsqueeze(1)
            starts = (self.pointers[:-1] + blocks * len(self.columns)).flatten()
            pointers = F.pad(starts, (0, 1), value=number * len(self.columns))
            columns = (self.columns + blocks * self.shape[1]).flatten()
            shape = number * self.shape[0], number * self.shape[1]
            self._copies[number] = Operator(pointers, columns, self.values.repeat(number), shape, self.symmetric)
        return self._copies[number]

    def dropout(self, dropout: Dropout, *place: int) -> Operator:
        """Return the operator with dropout on the stored values, which equals dropout on the dense matrix."""
        return self.with_values(self.values * dropout.mask(self.values, *place, first=self.first_entry))

    def product(self, dense: Float[Tensor, "columns f"]) -> Float[Tensor, "rows f"]:
        """Return the product with a dense matrix, without a gradient."""
        blocks = self.column_blocks if dense.shape[1] > FOLDED_WIDTH else None
        if blocks is None:
            return multiply(self, self.values, dense)
        of_blocks = multiply(blocks, blocks.values, dense).view(-1, self.shape[0], dense.shape[1])
        return of_blocks.sum(0)

    def extended(self, rows: Float[Tensor, "n f"]) -> tuple[Operator, Float[Tensor, "m f"]]:
        """Return a square operator within one process and the rows that it reads, with a gradient."""
        return self, rows

    def own_rows(self, rows: Float[Tensor, "m f"]) -> Float[Tensor, "n f"]:
        """Return those rows of a result of the extended operator that belong to this operator."""
        return rows

    def to(self, *args: Any, **kwargs: Any) -> Operator:
        """Move to a device, a floating-point type, or both, like `Tensor.to`."""
        values = self.values.to(*args, **kwargs)
        if values is self.values:
            return self
        device = values.device
        moved = Operator(self.pointers.to(device), self.columns.to(device), values, self.shape, self.symmetric)
        moved.first_entry = self.first_entry
        return moved

    @cached_property
    def column_blocks(self) -> Operator | None:
        """Return the entries of the first columns in rows of their own, then those of the next, or None.

        The sums of several rows of a product are needed then. It pays if each row has many entries, as in the transpose
        of features, and if they lie so far apart that the rows of the dense matrix do not stay in the cache.
        """
        blocks = -(-self.shape[1] // BLOCK_ROWS)
        few = BLOCK_ROW_ENTRIES * self.shape[0] * blocks
        if self.device.type != "cpu" or self.values.ndim > 1 or blocks < 4:
            return None
        if not max(1, few) <= len(self.columns) <= BLOCKED_ENTRIES:
            return None
        rows = self.columns // BLOCK_ROWS * self.shape[0] + self.rows
        return Operator.from_coo(rows, self.columns, self.values, (blocks * self.shape[0], self.shape[1]))

    @cached_property
    def matrix(self) -> Tensor:
        """Return the operator as a CSR tensor of torch."""
        return csr(self.pointers, self.columns, self.values, self.shape)


def multiply(operator: Operator, values: Float[Tensor, " m"], dense: Float[Tensor, "columns ..."]) -> Tensor:
    """Return `operator.with_values(values) @ dense`, without a gradient."""
    if dense.device.type == "cpu" and dense.ndim == 1 and not torch.backends.mkl.is_available():
        return multiply(operator, values, dense.unsqueeze(1)).squeeze(1)
    if dense.device.type == "cpu" and dense.ndim == 2:
        # Each row of the result is a weighted sum of rows. The embedding bag of torch is three times as fast as the CSR
        # product of MKL. `dense` is detached, since torch would otherwise store data for a gradient that is not used.
        rows = dense.detach() if dense.stride(1) == 1 else dense.detach().contiguous()
        return torch.embedding_bag(
            rows, operator.columns, operator.pointers, mode=0, per_sample_weights=values, include_last_offset=True
        )[0]
    return csr(operator.pointers, operator.columns, values, operator.shape) @ dense


def spmm(operator: Operator, dense: Tensor) -> Tensor:
    """Return `operator @ dense`, which is differentiable in `dense` and supports `torch.func.vmap` over it."""
    product: Tensor = SparseProduct.apply(operator, dense)
    return product


class SparseProduct(Kernel):
    """Product with a fixed operator. The operator is one argument, because torch.func would wrap its tensors."""

    @staticmethod
    def forward(operator: Operator, dense: Tensor) -> Tensor:
        if dense.shape[-2] != operator.shape[1]:  # surplus rows would be ignored silently
            raise RuntimeError(f"{list(operator.shape)} and {list(dense.shape)} cannot be multiplied")
        operator.transpose  # noqa: B018, built here, because backward cannot build it inside torch.func
        return operator.product(dense)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Operator, Tensor], output: Tensor) -> None:
        ctx.operator = inputs[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        return None, spmm(ctx.operator.transpose, gradient)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, Any], operator: Operator, dense: Tensor) -> tuple[Tensor, int]:
        dense = dense.movedim(in_dims[1], 0)  # [replicas, columns, f]
        replicas, _, width = dense.shape
        if operator.values.ndim == 2:
            operators, together = [operator.with_values(values) for values in operator.values], 1
        else:
            small = operator.columns.numel() * width <= SMALL_PRODUCT
            together = replicas if small else max(1, FOLDED_WIDTH // width)
            operators = [operator] * -(-replicas // together)
        products = []
        for one, some in zip(operators, dense.split(together), strict=True):
            products.append(SparseProduct.apply(one, some.movedim(0, 1).flatten(1)))
        if together == 1 < replicas:
            return torch.stack(products), 0
        return (products[0] if len(products) == 1 else torch.cat(products, dim=1)).unflatten(1, (replicas, width)), 1


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


def _index_type(entries: int, shape: tuple[int, int]) -> torch.dtype:
    """Return the smallest index type, which halves the memory for most graphs."""
    return torch.int32 if max(entries, *shape) < 2**31 else torch.int64
