r"""SimP-GCN (Jin et al., WSDM 2021): every node chooses between its neighbours and the nodes with similar features.

With :math:`\hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}`, the cosines :math:`S` of each node with the most
similar others (`feature_similarity.py`) and :math:`\hat{A}_f = D_S^{-1/2} S D_S^{-1/2}`, where :math:`D_S` has the sums
of the rows and :math:`A` the weights of edges, or ones, a layer has two numbers a node

.. math::
    s_v = \mathrm{sigmoid}(h_v^T w_s + b_s), \quad k_v = h_v^T w_k + b_k

and, with :math:`g(M) = \sigma(M H W + b)`, gives

.. math::
    \text{released:}\; H' &= s\, g(\hat{A}) + (1 - s)\, g(\hat{A}_f) + \gamma k\, g(I) \\
    \text{paper:}\; H' &= \sigma(P H W), \quad
    P = \mathrm{diag}(s) \hat{A} + \mathrm{diag}(1 - s) \hat{A}_f + \gamma\, \mathrm{diag}(k).

Two layers, with ReLU and dropout after the first. Its hidden units also learn to tell the similarity of pairs of nodes:

.. math::
    \mathrm{cross\ entropy} + \lambda\, \mathrm{mean}_{(i, j)} (|h_i - h_j|^T w + b - S_{ij})^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Float, Int
from scipy import sparse
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.checks import check_choice, check_rate, check_width
from nlgnn.nn.dense import cross_entropy
from nlgnn.nn.dropout import Dropout, RandomSubset
from nlgnn.nn.feature_similarity import feature_similarity
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Edges, Features, features
from nlgnn.nn.kernel import Kernel, in_front
from nlgnn.nn.layers import inverse_power, scaled, times, with_diagonal
from nlgnn.nn.model import Model
from nlgnn.nn.sparse import Operator, multiply, spmm

PAIRS_A_STEP = 10_000  # of more pairs so many are drawn for every step


class SimPInputs(NamedTuple):
    """What `forward` takes, in its order: features, both graphs, pairs of nodes and their similarities."""

    x: Features
    adjacency: Operator
    feature_graph: Operator
    pairs: Tensor
    similarities: Tensor


class SimPOutput(NamedTuple):
    """What is returned in training where the loss looks at similarities too."""

    logits: Tensor
    pair_error: Tensor


class SimPGCN(Model):
    """Mixes neighbours, nodes with similar features and the node itself (SimP-GCN; Jin et al., WSDM 2021).

    Args:
        in_channels: features a node.
        hidden_channels: width of the hidden layer.
        out_channels: classes.
        gamma: weight of the node itself.
        similarity_loss: weight of the error in telling how similar the features of two nodes are; 0 = none is made.
        gate_bias: where the bias of the choice between both graphs starts: above 0 favours the given one.
        neighbours: most similar nodes that a node gathers from. Compared is which features are not 0 or, where more
            than half are not, the features themselves.
        form: released adds a bias and applies ReLU before the mix, as the authors' program does; paper applies ReLU
            after it, and adds none.
        directed: whether nodes gather only from the targets of their edges as they stand in the data, whatever the
            graph says of their direction: so does the authors' program (there a self loop counts twice, here once).
            Else edges are taken in both directions.
        dropout: share of hidden units dropped in training.
    """

    ignores_weights = False
    estimable = False  # comparing all nodes with all takes too long to be tried out

    def __init__(
        self,
        in_channels: int,
        hidden_channels: int,
        out_channels: int,
        *,
        gamma: float = 0.1,
        similarity_loss: float = 1.0,
        gate_bias: float = 0.0,
        neighbours: int = 20,
        form: Literal["released", "paper"] = "released",
        directed: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, width in (("in_channels", in_channels), ("hidden", hidden_channels), ("out_channels", out_channels)):
            check_width(name, width)
        check_choice("form", form, ("released", "paper"))
        if similarity_loss < 0:
            raise OptionError(f"similarity_loss={similarity_loss} is not a weight.", "Give a number of at least 0.")
        self.neighbours, self.directed = check_width("neighbours", neighbours), directed
        self.similarity_loss = similarity_loss
        self.first = GatedConvolution(in_channels, hidden_channels, gamma, gate_bias, form)
        self.second = GatedConvolution(hidden_channels, out_channels, gamma, gate_bias, form)
        self.dropout = Dropout(check_rate("dropout", dropout))
        if similarity_loss > 0:
            self.similarity = nn.Linear(hidden_channels, 1)
            # Makes the model count as random, without dropout too: a forward that evaluates and is kept for the next
            # step would draw pairs before a checkpoint is written, and a resumed training would draw others.
            self.sample = RandomSubset(PAIRS_A_STEP)

    def prepare(self, graph: Graph) -> SimPInputs:
        """What forward takes, computed once a graph. All features are compared with all: they have to be in memory."""
        x = graph.x if isinstance(graph.x, sparse.csr_array) else graph.dense_features()
        similar = feature_similarity(x, self.neighbours)
        adjacency = with_diagonal(graph.directed_weights if self.directed else graph.undirected_weights)
        return SimPInputs(
            features(graph),
            self._operator(adjacency, symmetric=not self.directed),
            self._operator(similar.neighbours),
            torch.from_numpy(similar.pairs),
            torch.from_numpy(similar.cosines).to(self.first.weight.dtype),
        )

    def _operator(self, matrix: sparse.csr_array, symmetric: bool = False) -> Operator:
        """Each entry divided by the roots of the sums of two rows: its own, and the one whose number is its column."""
        roots = inverse_power(matrix.sum(axis=1), 0.5, self.first.weight.dtype)
        return scaled(matrix, roots, roots, symmetric)

    def forward(
        self,
        x: Features,
        adjacency: Edges,
        feature_graph: Operator | None = None,
        pairs: Int[Tensor, "2 p"] | None = None,
        similarities: Float[Tensor, " p"] | None = None,
    ) -> Float[Tensor, "n c"] | SimPOutput:
        if not isinstance(adjacency, Operator) or feature_graph is None or pairs is None or similarities is None:
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        hidden = self.dropout(self.first(x, adjacency, feature_graph, torch.relu))
        logits: Tensor = self.second(hidden, adjacency, feature_graph)
        if not self.training or self.similarity_loss == 0:
            return logits
        return SimPOutput(logits, self._pair_error(hidden, pairs, similarities))

    def _pair_error(
        self, hidden: Float[Tensor, "n f"], pairs: Int[Tensor, "2 p"], similarities: Float[Tensor, " p"]
    ) -> Float[Tensor, ""]:
        """The mean squared error of the similarities that are told from hidden units."""
        if len(similarities) > self.sample.size:
            drawn = self.sample(len(similarities), hidden)
            pairs, similarities = pairs.index_select(1, drawn), similarities.index_select(0, drawn)
        differences: Tensor = _Differences.apply(pairs, len(hidden), False, hidden)
        told: Tensor = self.similarity(differences.abs()).squeeze(1)
        return (told - similarities).square().sum() / max(1, len(similarities))  # one node has no pairs

    def loss(self, output: Tensor | SimPOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Cross entropy, and in training the error in telling similarities."""
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        return cross_entropy(output.logits, y, nodes) + self.similarity_loss * output.pair_error


