"""The layers of local embeddings, for dense or sparse features, and the operators that they propagate with."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nlgnn.nn.dense import product
from nlgnn.nn.inputs import Features, with_self_loops
from nlgnn.nn.sparse import Operator, spmm

PART_WIDTH = 16  # columns of a layer that are computed together where memory is short


def times(x: Features, weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
    if isinstance(x, Operator):
        return spmm(x, weight)
    return product(x, weight) if isinstance(x, Tensor) else x @ weight


def split(tensor: Tensor, widths: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Like `Tensor.split`; one part is the tensor itself, which torch would copy for the gradient."""
    return (tensor,) if len(widths) == 1 else tensor.split(list(widths), dim)


class Layer(nn.Module, ABC):
    """A product with a weight, then something along the edges. The columns of the result can be computed in parts."""

    weight: nn.Parameter

    @abstractmethod
    def widths(self, small: bool) -> list[int]:
        """How many columns each part has; small ones where memory is short."""

    @abstractmethod
    def propagate(self, part: int, h: Float[Tensor, "n p"], edges: Operator | None) -> Float[Tensor, "n p"]:
        """From a part of `x W` to that part of the result."""

    def forward(self, x: Features, edges: Operator | None = None) -> Float[Tensor, "n f"]:
        weights = split(self.weight, self.widths(small=False), dim=1)
        return concatenated([self.propagate(part, times(x, weight), edges) for part, weight in enumerate(weights)])


class FeatureLinear(Layer):
    """`x W + b` for dense or sparse `x`. The weight lies as `[in, out]`, the way a sparse product reads it."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(max(1, self.weight.shape[0]))  # as torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def widths(self, small: bool) -> list[int]:
        width = len(self.bias)
        return [min(PART_WIDTH, width - first) for first in range(0, width, PART_WIDTH)] if small else [width]

    def propagate(self, part: int, h: Float[Tensor, "n p"], edges: Operator | None) -> Float[Tensor, "n p"]:
        return h + self._bias(part, h)

    def _bias(self, part: int, h: Tensor) -> Tensor:
        return self.bias if h.shape[1] == len(self.bias) else self.bias.split(PART_WIDTH)[part]


class GraphConvolution(FeatureLinear):
    """`A (x W) + b` for a given operator `A`."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def propagate(self, part: int, h: Float[Tensor, "n p"], edges: Operator | None) -> Float[Tensor, "n p"]:
        assert edges is not None  # GCN prepares it
        return spmm(edges, h).add_(self._bias(part, h))


def concatenated(parts: Sequence[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def normalised_adjacency(edges: Tensor, num_nodes: int, dtype: torch.dtype | None = None) -> Operator:
    """GCN's operator: one self loop a node, each entry divided by the roots of both degrees."""
    sources, targets = with_self_loops(edges, num_nodes)
    degrees = torch.bincount(targets, minlength=num_nodes)
    scale = degrees.to(torch.get_default_dtype() if dtype is None else dtype).rsqrt()
    return Operator.from_coo(targets, sources, scale[sources] * scale[targets], (num_nodes, num_nodes))


def normalised(adjacency: sparse.csr_array, dtype: torch.dtype) -> Operator:
    """The same, of a symmetric matrix without self loops; the degrees are the sums of its rows, and 1 for the loop."""
    return divided_by_degrees(with_diagonal(adjacency), dtype)


def divided_by_degrees(matrix: sparse.csr_array, dtype: torch.dtype) -> Operator:
    """A symmetric matrix, each entry divided by the roots of the sums of two rows: its own, and that of its column."""
    sums = np.diff(matrix.indptr) if matrix.dtype == bool else matrix.sum(axis=1)  # SciPy would copy bools, as numbers
    roots = inverse_power(sums, 0.5, dtype)
    return scaled(matrix, roots, roots, symmetric=True)


def inverse_power(sums: NDArray[Any], power: float, dtype: torch.dtype) -> NDArray[np.floating]:
    """`sums ** -power` in numbers of that type; 0 of what is 0."""
    numbers: NDArray[np.floating] = sums.astype(np.float64 if dtype == torch.float64 else np.float32)
    result: NDArray[np.floating] = np.power(numbers, -power, out=np.zeros_like(numbers), where=numbers != 0)
    return result


def scaled(
    matrix: sparse.csr_array, of_row: NDArray[Any], of_column: NDArray[Any] | None = None, symmetric: bool = False
) -> Operator:
    """Every entry times a number for its row and, if given, one for its column. In place: these arrays are large."""
    values = np.repeat(of_row, np.diff(matrix.indptr))
    values *= matrix.data
    if of_column is not None:
        values *= of_column[matrix.indices]
    return Operator.from_scipy(sparse.csr_array((values, matrix.indices, matrix.indptr), shape=matrix.shape), symmetric)


def with_diagonal(adjacency: sparse.csr_array) -> sparse.csr_array:
    """A matrix without self loops, and one self loop of weight 1 a node."""
    matrix = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"))
    matrix.sort_indices()
    return matrix
