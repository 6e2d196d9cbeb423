"""The one propagation kernel: a sparse matrix times a dense one, with the transpose built once."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor

with warnings.catch_warnings():
    # torch says once a process that CSR is young. Users can do nothing about it, so it is said here, to nobody.
    warnings.simplefilter("ignore")
    torch.eye(1).to_sparse_csr()


class Operator:
    """A sparse matrix that is multiplied many times: its CSR form and that of its transpose.

    Rows gather from columns: for a graph, row = receiver, column = sender. Repeated entries are kept apart and add up.

    Args:
        matrix: the CSR tensor, `[rows, columns]`.
        transposed: the CSR tensor of its transpose.
        transpose_order: where in `matrix.values()` each value of `transposed` stands.
    """

    def __init__(self, matrix: Tensor, transposed: Tensor, transpose_order: Int[Tensor, " m"]) -> None:
        self.matrix = matrix
        self.transposed = transposed
        self.transpose_order = transpose_order

    @classmethod
    def from_coo(
        cls, rows: Int[Tensor, " m"], columns: Int[Tensor, " m"], values: Float[Tensor, " m"], shape: tuple[int, int]
    ) -> Operator:
        order = (rows * shape[1] + columns).argsort(stable=True)
        rows, columns, values = rows[order], columns[order], values[order]
        transpose_order = columns.argsort(stable=True)
        return cls(
            _csr(_pointers(rows, shape[0]), columns, values, shape),
            _csr(_pointers(columns, shape[1]), rows[transpose_order], values[transpose_order], shape[::-1]),
            transpose_order,
        )

    @classmethod
    def from_scipy(cls, matrix: sparse.csr_array) -> Operator:
        coo = matrix.tocoo()
        return cls.from_coo(
            torch.from_numpy(coo.row.astype(np.int64)),
            torch.from_numpy(coo.col.astype(np.int64)),
            torch.from_numpy(coo.data),
            coo.shape,
        )

    @property
    def shape(self) -> tuple[int, int]:
        rows, columns = self.matrix.shape
        return rows, columns

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    @property
    def values(self) -> Tensor:
        return self.matrix.values()

    @property
    def columns(self) -> Tensor:
        return self.matrix.col_indices()

    @cached_property
    def rows(self) -> Tensor:
        """The row of every stored value."""
        return torch.repeat_interleave(
            torch.arange(self.shape[0], device=self.matrix.device), self.matrix.crow_indices().diff()
        )

    def with_values(self, values: Float[Tensor, " m"]) -> Operator:
        """The same pattern with other values."""
        return Operator(
            _with_values(self.matrix, values),
            _with_values(self.transposed, values[self.transpose_order]),
            self.transpose_order,
        )

    def dropout(self, rate: float) -> Operator:
        """Inverted dropout on the stored values: zeros stay zeros, which is what dropping a dense matrix does."""
        return self.with_values(torch.nn.functional.dropout(self.values, rate)) if rate > 0 else self

    def to(self, *args: Any, **kwargs: Any) -> Operator:
        """Like `Tensor.to`: a device, a floating-point type, or both."""
        matrix = self.matrix.to(*args, **kwargs)
        return Operator(matrix, self.transposed.to(*args, **kwargs), self.transpose_order.to(matrix.device))


def spmm(operator: Operator, dense: Tensor) -> Tensor:
    """`operator @ dense`, differentiable in `dense`, and `torch.func.vmap`-able over it."""
    product: Tensor = _FixedProduct.apply(operator, False, dense)  # type: ignore[no-untyped-call]
    return product


def spmm_values(operator: Operator, values: Float[Tensor, " m"], dense: Float[Tensor, "columns f"]) -> Tensor:
    """`operator.with_values(values) @ dense`, differentiable in both. Never stores a message an edge and channel."""
    product: Tensor = _LearnedProduct.apply(operator, values, dense)  # type: ignore[no-untyped-call]
    return product


def segment_softmax(values: Float[Tensor, "m heads"], rows: Int[Tensor, " m"], num_rows: int) -> Tensor:
    """Softmax over the stored values of each row."""
    index = rows.unsqueeze(1).expand_as(values)
    # The maximum only guards against overflow: the result does not depend on it, so neither does the gradient.
    peak = values.detach().new_full((num_rows, values.shape[1]), -torch.inf)
    peak = peak.scatter_reduce(0, index, values.detach(), "amax")
    exponentials = (values - peak[rows]).exp()
    sums = torch.zeros_like(peak).index_add(0, rows, exponentials)
    return exponentials / sums[rows]


class _FixedProduct(torch.autograd.Function):
    # Takes the operator whole: torch.func would wrap bare CSR tensors, and cannot.
    @staticmethod
    def forward(operator: Operator, transpose: bool, dense: Tensor) -> Tensor:
        return (operator.transposed if transpose else operator.matrix) @ dense

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Operator, bool, Tensor], output: Tensor) -> None:
        ctx.operator, ctx.transpose = inputs[:2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _FixedProduct.apply(ctx.operator, not ctx.transpose, gradient)  # type: ignore[no-untyped-call]

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], operator: Operator, transpose: bool, dense: Tensor
    ) -> tuple[Tensor, int]:
        dense = dense.movedim(in_dims[2], 1)  # [columns, replicas, f]
        folded = dense.reshape(dense.shape[0], -1)  # one product for all replicas
        product: Tensor = _FixedProduct.apply(operator, transpose, folded)  # type: ignore[no-untyped-call]
        return product.reshape(-1, *dense.shape[1:]), 1


class _LearnedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, values: Tensor, dense: Tensor) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(values, dense)
        return _with_values(operator.matrix, values) @ dense

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, Tensor]:
        operator: Operator = ctx.operator
        values, dense = ctx.saved_tensors
        to_dense = _with_values(operator.transposed, values[operator.transpose_order]) @ gradient
        if len(values) > operator.shape[0] * operator.shape[1]:  # so many repetitions torch's kernel does not take
            to_values = (gradient[operator.rows] * dense[operator.columns]).sum(1)
        else:
            pattern = _with_values(operator.matrix, torch.zeros_like(values))
            to_values = torch.sparse.sampled_addmm(pattern, gradient, dense.t(), beta=0.0).values()
        return None, to_values, to_dense


def _pointers(sorted_rows: Tensor, num_rows: int) -> Tensor:
    counts = torch.bincount(sorted_rows, minlength=num_rows)
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _csr(pointers: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_csr_tensor(pointers, columns, values, shape, check_invariants=False)


def _with_values(matrix: Tensor, values: Tensor) -> Tensor:
    return _csr(matrix.crow_indices(), matrix.col_indices(), values, tuple(matrix.shape))
