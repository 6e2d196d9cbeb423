"""Layers of the local embeddings, for dense or sparse features, and their propagation operators."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.graph.descriptions import scaled_matrix
from nlgnn.nn.inputs import Features, with_self_loops
from nlgnn.nn.kernels.dropout import Columns, Dropout
from nlgnn.nn.kernels.function import Kernel, in_front
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.nn.kernels.sharded import propagation, sums
from nlgnn.nn.kernels.sparse import Operator, SparseProduct
from nlgnn.nn.kernels.two_products import own_and_sent

# Below this width BLAS is several times faster if the long axis comes last. With few rows the extra call does not pay.
NARROW, FEW_ROWS = 16, 1000
PART_WIDTH = 16  # columns of a layer that are computed together if memory is short


def times(x: Features, weight: Float[Tensor, "d f"] | None) -> Float[Tensor, "n f"]:
    """Return `x W` for features of any form, or `x` itself if `weight` is None because it is already a product."""
    if isinstance(x, Tensor):
        return x if weight is None else product(x, weight)
    assert weight is not None  # only a tensor can already be a product
    result: Tensor = SparseProduct.apply(x, weight) if isinstance(x, Operator) else x @ weight
    return result


def split(tensor: Tensor, widths: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Split a tensor like `Tensor.split`, but return a single part as it is, since torch would copy its gradient."""
    return (tensor,) if len(widths) == 1 else tensor.split(list(widths), dim)


class Layer(nn.Module, ABC):
    """Base class of layers that multiply by a weight and then propagate along edges.

    The columns of the result can be computed in parts.
    """

    weight: nn.Parameter

    @abstractmethod
    def widths(self, small: bool) -> list[int]:
        """Return the number of columns of each part. Parts are `small` if memory is short."""

    @abstractmethod
    def propagate(self, part: int, h: Float[Tensor, "n p"], edges: Operator | None) -> Float[Tensor, "n p"]:
        """Return one part of the result, given the same part of `x W`."""

    def drop(self, dropout: Dropout, h: Float[Tensor, "n p"], number: int, part: int) -> Float[Tensor, "n p"]:
        """Return a part of the result of layer `number` after dropout."""
        dropped: Tensor = dropout(h, number, part)
        return dropped

    def forward(self, x: Features, edges: Operator | None = None) -> Float[Tensor, "n f"]:
        weights = split(self.weight, self.widths(small=False), dim=1)
        return concatenated([self.propagate(part, times(x, weight), edges) for part, weight in enumerate(weights)])


class FeatureLinear(Layer):
    """Linear layer `x W + b` for dense or sparse `x`.

    The weight has shape `[in_channels, out_channels]`, the memory layout that a sparse product reads.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(max(1, self.weight.shape[0]))  # as in torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def widths(self, small: bool) -> list[int]:
        width = len(self.bias)
        return [min(PART_WIDTH, width - first) for first in range(0, width, PART_WIDTH)] if small else [width]

    def propagate(self, part: int, h: Float[Tensor, "n p"], edges: Operator | None) -> Float[Tensor, "n p"]:
        return h + self._bias(part, h)

    def drop(self, dropout: Dropout, h: Float[Tensor, "n p"], number: int, part: int) -> Float[Tensor, "n p"]:
        width = len(self.bias)  # the dropped entries do not depend on the number of parts
        columns = None if h.shape[1] == width else Columns(part * PART_WIDTH, width)
        dropped: Tensor = dropout(h, number, columns=columns)
        return dropped

    def _bias(self, part: int, h: Tensor) -> Tensor:
        return self.bias if h.shape[1] == len(self.bias) else self.bias.split(PART_WIDTH)[part]


class Projection(nn.Module):
    """Linear map `x W` without bias, for dense or sparse `x`."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(max(1, self.weight.shape[0]))  # as in torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)

    def forward(self, x: Features) -> Float[Tensor, "n f"]:
        return times(x, self.weight)


