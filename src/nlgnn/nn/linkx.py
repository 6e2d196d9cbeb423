r"""LINKX: who a node's neighbours are, by number, and its features, embedded apart and then mixed.

From Lim et al., "Large Scale Learning on Non-Homophilous Graphs: New Benchmarks and Strong Simple Methods", NeurIPS
2021. The rows of the adjacency matrix A, of weights where edges have some, are features of the nodes, as many as there
are nodes:

.. math::
    H_A = \mathrm{MLP}_A(A), \quad H_X = \mathrm{MLP}_X(X), \quad
    Z = \mathrm{MLP}_f(\mathrm{relu}([H_A \| H_X] W + b + H_A + H_X)).

ReLU stands between the layers of each MLP, dropout between those of the last one only. The authors also have batch
normalisation there; here is none, since its running means would be state that models trained at once cannot share.

A column of A is a node of this graph: the model knows no other nodes, and nodes cannot be numbered anew.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_width
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.layers import FeatureLinear
from nlgnn.nn.local import MLP, given
from nlgnn.nn.model import Model
from nlgnn.nn.sparse import Operator


class LINKX(Model):
    """Classifies from features and from the numbers of the neighbours (Lim et al., NeurIPS 2021).

    Args:
        in_channels: features a node.
        hidden_channels: width of all hidden layers.
        out_channels: width of the result.
        num_nodes: nodes of the graph, which is the only one that the model can be used on.
        num_edge_layers: layers that embed the numbers of the neighbours.
        num_node_layers: layers that embed the features.
        num_layers: layers that come after both are mixed.
        dropout: share of hidden units dropped in training, between the layers after the mixing; one layer has none.
    """

    identifies_nodes: ClassVar[bool] = True
    ignores_weights = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_nodes: int,
        num_edge_layers: int = 1,
        num_node_layers: int = 1,
        num_layers: int = 2,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, number in [
            ("num_nodes", num_nodes),
            ("num_edge_layers", num_edge_layers),
            ("num_node_layers", num_node_layers),
        ]:
            check_width(name, number)
        self.num_nodes, width = num_nodes, hidden_channels
        self.edge_mlp = MLP(num_nodes, width, width, num_layers=num_edge_layers)
        self.node_mlp = MLP(in_channels, width, width, num_layers=num_node_layers)
        self.mix = FeatureLinear(2 * width, width)
        self.final_mlp = MLP(width, width, out_channels, num_layers=num_layers, dropout=dropout, input_dropout=0.0)

    def prepare(self, graph: Graph) -> Inputs:
        """Features and neighbours in either direction."""
        return Inputs(features(graph), Operator.from_scipy(graph.undirected_weights, symmetric=True))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if x.shape[0] != self.num_nodes:
            raise DataError(
                f"this LINKX knows {self.num_nodes} nodes by their numbers, but x has {x.shape[0]} rows.",
                "Train another one: it cannot be used on another graph.",
            )
        from_edges = self.edge_mlp(self._neighbours(edge_index))
        from_features = self.node_mlp(x)
        mixed = self.mix(torch.cat([from_edges, from_features], dim=1)) + from_edges + from_features
        result: Tensor = self.final_mlp(F.relu(mixed))
        return result

    def _neighbours(self, edges: Edges) -> Operator:
        if isinstance(edges, Operator):
            return edges
        sources, targets = given(edges, self.num_nodes)
        ones = torch.ones(len(sources), dtype=self.mix.bias.dtype, device=sources.device)
        return Operator.from_coo(targets, sources, ones, (self.num_nodes, self.num_nodes))
