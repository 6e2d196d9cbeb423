r"""FAGCN: every neighbour is added or subtracted, as a gate between -1 and 1 says (Bo et al., AAAI 2021).

With :math:`d` the degrees in the undirected graph without self loops and inverted dropout `drop`, for layers
:math:`l = 1 \dots L`, each with its own :math:`g_l` and :math:`b_l`,

.. math::
    H^{(0)} &= \mathrm{drop}(\mathrm{relu}(\mathrm{drop}(X) W_1 + b_1)) \\
    \alpha_{ij} &= \tanh(g_l^T [h_i^{(l-1)} \| h_j^{(l-1)}] + b_l) \\
    h_i^{(l)} &= \varepsilon\, h_i^{(0)} + \sum_{j \in N(i)}
    \mathrm{drop}\Bigl(\frac{\alpha_{ij}}{\sqrt{d_i d_j}}\Bigr) h_j^{(l-1)} \\
    Z &= H^{(L)} W_2 + b_2

Where edges have weights :math:`w_{ij}`, these multiply the gates, and :math:`d_i = \sum_j w_{ij}`.
Neither weights nor activations stand between the layers. What they add of :math:`H^{(0)}` is what dropout left of it.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_rate, check_width
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.gated_propagation import GAIN, GatedPropagation
from nlgnn.nn.inputs import Edges, Features, Inputs, features, undirected_adjacency
from nlgnn.nn.layers import FeatureLinear, divided_by_degrees
from nlgnn.nn.local import given
from nlgnn.nn.model import Model, drop_features
from nlgnn.nn.sparse import Operator


class FAGCN(Model):
    """Adds or subtracts each neighbour, as a learned gate says (Bo et al., AAAI 2021).

    Args:
        in_channels: features a node.
        hidden_channels: width of the embeddings, the same in all layers.
        out_channels: width of the result.
        num_layers: propagation layers.
        eps: share of the first embedding that every layer adds.
        dropout: share of input features, of units of the first embedding and of gates dropped in training.
        biased_gate: whether gates have a bias: those of the authors' program have one, those of their paper have none.
    """

    ignores_weights = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        eps: float = 0.3,
        dropout: float = 0.0,
        biased_gate: bool = True,
    ) -> None:
        super().__init__()
        check_width("in_channels", in_channels)
        check_width("hidden", hidden_channels)
        check_width("out_channels", out_channels)
        check_width("num_layers", num_layers)
        if not 0 <= eps <= 1:
            raise OptionError(f"eps={eps} is not a share.", "Give a number from 0 to 1.")
        self.eps = eps
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.embedding = FeatureLinear(in_channels, hidden_channels)
        self.propagations = nn.ModuleList(GatedPropagation(hidden_channels, biased_gate) for _ in range(num_layers))
        self.classifier = FeatureLinear(hidden_channels, out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        super().reset_parameters()
        nn.init.xavier_normal_(self.embedding.weight, GAIN)
        nn.init.xavier_normal_(self.classifier.weight, GAIN)

    def prepare(self, graph: Graph) -> Inputs:
        """What forward takes, computed once a graph. Edges are taken in both directions."""
        return Inputs(features(graph), divided_by_degrees(graph.undirected_weights, self._dtype))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        operator = self._operator(edge_index, x.shape[0])
        first = self.dropout(self.embedding(drop_features(x, self.dropout)).relu())
        h = first
        for propagation in self.propagations:
            h = propagation(h, operator, self.dropout(operator.values)).add_(first, alpha=self.eps)
        logits: Tensor = self.classifier(h)
        return logits

    def _operator(self, edges: Edges, num_nodes: int) -> Operator:
        if isinstance(edges, Operator):
            return edges
        edges = given(edges, num_nodes)
        return divided_by_degrees(undirected_adjacency(edges, num_nodes), self._dtype).to(edges.device)

    @property
    def _dtype(self) -> torch.dtype:
        return self.classifier.bias.dtype
