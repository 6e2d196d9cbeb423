"""Measures of agreement between neighbours: homophily, label informativeness, and their levels by chance.

All measures use the symmetrised graph: distinct neighbours without direction, weights and loops. Nodes of unknown label
and their edges are ignored, and n counts the labelled nodes. A measure that would be 0 / 0 (no edges, or a single
class) is 0: such edges carry no information about labels.

Notation: d(v) is the degree of v, n_c the size of class c, C the number of classes that occur,
p̄(c) = sum of d(v) over the nodes v of class c, divided by 2m, the share of edge ends that belong to class c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph


def node_homophily(graph: Graph) -> float:
    """Return H(G) (Pei et al. 2020): the mean share of neighbours with the label of a node.

    ``H(G) = 1/n Σ_v |{u ∈ N(v): y_u = y_v}| / d(v)``; a node without neighbours adds 0 and counts in n.

    Args:
        graph: A graph with known labels.

    Returns:
        A share from 0 to 1.

    Raises:
        DataError: If no label is known.

    Example:
        >>> node_homophily(Graph([[1]] * 3, [[0, 1], [1, 2]], [0, 0, 1]))
        0.5
    """
    shares, _ = agreeing_shares(graph)
    return float(shares.sum() / graph.labelled.sum())


def edge_homophily(graph: Graph) -> float:
    """Return the share of edges between nodes of one label (Zhu et al. 2020): |{(u, v) ∈ E: y_u = y_v}| / |E|."""
    edges = _edges_between_classes(graph)
    return _divide(np.trace(edges), edges.sum())


def class_insensitive_homophily(graph: Graph) -> float:
    """Return the measure of LINKX (Lim et al. 2021): the homophily of classes in excess of their size.

    ĥ = 1/(C - 1) Σ_c max(0, h_c - n_c/n), where h_c is the share of the edge ends leaving class c that arrive in c.
    A class without edges has h_c = 0.
    """
    compatibility, sizes = compatibility_matrix(graph), _class_sizes(graph)
    excess = np.maximum(0, np.diag(compatibility) - sizes / sizes.sum())
    return _divide(excess.sum(), int(np.count_nonzero(sizes)) - 1)


def adjusted_homophily(graph: Graph) -> float:
    """Return edge homophily relative to its expectation for these degrees (Platonov et al., NeurIPS 2023).

    h_adj = (h_edge - Σ_c p̄(c)²) / (1 - Σ_c p̄(c)²): 1 is perfect agreement, 0 is chance, and it may be negative.
    """
    edges = _edges_between_classes(graph)
    # Σ_c p̄(c)², with both sides multiplied by (2m)², so that a single class gives exactly 0 / 0.
    ends, total = edges.sum(1), edges.sum()
    expected = (ends**2).sum()
    return _divide(np.trace(edges) * total - expected, total**2 - expected)


def edge_label_informativeness(graph: Graph) -> float:
    """Return the information about one end of a random edge in the label of the other (Platonov et al., NeurIPS 2023).

    LI_edge = Σ p(c, c') log[ p(c, c') / (p̄(c) p̄(c')) ] / H(p̄), where p(c, c') is the share of edges between c and c'
    and H the entropy: 0 = nothing, 1 = all.
    """
    edges = _edges_between_classes(graph)
    joint = edges / max(edges.sum(), 1)
    return _informativeness(joint, joint.sum(1), joint.sum(1))


def node_label_informativeness(graph: Graph) -> float:
    """Return the information about a random node in the label of a random neighbour, independent of its degree.

    LI_node = Σ p(c, c') log[ p(c, c') / (p(c) p̄(c')) ] / H(p), where p(c) = n_c/n and p(c, c') is the sum of
    1/(n d(u)) over the edges (u, v) from c to c', all over nodes that have a neighbour. As in the paper, the
    neighbour's label is weighed with p̄ and not with its own marginal; on star-like graphs the value may exceed 1.
    """
    source, target = _labelled_edges(graph)
    degree = np.bincount(source, minlength=graph.num_nodes)
    weight = 1 / (degree[source] * np.count_nonzero(degree))
    joint = _sum_by_classes(graph, source, target, weight)
    edges = _sum_by_classes(graph, source, target)
    return _informativeness(joint, joint.sum(1), edges.sum(1) / max(edges.sum(), 1))


def compatibility_matrix(graph: Graph) -> NDArray[np.float64]:
    """Return the shares of edges from the class of the row to the class of the column, `[num_classes, num_classes]`.

    Rows sum to 1; the row of a class without edges is 0.
    """
    edges = _edges_between_classes(graph)
    return np.asarray(edges / np.maximum(edges.sum(1, keepdims=True), 1))


def chance_homophily(graph: Graph) -> float:
    """Return the expected H of a random order: Σ_c n_c (n_c - 1) / (n (n - 1)), the chance that labels agree."""
    sizes = _class_sizes(graph)
    n = sizes.sum()
    return _divide((sizes * (sizes - 1)).sum(), n * (n - 1))


def reconnected_homophily(order: NDArray[np.int64], y: NDArray[np.int64], kernel_sizes: Sequence[int]) -> float:
    """Return H of the re-connected graph, in which the neighbours of a node are those within reach of the convolutions.

    Convolutions of kernels k_1, ..., k_L along the sorted order reach r = Σ_l (k_l - 1)/2 positions to either side::

        N̂(π(p)) = { π(q): |p - q| ≤ r, q ≠ p },     H(Ĝ) = 1/n Σ_p |{u ∈ N̂(π(p)): y_u = y_π(p)}| / |N̂(π(p))|

    At the ends the window is cut. A node that is alone in its window adds 0. Nodes of unknown label keep their place in
    the order but are never compared. The labels of all nodes are used, so that this is an analysis and must not guide
    training.

    Args:
        order: π, the node number at each position, `[num_nodes]`.
        y: The labels, `[num_nodes]`; -1 is unknown.
        kernel_sizes: The kernel size of each convolution; all are odd.

    Returns:
        The homophily.

    Raises:
        DataError: If the order is not a permutation of the nodes, or no label is known.
        OptionError: If a kernel size is even.

    Example:
        >>> reconnected_homophily(np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1]), [3])
        0.75
    """
    order, y, n = np.asarray(order), np.asarray(y), len(y)
    if order.shape != (n,) or not np.array_equal(np.sort(order), np.arange(n)):
        raise DataError(
            f"The order has shape {order.shape} and is not a permutation of the {n} nodes.",
            f"Give every number from 0 to {n - 1} once.",
        )
    _require_labels(y)
    for size in kernel_sizes:
        if size < 1 or size % 2 == 0:
            raise OptionError(f"Kernel size {size} is not an odd positive number.", "Use 1, 3, 5, ...")
    half_width = sum((size - 1) // 2 for size in kernel_sizes)

    sorted_y = y[order]
    one_hot = sorted_y[:, None] == np.arange(y.max() + 1)  # [n, C]; a row of False where unknown
    seen = np.zeros((n + 1, one_hot.shape[1]), np.int64)
    np.cumsum(one_hot, axis=0, out=seen[1:])  # seen[p, c] = nodes of class c before position p

    positions = np.flatnonzero(sorted_y >= 0)
    first = np.maximum(positions - half_width, 0)
    end = np.minimum(positions + half_width + 1, n)
    in_window = seen[end] - seen[first]  # [labelled, C]
    agreeing = np.take_along_axis(in_window, sorted_y[positions, None], axis=1)[:, 0] - 1  # less the node itself
    neighbours = in_window.sum(1) - 1
    return float((agreeing / np.maximum(neighbours, 1)).mean())


MEASURES: tuple[Callable[[Graph], float], ...] = (
    node_homophily,
    edge_homophily,
    class_insensitive_homophily,
    adjusted_homophily,
    edge_label_informativeness,
    node_label_informativeness,
)


def homophily_table(graph: Graph) -> dict[str, float]:
    """Return every measure that is one number, by name.

    Args:
        graph: A graph with known labels.

    Returns:
        The measures by the names of their functions.

    Raises:
        DataError: If no label is known.

    Example:
        >>> from nlgnn import Graph, homophily_table
        >>> homophily_table(Graph([[1]] * 3, [[0, 1], [1, 2]], [0, 0, 1]))["node_homophily"]
        0.5
    """
    return {measure.__name__: measure(graph) for measure in (*MEASURES, chance_homophily)}


def chance_table(graph: Graph, permutations: int = 10, seed: int = 0) -> dict[str, float]:
    """Return the level of each measure by chance: its mean over random permutations of the known labels."""
    _require_labels(graph.y)
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(permutations):
        y = graph.y.copy()
        y[graph.labelled] = rng.permutation(y[graph.labelled])
        shuffled = _with_labels(graph, y)
        values.append([measure(shuffled) for measure in MEASURES])
    return {measure.__name__: float(mean) for measure, mean in zip(MEASURES, np.mean(values, 0), strict=True)}


def adjusted_homophily_among(graph: Graph, nodes: NDArray[np.bool_]) -> float:
    """Return the adjusted homophily if only the labels of these nodes are known."""
    return adjusted_homophily(_with_labels(graph, np.where(nodes, graph.y, -1)))


class Agreement(NamedTuple):
    """Node homophily within a group of nodes, and its chance level: two random labels of the graph."""

    group: str
    nodes: int
    homophily: float
    chance: float


def homophily_by_class(graph: Graph) -> list[Agreement]:
    """Return the mean share of neighbours of the same class per class; by chance it is (n_c - 1) / (n - 1).

    As in `node_homophily`, a node without neighbours adds 0.
    """
    shares, _ = agreeing_shares(graph)
    sizes = _class_sizes(graph)
    chances = (sizes - 1) / max(sizes.sum() - 1, 1)
    return [
        Agreement(graph.class_names[label], int(sizes[label]), float(shares[graph.y == label].mean()), float(chance))
        for label, chance in enumerate(chances)
        if sizes[label]
    ]


def homophily_by_degree(graph: Graph) -> list[Agreement]:
    """Return the mean share of neighbours of the same class for nodes with 1, 2 to 3, 4 to 7, ... neighbours."""
    shares, degree = agreeing_shares(graph)
    chance, groups = chance_homophily(graph), degree_groups(degree)
    return [
        Agreement(DEGREE_GROUPS[group], int((groups == group).sum()), float(shares[groups == group].mean()), chance)
        for group in np.unique(groups[groups > 0])  # without nodes that have no neighbour
    ]


DEGREE_GROUPS = ("0", "1", *(f"{low} to {2 * low - 1}" for low in (2, 4, 8, 16, 32, 64)), "128 or more")


def degree_groups(degree: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return the place in `DEGREE_GROUPS` of each degree."""
    return np.searchsorted(2 ** np.arange(8), degree, side="right")


