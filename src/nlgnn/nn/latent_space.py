r"""The latent space of Geom-GCN, for any graph: Isomap in the plane, and who is close to whom there.

Hop distances :math:`d_{vu}` inside the largest component become positions :math:`z_v` by classical scaling: the two
largest eigenvalues :math:`\lambda_i` of :math:`B = -\frac12 J D^{(2)} J` (squared distances, centred twice) and their
eigenvectors :math:`e_i` give :math:`z_{vi} = \sqrt{\lambda_i}\, e_{vi}`. On large graphs :math:`B` is that of some
landmarks, and every node is placed by its distances to them (de Silva and Tenenbaum, 2004):

.. math::
    z_{xi} = -\frac{1}{2 \sqrt{\lambda_i}} \sum_l e_{li} (d_{xl}^2 - \overline{d_l^2}),

which is the same where all nodes are landmarks. A repeated eigenvalue leaves its plane free to turn; any one is taken.

Two nodes are close where :math:`|z_v - z_u| < \rho`, and :math:`\rho` is the distance of the m-th closest pair, m the
number of edges: both neighbourhoods are then of one mean size, but for pairs at that very distance.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.spatial import KDTree

from nlgnn.datasets.relations import Relations
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

MOST_LANDMARKS = 8000  # up to so many nodes all are landmarks: a matrix of half a gigabyte
FEW_LANDMARKS = 512  # beyond: 4 kB a node
DENSE_EIGENVECTORS = 512  # up to so many, LAPACK is faster than Lanczos' method, which needs more than two rows too
SOURCES_AT_ONCE = 64  # of hop distances: the bits of a word, so that all words stay in the cache
MANY_IN_ONE_PLACE = 100  # pairs an edge: would fill the memory
MANY_HOPS = 100  # beyond, a search from one node after another is faster than one from all that goes hop by hop


def isomap_relations(graph: Graph, latent: bool = True) -> Relations:
    """Neighbours in a graph and, if wanted, in its latent space. Quadrants are where the second node sees the first."""
    adjacency = graph.undirected_adjacency
    positions = isomap(adjacency)
    neighbours = np.array(adjacency.tocoo().coords, np.int64)
    close = close_pairs(positions, graph.num_edges) if latent else np.empty((2, 0), np.int64)
    second, first = np.concatenate([neighbours, close, close[::-1]], axis=1)
    in_latent_space = np.arange(len(first)) >= neighbours.shape[1]
    return Relations(first, second, in_latent_space, quadrants(positions[second], positions[first]))


def quadrants(centres: Float[np.ndarray, "m 2"], others: Float[np.ndarray, "m 2"]) -> Int[np.ndarray, " m"]:
    """Where each centre sees the other: 0 lower left, 1 lower right, 2 upper left, 3 upper right.

    What is neither left nor right counts as right, what is neither below nor above as above; so does what has no place.
    """
    right, above = ~(others < centres).T
    numbers: NDArray[np.int64] = right + 2 * above
    return numbers


def isomap(adjacency: sparse.csr_array) -> Float[np.ndarray, "n 2"]:
    """Positions in the plane; NaN outside the largest component (of several, the first), and if it is a single node.

    They are rounded to a millionth of a hop, so that nodes with the same neighbours have the same position. Each axis
    points to where its third moment is positive, so that the numbering of nodes does not decide; it does where that
    moment is 0, as on a line, and above `MOST_LANDMARKS` nodes, where it decides among landmarks of one degree.
    """
    positions = np.full((adjacency.shape[0], 2), np.nan)
    component = csgraph.connected_components(adjacency, directed=False)[1]
    members = np.flatnonzero(component == np.bincount(component).argmax())
    if len(members) > 1:
        positions[members] = _directed_axes(_scaled(adjacency[members][:, members]))
    return positions


def close_pairs(positions: Float[np.ndarray, "n 2"], number: int) -> Int[np.ndarray, "2 k"]:
    """Pairs of nodes, each once, that are closer than the `number`-th closest pair.

    If even that pair is in one place, nothing is closer; then all pairs that are in one place are taken. Nodes without
    a place are in no pair.
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
    low, high = 0.0, widest / 1000  # few pairs are counted faster than many
    while high < widest and count_within(high) < number:
        low, high = high, 2 * high
    while (count := count_within(high)) > 2 * number and high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if count_within(middle) < number else (low, middle)
    if count > 2 * number:  # very many at one distance: they are not listed, since none is closer than itself
        return pairs_within(low)
    pairs = pairs_within(high)
    if count < number:
        return pairs  # all that there are
    distances = np.linalg.norm(positions[pairs[0]] - positions[pairs[1]], axis=1)
    return pairs[:, distances < np.partition(distances, number - 1)[number - 1]]


def hop_distances(adjacency: sparse.csr_array, sources: Int[np.ndarray, " s"]) -> Float[np.ndarray, "n s"]:
    """From every node of a connected graph to the sources, hop by hop from many of these at once, a bit each."""
    num_nodes = adjacency.shape[0]
    hops = np.empty((num_nodes, len(sources)))
    for start in range(0, len(sources), SOURCES_AT_ONCE):
        some = sources[start : start + SOURCES_AT_ONCE]
        bits = np.zeros((num_nodes, SOURCES_AT_ONCE), np.uint8)
        bits[some, np.arange(len(some))] = 1
        reached = np.packbits(bits, axis=1).view(np.uint64)[:, 0]
        not_yet = np.zeros_like(bits)  # after how many hops a source was still to be reached: its distance in the end
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
    """Classical scaling of the hop distances of a connected graph."""
    num_nodes = adjacency.shape[0]
    landmarks = np.arange(num_nodes)
    are_few = num_nodes > MOST_LANDMARKS
    if are_few:  # spread over all degrees
        by_degree = np.argsort(np.diff(adjacency.indptr), kind="stable")
        landmarks = by_degree[np.linspace(0, num_nodes - 1, FEW_LANDMARKS).astype(np.int64)]
    squared = hop_distances(adjacency, landmarks)
    squared *= squared
    among = squared[landmarks] if are_few else squared
    values, vectors = _largest_two(among)
    is_zero = values <= 1e-9 * values[0]  # to rounding, or below: two nodes, for example, lie on a line
    vectors = np.where(is_zero, 0, vectors / np.sqrt(np.where(is_zero, 1, values)))
    return np.asarray((among.mean(0) @ vectors - squared @ vectors) / 2)


def _largest_two(squared: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The two largest eigenvalues of B, the largest first, and their eigenvectors. B itself is not written down."""
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
    farthest = positions[np.abs(positions).argmax(0), [0, 1]]  # where both directions look the same
    return np.where(np.where(np.abs(third_moment) > 1e-6, third_moment, farthest) < 0, -positions, positions)
