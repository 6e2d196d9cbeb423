r"""Graph attention, one head at a time, with O(m + n f) memory per head: nothing is stored per edge and channel.

For the entries :math:`(v, u)` of a pattern, one head with :math:`h = X W` computes

.. math::
    s_{vu} = a_{dst}^T h_v + a_{src}^T h_u, \quad w_{vu} = \exp(\mathrm{leakyrelu}(s_{vu})), \quad
    z_v = \frac{\sum_u \mathrm{drop}(w_{vu}) h_u}{\sum_u w_{vu}} + b.

The division is done once per node, and nothing is subtracted in the exponent unless it could overflow. With
:math:`\beta_{vu} = \mathrm{leakyrelu}'(s_{vu})\, w_{vu}`, the gradient of :math:`z_v` divided by
:math:`\sum_u w_{vu}`, called :math:`g_v`, and :math:`c_v = g_v^T (z_v - b)`, the gradients of the two summands of
:math:`s_{vu}` are sparse products as well:

.. math::
    g_v^T \sum_u \mathrm{drop}(\beta_{vu}) h_u - c_v \sum_u \beta_{vu} \quad\text{and}\quad
    h_u^T \sum_v \mathrm{drop}(\beta_{vu}) g_v - \sum_v \beta_{vu} c_v.

Replicas on a small graph are computed together, as one graph of several copies.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.nn.inputs import with_self_loops
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.function import Kernel, in_front
from nlgnn.nn.kernels.sparse import Operator, multiply
from nlgnn.nn.layers import Layer

NEGATIVE_SLOPE = 0.2  # slope of the leaky ReLU by Veličković et al.
LARGEST_SCORE = 15  # of a node; the exponentials of sums of two, and their sums, fit into single precision
TOGETHER = 2**16  # entries of all replicas that are computed together, whose arrays stay in the cache


class GraphAttention(Layer):
    """Graph attention over the stored entries of an operator, with concatenated heads."""

    def __init__(self, in_channels: int, out_channels: int, heads: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.out_channels = heads, out_channels
        self.weight = nn.Parameter(torch.empty(in_channels, heads * out_channels))
        self.attention_source = nn.Parameter(torch.empty(heads, out_channels))
        self.attention_target = nn.Parameter(torch.empty(heads, out_channels))
        self.bias = nn.Parameter(torch.empty(heads * out_channels))
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for matrix in (self.weight, self.attention_source, self.attention_target):
            nn.init.xavier_uniform_(matrix)
        nn.init.zeros_(self.bias)

    def widths(self, small: bool) -> list[int]:
        return [self.out_channels] * self.heads

    def propagate(self, part: int, h: Float[Tensor, "n f"], edges: Operator | None) -> Float[Tensor, "n f"]:
        """Return the result of one head."""
        assert edges is not None  # prepared by GAT
        vectors = torch.stack([self.attention_source[part], self.attention_target[part]])
        bias = self.bias.split(self.out_channels)[part]
        weights = torch.empty_like(vectors[0, :1]).expand(len(edges.columns))
        kept = self.dropout.factors(weights, part, first=edges.first_entry)
        pattern, rows = edges.extended(h.contiguous())
        result: Tensor = Attention.apply(pattern, rows, vectors, bias, kept)[0]
        return edges.own_rows(result)


def neighbourhoods(edges: Tensor, num_nodes: int) -> Operator:
    """Return the pattern of GAT: the neighbours of every node and the node itself, with values of 1."""
    sources, targets = with_self_loops(edges, num_nodes)
    ones = torch.ones(len(sources), device=edges.device)
    return Operator.from_coo(targets, sources, ones, (num_nodes, num_nodes))


class Attention(Kernel):
    """Result of one head, its weights before normalisation, and their sum for each receiver.

    The weights are returned with the sign of their score, or negative where it is 0. `forward` takes the edges with
    receivers as rows, whose values are ignored, the projected features, the vectors `a_src` and `a_dst`, the bias, and
    one factor per attention weight if some are dropped. Replicas have an additional leading axis.
    """

    @staticmethod
    def forward(
        pattern: Operator,
        h: Float[Tensor, "*replicas n f"],
        vectors: Float[Tensor, "*replicas 2 f"],
        bias: Float[Tensor, "*replicas f"],
        kept: Float[Tensor, "*replicas m"] | None,
    ) -> tuple[Float[Tensor, "*replicas n f"], Float[Tensor, "*replicas m"], Float[Tensor, "*replicas n"]]:
        result, sums = torch.empty_like(h), h.new_empty(h.shape[:-1])
        signed = h.new_empty(*h.shape[:-2], len(pattern.columns))
        for part in _parts(pattern, h, vectors, bias, kept, result, signed, sums):
            _attend(*part)
        return result, signed, sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.pattern = inputs[0]
        ctx.save_for_backward(*inputs[1:], *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # gradients of the last two outputs would only take memory

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Any, ...]:
        to_h, to_vectors = _AttentionBackward.apply(ctx.pattern, gradient, *ctx.saved_tensors)
        return None, to_h, to_vectors, gradient.sum(-2), None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, tuple[int, ...]]:
        return Attention.apply(*_stacked(info, in_dims, arguments)), (0, 0, 0)


class _AttentionBackward(Kernel):
    """Backward pass, as a separate kernel so that gradients inside `torch.func.vmap` have a rule as well."""

    @staticmethod
    def forward(
        pattern: Operator, gradient: Tensor, h: Tensor, vectors: Tensor, *saved: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        to_h, to_vectors = torch.empty_like(h), torch.empty_like(vectors)
        for part in _parts(pattern, gradient, h, vectors, *saved, to_h, to_vectors):
            _differentiate(*part)
        return to_h, to_vectors

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, tuple[int, ...]]:
        return _AttentionBackward.apply(*_stacked(info, in_dims, arguments)), (0, 0)


def _attend(
    edges: Operator,
    h: Float[Tensor, "r n f"],
    vectors: Float[Tensor, "r 2 f"],
    bias: Float[Tensor, "r f"],
    kept: Float[Tensor, "r m"] | None,
    result: Float[Tensor, "r n f"],
    signed: Float[Tensor, "r m"],
    sums: Float[Tensor, "r n"],
) -> None:
    """Compute the last three arguments."""
    of_nodes = vectors @ h.mT  # [2, n] is many times faster than [n, 2]
    source, target = of_nodes.unbind(1)
    # What follows is computed in place where possible, because arrays of entries are large.
    scores = source.flatten().index_select(0, edges.columns)
    scores += target.flatten().index_select(0, edges.rows)
    weights = F.leaky_relu(scores, NEGATIVE_SLOPE)
    if scores.numel() and not of_nodes.abs().max() <= LARGEST_SCORE:  # also if one is not a number
        highest = torch.segment_reduce(weights, "max", offsets=edges.pointers, unsafe=True)
        weights -= highest.index_select(0, edges.rows)
    weights.exp_()
    torch.ops.aten.leaky_relu_backward(weights, scores, -1.0, False, grad_input=signed.view(-1))
    total = multiply(edges, weights, torch.ones_like(source).flatten())
    total.masked_fill_(total == 0, 1)  # nodes without entries
    sums.copy_(total.view_as(sums))
    product = multiply(edges, _drop(weights, kept), h.flatten(0, 1))
    torch.addcdiv(bias.unsqueeze(1), product.view_as(h), sums.unsqueeze(2), out=result)


def _differentiate(
    edges: Operator,
    gradient: Float[Tensor, "r n f"],
    h: Float[Tensor, "r n f"],
    vectors: Float[Tensor, "r 2 f"],
    bias: Float[Tensor, "r f"],
    kept: Float[Tensor, "r m"] | None,
    result: Float[Tensor, "r n f"],
    signed: Float[Tensor, "r m"],
    sums: Float[Tensor, "r n"],
    to_h: Float[Tensor, "r n f"],
    to_vectors: Float[Tensor, "r 2 f"],
) -> None:
    """Compute the last two arguments."""
    transpose, order = edges.transpose, edges.transpose_order
    gradient = gradient / sums.unsqueeze(2)
    inner = ((gradient * result).sum(2) - (gradient @ bias.unsqueeze(2)).squeeze(2)).flatten()
    received, sent, signed = gradient.flatten(0, 1), h.flatten(0, 1), signed.flatten()
    sloped = _sloped(signed)
    to_target = multiply(edges, sloped, torch.ones_like(inner)).mul_(inner).neg_()
    to_target += multiply(edges, _drop(sloped, kept), sent).mul_(received).sum(1)
    signed = signed.index_select(0, order)
    kept = None if kept is None else kept.flatten().index_select(0, order)
    sloped = _sloped(signed)
    to_source = multiply(transpose, sloped, inner).neg_()
    to_source += multiply(transpose, _drop(sloped, kept), received).mul_(sent).sum(1)
    to_both = torch.stack([to_source.view_as(sums), to_target.view_as(sums)], 1)
    product = multiply(transpose, _drop(signed.abs_(), kept), received)
    torch.baddbmm(product.view_as(h), to_both.mT, vectors, out=to_h)
    torch.bmm(to_both, h, out=to_vectors)


def _parts(pattern: Operator, *tensors: Tensor | None) -> Iterator[tuple[Any, ...]]:
    """Yield the edges and the tensors of as many replicas at a time as stay in the cache, `[replicas, ...]`."""
    together = max(1, TOGETHER // max(1, len(pattern.columns)))
    alone = tensors[0] is not None and tensors[0].ndim == 2
    whole = [tensor.unsqueeze(0) if alone and tensor is not None else tensor for tensor in tensors]
    parts = [repeat(None) if tensor is None else tensor.split(together) for tensor in whole]
    for part in zip(*parts, strict=False):  # what repeats has no end
        yield pattern.copies(len(part[0])), *part


def _stacked(info: Any, in_dims: tuple[Any, ...], arguments: tuple[Any, ...]) -> list[Any]:
    """Return the pattern and the tensors of all replicas, contiguous and with the axis of replicas in front."""
    pattern, *tensors = arguments
    moved = in_front(info, in_dims[1:], tuple(tensors))
    return [pattern, *(None if tensor is None else tensor.contiguous() for tensor in moved)]


def _sloped(signed: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """Return the weights times the slope of the leaky ReLU, given the weights with the sign of their score."""
    return F.leaky_relu(signed, -NEGATIVE_SLOPE)


def _drop(values: Float[Tensor, " m"], kept: Tensor | None) -> Float[Tensor, " m"]:
    """Multiply by the result of dropout, in place."""
    return values if kept is None else values.mul_(kept.flatten())
