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


def narrow_product(x: Float[Tensor, "n d"], weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
    """`x @ weight`. The result lies in memory as `[f, n]`."""
    result: Tensor = _NarrowProduct.apply(x, weight)
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
    def forward(x: Tensor, weight: Tensor) -> Tensor:  # for replicas with one more axis in front
        return (weight.mT @ x.mT).mT

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
