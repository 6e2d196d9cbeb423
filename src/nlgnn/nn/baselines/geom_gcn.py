r"""Geom-GCN: neighbours in the graph and in a latent space, with one weight per quadrant.

From Pei et al., `"Geom-GCN: Geometric Graph Convolutional Networks" <https://arxiv.org/abs/2002.05287>`_, ICLR 2020.
Every node has a position in a plane. Each pair of neighbours, in the graph or in the plane, lies in one of Q divisions:
{graph, latent} x {4 quadrants}, and one for the self loop; with a single neighbourhood, Q is five. Let :math:`E^*` be
all pairs and :math:`\deg^*(v)` the number of pairs that end in :math:`v`. With one weight per division,

.. math::
    N_q[v, u] &= (\deg^*(v) \deg^*(u))^{-1/2} \;\text{for}\; u \to v \;\text{in division}\; q \\
    H &= \mathrm{relu}(\big\Vert_q N_q \,\mathrm{drop}(X)\, W_q) \\
    Z &= \frac{1}{Q} \sum_q N_q \,\mathrm{drop}(H)\, V_q

as in the authors' program: the degree counts all divisions together, and Q includes empty divisions.

All divisions are computed in one product. Row :math:`v` of :math:`X W`, with concatenated weights, is read as Q rows,
and an operator with :math:`Q n` rows and columns has one entry per pair, between the rows of its division.

The latent space of any graph is computed by Isomap in the plane.

Hop distances :math:`d_{vu}` inside the largest component become positions :math:`z_v` by classical scaling: the two
largest eigenvalues :math:`\lambda_i` of :math:`B = -\frac12 J D^{(2)} J` (squared distances, centred twice) and their
eigenvectors :math:`e_i` give :math:`z_{vi} = \sqrt{\lambda_i}\, e_{vi}`. On large graphs :math:`B` is that of some
landmarks, and the position of a node follows from its distances to them (de Silva and Tenenbaum, 2004):

.. math::
    z_{xi} = -\frac{1}{2 \sqrt{\lambda_i}} \sum_l e_{li} (d_{xl}^2 - \overline{d_l^2}),

which is the same if all nodes are landmarks. A repeated eigenvalue does not determine its eigenvectors; any are used.

Two nodes are close if :math:`|z_v - z_u| < \rho`, where :math:`\rho` is the distance of the m-th closest pair and m the
number of edges. Both neighbourhoods then have the same mean size, except for pairs at exactly that distance.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.spatial import KDTree
from torch import Tensor, nn

from nlgnn.datasets.formats.geom_gcn import Relations
from nlgnn.datasets.load import load_relations
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Model, Rate, checked, drop_features
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Edges, Features, features
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, spmm
from nlgnn.nn.layers import inverse_power, times

Neighbourhood = Literal["both", "graph", "latent"]


class GeomInputs(NamedTuple):
    """Inputs of `forward`, in the order of its arguments."""

    x: Features
    within_divisions: Operator  # [Q n, Q n], between the same division of two nodes
    mean_over_divisions: Operator  # [n, Q n]


class Pairs(NamedTuple):
    """All pairs that pass messages, including self loops, and the division of each."""

    receiver: NDArray[np.int64]
    sender: NDArray[np.int64]
    division: NDArray[np.int64]


class GeomGCN(Model):
    """Geom-GCN, with one weight per quadrant of the graph and latent neighbours (Pei et al., ICLR 2020).

    Args:
        in_channels: Number of features per node.
        hidden_channels: Width of the hidden layer per division. With 9 divisions, the layer is 9 times as wide.
        out_channels: Width of the output.
        neighbourhood: Neighbours that are aggregated. graph is Geom-GCN-g, latent is Geom-GCN-s, and both uses the
            graph and the latent space.
        space: Latent space of the relations. isomap is computed for any graph. The others are relations that the
            authors published for named graphs, from their own Isomap (isomap-released), the Poincaré disc or struc2vec.
        dropout: Share of input features and hidden units dropped.

    Example:
        >>> from nlgnn import GeomGCN, Recipe, load_graph, prepare
        >>> graph = load_graph("mushroom-body")
        >>> model = GeomGCN(graph.num_features, 16, graph.num_classes)
        >>> model(*prepare(model, graph, Recipe())).shape
        torch.Size([209, 4])
    """

    estimable = False  # published relations belong to one graph, and Isomap is too slow for a trial

    @checked
    def __init__(
        self,
        in_channels: Count,
        hidden_channels: Count,
        out_channels: Count,
        *,
        neighbourhood: Neighbourhood = "both",
        space: Literal["isomap", "isomap-released", "poincare", "struc2vec"] = "isomap",
        dropout: Rate = 0.0,
    ) -> None:
        super().__init__()
        self.neighbourhood, self.space = neighbourhood, space
        self.hidden_channels, self.out_channels = hidden_channels, out_channels
        self.divisions = 9 if neighbourhood == "both" else 5
        wide = self.divisions * hidden_channels
        self.weight = nn.Parameter(torch.empty(in_channels, wide))
        self.output_weight = nn.Parameter(torch.empty(wide, self.divisions * out_channels))
        self.input_dropout = Dropout(dropout)
        self.dropout = Dropout(dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the weight of each division separately with the Xavier uniform distribution."""
        for weight, width in ((self.weight, self.hidden_channels), (self.output_weight, self.out_channels)):
            bound = math.sqrt(6 / (weight.shape[0] + width))
            nn.init.uniform_(weight, -bound, bound)

    def prepare(self, graph: Graph) -> GeomInputs:
        """Return the inputs of `forward`. This computes the latent space or reads its published relations."""
        if self.space == "isomap":
            relations = isomap_relations(graph, latent=self.neighbourhood != "graph")
        else:
            relations = load_relations(graph, self.space)
        pairs = divided_pairs(relations, graph.num_nodes, self.neighbourhood)
        return GeomInputs(features(graph), *operators(pairs, graph.num_nodes, self.divisions, self.weight.dtype))

    def forward(
        self, x: Features, within_divisions: Edges, mean_over_divisions: Operator | None = None
    ) -> Float[Tensor, "n classes"]:
        if not isinstance(within_divisions, Operator) or mean_over_divisions is None:
            raise OptionError(*TAKES_WHAT_IT_PREPARES)
        projected = times(drop_features(x, self.input_dropout), self.weight)
        aggregated = spmm(within_divisions, projected.reshape(-1, self.hidden_channels)).relu_()
        hidden = self.dropout(aggregated.reshape(projected.shape))
        return spmm(mean_over_divisions, times(hidden, self.output_weight).reshape(-1, self.out_channels))


