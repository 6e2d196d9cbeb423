r"""Local embeddings: MLP, GCN and GAT, with ReLU and dropout between their layers.

Let :math:`\hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}`, where :math:`A` contains the edge weights (1 for
unweighted edges) and :math:`\tilde{D}` the row sums of :math:`A + I`, and let `drop` be inverted dropout. With two
layers, the models compute

.. math::
    \text{MLP:}\; Z &= \mathrm{drop}(\mathrm{relu}(\mathrm{drop}(X) W_1 + b_1)) W_2 + b_2 \\
    \text{GCN:}\; Z &= \hat{A} (\mathrm{drop}(\mathrm{relu}(\hat{A} X W_1 + b_1)) W_2) + b_2 \\
    \text{GAT:}\; Z_v &= \sum_{u \in N(v) \cup \{v\}} \mathrm{drop}(\alpha_{vu}) W x_u + b, \quad
    \alpha_{vu} = \mathrm{softmax}_u\, \mathrm{leakyrelu}(a_{dst}^T W x_v + a_{src}^T W x_u)

GCN is from Kipf and Welling, `"Semi-Supervised Classification with Graph Convolutional Networks"
<https://arxiv.org/abs/1609.02907>`_, ICLR 2017, and GAT from Veličković et al., `"Graph Attention Networks"
<https://arxiv.org/abs/1710.10903>`_, ICLR 2018. No activation follows the last layer, so that embeddings may be
negative. With `norm`, `residual`, `jumping`, `row_norm` or `label_input`, the layers are those of
:mod:`nlgnn.nn.stack`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial, reduce
from itertools import pairwise
from typing import Literal, cast

import torch
from jaxtyping import Float
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Depth, Rate, checked, drop_features
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.kernels.attention import GraphAttention, neighbourhoods
from nlgnn.nn.kernels.sharded import propagation
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.layers import (
    FeatureLinear,
    GraphConvolution,
    Layer,
    Projection,
    concatenated,
    normalised,
    normalised_adjacency,
    split,
    times,
    with_diagonal,
)
from nlgnn.nn.stack import Jumping, Norm, StackModel, StackOptions, UniformStack, stack_layers

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu}
# A part of a layer: its input and some columns of its weight, or the product of both with None.
Part = tuple[Tensor | Operator | StreamedFeatures, Tensor | None]


class LocalModel(StackModel, ABC):
    """Base class of stacks of layers. Subclasses define the layers and the propagation operator."""

    activation: Callable[[Tensor], Tensor] = staticmethod(F.relu)

    @property
    def can_recompute(self) -> bool:  # type: ignore[override]
        """Return whether layers are plain."""
        return self.deep is None

    @abstractmethod
    def operator(self, edges: Edges, num_nodes: int) -> Operator | None:
        """Return the propagation operator of an `edge_index`, or the operator itself if it is already prepared."""

    @abstractmethod
    def operator_of(self, adjacency: sparse.csr_array) -> Operator | None:
        """Return the propagation operator of a symmetric matrix of edge weights, or of ones, without self loops."""

    def prepare(self, graph: Graph) -> Inputs:
        """Return the inputs of `forward`. Edges are used in both directions."""
        adjacency = graph.undirected_weights if self.uses_edge_weights else graph.undirected_adjacency
        return Inputs(features(graph), self.operator_of(adjacency))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        """Return the embeddings.

        Hidden layers of plain stacks are computed in parts, and each part is immediately multiplied by its rows of the
        next weight, so that hidden layers are never concatenated. Attention heads are always separate parts; the
        columns of other layers are split only if memory is short.
        """
        operator = self.operator(edge_index, x.shape[0])
        x = drop_features(x, self.input_dropout)
        if self.deep is not None:
            deep: Tensor = self.deep(x, operator, self.dropout, self.activation)
            return deep
        layers = [cast(Layer, layer) for layer in self.layers]
        widths = layers[0].widths(self.recompute)
        parts: list[Part] = [(x, weight) for weight in split(layers[0].weight, widths, dim=1)]
        for number, (layer, following) in enumerate(pairwise(layers)):
            fold = partial(self._fold, number, layer, parts, operator, split(following.weight, widths))
            if self.recompute:
                fold = partial(checkpoint, fold, use_reentrant=False)
            projected: Tensor = reduce(torch.add, map(fold, range(len(widths))))
            widths = following.widths(self.recompute)
            parts = [(h, None) for h in split(projected, widths, dim=1)]
        last = [layers[-1].propagate(part, times(*parts[part]), operator) for part in range(len(widths))]
        return concatenated(last)

    def _fold(
        self,
        number: int,
        layer: Layer,
        parts: list[Part],
        operator: Operator | None,
        rows: tuple[Tensor, ...],
        part: int,
    ) -> Float[Tensor, "n f"]:
        """Return the contribution of one part of a layer to the projected features of the next layer."""
        hidden = self.activation(layer.propagate(part, times(*parts[part]), operator))
        return times(layer.drop(self.dropout, hidden, number, part), rows[part])


class MLP(UniformStack, LocalModel):
    """Multi-layer perceptron on the features of each node, without edges.

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers.
        out_channels: Width of the output.
        num_layers: Number of layers of the local embedding.
        dropout: Share of hidden units dropped in training.
        input_dropout: Share of input features dropped in training. The default is `dropout`.
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
        >>> from nlgnn import MLP
        >>> model = MLP(8, 16, 3)
        >>> model(torch.randn(10, 8)).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = uses_edge_types = True  # without edges, no weights or types are ignored

    layer, skip, drops_inputs = FeatureLinear, nn.Identity, True

    def operator(self, edges: Edges, num_nodes: int) -> None:
        return None

    def operator_of(self, adjacency: sparse.csr_array) -> None:
        return None

    def prepare(self, graph: Graph) -> Inputs:
        return Inputs(features(graph), None)


