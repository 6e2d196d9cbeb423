"""The one propagation kernel: a sparse matrix times a dense one, with the transpose built once."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor

from nlgnn.nn.dropout import Dropout
from nlgnn.nn.kernel import Kernel

# Replicas whose share of a product has fewer multiplications than this are folded into one wide product: below it a
# call costs more than its work. Above it, products of this width at most: a narrow one costs as much as one of 16
# columns, and the columns of a wide one do not stay in the cache.
SMALL_PRODUCT, FOLDED_WIDTH = 50_000, 32

with warnings.catch_warnings():
    # torch says once a process that CSR is young. Users can do nothing about it, so it is said here, to nobody.
    warnings.simplefilter("ignore")
    torch.eye(1).to_sparse_csr()


class Operator:
    """A sparse matrix that is multiplied many times: where its entries are, their values, and its transpose.

    Rows gather from columns: for a graph, row = receiver, column = sender. Repeated entries are kept apart and add up.

    Args:
        pointers: where each row begins, and where the last one ends, as in CSR.
        columns: the column of every entry, row after row.
        values: the entries; or, for as many replicas, a row of entries each.
        shape: rows, columns.
        symmetric: whether the matrix is its own transpose, which then is not stored again.
    """

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
        self._transpose_of: Callable[[], Operator | None] = lambda: None

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

    @cached_property
    def rows(self) -> Int[Tensor, " m"]:
        """The row of every entry."""
        numbers = torch.arange(self.shape[0], device=self.device, dtype=self.columns.dtype)
        return torch.repeat_interleave(numbers, self.pointers.diff())

    @cached_property
    def transpose_order(self) -> Int[Tensor, " m"]:
        """Where among the values each value of the transpose stands."""
        return self._transposition[2]

    @property
    def transpose(self) -> Operator:
        """Built once. It knows what it is the transpose of, but does not keep it: two that keep each other would stay
        in memory until Python looks for such pairs."""
        if self.symmetric:
            return self
        if (original := self._transpose_of()) is not None:
            return original
        if self._transpose is None:
            pointers, columns, order = self._transposition
            self._transpose = Operator(pointers, columns, self.values.index_select(-1, order), self.shape[::-1])
            self._transpose._transpose_of = weakref.ref(self)
        return self._transpose

    @cached_property
    def _transposition(self) -> tuple[Tensor, Tensor, Tensor]:
        """Pointers and columns of the transpose, and `transpose_order`. SciPy sorts by counting, torch by comparing."""
        pointers, columns = self.pointers.cpu().numpy(), self.columns.cpu().numpy()
        places = np.arange(len(columns), dtype=columns.dtype)
        turned = sparse.csr_array((places, columns, pointers), shape=self.shape).tocsc()
        arrays = (turned.indptr, turned.indices, turned.data)
        turned_pointers, turned_columns, order = (
            torch.from_numpy(array).to(self.device, self.columns.dtype) for array in arrays
        )
        if self.symmetric:  # one copy will do
            return self.pointers, self.columns, order
        return turned_pointers, turned_columns, order

    def with_values(self, values: Float[Tensor, "*replicas m"]) -> Operator:
        """The same pattern with other values."""
        changed = Operator(self.pointers, self.columns, values, self.shape)
        changed._transposition = self._transposition  # computed once for all
        return changed

    def dropout(self, dropout: Dropout) -> Operator:
        """With dropout on the stored values: zeros stay zeros, which is what dropping a dense matrix does."""
        return self.with_values(self.values * dropout.mask(self.values))

    def to(self, *args: Any, **kwargs: Any) -> Operator:
        """Like `Tensor.to`: a device, a floating-point type, or both."""
        values = self.values.to(*args, **kwargs)
        if values is self.values:
            return self
        device = values.device
        return Operator(self.pointers.to(device), self.columns.to(device), values, self.shape, self.symmetric)

    @cached_property
    def matrix(self) -> Tensor:
        """The same as torch's CSR tensor."""
        return csr(self.pointers, self.columns, self.values, self.shape)


def multiply(operator: Operator, values: Float[Tensor, " m"], dense: Float[Tensor, "columns f"]) -> Tensor:
    """`operator.with_values(values) @ dense`, for whoever keeps the gradients' books."""
    if dense.device.type == "cpu":
        # A row is a weighted bag of rows. torch's kernel for bags is three times as fast as MKL's for CSR matrices.
        # Detached, or torch would also note the bag of every entry, for a gradient that is taken otherwise here.
        rows = dense.detach() if dense.stride(1) == 1 else dense.detach().contiguous()
        return torch.embedding_bag(
            rows, operator.columns, operator.pointers, mode=0, per_sample_weights=values, include_last_offset=True
        )[0]
    return csr(operator.pointers, operator.columns, values, operator.shape) @ dense


def spmm(operator: Operator, dense: Tensor) -> Tensor:
    """`operator @ dense`, differentiable in `dense`, and `torch.func.vmap`-able over it."""
    if dense.shape[-2] != operator.shape[1]:  # of too many rows some would never be read
        raise RuntimeError(f"{list(operator.shape)} and {list(dense.shape)} cannot be multiplied")
    product: Tensor = _FixedProduct.apply(operator, dense)
    return product


class _FixedProduct(Kernel):
    # Takes the operator whole: torch.func would wrap its tensors.
    @staticmethod
    def forward(operator: Operator, dense: Tensor) -> Tensor:
        operator.transpose  # noqa: B018, is built here: inside torch.func's transforms the backward could not
        return multiply(operator, operator.values, dense)

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
            each = map(operator.with_values, operator.values)
            return torch.stack([spmm(one, columns) for one, columns in zip(each, dense, strict=True)]), 0
        together = replicas if operator.columns.numel() * width <= SMALL_PRODUCT else max(1, FOLDED_WIDTH // width)
        if together == 1:
            return torch.stack([spmm(operator, columns) for columns in dense]), 0
        products = [spmm(operator, some.movedim(0, 1).flatten(1)) for some in dense.split(together)]
        return (products[0] if len(products) == 1 else torch.cat(products, dim=1)).unflatten(1, (replicas, width)), 1


def csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


def _index_type(entries: int, shape: tuple[int, int]) -> torch.dtype:
    """Half of the memory where the numbers are small enough."""
    return torch.int32 if max(entries, *shape) < 2**31 else torch.int64
