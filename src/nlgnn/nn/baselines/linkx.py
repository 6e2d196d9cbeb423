r"""LINKX: separate embeddings of the adjacency matrix and the features, which are then mixed.

From Lim et al., `"Large Scale Learning on Non-Homophilous Graphs: New Benchmarks and Strong Simple Methods"
<https://arxiv.org/abs/2110.14446>`_, NeurIPS 2021. The rows of the adjacency matrix A, which contains the edge weights
if there are any, serve as additional features of the nodes:

.. math::
    H_A = \mathrm{MLP}_A(A), \quad H_X = \mathrm{MLP}_X(X), \quad
    Z = \mathrm{MLP}_f(\mathrm{relu}([H_A \| H_X] W + b + H_A + H_X)).

The layers of each MLP are separated by ReLU, and those of the last MLP also by dropout. The authors use batch
normalisation as well. It is omitted here, because models that are trained at once cannot share its running means.

Each column of A belongs to one node of the graph. The model therefore cannot be used on other or renumbered nodes.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, Model, Rate, checked
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.layers import FeatureLinear
from nlgnn.nn.local import MLP, given


class LINKX(Model):
    """LINKX, which combines embeddings of the adjacency matrix and of the features (Lim et al., NeurIPS 2021).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of all hidden layers.
        out_channels: Width of the output.
        num_nodes: Number of nodes of the graph. The model cannot be used on any other graph.
        num_edge_layers: Number of layers that embed the adjacency matrix.
        num_node_layers: Number of layers that embed the features.
        num_layers: Number of layers after the mixing.
        dropout: Share of hidden units dropped in training. It is applied between the layers after the mixing.

    Example:
        >>> import torch
        >>> from nlgnn import LINKX
        >>> model = LINKX(8, 16, 3, num_nodes=10)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    identifies_nodes = True
    uses_edge_weights = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_nodes: Count,
        num_edge_layers: Depth = 1,
        num_node_layers: Depth = 1,
        num_layers: Depth = 2,
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.num_nodes, width = num_nodes, hidden_channels
        self.edge_mlp = MLP(num_nodes, width, width, num_layers=num_edge_layers)
        self.node_mlp = MLP(in_channels, width, width, num_layers=num_node_layers)
        self.mix = FeatureLinear(2 * width, width)
        self.final_mlp = MLP(width, width, out_channels, num_layers=num_layers, dropout=dropout, input_dropout=0.0)

    def prepare(self, graph: Graph) -> Inputs:
        """Return the features and the adjacency matrix. Edges are used in both directions."""
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
