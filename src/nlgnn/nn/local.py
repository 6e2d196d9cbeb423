r"""The local embeddings: MLP, GCN and GAT, each a stack of layers with ReLU and dropout between them.

With :math:`\hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}`, where :math:`A` holds the weights of edges (1 where
they have none) and :math:`\tilde{D}` the sums of the rows of :math:`A + I`, and inverted dropout `drop`, for two layers

.. math::
    \text{MLP:}\; Z &= \mathrm{drop}(\mathrm{relu}(\mathrm{drop}(X) W_1 + b_1)) W_2 + b_2 \\
    \text{GCN:}\; Z &= \hat{A} (\mathrm{drop}(\mathrm{relu}(\hat{A} X W_1 + b_1)) W_2) + b_2 \\
    \text{GAT:}\; Z_v &= \sum_{u \in N(v) \cup \{v\}} \mathrm{drop}(\alpha_{vu}) W x_u + b, \quad
    \alpha_{vu} = \mathrm{softmax}_u\, \mathrm{leakyrelu}(a_{dst}^T W x_v + a_{src}^T W x_u)

No activation follows the last layer, so that embeddings may be negative.
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
from nlgnn.nn.checks import check_choice, check_rate, check_width
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.graph_attention import GraphAttention, neighbourhoods
from nlgnn.nn.inputs import Edges, Features, Inputs, features
from nlgnn.nn.layers import (
    FeatureLinear,
    GraphConvolution,
    Layer,
    concatenated,
    normalised,
    normalised_adjacency,
    split,
    times,
    with_diagonal,
)
from nlgnn.nn.model import Model, drop_features
from nlgnn.nn.sparse import Operator

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "elu": F.elu}
Project = Callable[[int], Tensor]  # from the number of a part to its columns of x W


class LocalModel(Model, ABC):
    """A stack of layers; subclasses say which, and which operator these layers propagate with."""

    recompute: bool = False  # whether parts of hidden layers are computed again for their gradients, not kept

    def __init__(
        self,
        layers: list[nn.Module],
        dropout: float,
        input_dropout: float,
        activation: Literal["relu", "elu"] = "relu",
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.dropout = Dropout(dropout)
        self.input_dropout = Dropout(input_dropout)
        self.activation = ACTIVATIONS[check_choice("activation", activation, tuple(ACTIVATIONS))]

    @abstractmethod
    def operator(self, edges: Edges, num_nodes: int) -> Operator | None:
        """The prepared form of `edge_index`; prepared ones pass through."""

    @abstractmethod
    def operator_of(self, adjacency: sparse.csr_array) -> Operator | None:
        """The same, of a symmetric matrix of weights, or of ones, without self loops."""

    def prepare(self, graph: Graph) -> Inputs:
        """What forward takes, computed once a graph. Edges are taken in both directions."""
        adjacency = graph.undirected_adjacency if self.ignores_weights else graph.undirected_weights
        return Inputs(features(graph), self.operator_of(adjacency))

    def forward(self, x: Features, edge_index: Edges = None) -> Float[Tensor, "n f"]:
        operator = self.operator(edge_index, x.shape[0])
        return self.embed(drop_features(x, self.input_dropout), operator)

    def embed(self, x: Features, operator: Operator | None) -> Float[Tensor, "n f"]:
        """Part after part of a layer, each at once multiplied by its rows of the next weight: a sum of narrow products.

        Heads of attention are parts always, columns of other layers where memory is short. Nothing is concatenated.
        """
        layers = [cast(Layer, layer) for layer in self.layers]
        widths = layers[0].widths(self.recompute)
        weights = split(layers[0].weight, widths, dim=1)
        project: Project = lambda part: times(x, weights[part])  # noqa: E731
        for layer, following in pairwise(layers):
            fold = partial(self._fold, layer, project, operator, split(following.weight, widths))
            if self.recompute:
                fold = partial(checkpoint, fold, use_reentrant=False)
            projected: Tensor = reduce(torch.add, map(fold, range(len(widths))))
            widths = following.widths(self.recompute)
            project = split(projected, widths, dim=1).__getitem__
        return concatenated([layers[-1].propagate(part, project(part), operator) for part in range(len(widths))])

    def _fold(
        self, layer: Layer, project: Project, operator: Operator | None, rows: tuple[Tensor, ...], part: int
    ) -> Float[Tensor, "n f"]:
        """What one part of a layer adds to the projected features of the next."""
        hidden = self.dropout(self.activation(layer.propagate(part, project(part), operator)))
        return times(hidden, rows[part])


class MLP(LocalModel):
    """Looks at the features of each node alone.

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layers.
        out_channels: width of the result.
        num_layers: layers of the local embedding.
        dropout: share of hidden units dropped in training.
        input_dropout: share of input features dropped in training; as `dropout` where not given.
    """

    ignores_weights = False  # it looks at no edges to begin with

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
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        super().__init__(
            [FeatureLinear(a, b) for a, b in widths],
            check_rate("dropout", dropout),
            check_rate("input_dropout", dropout if input_dropout is None else input_dropout),
        )

    def operator(self, edges: Edges, num_nodes: int) -> None:
        return None

    def operator_of(self, adjacency: sparse.csr_array) -> None:
        return None

    def prepare(self, graph: Graph) -> Inputs:
        return Inputs(features(graph), None)


class GCN(LocalModel):
    """Averages over neighbours with symmetric normalisation (Kipf and Welling, ICLR 2017).

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
        widths = layer_widths(in_channels, hidden_channels, out_channels, num_layers)
        super().__init__(
            [GraphConvolution(a, b) for a, b in widths],
            check_rate("dropout", dropout),
            check_rate("input_dropout", input_dropout or 0.0),
        )

    def operator(self, edges: Edges, num_nodes: int) -> Operator:
        if isinstance(edges, Operator):
            return edges
        return normalised_adjacency(given(edges, num_nodes), num_nodes, next(self.parameters()).dtype)

    def operator_of(self, adjacency: sparse.csr_array) -> Operator:
        return normalised(adjacency, next(self.parameters()).dtype)