def divided_pairs(relations: Relations, num_nodes: int, neighbourhood: Neighbourhood) -> Pairs:
    """Return each pair once, in one division.

    A neighbour both in the graph and in the latent space counts only in the latent space. The second node of a
    published line receives, as in the authors' program.
    """
    first, second, latent, quadrant = relations
    divisions = quadrant + 4 * latent if neighbourhood == "both" else quadrant
    wanted = first != second
    if neighbourhood != "both":
        wanted &= latent == (neighbourhood == "latent")
    latent_first = np.flatnonzero(wanted)[np.argsort(~latent[wanted], kind="stable")]
    receiver, sender = second[latent_first], first[latent_first]
    once = np.unique(receiver * num_nodes + sender, return_index=True)[1]
    loops = np.arange(num_nodes)
    own_division = np.full(num_nodes, 8 if neighbourhood == "both" else 4)
    return Pairs(
        np.append(receiver[once], loops),
        np.append(sender[once], loops),
        np.append(divisions[latent_first][once], own_division),
    )


def operators(pairs: Pairs, num_nodes: int, divisions: int, dtype: torch.dtype) -> tuple[Operator, Operator]:
    """Return the two operators of `GeomInputs`."""
    receiver, sender, division = pairs
    scale = inverse_power(np.bincount(receiver, minlength=num_nodes), 0.5, dtype)
    values = scale[receiver] * scale[sender]
    rows = num_nodes * divisions
    columns = sender * divisions + division
    within = sparse.csr_array((values, (receiver * divisions + division, columns)), shape=(rows, rows))
    mean = sparse.csr_array((values, (receiver, columns)), shape=(num_nodes, rows))
    mean.data /= divisions
    return Operator.from_scipy(within), Operator.from_scipy(mean)