class GCN(UniformStack, LocalModel):
    """Graph convolutional network with symmetric normalisation (Kipf and Welling, ICLR 2017).

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
        >>> from nlgnn import GCN
        >>> model = GCN(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    uses_edge_weights = True

    layer, skip = GraphConvolution, Projection

    def operator(self, edges: Edges, num_nodes: int) -> Operator:
        if isinstance(edges, Operator):
            return edges
        return normalised_adjacency(given(edges, num_nodes), num_nodes, self.dtype)

    def operator_of(self, adjacency: sparse.csr_array) -> Operator:
        return normalised(adjacency, self.dtype)


class GAT(LocalModel):
    """Graph attention network (Veličković et al., ICLR 2018).

    Hidden layers concatenate their heads; the last layer has one head.

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layers per head. With 8 heads, the layers are 8 times as wide.
        out_channels: Width of the output.
        num_layers: Number of layers of the local embedding.
        heads: Number of attention heads of the hidden layers.
        dropout: Share of hidden units and attention weights dropped.
        input_dropout: Share of input features dropped in training. The default is 0.
        activation: Activation of the hidden layers. Liu et al. use relu, Veličković et al. elu.
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
        >>> from nlgnn import GAT
        >>> model = GAT(8, 16, 3)
        >>> model(torch.randn(10, 8), torch.randint(10, (2, 30))).shape
        torch.Size([10, 3])
    """

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        num_layers: Depth = 2,
        heads: Count = 8,
        dropout: Rate = 0.0,
        input_dropout: Rate | None = None,
        activation: Literal["relu", "elu"] = "relu",
        norm: Norm = "none",
        residual: bool = False,
        jumping: Jumping = "last",
        row_norm: bool = False,
        label_input: Rate = 0.0,
        num_nodes: int | None = None,
        label_channels: int | None = None,
    ) -> None:
        options = StackOptions(norm, residual, jumping, row_norm, label_input, num_nodes, label_channels)
        layers = stack_layers(
            options,
            in_channels,
            heads * hidden_channels,
            out_channels,
            num_layers,
            hidden=lambda width: GraphAttention(width, hidden_channels, heads, dropout),
            last=lambda width: GraphAttention(width, out_channels, 1, dropout),
            skip=Projection,
        )
        super().__init__(layers, dropout, input_dropout or 0.0)
        self.activation = ACTIVATIONS[activation]

    def operator(self, edges: Edges, num_nodes: int) -> Operator:
        return edges if isinstance(edges, Operator) else neighbourhoods(given(edges, num_nodes), num_nodes)

    def operator_of(self, adjacency: sparse.csr_array) -> Operator:
        return propagation(with_diagonal(adjacency), symmetric=True)


def given(edges: Tensor | None, num_nodes: int) -> Tensor:
    """Return the edges that were given to a model; raise an error if they are not edges of the nodes."""
    if edges is None:
        raise OptionError("this model needs edge_index.", "Call it as model(x, edge_index).")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise DataError(
            f"edge_index is of shape {list(edges.shape)} and type {edges.dtype}.",
            "Give node numbers as [2, num_edges]: sources, then targets.",
        )
    # A sparse product does not check its indices and would read beyond the last row.
    if edges.numel() and not (edges.min() >= 0 and edges.max() < num_nodes):
        raise DataError(
            f"edge_index names nodes {int(edges.min())} to {int(edges.max())}, but x has {num_nodes} rows.",
            f"Number the nodes from 0 to {num_nodes - 1}.",
        )
    return edges