class GAT(LocalModel):
    """Attends to neighbours (Veličković et al., ICLR 2018). Hidden layers concatenate their heads, the last has one.

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layers, a head: with 8 heads they are 8 times as wide.
        out_channels: width of the result.
        num_layers: layers of the local embedding.
        heads: attention heads of the hidden layers.
        dropout: share of hidden units and of attention weights dropped in training.
        input_dropout: share of input features dropped in training; 0 where not given.
        activation: after the hidden layers: relu, as Liu et al. use it, or elu, as Veličković et al. do.
    """

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        num_layers: int = 2,
        heads: int = 8,
        dropout: float = 0.0,
        input_dropout: float | None = None,
        activation: Literal["relu", "elu"] = "relu",
    ) -> None:
        check_width("heads", heads)
        check_rate("dropout", dropout)
        layers: list[nn.Module] = []
        for layer, (a, b) in enumerate(layer_widths(in_channels, hidden_channels, out_channels, num_layers)):
            wide = a if layer == 0 else a * heads
            layers.append(GraphAttention(wide, b, heads if layer < num_layers - 1 else 1, dropout))
        super().__init__(layers, dropout, check_rate("input_dropout", input_dropout or 0.0), activation)

    def operator(self, edges: Edges, num_nodes: int) -> Operator:
        return edges if isinstance(edges, Operator) else neighbourhoods(given(edges, num_nodes), num_nodes)

    def operator_of(self, adjacency: sparse.csr_array) -> Operator:
        return Operator.from_scipy(with_diagonal(adjacency), symmetric=True)


def given(edges: Tensor | None, num_nodes: int) -> Tensor:
    if edges is None:
        raise OptionError("this model needs edge_index.", "Call it as model(x, edge_index).")
    if edges.ndim != 2 or edges.shape[0] != 2 or edges.is_floating_point():
        raise DataError(
            f"edge_index is of shape {list(edges.shape)} and type {edges.dtype}.",
            "Give node numbers as [2, num_edges]: sources, then targets.",
        )
    # A sparse product reads where it is told to, also beyond the last row.
    if edges.numel() and not (edges.min() >= 0 and edges.max() < num_nodes):
        raise DataError(
            f"edge_index names nodes {int(edges.min())} to {int(edges.max())}, but x has {num_nodes} rows.",
            f"Number the nodes from 0 to {num_nodes - 1}.",
        )
    return edges


def layer_widths(in_channels: int, hidden_channels: int, out_channels: int, num_layers: int) -> list[tuple[int, int]]:
    """Input and output width of every layer."""
    for name, width in [
        ("in_channels", in_channels),
        ("hidden", hidden_channels),
        ("out_channels", out_channels),
        ("num_layers", num_layers),
    ]:
        check_width(name, width)
    widths = [in_channels] + [hidden_channels] * (num_layers - 1) + [out_channels]
    return list(pairwise(widths))