MOST_LANDMARKS = 8000  # up to this size all nodes are landmarks: a matrix of half a gigabyte
FEW_LANDMARKS = 512  # landmarks of larger graphs: 4 kB per node
DENSE_EIGENVECTORS = 512  # up to this size LAPACK is faster than Lanczos, which also needs more than two rows
SOURCES_AT_ONCE = 64  # sources of one search: the bits of a word, so that all words stay in the cache
MANY_IN_ONE_PLACE = 100  # pairs per edge; more would fill the memory
MANY_HOPS = 100  # beyond this, separate searches from each node are faster than a joint one


def isomap_relations(graph: Graph, latent: bool = True) -> Relations:
    """Return the neighbours in a graph and, if `latent`, in its latent space.

    The quadrant of a pair is the direction from the second node to the first.
    """
    adjacency = graph.undirected_adjacency
    positions = isomap(adjacency)
    neighbours = np.array(adjacency.tocoo().coords, np.int64)
    close = close_pairs(positions, graph.num_edges) if latent else np.empty((2, 0), np.int64)
    second, first = np.concatenate([neighbours, close, close[::-1]], axis=1)
    in_latent_space = np.arange(len(first)) >= neighbours.shape[1]
    return Relations(first, second, in_latent_space, quadrants(positions[second], positions[first]))


def quadrants(centres: Float[np.ndarray, "m 2"], others: Float[np.ndarray, "m 2"]) -> Int[np.ndarray, " m"]:
    """Return the quadrant of each other node: 0 lower left, 1 lower right, 2 upper left, 3 upper right.

    Equal coordinates count as right and above, and so do nodes without a position.
    """
    right, above = ~(others < centres).T
    numbers: NDArray[np.int64] = right + 2 * above
    return numbers


def isomap(adjacency: sparse.csr_array) -> Float[np.ndarray, "n 2"]:
    """Return positions in the plane, computed by Isomap.

    Only the largest component (the first of several) has positions; other nodes, and a component of a single node, get
    NaN. Positions are rounded to a millionth of a hop, so that nodes with the same neighbours have the same position.
    The sign of each axis makes its third moment positive, so that the result does not depend on the order of nodes. It
    does depend on it if that moment is 0, as on a line, and above `MOST_LANDMARKS` nodes, where the order breaks ties
    among landmarks of the same degree.
    """
    positions = np.full((adjacency.shape[0], 2), np.nan)
    component = csgraph.connected_components(adjacency, directed=False)[1]
    members = np.flatnonzero(component == np.bincount(component).argmax())
    if len(members) > 1:
        positions[members] = _directed_axes(_scaled(adjacency[members][:, members]))
    return positions


def close_pairs(positions: Float[np.ndarray, "n 2"], number: int) -> Int[np.ndarray, "2 k"]:
    """Return the pairs of nodes, each once, that are closer than the `number`-th closest pair.

    If the distance of that pair is 0, no pair is closer, and all pairs at distance 0 are returned. Nodes without a
    position are in no pair.
    """
    placed = np.flatnonzero(~np.isnan(positions[:, 0]))
    if number < 1 or len(placed) < 2:
        return np.empty((2, 0), np.int64)
    tree = KDTree(positions[placed])

    def count_within(radius: float) -> int:
        return int(tree.count_neighbors(tree, radius) - len(placed)) // 2

    def pairs_within(radius: float) -> NDArray[np.int64]:
        pairs: NDArray[np.int64] = placed[tree.query_pairs(radius, output_type="ndarray").T]
        return pairs

    in_one_place = count_within(0.0)
    if in_one_place > MANY_IN_ONE_PLACE * number:
        raise DataError(
            f"Isomap puts {in_one_place} pairs of nodes into one place each, on a graph of {number} edges.",
            "Too many nodes have one and the same neighbour for a latent neighbourhood: take neighbourhood=graph.",
        )
    if in_one_place >= number:
        return pairs_within(0.0)
    widest = 2 * float(np.ptp(positions[placed], axis=0).max())
    low, high = 0.0, widest / 1000  # small radii are cheaper to count
    while high < widest and count_within(high) < number:
        low, high = high, 2 * high
    while (count := count_within(high)) > 2 * number and high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if count_within(middle) < number else (low, middle)
    if count > 2 * number:  # too many ties at one distance, none of which is closer than it
        return pairs_within(low)
    pairs = pairs_within(high)
    if count < number:
        return pairs  # there are no others
    distances = np.linalg.norm(positions[pairs[0]] - positions[pairs[1]], axis=1)
    return pairs[:, distances < np.partition(distances, number - 1)[number - 1]]


