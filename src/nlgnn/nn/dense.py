"""Products and losses of tall, narrow matrices: many nodes, few classes. torch is slow on them in its usual layout."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from nlgnn.nn.kernel import Kernel, in_front

# Below this width BLAS is several times as fast where the long axis comes last. Of few rows that is not worth a call.
NARROW, FEW_ROWS = 16, 1000


def product(x: Float[Tensor, "n d"], weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
    """`x @ weight`."""
    return narrow_product(x, weight) if weight.shape[1] < NARROW and len(x) >= FEW_ROWS else x @ weight


def narrow_product(
    x: Float[Tensor, "n d"], weight: Float[Tensor, "d f"], bias: Float[Tensor, " f"] | None = None
) -> Float[Tensor, "n f"]:
    """`x @ weight + bias`. The result lies in memory as `[f, n]`, as `cross_entropy` likes it."""
    result: Tensor = _NarrowProduct.apply(x, weight, bias)
    return result


def cross_entropy(
    logits: Float[Tensor, "n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, " k"] | Bool[Tensor, " n"]
) -> Float[Tensor, ""]:
    """The mean over some nodes. Classes come first: torch's log-softmax then works on many nodes at once."""
    if len(logits) < FEW_ROWS:
        return F.cross_entropy(logits[nodes], y[nodes])
    nodes = nodes.nonzero().squeeze(1) if nodes.dtype == torch.bool else nodes
    return F.nll_loss(F.log_softmax(logits.t().index_select(1, nodes), dim=0).t(), y.index_select(0, nodes))


class _NarrowProduct(Kernel):
    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:  # for replicas with one more axis in front
        result = weight.mT @ x.mT
        return (result if bias is None else result.add_(bias.unsqueeze(-1))).mT

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], output: Tensor) -> None:
        ctx.save_for_backward(*inputs[:2])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        to_x = gradient @ weight.mT if ctx.needs_input_grad[0] else None
        return to_x, (gradient.mT @ x).mT, gradient.sum(-2) if ctx.needs_input_grad[2] else None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *tensors: Tensor | None) -> tuple[Tensor, int]:
        result: Tensor = _NarrowProduct.apply(*in_front(info, in_dims, tensors))
        return result, 0
