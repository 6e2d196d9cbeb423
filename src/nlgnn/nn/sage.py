r"""GraphSAGE: the node itself and the mean of its neighbours, each with its own weight.

From Hamilton, Ying and Leskovec, `"Inductive Representation Learning on Large Graphs"
<https://arxiv.org/abs/1706.02216>`_, NeurIPS 2017. A layer computes

.. math::
    h_v = x_v W_{root} + \frac{1}{|N(v)|} \sum_{u \in N(v)} x_u W_{mean} + b

where the neighbours :math:`N(v)` do not include the node itself (a given `edge_index` is used unchanged). The mean is
weighted if edges have weights, and zero for a node without neighbours. Hidden layers are followed by ReLU and dropout.
With `norm`, `residual`, `jumping`, `row_norm` or `label_input`, the layers are those of :mod:`nlgnn.nn.stack`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.graph.descriptions import mean_matrix
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import drop_features
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.sharded import propagation
from nlgnn.nn.kernels.sparse import SMALL_PRODUCT, Operator, spmm
from nlgnn.nn.kernels.two_products import own_and_sent
from nlgnn.nn.layers import numpy_type, times
from nlgnn.nn.local import given
from nlgnn.nn.stack import UniformStack

NARROW_INPUT = 512  # columns; wider ones are better read once than twice


class MeanConvolution(nn.Module):
    """Convolution `x W_root + M (x W_mean) + b` for a given operator `M`.

    Both weights are stored in one matrix, so that `x` is read once.
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_channels, 2 * out_channels))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.shape[0])  # as in torch.nn.Linear
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Features, mean: Operator) -> Float[Tensor, "n f"]:
        large = mean.num_entries * len(self.bias) > SMALL_PRODUCT
        if isinstance(x, Tensor) and large and self.weight.shape[0] <= NARROW_INPUT:
            return own_and_sent(mean, x, *self.weight.chunk(2, dim=1)).add_(self.bias)
        own, of_neighbours = times(x, self.weight).chunk(2, dim=1)
        return spmm(mean, of_neighbours).add_(own).add_(self.bias)


class GraphSAGE(UniformStack):
    """GraphSAGE with mean aggregation (Hamilton et al., NeurIPS 2017).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the output.
        num_layers: Number of layers of the local embedding.
        dropout: Share of hidden units dropped in training.
        input_dropout: Share of input features dropped in training. The default is 0.
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
        >>> from nlgnn import GraphSAGE
        >>> model = GraphSAGE(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = True

    layer = MeanConvolution

    def prepare(self, graph: Graph) -> Inputs:
        """Return the inputs of `forward`. Edges are used in both directions."""
        means = mean_matrix(graph.undirected_weights, numpy_type(self.dtype))
        return Inputs(features(graph), propagation(means))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        num_nodes = x.shape[0]
        if not isinstance(edge_index, Operator):
            edge_index = mean_operator(given(edge_index, num_nodes), num_nodes, self.dtype)
        x = drop_features(x, self.input_dropout)
        if self.deep is not None:
            deep: Tensor = self.deep(x, edge_index, self.dropout)
            return deep
        first, *others = self.layers
        h: Tensor = first(x, edge_index)
        for place, layer in enumerate(others):
            h = layer(self.dropout(F.relu(h), place), edge_index)
        return h


def mean_operator(edges: Tensor, num_nodes: int, dtype: torch.dtype) -> Operator:
    """Return the operator that averages over the incoming edges of each node."""
    sources, targets = edges
    degrees = torch.bincount(targets, minlength=num_nodes)
    return Operator.from_coo(targets, sources, degrees.to(dtype).reciprocal()[targets], (num_nodes, num_nodes))