def hop_distances(adjacency: sparse.csr_array, sources: Int[np.ndarray, " s"]) -> Float[np.ndarray, "n s"]:
    """Return the hop distances from every node of a connected graph to the sources.

    The search proceeds hop by hop from many sources at once, with one bit per source.
    """
    num_nodes = adjacency.shape[0]
    hops = np.empty((num_nodes, len(sources)))
    for start in range(0, len(sources), SOURCES_AT_ONCE):
        some = sources[start : start + SOURCES_AT_ONCE]
        bits = np.zeros((num_nodes, SOURCES_AT_ONCE), np.uint8)
        bits[some, np.arange(len(some))] = 1
        reached = np.packbits(bits, axis=1).view(np.uint64)[:, 0]
        not_yet = np.zeros_like(bits)  # hops without reaching the source, in the end its distance
        for _ in range(MANY_HOPS):
            grown = reached | np.bitwise_or.reduceat(reached[adjacency.indices], adjacency.indptr[:-1])
            if np.array_equal(grown, reached):
                break
            not_yet += np.unpackbits(~reached[:, None].view(np.uint8), axis=1)
            reached = grown
        else:
            return np.asarray(csgraph.dijkstra(adjacency, unweighted=True, indices=sources).T)
        hops[:, start : start + len(some)] = not_yet[:, : len(some)]
    return hops


def _scaled(adjacency: sparse.csr_array) -> Float[np.ndarray, "n 2"]:
    """Return the positions from classical scaling of the hop distances of a connected graph."""
    num_nodes = adjacency.shape[0]
    landmarks = np.arange(num_nodes)
    are_few = num_nodes > MOST_LANDMARKS
    if are_few:  # landmarks cover all degrees
        by_degree = np.argsort(np.diff(adjacency.indptr), kind="stable")
        landmarks = by_degree[np.linspace(0, num_nodes - 1, FEW_LANDMARKS).astype(np.int64)]
    squared = hop_distances(adjacency, landmarks)
    squared *= squared
    among = squared[landmarks] if are_few else squared
    values, vectors = _largest_two(among)
    is_zero = values <= 1e-9 * values[0]  # up to rounding; two nodes, for example, are on a line
    vectors = np.where(is_zero, 0, vectors / np.sqrt(np.where(is_zero, 1, values)))
    return np.asarray((among.mean(0) @ vectors - squared @ vectors) / 2)


def _largest_two(squared: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the two largest eigenvalues of B, in descending order, and their eigenvectors, without storing B."""
    size = len(squared)

    def centred(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        product = squared @ (vectors - vectors.mean(0))
        return np.asarray((product.mean(0) - product) / 2)

    if size <= DENSE_EIGENVECTORS:
        values, vectors = linalg.eigh(centred(np.eye(size)), subset_by_index=[size - 2, size - 1])
    else:
        operator = LinearOperator((size, size), matvec=centred, dtype=np.float64)
        values, vectors = eigsh(operator, k=2, which="LA", v0=np.random.default_rng(0).standard_normal(size))
    return values[::-1], vectors[:, ::-1]


def _directed_axes(positions: Float[np.ndarray, "n 2"]) -> Float[np.ndarray, "n 2"]:
    positions = positions.round(6)
    third_moment = (positions**3).sum(0)
    farthest = positions[np.abs(positions).argmax(0), [0, 1]]  # if both directions look the same
    return np.where(np.where(np.abs(third_moment) > 1e-6, third_moment, farthest) < 0, -positions, positions)
