r"""GCNII: a deep GCN with initial residuals and identity mappings.

From Chen et al., `"Simple and Deep Graph Convolutional Networks" <https://arxiv.org/abs/2007.02133>`_, ICML 2020. With
the operator :math:`\hat{A}` of GCN and :math:`\beta_l = \log(\theta / l + 1)`, the model computes

.. math::
    H_0 &= \mathrm{relu}(\mathrm{drop}(X) W_{first} + b_{first}) \\
    H_l &= \mathrm{relu}(((1 - \alpha) \hat{A}\, \mathrm{drop}(H_{l-1}) + \alpha H_0) M_l), \quad
        M_l = (1 - \beta_l) I + \beta_l W_l \\
    Z &= \mathrm{drop}(H_L) W_{last} + b_{last}.

The variant GCNII* has separate weights for the two terms:

.. math::
    H_l = \mathrm{relu}((1 - \alpha) \hat{A}\, \mathrm{drop}(H_{l-1}) M_l + \alpha H_0 M'_l).

This follows the paper and PyTorch Geometric. The authors' program applies :math:`1 - \alpha` and :math:`\alpha` only to
I and not to the two weights, which gives the same functions with differently scaled weights.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, Model, Positive, Rate, checked, drop_features
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.layers import FeatureLinear, normalised, normalised_adjacency
from nlgnn.nn.local import given


class GCNII(Model):
    """GCNII, a deep GCN with a residual connection to its first layer (Chen et al., ICML 2020).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the output.
        num_layers: Number of propagation layers. A linear map comes before and after them.
        alpha: Share of the first layer in each later one, below 1.
        theta: Strength of the weights. Layer l mixes a share log(theta / l + 1) of its weight with the identity.
        own_weights: Whether the first layer has its own weights (GCNII*).
        dropout: Share of input features and hidden units dropped.

    Example:
        >>> import torch
        >>> from nlgnn import GCNII
        >>> model = GCNII(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = over_ranks = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Depth = 8,
        alpha: Rate = 0.5,
        theta: Positive = 1.0,
        own_weights: bool = False,
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.alpha, self.theta, self.own_weights = alpha, theta, own_weights
        self.first = FeatureLinear(in_channels, hidden_channels)
        # One tensor holds the weights of all layers and, in GCNII*, of both terms: all maps are computed at once.
        self.weights = nn.Parameter(torch.empty(num_layers, 2 if own_weights else 1, hidden_channels, hidden_channels))
        self.last = FeatureLinear(hidden_channels, out_channels)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        bound = 1 / math.sqrt(self.weights.shape[-1])
        nn.init.uniform_(self.weights, -bound, bound)

    def prepare(self, graph: Graph) -> Inputs:
        """Return the features and the operator of GCN. Edges are used in both directions."""
        return Inputs(features(graph), normalised(graph.undirected_weights, self.weights.dtype))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if not isinstance(edge_index, Operator):
            edges = given(edge_index, x.shape[0])
            edge_index = normalised_adjacency(edges, x.shape[0], self.weights.dtype)
        first = F.relu(self.first(drop_features(x, self.dropout, 0)))
        # The maps contain the factor (1 - alpha), so that no tensor with one row per node is scaled in each layer.
        way_back = self.alpha / (1 - self.alpha) * first
        h = first
        for place, maps in enumerate(self._maps().unbind(), start=2):
            gathered = spmm(edge_index, self.dropout(h, place))
            mixed = gathered @ maps[0] + first @ maps[1] if self.own_weights else gathered.add_(way_back) @ maps[0]
            h = F.relu(mixed)
        result: Tensor = self.last(self.dropout(h, 1))
        return result

    def _maps(self) -> Float[Tensor, "l t f f"]:
        """Return `M = (1 - beta) I + beta W` for every layer and term, multiplied by the share of the term."""
        layers, terms, width, _ = self.weights.shape
        kind: dict[str, Any] = {"dtype": self.weights.dtype, "device": self.weights.device}
        beta = torch.log1p(self.theta / torch.arange(1, layers + 1, **kind)).view(-1, 1, 1, 1)
        shares = torch.tensor([1 - self.alpha, self.alpha][:terms], **kind).view(-1, 1, 1)
        return shares * torch.lerp(torch.eye(width, **kind).expand_as(self.weights), self.weights, beta)
