r"""Dir-GCN: separate averages over in- and out-neighbours, each with its own weight.

From Rossi et al., `"Edge Directionality Improves Learning on Heterophilic Graphs" <https://arxiv.org/abs/2305.10498>`_,
LoG 2023. Let :math:`A_{ij}` be the weight of the edge from i to j (1 for unweighted edges), without self loops,
:math:`D_{out}` and :math:`D_{in}` the diagonal matrices of row sums and column sums, :math:`0^{-1/2} := 0` and
:math:`S = D_{out}^{-1/2} A D_{in}^{-1/2}`. A layer computes

.. math::
    H' = \alpha S (H W_{out}) + (1 - \alpha) S^T (H W_{in}) + b.

Row i of S aggregates the nodes that i points to. :math:`\alpha = 1` uses only out-neighbours, :math:`\alpha = 0` only
in-neighbours, as in the authors' program and in PyTorch Geometric; the unused weight is then omitted. Hidden layers are
followed by ReLU and dropout. With `norm`, `residual`, `jumping`, `row_norm` or `label_input`, the layers are those of
:mod:`nlgnn.nn.stack`. The authors' program uses `row_norm` and `jumping`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, Rate, Share, checked, drop_features
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.sharded import sums
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.layers import Projection, inverse_power, scaled, times
from nlgnn.nn.local import given
from nlgnn.nn.stack import DeepStack, Jumping, Norm, StackModel, StackOptions


class DirGCN(StackModel):
    """Dir-GCN, which averages separately over in- and out-neighbours (Rossi et al., LoG 2023).

    In an undirected graph, both are all neighbours.

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the output.
        num_layers: Number of layers.
        alpha: Weight of out-neighbours. In-neighbours have the remaining weight: 1 uses only out-neighbours, 0 only
            in-neighbours.
        dropout: Share of hidden units dropped in training.
        input_dropout: Share of input features dropped in training.
        norm: Normalisation of the hidden layers.
        residual: Whether hidden layers have residual connections.
        jumping: Hidden layers that the output reads. "last" is the last one, "max" the elementwise maximum of all
            hidden layers, "cat" their concatenation.
        row_norm: Whether hidden rows are divided by their norm.
        label_input: Share of training labels that are input in each step. The loss is that of the others. In
            evaluation, all of them are input.
        num_nodes: Number of nodes of the graph, for `label_input`.
        label_channels: Number of classes, for `label_input`. The default is `out_channels`.

    Example:
        >>> import torch
        >>> from nlgnn import DirGCN
        >>> model = DirGCN(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = True

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Depth = 2,
        alpha: Share = 0.5,
        dropout: Rate = 0.0,
        input_dropout: Rate = 0.0,
        norm: Norm = "none",
        residual: bool = False,
        jumping: Jumping = "last",
        row_norm: bool = False,
        label_input: Rate = 0.0,
        num_nodes: int | None = None,
        label_channels: int | None = None,
    ) -> None:
        options = StackOptions(norm, residual, jumping, row_norm, label_input, num_nodes, label_channels)
        stack = DeepStack(
            options,
            in_channels,
            hidden_channels,
            out_channels,
            num_layers,
            hidden=lambda width: DirectedConvolution(width, hidden_channels, alpha),
            last=lambda width: DirectedConvolution(width, out_channels, alpha),
            skip=Projection,
        )
        super().__init__(stack, dropout, input_dropout)

    def prepare(self, graph: Graph) -> Inputs:
        """Return the features and S, which is computed once per graph."""
        adjacency = graph.directed_weights if graph.directed else graph.undirected_weights
        of_row, of_column = (inverse_power(sums(adjacency, axis), 0.5, self.dtype) for axis in (1, 0))
        return Inputs(features(graph), scaled(adjacency, of_row, of_column, symmetric=not graph.directed))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        if not isinstance(edge_index, Operator):
            edge_index = out_neighbours(given(edge_index, x.shape[0]), x.shape[0], self.dtype)
        assert self.deep is not None
        result: Tensor = self.deep(drop_features(x, self.input_dropout), edge_index, self.dropout)
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


def out_neighbours(edges: Int[Tensor, "2 m"], num_nodes: int, dtype: torch.dtype) -> Operator:
    """Return S for an `edge_index`. Self loops are removed, and duplicate edges add up."""
    sources, targets = edges[:, edges[0] != edges[1]]
    products = sources.bincount(minlength=num_nodes)[sources] * targets.bincount(minlength=num_nodes)[targets]
    return Operator.from_coo(sources, targets, products.to(dtype).rsqrt(), (num_nodes, num_nodes))