def agreeing_shares(graph: Graph) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the share of labelled neighbours with the same label, and the number of labelled neighbours, per node."""
    source, target = _labelled_edges(graph)
    degree = np.bincount(source, minlength=graph.num_nodes)
    agreeing = np.bincount(source[graph.y[source] == graph.y[target]], minlength=graph.num_nodes)
    return agreeing / np.maximum(degree, 1), degree


def _with_labels(graph: Graph, y: NDArray[np.int64]) -> Graph:
    """Return the graph with other labels and without features; both share one adjacency matrix."""
    relabelled = Graph(np.zeros((graph.num_nodes, 0)), graph.edge_index, y, class_names=graph.class_names)
    vars(relabelled)["undirected_adjacency"] = graph.undirected_adjacency  # where cached_property looks for it
    return relabelled


def _labelled_edges(graph: Graph) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return both directions of every edge between labelled nodes."""
    _require_labels(graph.y)
    adjacency = graph.undirected_adjacency
    source = np.repeat(np.arange(graph.num_nodes), np.diff(adjacency.indptr))
    target = adjacency.indices.astype(np.int64)
    both = graph.labelled[source] & graph.labelled[target]
    return source[both], target[both]


def _edges_between_classes(graph: Graph) -> NDArray[np.float64]:
    """Return counts of edge ends, `[C, C]`, symmetric; an edge within a class counts twice on the diagonal."""
    return _sum_by_classes(graph, *_labelled_edges(graph))


