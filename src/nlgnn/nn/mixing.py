r"""Mixers: how embeddings of all nodes are combined, along a sorted order or by attention over all pairs.

:class:`SortedConv` is the non-local step of Liu, Wang and Ji, `"Non-Local Graph Neural Networks"
<https://doi.org/10.1109/TPAMI.2021.3134200>`_, TPAMI 2021. With sort keys :math:`k` and factors :math:`a` of a
:class:`~nlgnn.nn.orders.Ranking`

.. math::
    \pi = \mathrm{argsort}(\mathrm{round}(k)), \quad S_p = a_{\pi(p)} z_{\pi(p)}, \quad
    \hat{z}_{\pi(p)} = \mathrm{conv}_2(\mathrm{relu}(\mathrm{conv}_1(S)))_p.

The permutation is piecewise constant: gradients reach the score through the product :math:`a_v z_v` alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.nn.base import Count, Depth, KernelSize, Rate, checked, reset
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.nn.kernels.sorted_blocks import convolve_over_ranks
from nlgnn.nn.kernels.sorted_conv import RowConv, convolve_along_order, is_plain
from nlgnn.nn.orders import Ranking


class Mixer(nn.Module, ABC):
    """Base class of what combines the embeddings of all nodes.

    Attributes:
        stackable: Whether `torch.func.vmap` may train several at once.
    """

    stackable: bool = False

    @abstractmethod
    def forward(
        self, z: Float[Tensor, "n f"], ranking: Ranking, batch: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n f"]:
        """Return a mixed embedding of every node.

        Args:
            z: The embedding of every node.
            ranking: Sort keys and factors of every node.
            batch: The number of its graph for every node, where there are several graphs. They are not mixed.
        """


class SortedConv(Mixer):
    """Convolutions along the sorted order, with ReLU and dropout between them.

    Args:
        channels: Width of the embeddings, before and after.
        kernel_size: Number of positions that one convolution covers, odd. A kernel of 1 mixes no nodes: a control.
        num_convs: Number of convolutions.
        dropout: Share of units dropped between the convolutions in training.
        zero_init: Whether the last convolution starts at zero.
        convs: A module from `[1, channels, n]` to the same shape that replaces the convolutions.

    Example:
        >>> import torch
        >>> from nlgnn import MLP, NonLocal, SortedConv
        >>> model = NonLocal(MLP(8, 16, 3), 3, 3, mixer=SortedConv(3, kernel_size=7))
        >>> model(torch.randn(10, 8)).shape
        torch.Size([10, 3])
    """

    @checked
    def __init__(
        self,
        channels: Count,
        *,
        kernel_size: KernelSize = 5,
        num_convs: Depth = 2,
        dropout: Rate = 0.0,
        zero_init: bool = False,
        convs: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.zero_init, self._foreign = zero_init, convs is not None  # foreign convolutions take torch's layout
        if convs is None:
            layers: list[nn.Module] = []
            for _ in range(num_convs):
                layers += [RowConv(channels, channels, kernel_size), nn.ReLU(), Dropout(dropout)]
            convs = nn.Sequential(*layers[:-2])
        self.convs = convs
        self._start_at_zero()

    @property
    def stackable(self) -> bool:  # type: ignore[override]
        """Return whether the convolutions are those of this package, in their own order."""
        return is_plain(self.convs)

    def reset_parameters(self) -> None:
        """Draw the weights of the convolutions again."""
        reset(self.convs)
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        if self.zero_init:
            layers = [module for module in self.convs.modules() if isinstance(module, nn.Conv1d)]
            if not layers:
                raise OptionError("zero_init=True, but convs has no Conv1d.", "Start your own module at zero instead.")
            for parameter in layers[-1].parameters():
                nn.init.zeros_(parameter)

    def forward(
        self, z: Float[Tensor, "n f"], ranking: Ranking, batch: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n f"]:
        if batch is None and is_plain(self.convs):
            if (ranks := active_ranks()) is not None:
                return convolve_over_ranks(ranks, z, ranking.scale, ranking.keys, self.convs)
            return convolve_along_order(z, ranking.scale, ranking.keys, self.convs)
        order = ranking.order(batch)
        # Several graphs are sequences of their own. A graph may have no nodes.
        sizes = [len(z)] if batch is None else [size for size in torch.bincount(batch).tolist() if size]
        mixed = torch.cat([self._convolved(rows) for rows in ranking.scaled(z)[order].split(sizes)])
        return mixed[order.argsort()]

    def _convolved(self, rows: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        convolved: Tensor = self.convs(rows.t().unsqueeze(0)).squeeze(0).t() if self._foreign else self.convs(rows)
        return convolved


class GlobalAttention(Mixer):
    r"""Attention over all pairs of nodes, the O(n²) aggregation that sorting replaces.

    .. math:: \hat{z}_v = \sum_u \mathrm{softmax}_u(z_v^T z_u) z_u

    It takes no notice of the order, so that the score of a model with this mixer is not trained.

    Example:
        >>> import torch
        >>> from nlgnn import MLP, GlobalAttention, NonLocal
        >>> model = NonLocal(MLP(8, 16, 3), 3, 3, mixer=GlobalAttention())
        >>> model(torch.randn(10, 8)).shape
        torch.Size([10, 3])
    """

    def forward(
        self, z: Float[Tensor, "n f"], ranking: Ranking | None = None, batch: Int[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n f"]:
        mask = None if batch is None else batch.unsqueeze(0) == batch.unsqueeze(1)  # [n, n]
        rows = z.expand(1, 1, -1, -1)  # one graph, one head: with these axes and no mask torch never holds n² weights
        return F.scaled_dot_product_attention(rows, rows, rows, attn_mask=mask, scale=1.0)[0, 0]
