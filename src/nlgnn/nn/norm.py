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

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.nn.kernels.batch_norm import EPSILON, normalised
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.ranks import active_ranks


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
        if self.training and active_ranks() is None:
            return normalised(h, self.weight, self.bias)
        mean, variance = _moments(h)
        if self.training:
            return torch.addcmul(self.bias, h - mean, self.weight * (variance + EPSILON).rsqrt())
        if self.storing:
            self.mean.copy_(mean.squeeze(0))
            self.variance.copy_(variance.squeeze(0))
            self.stored.fill_(1)
        else:  # by torch.where, because some replicas may have stored values and others not
            mean = torch.where(self.stored > 0, self.mean, mean)
            variance = torch.where(self.stored > 0, self.variance, variance)
        return torch.addcmul(self.bias, h - mean, self.weight * (variance + EPSILON).rsqrt())

    def hidden(self, h: Float[Tensor, "n f"], dropout: Dropout, *place: int) -> Float[Tensor, "n f"]:
        """Return `dropout(relu(self(h)), *place)`, one operation in training."""
        if self.training and active_ranks() is None:
            return normalised(h, self.weight, self.bias, relu=True, masks=dropout.masks(h, *place))
        normal: Tensor = self(h)
        dropped: Tensor = dropout(normal.relu_(), *place)
        return dropped


def _moments(h: Float[Tensor, "n f"]) -> tuple[Float[Tensor, "1 f"], Float[Tensor, "1 f"]]:
    """Return mean and variance of each column, over the rows of all ranks if several share the nodes."""
    ranks = active_ranks()
    if ranks is None:
        mean = h.mean(0, keepdim=True)
        return mean, (h - mean).square().mean(0, keepdim=True)
    mean = ranks.total(h.sum(0, keepdim=True)) / ranks.num_nodes
    return mean, ranks.total((h - mean).square().sum(0, keepdim=True)) / ranks.num_nodes
