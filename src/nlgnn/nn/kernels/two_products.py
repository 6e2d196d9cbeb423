"""A product with a weight plus the propagation of another: `x W_own + A (x W_sent)`, as one operation.

The second dense product is added to the first where it is computed. Neither pass stores a sum of its own, and the
gradients of both weights need no concatenation.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nlgnn.nn.kernels.function import Kernel, in_front
from nlgnn.nn.kernels.sparse import SMALL_PRODUCT, Operator, SparseProduct


def own_and_sent(
    operator: Operator, x: Float[Tensor, "n d"], own: Float[Tensor, "d f"], sent: Float[Tensor, "d f"]
) -> Float[Tensor, "n f"]:
    """Return `x @ own + operator @ (x @ sent)`."""
    if operator.values.ndim == 2 or operator.num_entries * own.shape[1] <= SMALL_PRODUCT:
        propagated: Tensor = SparseProduct.apply(operator, x @ sent)  # replicas are combined, or differ in values
        return propagated.add_(x @ own)
    result: Tensor = _OwnAndSent.apply(operator, x, own, sent)
    return result


class _OwnAndSent(Kernel):
    @staticmethod
    def forward(operator: Operator, x: Tensor, own: Tensor, sent: Tensor) -> Tensor:
        if x.ndim == 2:
            return SparseProduct.forward(operator, x @ sent).addmm_(x, own)
        result = x.new_empty(*x.shape[:2], own.shape[2])
        for place, one, *weights in zip(result, x, own, sent, strict=True):  # one replica after another
            torch.addmm(SparseProduct.forward(operator, one @ weights[1]), one, weights[0], out=place)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Operator, Tensor, Tensor, Tensor], output: Tensor) -> None:
        ctx.operator = inputs[0]
        ctx.save_for_backward(*inputs[1:])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor | None, Tensor, Tensor]:
        x, own, sent = ctx.saved_tensors
        turned = ctx.operator.transpose
        to_x = torch.empty(x.shape, dtype=x.dtype, device=x.device) if ctx.needs_input_grad[1] else None
        to_own, to_sent = torch.empty_like(own), torch.empty_like(sent)
        tensors = (gradient, x, own, sent, to_own, to_sent)
        replicas = [tensors] if x.ndim == 2 else list(zip(*tensors, strict=True))
        for number, (given, one, own_weight, sent_weight, for_own, for_sent) in enumerate(replicas):
            returned = SparseProduct.forward(turned, given)
            if to_x is not None:
                place = to_x if x.ndim == 2 else to_x[number]
                torch.mm(given, own_weight.t(), out=place).addmm_(returned, sent_weight.t())
            torch.mm(one.t(), given, out=for_own)
            torch.mm(one.t(), returned, out=for_sent)
        return None, to_x, to_own, to_sent

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], operator: Operator, *tensors: Tensor) -> tuple[Tensor, int]:
        result: Tensor = _OwnAndSent.apply(operator, *in_front(info, in_dims[1:], tensors))
        return result, 0
