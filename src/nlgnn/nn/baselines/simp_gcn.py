r"""SimP-GCN: a learned balance of neighbours and nodes with similar features.

From Jin et al., `"Node Similarity Preserving Graph Convolutional Networks" <https://arxiv.org/abs/2011.09643>`_, WSDM
2021. Let :math:`\hat{A} = \tilde{D}^{-1/2} (A + I) \tilde{D}^{-1/2}`, where :math:`A` contains the edge weights or
ones, let :math:`S` be the cosine similarities of each node with its most similar nodes (see below), and let
:math:`\hat{A}_f = D_S^{-1/2} S D_S^{-1/2}`, where :math:`D_S` contains the row sums. A layer has two gates per node

.. math::
    s_v = \mathrm{sigmoid}(h_v^T w_s + b_s), \quad k_v = h_v^T w_k + b_k

and, with :math:`g(M) = \sigma(M H W + b)`, computes, as in the authors' program,

.. math::
    H' = s\, g(\hat{A}) + (1 - s)\, g(\hat{A}_f) + \gamma k\, g(I).

The model has two layers, with ReLU and dropout after the first. Its hidden units also learn to predict the similarity
of pairs of nodes, with the loss

.. math::
    \mathrm{cross\ entropy} + \lambda\, \mathrm{mean}_{(i, j)} (|h_i - h_j|^T w + b - S_{ij})^2.

The similarity of two nodes is the cosine of their rows of :math:`B = (X \ne 0)`, which ignores the magnitudes.
If more than half of all features are nonzero, as in word embeddings, :math:`B` is hardly informative, and the cosine of
the features themselves is used. A row of zeros is similar to no other row. All rows are compared with each other, one
block of rows at a time, in O(n²) time and O(n) memory in addition to the features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, NonNegative, Rate, checked
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Edges, Features, features
from nlgnn.nn.kernels.dropout import Dropout, RandomSubset
from nlgnn.nn.kernels.function import Kernel
from nlgnn.nn.kernels.sparse import Operator, multiply, spmm
from nlgnn.nn.layers import cross_entropy, divided_by_degrees, times, with_diagonal

PAIRS_A_STEP = 10_000  # pairs sampled for every step if there are more


class SimPInputs(NamedTuple):
    """Inputs of `forward`: features, both graphs, and pairs of nodes with their similarities."""

    x: Features
    adjacency: Operator
    feature_graph: Operator
    pairs: Tensor
    similarities: Tensor


class SimPOutput(NamedTuple):
    """Output in training if the loss includes similarities."""

    logits: Tensor
    pair_error: Tensor


class SimPGCN(Model):
    """SimP-GCN, which mixes neighbours, nodes with similar features and the node itself (Jin et al., WSDM 2021).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layer.
        out_channels: Number of classes.
        gamma: Weight of the node itself.
        similarity_loss: Weight of the loss on feature similarities. With 0, it is omitted.
        gate_bias: Initial bias of the gate between both graphs. A positive bias favours the given graph.
        num_similar: Number of most similar nodes that a node aggregates. The comparison is between the sets of nonzero
            features or, if more than half of all features are nonzero, between the features themselves.
        directed: Whether edges keep their direction in the data. They do in the authors' program, where a self loop
            counts twice instead of once. Otherwise, edges are used in both directions.
        dropout: Share of hidden units dropped in training.

    Example:
        >>> from nlgnn import SimPGCN, Recipe, load_graph, prepare
        >>> graph = load_graph("mushroom-body")
        >>> model = SimPGCN(graph.num_features, 16, graph.num_classes)
        >>> model(*prepare(model, graph, Recipe())).shape
        torch.Size([209, 4])
    """

    uses_edge_weights = True
    estimable = False  # comparing all pairs of nodes is too slow for a trial

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        gamma: float = 0.1,
        similarity_loss: NonNegative = 1.0,
        gate_bias: float = 0.0,
        num_similar: Count = 20,
        directed: bool = False,
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.num_similar, self.directed = num_similar, directed
        self.similarity_loss = similarity_loss
        self.first = GatedConvolution(in_channels, hidden_channels, gamma, gate_bias)
        self.second = GatedConvolution(hidden_channels, out_channels, gamma, gate_bias)
        self.dropout = Dropout(dropout)
        if similarity_loss > 0:
            self.similarity = nn.Linear(hidden_channels, 1)
            self.sample = RandomSubset(PAIRS_A_STEP)

    def prepare(self, graph: Graph) -> SimPInputs:
        """Return the inputs of `forward`. The features must be in memory, because all pairs are compared."""
        x = graph.x if isinstance(graph.x, sparse.csr_array) else graph.dense_features()
        similar = feature_similarity(x, self.num_similar)
        adjacency = with_diagonal(graph.directed_weights if self.directed else graph.undirected_weights)
        dtype = self.first.weight.dtype
        return SimPInputs(
            features(graph),
            divided_by_degrees(adjacency, dtype, symmetric=not self.directed),
            divided_by_degrees(similar.neighbours, dtype, symmetric=False),
            torch.from_numpy(similar.pairs),
            torch.from_numpy(similar.cosines).to(dtype),
        )

    def forward(
        self, x: Features, adjacency: Edges, feature_graph: Operator | None = None, *_: Tensor
    ) -> Float[Tensor, "n c"]:
        """Return the logits. Pairs and their similarities are for the training loss alone."""
        logits: Tensor = self.second(self._hidden(x, adjacency, feature_graph), adjacency, feature_graph)
        return logits

    def training_output(
        self,
        x: Features,
        adjacency: Edges,
        feature_graph: Operator | None = None,
        pairs: Int[Tensor, "2 p"] | None = None,
        similarities: Float[Tensor, " p"] | None = None,
    ) -> Float[Tensor, "n c"] | SimPOutput:
        """Return the logits and, if similarities are learned, the error of their prediction."""
        hidden = self._hidden(x, adjacency, feature_graph)
        logits: Tensor = self.second(hidden, adjacency, feature_graph)
        if self.similarity_loss == 0 or pairs is None or similarities is None:
            return logits
        return SimPOutput(logits, self._pair_error(hidden, pairs, similarities))

    def _hidden(self, x: Features, adjacency: Edges, feature_graph: Operator | None) -> Float[Tensor, "n f"]:
        if not isinstance(adjacency, Operator) or feature_graph is None:
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        hidden: Tensor = self.dropout(self.first(x, adjacency, feature_graph, torch.relu))
        return hidden

    def _pair_error(
        self, hidden: Float[Tensor, "n f"], pairs: Int[Tensor, "2 p"], similarities: Float[Tensor, " p"]
    ) -> Float[Tensor, ""]:
        """Return the mean squared error of the similarities predicted from hidden units."""
        if len(similarities) > self.sample.size:
            drawn = self.sample(len(similarities), hidden)
            pairs, similarities = pairs.index_select(1, drawn), similarities.index_select(0, drawn)
        differences: Tensor = _Differences.apply(pairs, len(hidden), False, hidden)
        told: Tensor = self.similarity(differences.abs()).squeeze(1)
        return (told - similarities).square().sum() / max(1, len(similarities))  # a single node has no pairs

    def loss(self, output: Tensor | SimPOutput, y: Int[Tensor, " n"], nodes: Tensor) -> Float[Tensor, ""]:
        """Return the cross entropy and, in training, add the error of the predicted similarities."""
        if isinstance(output, Tensor):
            return cross_entropy(output, y, nodes)
        return cross_entropy(output.logits, y, nodes) + self.similarity_loss * output.pair_error


class GatedConvolution(nn.Module):
    """Layer of SimP-GCN.

    The last two columns of the weight are `w_s` and `w_k`, so that a single product computes everything.
    """

    def __init__(self, in_channels: int, out_channels: int, gamma: float, gate_bias: float) -> None:
        super().__init__()
        self.gamma, self.gate_bias_start, self.out_channels = gamma, gate_bias, out_channels
        self.weight = nn.Parameter(torch.empty(in_channels, out_channels + 2))
        self.bias = nn.Parameter(torch.empty(out_channels))
        self.gate_bias = nn.Parameter(torch.empty(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        in_channels = len(self.weight)
        nn.init.uniform_(self.weight, -1, 1)  # w_s and w_k keep this scale, as in the authors' program
        with torch.no_grad():
            self.weight[:, : self.out_channels] *= math.sqrt(6 / (in_channels + self.out_channels))  # Glorot
            self.gate_bias.copy_(torch.tensor([self.gate_bias_start, 0.0]))
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
        branches = (spmm(adjacency, h), spmm(feature_graph, h), h)
        given, similar, itself = (activation(branch + self.bias) for branch in branches)
        return torch.lerp(similar, given, choice.sigmoid()).addcmul(own, itself, value=self.gamma)


class _Differences(Kernel):
    """Differences of pairs of rows, or their transpose, as a sparse product: twice as fast as indexing in torch."""

    @staticmethod
    def forward(pairs: Tensor, num_nodes: int, transpose: bool, dense: Tensor) -> Tensor:
        num_pairs = pairs.shape[1]
        pointers = torch.arange(0, 2 * num_pairs + 1, 2, device=pairs.device)
        signs = dense.new_ones(2 * num_pairs)
        signs[1::2] = -1
        operator = Operator(pointers, pairs.t().flatten(), signs, (num_pairs, num_nodes))
        operator = operator.transpose if transpose else operator
        return multiply(operator, operator.values, dense)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, int, bool, Tensor], output: Tensor) -> None:
        ctx.pairs, ctx.num_nodes, ctx.transpose, _ = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None, Tensor]:
        return None, None, None, _Differences.apply(ctx.pairs, ctx.num_nodes, not ctx.transpose, gradient)


EXTREMES = 5  # pairs per node with the least similar nodes, and with the most similar ones
# Cosines that differ by at most this are ties, which random numbers with a fixed seed break. Node indices must not
# break them, because files may be sorted by class. Cosines up to this value do not count as similarity.
TIE = 1e-9
BLOCK_ENTRIES, FEWEST_ROWS = 2**21, 16  # size of a block of similarities


class FeatureSimilarity(NamedTuple):
    """Neighbours and pairs of nodes with similar features.

    Args:
        neighbours: The positive cosines of each node with its most similar other nodes, one row per node.
        pairs: The pairs of each node with its least and most similar other nodes, each pair once.
        cosines: The cosines of the pairs.
    """

    neighbours: sparse.csr_array
    pairs: Int[np.ndarray, "2 p"]
    cosines: Float[np.ndarray, " p"]


def feature_similarity(x: NDArray[np.float32] | sparse.csr_array, num_neighbours: int) -> FeatureSimilarity:
    """Return the `num_neighbours` most similar nodes per node, and its `EXTREMES` least and most similar pairs."""
    num_nodes = x.shape[0]
    others = num_nodes - 1
    wanted, extremes = min(max(num_neighbours, EXTREMES), others), min(EXTREMES, others)
    lot = np.random.default_rng(0)
    degrees, columns, weights, pairs, pair_cosines = [], [], [], [], []
    for start, cosines in _cosine_blocks(x):
        rows = np.arange(start, start + len(cosines))[:, None]
        ranks = lot.random(cosines.shape)
        ranks *= TIE
        ranks += cosines
        np.put_along_axis(ranks, rows, np.inf, axis=1)
        most = _largest(ranks, wanted + 1)[:, 1:]  # the first is the node itself
        least = np.argpartition(ranks, extremes, axis=1)[:, :extremes]

        nearest = most[:, :num_neighbours]
        similarity = np.take_along_axis(cosines, nearest, axis=1)
        similar = similarity > TIE
        degrees.append(similar.sum(1))
        columns.append(nearest[similar])
        weights.append(similarity[similar])

        partners = np.concatenate([least, most[:, :extremes]], axis=1)
        pairs.append((np.minimum(rows, partners) * num_nodes + np.maximum(rows, partners)).ravel())
        pair_cosines.append(np.take_along_axis(cosines, partners, axis=1).ravel())
    distinct, first = np.unique(np.concatenate(pairs), return_index=True)
    pointers = np.concatenate([[0], np.cumsum(np.concatenate(degrees))])
    neighbours = sparse.csr_array(
        (np.concatenate(weights), np.concatenate(columns), pointers), shape=(num_nodes, num_nodes)
    )
    neighbours.sort_indices()
    return FeatureSimilarity(neighbours, np.stack(np.divmod(distinct, num_nodes)), np.concatenate(pair_cosines)[first])


def _cosine_blocks(x: NDArray[np.float32] | sparse.csr_array) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Yield the index of the first row of each block, and the cosines of the block with all rows."""
    num_nodes, num_features = x.shape
    filled = x.count_nonzero() if isinstance(x, sparse.csr_array) else np.count_nonzero(x)
    if 2 * filled > num_nodes * num_features:
        compared = (x.toarray() if isinstance(x, sparse.csr_array) else x).astype(np.float64)
        norms = np.linalg.norm(compared, axis=1)
    else:
        compared = sparse.csr_array(x != 0, dtype=np.float32)  # products are integers, exact in float32
        norms = np.sqrt(np.diff(compared.indptr))
    factors = np.divide(1, norms, out=np.zeros(num_nodes), where=norms > 0)
    step = max(FEWEST_ROWS, BLOCK_ENTRIES // num_nodes)
    for start in range(0, num_nodes, step):
        block = compared[start : start + step]
        # The product with a dense block is several times as fast as the product of two sparse matrices.
        products = block @ compared.T if isinstance(block, np.ndarray) else (compared @ block.T.toarray()).T
        cosines = np.empty(products.shape)
        np.multiply(products, factors, out=cosines)
        cosines *= factors[start : start + step, None]
        yield start, cosines


def _largest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the column indices of the largest values of each row, in descending order."""
    places = np.argpartition(values, -count, axis=1)[:, -count:]
    order = np.take_along_axis(values, places, axis=1).argsort(axis=1)[:, ::-1]
    return np.take_along_axis(places, order, axis=1)
