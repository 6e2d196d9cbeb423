r"""GCNII: a GCN that can be deep, since every layer sees the first one and changes little.

From Chen et al., "Simple and Deep Graph Convolutional Networks", ICML 2020. With GCN's operator :math:`\hat{A}` and
:math:`\beta_l = \log(\theta / l + 1)`

.. math::
    H_0 &= \mathrm{relu}(\mathrm{drop}(X) W_{first} + b_{first}) \\
    H_l &= \mathrm{relu}(((1 - \alpha) \hat{A}\, \mathrm{drop}(H_{l-1}) + \alpha H_0) M_l), \quad
        M_l = (1 - \beta_l) I + \beta_l W_l \\
    Z &= \mathrm{drop}(H_L) W_{last} + b_{last}.

The variant, GCNII*, has a weight for each of the two terms:

.. math::
    H_l = \mathrm{relu}((1 - \alpha) \hat{A}\, \mathrm{drop}(H_{l-1}) M_l + \alpha H_0 M'_l).

So says the text, and so does PyTorch Geometric. The authors' program has no :math:`1 - \alpha` and :math:`\alpha`
before the two weights, only before I: the same functions, with weights of another size.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_rate, check_width
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.layers import FeatureLinear, normalised, normalised_adjacency
from nlgnn.nn.local import given
from nlgnn.nn.model import Model, drop_features
from nlgnn.nn.sparse import Operator, spmm


class GCNII(Model):
    """A deep GCN with a way back to its first layer (Chen et al., ICML 2020).

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layers.
        out_channels: width of the result.
        num_layers: layers that gather from neighbours; a linear map stands before and after them.
        alpha: share of the first layer in each later one, below 1.
        theta: how much the weights count: layer l mixes log(theta / l + 1) of its weight with the identity.
        own_weights: whether the first layer has weights of its own in each later one (GCNII*).
        dropout: share of input features and of hidden units dropped in training.
    """

    ignores_weights = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 8,
        alpha: float = 0.5,
        theta: float = 1.0,
        own_weights: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, width in [
            ("in_channels", in_channels),
            ("hidden", hidden_channels),
            ("out_channels", out_channels),
            ("num_layers", num_layers),
        ]:
            check_width(name, width)
        if not 0 <= alpha < 1:
            raise OptionError(f"alpha={alpha} is not a share below 1.", "Give a number from 0 on; 1 would see no edge.")
        if theta <= 0:
            raise OptionError(f"theta={theta} leaves the weights out.", "Give a positive number, such as 0.5 or 1.")
        self.alpha, self.theta, self.own_weights = alpha, theta, own_weights
        self.first = FeatureLinear(in_channels, hidden_channels)
        # All layers in one tensor, with the weights of both terms side by side in the variant.
        self.weights = nn.Parameter(torch.empty(num_layers, 2 if own_weights else 1, hidden_channels, hidden_channels))
        self.last = FeatureLinear(hidden_channels, out_channels)
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        bound = 1 / math.sqrt(self.weights.shape[-1])
        nn.init.uniform_(self.weights, -bound, bound)

    def prepare(self, graph: Graph) -> Inputs:
        """Features and GCN's operator. Edges are taken in both directions."""
        return Inputs(features(graph), normalised(graph.undirected_weights, self.weights.dtype))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if not isinstance(edge_index, Operator):
            edges = given(edge_index, x.shape[0])
            edge_index = normalised_adjacency(edges, x.shape[0], self.weights.dtype)
        first = F.relu(self.first(drop_features(x, self.dropout)))
        # (1 - alpha) is in the maps of what is gathered, so that nothing as large as the graph is scaled in each layer.
        way_back = self.alpha / (1 - self.alpha) * first
        h = first
        for maps in self._maps().unbind():
            gathered = spmm(edge_index, self.dropout(h))
            mixed = gathered @ maps[0] + first @ maps[1] if self.own_weights else gathered.add_(way_back) @ maps[0]
            h = F.relu(mixed)
        result: Tensor = self.last(self.dropout(h))
        return result

    def _maps(self) -> Float[Tensor, "l t f f"]:
        """`M = (1 - beta) I + beta W` of every layer and term, times the share of the term."""
        layers, terms, width, _ = self.weights.shape
        kind: dict[str, Any] = {"dtype": self.weights.dtype, "device": self.weights.device}
        beta = torch.log1p(self.theta / torch.arange(1, layers + 1, **kind)).view(-1, 1, 1, 1)
        shares = torch.tensor([1 - self.alpha, self.alpha][:terms], **kind).view(-1, 1, 1)
        return shares * torch.lerp(torch.eye(width, **kind).expand_as(self.weights), self.weights, beta)