class GraphConvolution(FeatureLinear):
    """Graph convolution `A (x W) + b` for a given operator `A`."""

    def reset_parameters(self) -> None:
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def propagate(self, part: int, h: Float[Tensor, "n p"], edges: Operator | None) -> Float[Tensor, "n p"]:
        assert edges is not None  # prepared by GCN
        gathered: Tensor = SparseProduct.apply(edges, h)
        return gathered.add_(self._bias(part, h))

    def with_skip(self, x: Float[Tensor, "n d"], edges: Operator, skip: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
        """Return `self(x, edges) + x @ skip`, as one operation."""
        return own_and_sent(edges, x, skip, self.weight).add_(self.bias)


def concatenated(parts: Sequence[Tensor]) -> Tensor:
    """Return the parts next to each other; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts), dim=1)


def normalised_adjacency(edges: Tensor, num_nodes: int, dtype: torch.dtype | None = None) -> Operator:
    """Return the operator of GCN, with one self loop per node and each entry divided by the roots of both degrees."""
    sources, targets = with_self_loops(edges, num_nodes)
    degrees = torch.bincount(targets, minlength=num_nodes)
    scale = degrees.to(torch.get_default_dtype() if dtype is None else dtype).rsqrt()
    return Operator.from_coo(targets, sources, scale[sources] * scale[targets], (num_nodes, num_nodes))


def normalised(adjacency: sparse.csr_array, dtype: torch.dtype) -> Operator:
    """Return the operator of GCN for a symmetric matrix without self loops.

    The degree of a node is the sum of its row, plus 1 for the self loop.
    """
    return divided_by_degrees(with_diagonal(adjacency), dtype)


def divided_by_degrees(matrix: sparse.csr_array, dtype: torch.dtype, symmetric: bool = True) -> Operator:
    """Return the matrix with entry `(i, j)` divided by the square roots of the sums of rows `i` and `j`."""
    roots = inverse_power(sums(matrix, axis=1), 0.5, dtype)
    return scaled(matrix, roots, roots, symmetric)


def inverse_power(sums: NDArray[Any], power: float, dtype: torch.dtype) -> NDArray[np.floating]:
    """Return `sums ** -power` in floating-point numbers of the given precision, with 0 where the sum is 0."""
    numbers: NDArray[np.floating] = sums.astype(numpy_type(dtype))
    result: NDArray[np.floating] = np.power(numbers, -power, out=np.zeros_like(numbers), where=numbers != 0)
    return result


def numpy_type(dtype: torch.dtype) -> type[np.floating]:
    """Return the type of NumPy in which matrices for a model of some precision are computed."""
    return np.float64 if dtype == torch.float64 else np.float32


def scaled(
    matrix: sparse.csr_array, of_row: NDArray[Any], of_column: NDArray[Any] | None = None, symmetric: bool = False
) -> Operator:
    """Return an operator whose entries are multiplied by one factor per row and, if given, one per column."""
    return propagation(scaled_matrix(matrix, of_row, of_column), symmetric)


def with_diagonal(adjacency: sparse.csr_array) -> sparse.csr_array:
    """Add one self loop of weight 1 per node to a matrix without self loops."""
    matrix = sparse.csr_array(adjacency + sparse.eye_array(adjacency.shape[0], dtype=np.float32, format="csr"))
    matrix.sort_indices()
    return matrix


def divided_by_length(h: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
    """Divide each row by its norm. Rows of zeros stay zero.

    The gradient of this product is cheaper than that of the division in `F.normalize`.
    """
    length: Tensor = torch.linalg.vector_norm(h, dim=1, keepdim=True)
    return h * length.clamp_min(1e-12).reciprocal()


def product(x: Float[Tensor, "n d"], weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
    """Return `x @ weight`, computed in the faster of two ways."""
    return narrow_product(x, weight) if weight.shape[1] < NARROW and len(x) >= FEW_ROWS else x @ weight


def narrow_product(x: Float[Tensor, "n d"], weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
    """Return `x @ weight`, stored in memory as `[f, n]`."""
    result: Tensor = _NarrowProduct.apply(x, weight)
    return result


@dataclass
class _ClassWeights:
    values: Float[Tensor, " c"]
    used: bool = False


_class_weights: ContextVar[_ClassWeights | None] = ContextVar("class_weights", default=None)


@contextmanager
def class_weights(values: Float[Tensor, " c"] | None, required: bool = True) -> Iterator[None]:
    """Make every `cross_entropy` of this context a weighted mean.

    Args:
        values: The weight of each class; None changes nothing.
        required: Whether weights that nothing in the context uses are an error.

    Raises:
        OptionError: If required weights are not used.
    """
    weights = None if values is None else _ClassWeights(values)
    token = _class_weights.set(weights)
    try:
        yield
    finally:
        _class_weights.reset(token)
    if weights is not None and required and not weights.used:
        raise OptionError(
            "the loss of this model takes no class weights.",
            "Compute it by nlgnn.cross_entropy, or leave out class_weight.",
        )


def cross_entropy(
    logits: Float[Tensor, "n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, " k"] | Bool[Tensor, " n"]
) -> Float[Tensor, ""]:
    """Return the mean cross entropy over some nodes, without those whose label is -1.

    In training with `class_weight="balanced"` it is the weighted mean. The log-softmax runs on transposed logits,
    because torch then processes many nodes at once.

    Args:
        logits: The logits of all nodes.
        y: The labels of all nodes.
        nodes: The numbers or the mask of the nodes that count.

    Returns:
        The mean. Where several ranks share the nodes, it is the part of this rank, and the sum of all parts is the
        loss.

    Example:
        >>> import torch
        >>> from nlgnn import cross_entropy
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 0.0]])
        >>> cross_entropy(logits, torch.tensor([0, 1]), torch.tensor([1]))
        tensor(0.6931)
    """
    weight = None
    if (given := _class_weights.get()) is not None:
        # Logits may end before classes without a training node, whose weight is 0.
        weight, given.used = given.values[: logits.shape[1]].to(logits.dtype), True
    if (ranks := active_ranks()) is not None:
        nodes = nodes.nonzero().squeeze(1) if nodes.dtype == torch.bool else nodes
        of_nodes = y.index_select(0, nodes)
        counted = of_nodes[of_nodes >= 0]
        total = ranks.add(torch.tensor(len(counted)) if weight is None else weight[counted].sum())
        summed = F.cross_entropy(logits.index_select(0, nodes), of_nodes, weight, ignore_index=-1, reduction="sum")
        return summed / total
    if len(logits) < FEW_ROWS:
        return F.cross_entropy(logits[nodes], y[nodes], weight, ignore_index=-1)
    nodes = nodes.nonzero().squeeze(1) if nodes.dtype == torch.bool else nodes
    log_probabilities = F.log_softmax(logits.t().index_select(1, nodes), dim=0).t()
    return F.nll_loss(log_probabilities, y.index_select(0, nodes), weight, ignore_index=-1)


class _NarrowProduct(Kernel):
    @staticmethod
    def forward(x: Tensor, weight: Tensor) -> Tensor:  # replicas have an additional leading axis
        width = weight.shape[-1]
        padded = F.pad(weight, (0, 4 - width)) if width in (2, 3) else weight  # BLAS then takes a third of the time
        return (padded.mT @ x.mT)[..., :width, :].mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor]:
        x, weight = ctx.saved_tensors
        to_x = gradient @ weight.mT if ctx.needs_input_grad[0] else None
        return to_x, (gradient.mT @ x).mT

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        result: Tensor = _NarrowProduct.apply(*in_front(info, in_dims, tensors))
        return result, 0
