r"""Dir-GCN: in- and out-neighbours are averaged apart, each with a weight of its own.

From Rossi et al., "Edge Directionality Improves Learning on Heterophilic Graphs", LoG 2023. With :math:`A_{ij}` the
weight of an edge from i to j (1 where edges have none), no self loops, the diagonal matrices :math:`D_{out}` of row
sums and :math:`D_{in}` of column sums, :math:`0^{-1/2} := 0` and :math:`S = D_{out}^{-1/2} A D_{in}^{-1/2}`, a layer is

.. math::
    H' = \alpha S (H W_{out}) + (1 - \alpha) S^T (H W_{in}) + b.

Row i of S gathers from the nodes that i points to: :math:`\alpha = 1` looks at out-neighbours only, 0 at in-neighbours
only, as in the authors' program and in PyTorch Geometric. A weight that counts for nothing is left out. ReLU, dropout
and, with `normalise`, a division of each row by its length follow the hidden layers. With `jumping_knowledge` all
layers are hidden, and a linear map reads their results side by side ("cat") or their largest entries ("max").
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_choice, check_rate
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.layers import FeatureLinear, inverse_power, scaled, times
from nlgnn.nn.local import given, layer_widths
from nlgnn.nn.model import Model, drop_features
from nlgnn.nn.sparse import Operator, spmm


class DirGCN(Model):
    """Averages over in- and out-neighbours apart (Rossi et al., LoG 2023).

    Where the edges of a graph have no direction, both are all neighbours.

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layers.
        out_channels: width of the result.
        num_layers: layers of the local embedding, without the readout of `jumping_knowledge`.
        outgoing_share: share of out-neighbours; the rest is that of in-neighbours.
        jumping_knowledge: what a linear readout sees: "cat" all layers, "max" the largest entries over them; "none" has
            no readout.
        normalise: whether rows are divided by their length after each hidden layer.
        dropout: share of hidden units dropped in training.
        input_dropout: share of input features dropped in training.
    """

    ignores_weights = False

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        outgoing_share: float = 0.5,
        jumping_knowledge: Literal["none", "cat", "max"] = "none",
        normalise: bool = False,
        dropout: float = 0.0,
        input_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        if not 0 <= outgoing_share <= 1:
            raise OptionError(f"outgoing_share={outgoing_share} is not a share.", "Give a number from 0 to 1.")
        check_choice("jumping_knowledge", jumping_knowledge, ("none", "cat", "max"))
        self.jumping_knowledge, self.normalise = jumping_knowledge, normalise
        self.last: DirectedConvolution | FeatureLinear
        if jumping_knowledge == "none":
            self.last = DirectedConvolution(*widths.pop(), outgoing_share)
        else:
            widths = layer_widths(in_channels, hidden_channels, hidden_channels, num_layers)
            seen = num_layers * hidden_channels if jumping_knowledge == "cat" else hidden_channels
            self.last = FeatureLinear(seen, out_channels)
        self.layers = nn.ModuleList([DirectedConvolution(a, b, outgoing_share) for a, b in widths])
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.input_dropout = Dropout(check_rate("input_dropout", input_dropout))

    def prepare(self, graph: Graph) -> Inputs:
        """The features and S, computed once a graph."""
        adjacency = graph.directed_weights if graph.directed else graph.undirected_weights
        of_row, of_column = (inverse_power(adjacency.sum(axis), 0.5, next(self.parameters()).dtype) for axis in (1, 0))
        return Inputs(features(graph), scaled(adjacency, of_row, of_column, symmetric=not graph.directed))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if not isinstance(edge_index, Operator):
            dtype = next(self.parameters()).dtype
            edge_index = out_neighbours(given(edge_index, x.shape[0]), x.shape[0], dtype)
        h, hidden = drop_features(x, self.input_dropout), []
        for layer in self.layers:
            h = self.dropout(F.relu(layer(h, edge_index)))
            h = divided_by_length(h) if self.normalise else h
            hidden.append(h)
        if self.jumping_knowledge == "cat":
            h = torch.cat(hidden, dim=1)
        elif self.jumping_knowledge == "max":
            h = reduce(larger, hidden)
        result: Tensor = self.last(h, edge_index)
        return result


class DirectedConvolution(nn.Module):
    """`alpha S (x W_out) + (1 - alpha) S^T (x W_in) + b` for a given operator `S`."""

    def __init__(self, in_channels: int, out_channels: int, alpha: float) -> None:
        super().__init__()
        self.alpha, self.in_channels = alpha, in_channels
        self.weight_out = nn.Parameter(torch.empty(in_channels, out_channels)) if alpha > 0 else None
        self.weight_in = nn.Parameter(torch.empty(in_channels, out_channels)) if alpha < 1 else None
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_channels)  # as torch.nn.Linear, which the authors use
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, x: Features, edges: Operator) -> Float[Tensor, "n f"]:
        result: Tensor = self.bias
        # The shares scale the weights: features are often many more.
        if self.weight_out is not None:
            result = result + spmm(edges, times(x, self.alpha * self.weight_out))
        if self.weight_in is not None:
            result = result + spmm(edges.transpose, times(x, (1 - self.alpha) * self.weight_in))
        return result


def divided_by_length(h: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
    """Rows of length 1; those of zeros stay. Not `F.normalize`, since the gradient of a division costs more."""
    length: Tensor = torch.linalg.vector_norm(h, dim=1, keepdim=True)
    return h * length.clamp_min(1e-12).reciprocal()


def larger(a: Float[Tensor, "n f"], b: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
    """`torch.maximum`, but for a gradient that does not share out ties, which takes a fifth of the time."""
    return a + F.relu(b - a)


def out_neighbours(edges: Int[Tensor, "2 m"], num_nodes: int, dtype: torch.dtype) -> Operator:
    """S of an `edge_index`: self loops are left out, other repetitions add up."""
    sources, targets = edges[:, edges[0] != edges[1]]
    products = sources.bincount(minlength=num_nodes)[sources] * targets.bincount(minlength=num_nodes)[targets]
    return Operator.from_coo(sources, targets, products.to(dtype).rsqrt(), (num_nodes, num_nodes))
