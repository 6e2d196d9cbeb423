r"""GraphSAGE with the mean of all neighbours (Hamilton, Ying and Leskovec, NeurIPS 2017).

A layer, for the neighbours :math:`N(v)` of a node, itself not among them (an `edge_index` is taken as it is given):

.. math::
    h_v = x_v W_{root} + \frac{1}{|N(v)|} \sum_{u \in N(v)} x_u W_{mean} + b

The mean is weighted where edges have weights; over no neighbours it is zero. ReLU and dropout stand between layers;
nothing follows the last one.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_rate
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.layers import inverse_power, scaled, times
from nlgnn.nn.local import given, layer_widths
from nlgnn.nn.model import Model, drop_features
from nlgnn.nn.sparse import Operator, spmm


class GraphSAGE(Model):
    """Takes each node and the mean of its neighbours, with a weight for each (Hamilton et al., NeurIPS 2017).

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layers.
        out_channels: width of the result.
        num_layers: layers of the local embedding.
        dropout: share of hidden units dropped in training.
        input_dropout: share of input features dropped in training; 0 where not given.
    """

    ignores_weights = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        dropout: float = 0.0,
        input_dropout: float | None = None,
    ) -> None:
        super().__init__()
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        self.layers = nn.ModuleList(MeanConvolution(a, b) for a, b in widths)
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.input_dropout = Dropout(check_rate("input_dropout", input_dropout or 0.0))

    def prepare(self, graph: Graph) -> Inputs:
        """What forward takes, computed once a graph. Edges are taken in both directions."""
        adjacency = graph.undirected_weights
        return Inputs(features(graph), scaled(adjacency, inverse_power(adjacency.sum(axis=1), 1, self._dtype)))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        num_nodes = x.shape[0]
        if not isinstance(edge_index, Operator):
            edge_index = mean_operator(given(edge_index, num_nodes), num_nodes, self._dtype)
        first, *others = self.layers
        h: Tensor = first(drop_features(x, self.input_dropout), edge_index)
        for layer in others:
            h = layer(self.dropout(F.relu(h)), edge_index)
        return h

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype


class MeanConvolution(nn.Module):
    """`x W_root + M (x W_mean) + b` for a given operator `M`. Both weights lie side by side: `x` is read once."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, 2 * out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.shape[0])  # as torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Features, mean: Operator) -> Float[Tensor, "n f"]:
        own, of_neighbours = times(x, self.weight).chunk(2, dim=1)
        return own + spmm(mean, of_neighbours) + self.bias


def mean_operator(edges: Tensor, num_nodes: int, dtype: torch.dtype) -> Operator:
    """Each node's mean over the edges that end in it."""
    sources, targets = edges
    degrees = torch.bincount(targets, minlength=num_nodes)
    return Operator.from_coo(targets, sources, degrees.to(dtype).reciprocal()[targets], (num_nodes, num_nodes))
