r"""Dir-GCN: separate averages over in- and out-neighbours, each with its own weight.

From Rossi et al., "Edge Directionality Improves Learning on Heterophilic Graphs", LoG 2023. Let
:math:`A_{ij}` be the weight of the edge from i to j (1 for unweighted edges), without self loops, :math:`D_{out}` and
:math:`D_{in}` the diagonal matrices of row sums and column sums, :math:`0^{-1/2} := 0` and
:math:`S = D_{out}^{-1/2} A D_{in}^{-1/2}`. A layer computes

.. math::
    H' = \alpha S (H W_{out}) + (1 - \alpha) S^T (H W_{in}) + b.

Row i of S aggregates the nodes that i points to. :math:`\alpha = 1` uses only out-neighbours, :math:`\alpha = 0` only
in-neighbours, as in the authors' program and in PyTorch Geometric; the unused weight is then omitted. Hidden layers are
followed by ReLU, dropout and, with `normalise`, a division of each row by its norm. With `jumping_knowledge`, all
layers are hidden, and a linear map reads their concatenation ("cat") or their elementwise maximum ("max").
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, Rate, Share, checked, drop_features
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.layers import FeatureLinear, divided_by_length, inverse_power, scaled, times
from nlgnn.nn.local import given, layer_widths


class DirGCN(Model):
    """Dir-GCN, which averages separately over in- and out-neighbours (Rossi et al., LoG 2023).

    In an undirected graph, both are all neighbours.

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the output.
        num_layers: Number of layers, not counting the readout.
        outgoing_share: Weight of out-neighbours. In-neighbours have the remaining weight.
        jumping_knowledge: Input of the readout. "cat" concatenates all layers, "max" takes their elementwise maximum,
            and "none" has no readout.
        normalise: Whether hidden rows are divided by their norm.
        dropout: Share of hidden units dropped in training.
        input_dropout: Share of input features dropped in training.
    """

    uses_edge_weights = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Count = 2,
        outgoing_share: Share = 0.5,
        jumping_knowledge: Literal["none", "cat", "max"] = "none",
        normalise: bool = False,
        dropout: Rate = 0.0,
        input_dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        self.jumping_knowledge, self.normalise = jumping_knowledge, normalise
        self.last: DirectedConvolution | FeatureLinear
        if jumping_knowledge == "none":
            self.last = DirectedConvolution(*widths.pop(), outgoing_share)
        else:
            widths = layer_widths(in_channels, hidden_channels, hidden_channels, num_layers)
            seen = num_layers * hidden_channels if jumping_knowledge == "cat" else hidden_channels
            self.last = FeatureLinear(seen, out_channels)
        self.layers = nn.ModuleList([DirectedConvolution(a, b, outgoing_share) for a, b in widths])
        self.dropout = Dropout(dropout)
        self.input_dropout = Dropout(input_dropout)

    def prepare(self, graph: Graph) -> Inputs:
        """Return the features and S, which is computed once per graph."""
        adjacency = graph.directed_weights if graph.directed else graph.undirected_weights
        of_row, of_column = (inverse_power(adjacency.sum(axis), 0.5, next(self.parameters()).dtype) for axis in (1, 0))
        return Inputs(features(graph), scaled(adjacency, of_row, of_column, symmetric=not graph.directed))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if not isinstance(edge_index, Operator):
            dtype = next(self.parameters()).dtype
            edge_index = out_neighbours(given(edge_index, x.shape[0]), x.shape[0], dtype)
        h, hidden = drop_features(x, self.input_dropout), []
        for place, layer in enumerate(self.layers):
            h = self.dropout(F.relu(layer(h, edge_index)), place)
            h = divided_by_length(h) if self.normalise else h
            hidden.append(h)
        if self.jumping_knowledge == "cat":
            h = torch.cat(hidden, dim=1)
        elif self.jumping_knowledge == "max":
            h = reduce(larger, hidden)
        result: Tensor = self.last(h, edge_index)
        return result


class DirectedConvolution(nn.Module):
    """Convolution `alpha S (x W_out) + (1 - alpha) S^T (x W_in) + b` for a given operator `S`."""

    def __init__(self, in_channels: int, out_channels: int, alpha: float) -> None:
        super().__init__()
        self.alpha, self.in_channels = alpha, in_channels
        self.weight_out = nn.Parameter(torch.empty(in_channels, out_channels)) if alpha > 0 else None
        self.weight_in = nn.Parameter(torch.empty(in_channels, out_channels)) if alpha < 1 else None
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_channels)  # as in torch.nn.Linear, which the authors use
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Features, edges: Operator) -> Float[Tensor, "n f"]:
        result: Tensor = self.bias
        # The shares scale the weights, because features are often much larger.
        if self.weight_out is not None:
            result = result + spmm(edges, times(x, self.alpha * self.weight_out))
        if self.weight_in is not None:
            result = result + spmm(edges.transpose, times(x, (1 - self.alpha) * self.weight_in))
        return result


def larger(a: Float[Tensor, "n f"], b: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
    """Return the elementwise maximum.

    Unlike in `torch.maximum`, the gradient is not shared between ties, which takes a fifth of the time.
    """
    return a + F.relu(b - a)


def out_neighbours(edges: Int[Tensor, "2 m"], num_nodes: int, dtype: torch.dtype) -> Operator:
    """Return S for an `edge_index`. Self loops are removed, and duplicate edges add up."""
    sources, targets = edges[:, edges[0] != edges[1]]
    products = sources.bincount(minlength=num_nodes)[sources] * targets.bincount(minlength=num_nodes)[targets]
    return Operator.from_coo(sources, targets, products.to(dtype).rsqrt(), (num_nodes, num_nodes))