def _sum_by_classes(
    graph: Graph, source: NDArray[np.int64], target: NDArray[np.int64], weight: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    c = graph.num_classes
    pair = graph.y[source] * c + graph.y[target]
    return np.bincount(pair, weights=weight, minlength=c * c).reshape(c, c).astype(np.float64)


def _class_sizes(graph: Graph) -> NDArray[np.float64]:
    _require_labels(graph.y)
    return np.bincount(graph.y[graph.labelled], minlength=graph.num_classes).astype(np.float64)


def _informativeness(joint: NDArray[np.float64], own: NDArray[np.float64], neighbour: NDArray[np.float64]) -> float:
    """Return Σ joint log(joint / (own × neighbour)) / entropy(own), where 0 log 0 = 0."""
    occurs = joint > 0
    information = (joint[occurs] * np.log(joint[occurs] / np.outer(own, neighbour)[occurs])).sum()
    # A single class has no entropy; rounding must not turn 0 / 0 into a ratio of tiny numbers.
    if np.count_nonzero(own) < 2:
        return 0.0
    entropy = -(own[own > 0] * np.log(own[own > 0])).sum()
    return float(information / entropy)


def _divide(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0


def _require_labels(y: NDArray[np.int64]) -> None:
    if not (y >= 0).any():
        raise DataError("No node has a label, so that nothing can be compared.", "Label at least some nodes.")
