r"""Graph attention, one head at a time, with O(m + n f) memory per head: nothing is stored per edge and channel.

For the entries :math:`(v, u)` of a pattern, one head with :math:`h = X W` computes

.. math::
    s_{vu} = a_{dst}^T h_v + a_{src}^T h_u, \quad \alpha_{vu} = \mathrm{softmax}_u\, \mathrm{leakyrelu}(s_{vu}), \quad
    z_v = \sum_u \mathrm{drop}(\alpha_{vu}) h_u + b.

With :math:`\beta_{vu} = \mathrm{leakyrelu}'(s_{vu})\, \alpha_{vu}`, the gradient :math:`g` of :math:`z` and
:math:`c_v = g_v^T (z_v - b)`, the gradients of the two summands of :math:`s_{vu}` are sparse products as well:

.. math::
    g_v^T \sum_u \mathrm{drop}(\beta_{vu}) h_u - c_v \sum_u \beta_{vu} \quad\text{and}\quad
    h_u^T \sum_v \mathrm{drop}(\beta_{vu}) g_v - \sum_v \beta_{vu} c_v.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.nn.inputs import with_self_loops
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.function import Kernel
from nlgnn.nn.kernels.sparse import Operator, multiply
from nlgnn.nn.layers import Layer

NEGATIVE_SLOPE = 0.2  # slope of the leaky ReLU by Veličković et al.


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
        ones = torch.ones_like(vectors[0, :1]).expand(len(edges.columns))
        kept = self.dropout(ones, part)
        result: Tensor = Attention.apply(edges, h.contiguous(), vectors, bias, None if kept is ones else kept)[0]
        return result


def neighbourhoods(edges: Tensor, num_nodes: int) -> Operator:
    """Return the pattern of GAT: the neighbours of every node and the node itself, with values of 1."""
    sources, targets = with_self_loops(edges, num_nodes)
    ones = torch.ones(len(sources), device=edges.device)
    return Operator.from_coo(targets, sources, ones, (num_nodes, num_nodes))


class Attention(Kernel):
    """Result of one head, the attention weights, and their products with the slope of the leaky ReLU.

    `forward` takes the edges with receivers as rows, whose values are ignored, the projected features, the vectors
    `a_src` and `a_dst`, the bias, and one factor per attention weight: the result of dropout on ones.
    """

    @staticmethod
    def forward(
        pattern: Operator,
        h: Float[Tensor, "n f"],
        vectors: Float[Tensor, "2 f"],
        bias: Float[Tensor, " f"],
        kept: Float[Tensor, " m"] | None,
    ) -> tuple[Float[Tensor, "n f"], Float[Tensor, " m"], Float[Tensor, " m"]]:
        source, target = vectors @ h.t()  # [2, n] is many times faster than [n, 2]
        scores = source.index_select(0, pattern.columns)
        # The row maximum only prevents overflow; the result does not depend on it. The leaky ReLU preserves the order.
        highest = torch.segment_reduce(scores, "max", offsets=pattern.pointers, unsafe=True)
        peak = F.leaky_relu(highest + target, NEGATIVE_SLOPE)
        # What follows is computed in place to save memory, because these arrays are large.
        of_row = target.index_select(0, pattern.rows)
        scores += of_row
        torch.index_select(peak, 0, pattern.rows, out=of_row)
        alpha = F.leaky_relu(scores, NEGATIVE_SLOPE).sub_(of_row).exp_()
        sums = torch.segment_reduce(alpha, "sum", offsets=pattern.pointers, unsafe=True)
        torch.index_select(sums, 0, pattern.rows, out=of_row)
        alpha /= of_row
        sloped = torch.ops.aten.leaky_relu_backward(alpha, scores, NEGATIVE_SLOPE, False, grad_input=scores)
        return multiply(pattern, _drop(alpha, kept), h).add_(bias), alpha, sloped

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        ctx.pattern = inputs[0]
        ctx.save_for_backward(*inputs[1:], *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # gradients of the last two outputs would only take memory

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Any, ...]:
        to_h, to_vectors = _AttentionBackward.apply(ctx.pattern, gradient, *ctx.saved_tensors)
        return None, to_h, to_vectors, gradient.sum(0), None


class _AttentionBackward(Kernel):
    """Backward pass, as a separate kernel so that gradients inside `torch.func.vmap` have a rule as well."""

    @staticmethod
    def forward(
        pattern: Operator,
        gradient: Tensor,
        h: Tensor,
        vectors: Tensor,
        bias: Tensor,
        kept: Tensor | None,
        result: Tensor,
        alpha: Tensor,
        sloped: Tensor,
    ) -> tuple[Tensor, Tensor]:
        transpose, order = pattern.transpose, pattern.transpose_order
        gradient, dropped = gradient.contiguous(), _drop(sloped, kept)
        inner = torch.einsum("nf,nf->n", gradient, result) - gradient @ bias
        to_target = multiply(pattern, dropped, h).mul_(gradient).sum(1)
        to_target -= inner * torch.segment_reduce(sloped, "sum", offsets=pattern.pointers, unsafe=True)
        turned = dropped.index_select(0, order)
        to_source = multiply(transpose, turned, gradient).mul_(h).sum(1)
        if kept is not None:
            torch.index_select(sloped, 0, order, out=turned)
        to_source -= multiply(transpose, turned, inner.unsqueeze(1)).squeeze(1)
        to_both = torch.stack([to_source, to_target])
        torch.index_select(_drop(alpha, kept), 0, order, out=turned)
        return multiply(transpose, turned, gradient).addmm_(to_both.t(), vectors), to_both @ h


def _drop(values: Float[Tensor, " m"], kept: Float[Tensor, " m"] | None) -> Float[Tensor, " m"]:
    return values if kept is None else values * kept