class GatedConvolution(nn.Module):
    """One layer of SimP-GCN. The last two columns of the weight are `w_s` and `w_k`, so that one product gives all."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        gamma: float,
        gate_bias: float,
        form: Literal["released", "paper"],
    ) -> None:
        super().__init__()
        self.gamma, self.gate_bias_start, self.out_channels = gamma, gate_bias, out_channels
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels + 2))
        self.bias = nn.Parameter(torch.empty(out_channels)) if form == "released" else None
        self.gate_bias = nn.Parameter(torch.empty(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        in_channels = len(self.weight)
        nn.init.uniform_(self.weight, -1, 1)  # so w_s and w_k stay, as in the authors' program
        with torch.no_grad():
            self.weight[:, : self.out_channels] *= math.sqrt(6 / (in_channels + self.out_channels))  # Glorot
            self.gate_bias.copy_(torch.tensor([self.gate_bias_start, 0.0]))
            if self.bias is not None:
                self.bias.zero_()

    def forward(
        self,
        x: Features,
        adjacency: Operator,
        feature_graph: Operator,
        activation: Callable[[Tensor], Tensor] = lambda h: h,
    ) -> Float[Tensor, "n f"]:
        h, gates = times(x, self.weight).split([self.out_channels, 2], dim=1)
        choice, own = (gates + self.gate_bias).split(1, dim=1)
        branches = [spmm(adjacency, h), spmm(feature_graph, h), h]
        if self.bias is not None:
            branches = [activation(branch + self.bias) for branch in branches]
        given, similar, itself = branches
        mixed = torch.lerp(similar, given, choice.sigmoid()).addcmul(own, itself, value=self.gamma)
        return mixed if self.bias is not None else activation(mixed)


class _Differences(Kernel):
    """Of pairs of rows, or the transpose of that: a sparse product, since torch takes twice as long to add up rows."""

    @staticmethod
    def forward(pairs: Tensor, num_nodes: int, transpose: bool, dense: Tensor) -> Tensor:
        num_pairs = pairs.shape[1]
        pointers = torch.arange(0, 2 * num_pairs + 1, 2, device=pairs.device)
        signs = torch.tensor([1, -1], dtype=dense.dtype, device=dense.device).repeat(num_pairs)
        operator = Operator(pointers, pairs.t().flatten(), signs, (num_pairs, num_nodes))
        operator = operator.transpose if transpose else operator
        return multiply(operator, operator.values, dense)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, bool, Tensor], output: Tensor) -> None:
        ctx.pairs, ctx.num_nodes, ctx.transpose, _ = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, Tensor]:
        return None, None, None, _Differences.apply(ctx.pairs, ctx.num_nodes, not ctx.transpose, gradient)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], pairs: Tensor, num_nodes: int, transpose: bool, dense: Tensor
    ) -> tuple[Tensor, int]:
        each = zip(*in_front(info, (in_dims[0], in_dims[3]), (pairs, dense)), strict=True)
        return torch.stack([_Differences.apply(own, num_nodes, transpose, rows) for own, rows in each]), 0
