r"""A sum over neighbours with signed gates, without a number an edge and channel: memory is O(m + n f).

For the entries :math:`(i, j)` of a pattern, :math:`i` the receiver, with weights :math:`w_{ij}`

.. math::
    t_{ij} = \tanh(g_{dst}^T h_i + g_{src}^T h_j + b), \quad z_i = \sum_j w_{ij} t_{ij} h_j.

With :math:`s_{ij} = w_{ij} (1 - t_{ij}^2)` and a gradient :math:`q` of :math:`z`, the gradients of the two products in
:math:`t_{ij}` are sparse products as well:

.. math::
    q_i^T \sum_j s_{ij} h_j \quad\text{and}\quad h_j^T \sum_i s_{ij} q_i.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.nn.kernel import Kernel, one_by_one
from nlgnn.nn.sparse import Operator, multiply

GAIN = 1.414  # of Xavier's normal distribution, as Bo et al. draw their weights


class GatedPropagation(nn.Module):
    """Every node adds up its neighbours, each times a gate between -1 and 1 that both ends decide about."""

    def __init__(self, channels: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(1, 2 * channels))  # for the receiver, then the sender
        self.bias = nn.Parameter(torch.empty(1)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.xavier_normal_(self.weight, GAIN)
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight.shape[1])  # as torch.nn.Linear
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, h: Float[Tensor, "n f"], pattern: Operator, weights: Float[Tensor, " m"]) -> Float[Tensor, "n f"]:
        return gated_sum(pattern, weights, h.contiguous(), self.weight.view(2, -1), self.bias)


def gated_sum(
    pattern: Operator,
    weights: Float[Tensor, " m"],
    h: Float[Tensor, "n f"],
    vectors: Float[Tensor, "2 f"],
    bias: Float[Tensor, " 1"] | None = None,
) -> Float[Tensor, "n f"]:
    """The sum over the entries of `pattern`, differentiable in all but the weights, and `torch.func.vmap`-able over all
    but the pattern.

    Args:
        pattern: who listens to whom; its values are not looked at.
        weights: a factor for each gate.
        h: the embeddings.
        vectors: `g_dst` and `g_src`.
        bias: of the gates.
    """
    result: Tensor = _GatedSum.apply(pattern, weights, h, vectors, bias)[0]
    return result


class _GatedSum(Kernel):
    @staticmethod
    def forward(
        pattern: Operator, weights: Tensor, h: Tensor, vectors: Tensor, bias: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        receiver, sender = vectors @ h.t()  # as [2, n]: many times faster than [n, 2]
        if bias is not None:
            receiver += bias
        of_sender = sender.index_select(0, pattern.columns)
        gates = _tanh(receiver.index_select(0, pattern.rows).add_(of_sender))
        return multiply(pattern, torch.mul(weights, gates, out=of_sender), h), gates

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.pattern, weights, h, vectors, bias = inputs
        ctx.has_bias = bias is not None
        ctx.save_for_backward(weights, h, vectors, output[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # that of the gates would be as large as they are

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Any, ...]:
        to_h, to_vectors, to_bias = _GatedSumBackward.apply(ctx.pattern, gradient, *ctx.saved_tensors)
        return None, None, to_h, to_vectors, to_bias if ctx.has_bias else None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return one_by_one(_GatedSum, info, in_dims, arguments)


class _GatedSumBackward(Kernel):
    """Apart, so that a gradient taken inside `torch.func.vmap` has a rule too."""

    @staticmethod
    def forward(
        pattern: Operator, gradient: Tensor, weights: Tensor, h: Tensor, vectors: Tensor, gates: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        transpose, order = pattern.transpose, pattern.transpose_order
        gradient = gradient.contiguous()
        slopes = torch.ops.aten.tanh_backward(weights, gates)
        to_receiver = multiply(pattern, slopes, h).mul_(gradient).sum(1)
        turned = slopes.index_select(0, order)
        to_sender = multiply(transpose, turned, gradient).mul_(h).sum(1)
        to_both = torch.stack([to_receiver, to_sender])
        torch.index_select(torch.mul(weights, gates, out=slopes), 0, order, out=turned)
        to_h = multiply(transpose, turned, gradient).addmm_(to_both.t(), vectors)
        return to_h, to_both @ h, to_receiver.sum(0, keepdim=True)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
        pass  # differentiated once only

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return one_by_one(_GatedSumBackward, info, in_dims, arguments)


def _tanh(scores: Float[Tensor, " m"]) -> Float[Tensor, " m"]:
    """In place, from the logistic function, which takes torch a third of the time. It rounds like numbers near 1."""
    return scores.mul_(2).sigmoid_().mul_(2).sub_(1)
