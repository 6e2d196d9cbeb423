r"""Batch normalisation over all nodes, followed by ReLU and dropout, as one operation.

For each column of :math:`H`, with its mean :math:`\mu` and its variance :math:`\sigma^2` (divided by n), the kernel
computes

.. math::
    \mathrm{drop}\left(\mathrm{relu}\left(\gamma \frac{h - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta\right)\right).

It keeps only its input and its output for the backward pass, and neither a mask nor what comes before ReLU: an entry of
the output is positive if and only if its gradient passes ReLU and dropout.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nlgnn.nn.kernels.dropout import Masks
from nlgnn.nn.kernels.function import Kernel, in_front

EPSILON = 1e-5  # as in torch.nn.BatchNorm1d
SMALL = 2**16  # entries below which replicas are normalised together, because a call would cost more than its work


def normalised(
    h: Float[Tensor, "n f"],
    weight: Float[Tensor, " f"],
    bias: Float[Tensor, " f"],
    relu: bool = False,
    masks: Masks | None = None,
) -> Float[Tensor, "n f"]:
    """Return `h` after batch normalisation, and after ReLU and dropout if asked for.

    Args:
        h: The rows.
        weight: The scale of each column.
        bias: The offset of each column.
        relu: Whether ReLU follows.
        masks: The dropout after ReLU.
    """
    result: Tensor = _BatchNorm.apply(h, weight, bias, relu, masks)[0]
    return result


class _BatchNorm(Kernel):
    """Batch normalisation in training. Large replicas are normalised one after another, `[replicas, n, f]`."""

    @staticmethod
    def forward(
        h: Tensor, weight: Tensor, bias: Tensor, relu: bool, masks: Masks | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        result, mean, inverse = h.new_empty(h.shape), h.mean(-2), torch.empty_like(weight)
        tensors = (h, weight, bias, result, mean, inverse)
        for number, (rows, scale, offset, place, centre, reciprocal) in enumerate(_replicas(h, tensors)):
            # The forward kernel of torch adds up one row after another, which loses two digits of the mean.
            torch.sub(rows, centre, out=place)
            torch.rsqrt(place.square().mean(0).add_(EPSILON), out=reciprocal)
            torch.addcmul(offset, place, scale * reciprocal, out=place)
            if relu:
                place.clamp_min_(0)
            if masks is not None:
                (masks.of(number) if h.ndim == 3 else masks).drop_(place)
        return result, mean, inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        h, weight, _, ctx.relu, ctx.masks = inputs
        ctx.save_for_backward(h, weight, *output)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor | None, ...]:
        h = ctx.saved_tensors[0]
        parts = []
        for number, (one, rows, scale, result, mean, inverse) in enumerate(
            _replicas(h, (gradient, *ctx.saved_tensors))
        ):
            masks = ctx.masks.of(number) if ctx.masks is not None and h.ndim == 3 else ctx.masks
            factor = 1.0 if masks is None else masks.factors(scale)
            parts.append(_backward(one, rows, scale, result if ctx.relu else None, mean, inverse, factor))
        whole = parts[0] if h.ndim == 2 else [torch.stack(tensors) for tensors in zip(*parts, strict=True)]
        return *whole, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], *arguments: Any
    ) -> tuple[tuple[Tensor, Tensor, Tensor], tuple[int, int, int]]:
        h, weight, bias = in_front(info, in_dims[:3], arguments[:3])
        replicas, rows, width = h.shape
        if rows * width > SMALL:
            return _BatchNorm.apply(h, weight, bias, *arguments[3:]), (0, 0, 0)
        columns = (h.movedim(0, 1).flatten(1), weight.flatten(), bias.flatten())
        result, mean, inverse = _BatchNorm.apply(*columns, *arguments[3:])
        shape = (replicas, width)
        return (result.unflatten(1, shape), mean.view(shape), inverse.view(shape)), (1, 0, 0)


def _replicas(h: Tensor, tensors: tuple[Tensor, ...]) -> Iterator[tuple[Tensor, ...]]:
    """Yield the tensors of each replica; without replicas, the tensors themselves."""
    return zip(*tensors, strict=True) if h.ndim == 3 else iter([tensors])


def _backward(
    gradient: Tensor,
    h: Tensor,
    weight: Tensor,
    result: Tensor | None,
    mean: Tensor,
    inverse: Tensor,
    factor: Tensor | float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of `h`, weight and bias.

    Args:
        gradient: The gradient of the result.
        h: The input.
        weight: The scale of each column.
        result: The output, if ReLU is part of it.
        mean: The mean of each column.
        inverse: The reciprocal of the standard deviation of each column.
        factor: The factor of kept entries in dropout.
    """
    if result is not None:
        gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
    to_h, to_weight, to_bias = torch.ops.aten.native_batch_norm_backward(
        gradient, h, weight * factor, None, None, mean, inverse, True, EPSILON, [True, True, True]
    )
    return to_h, to_weight * factor, to_bias * factor
