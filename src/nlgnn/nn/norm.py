r"""Batch normalisation over all nodes.

From Ioffe and Szegedy, `"Batch Normalization: Accelerating Deep Network Training by Reducing Internal Covariate Shift"
<https://arxiv.org/abs/1502.03167>`_, ICML 2015. For each column, it computes

.. math::
    y = \gamma \frac{h - \mu}{\sqrt{\sigma^2 + \epsilon}} + \beta.

Training is full-batch: the mean :math:`\mu` and the variance :math:`\sigma^2` (divided by n) are those of all nodes in
the current pass, in training and in evaluation, and there are no running averages. `storing_statistics` of
:mod:`nlgnn.nn.base` keeps those of one last pass together with the weights. Evaluation uses the stored values from then
on, so that other nodes and other graphs do not change them.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.nn.kernels.function import Kernel, in_front

EPSILON = 1e-5  # as in torch.nn.BatchNorm1d


class BatchNorm(nn.Module):
    """Batch normalisation over all nodes, with statistics that are stored once, after training.

    The statistics are parameters without a gradient, because models with buffers cannot be trained as replicas.

    Args:
        channels: Number of columns.
    """

    storing: bool = False  # whether the next evaluation stores its statistics

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels))
        self.bias = nn.Parameter(torch.empty(channels))
        self.mean = nn.Parameter(torch.empty(channels), requires_grad=False)
        self.variance = nn.Parameter(torch.empty(channels), requires_grad=False)
        self.stored = nn.Parameter(torch.empty((), dtype=torch.long), requires_grad=False)  # 0 or 1
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for zeros in (self.bias, self.mean, self.stored):
            nn.init.zeros_(zeros)
        for ones in (self.weight, self.variance):
            nn.init.ones_(ones)

    def forward(self, h: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        if self.training:
            normalised: Tensor = _BatchNorm.apply(h, self.weight, self.bias)[0]
            return normalised
        mean, _, variance = _statistics(h)
        if self.storing:
            self.mean.copy_(mean.squeeze(0))
            self.variance.copy_(variance.squeeze(0))
            self.stored.fill_(1)
        else:  # by torch.where, because some replicas may have stored values and others not
            mean = torch.where(self.stored > 0, self.mean, mean)
            variance = torch.where(self.stored > 0, self.variance, variance)
        return torch.addcmul(self.bias, h - mean, self.weight * (variance + EPSILON).rsqrt())


class _BatchNorm(Kernel):
    """Batch normalisation in training. The kernels of torch take four times as long, most of it in backward."""

    @staticmethod
    def forward(h: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, centred, variance = _statistics(h)  # replicas have an additional leading axis
        inverse = (variance + EPSILON).rsqrt()
        return torch.addcmul(bias.unsqueeze(-2), centred, weight.unsqueeze(-2) * inverse), centred, inverse

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, ...]) -> None:
        ctx.save_for_backward(inputs[1], *output[1:])
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, *_: None) -> tuple[Tensor, Tensor, Tensor]:
        weight, centred, inverse = ctx.saved_tensors
        to_bias = gradient.sum(-2, keepdim=True)
        to_weight = (gradient * centred).sum(-2, keepdim=True).mul_(inverse)
        # With x = centred * inverse, it is weight * inverse * (gradient - mean(gradient) - x * mean(gradient * x)).
        factor = weight.unsqueeze(-2) * inverse
        share = factor / -centred.shape[-2]
        to_h = torch.addcmul(share * to_bias, centred, share * inverse * to_weight).addcmul_(gradient, factor)
        return to_h, to_weight.squeeze(-2), to_bias.squeeze(-2)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *tensors: Tensor) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        return _BatchNorm.apply(*in_front(info, in_dims, tensors)), (0, 0, 0)


def _statistics(h: Float[Tensor, "*replicas n f"]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean of each column, the centred rows and the variance of each column, with the axis of rows kept."""
    mean = h.mean(-2, keepdim=True)
    centred = h - mean
    return mean, centred, centred.square().mean(-2, keepdim=True)
