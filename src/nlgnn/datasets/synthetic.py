"""Synthetic graphs, for which the best possible result is known."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import OptionError
from nlgnn.files import write_whole
from nlgnn.graph.features import rows_in_chunk
from nlgnn.graph.graph import Graph

if TYPE_CHECKING:
    from nlgnn.datasets.download import DownloadBar

EDGES_AT_ONCE = 1 << 21
NEAR = 1000  # places between the ends of a near edge
TWO_SECONDS_OF_BYTES = 200_000_000


def planted_order_graph(
    num_groups: int = 188,
    group_size: int = 16,
    seed: int = 0,
    noise: float = 1.9,
    mean_degree: int = 4,
    nuisance: int = 0,
) -> Graph:
    """Generate a graph whose labels only the right order of the nodes reveals.

    The nodes of a group share a key. The value of a group is +1 or -1, and its sign is the label of its nodes; every
    node observes this value plus normal noise. Edges are random and carry no information. Features are [key, value],
    so that a linear local part can use the key as score: sorted by it, the nodes of a group are adjacent.

    With the default noise the value of a node gives its label in about 70 percent of all cases, and the mean over
    nine adjacent nodes in the order of the keys in about 90 percent.

    Args:
        num_groups: The number of groups.
        group_size: The number of nodes per group.
        seed: The seed of all random draws.
        noise: The standard deviation of the noise.
        mean_degree: The mean number of neighbours per node.
        nuisance: The number of further columns of normal noise. If there are any, all columns are standardised and
            then rotated at random, so that no column is the key.

    Returns:
        The graph.

    Raises:
        OptionError: If a size is too small or negative.

    Example:
        >>> planted_order_graph(num_groups=4, group_size=5).num_nodes
        20
    """
    if num_groups < 2 or group_size < 1 or noise < 0 or mean_degree < 0 or nuisance < 0:
        raise OptionError(
            f"planted_order_graph({num_groups=}, {group_size=}, {noise=}, {mean_degree=}, {nuisance=}) cannot exist.",
            "Pass at least two groups of at least one node, and no negative number.",
        )
    rng = np.random.default_rng(seed)
    num_nodes = num_groups * group_size
    # Each label has half of the groups, in an order that is independent of the key.
    group_label = rng.permutation(np.arange(num_groups) % 2)
    group_key = np.linspace(-1, 1, num_groups)
    # Shuffled, so that the number of a node does not reveal its group.
    group = rng.permutation(np.repeat(np.arange(num_groups), group_size))
    value = 2.0 * group_label[group] - 1 + noise * rng.standard_normal(num_nodes)
    edge_index = rng.integers(num_nodes, size=(2, num_nodes * mean_degree // 2))
    x = np.stack([group_key[group], value], axis=1)
    if nuisance:
        x = np.hstack([(x - x.mean(0)) / x.std(0), rng.standard_normal((num_nodes, nuisance))])
        x = x @ np.linalg.qr(rng.standard_normal((2 + nuisance, 2 + nuisance)))[0]
    return Graph(
        x=x.astype(np.float32),
        edge_index=edge_index,
        y=group_label[group],
        name="planted-order",
        class_names=("negative", "positive"),
    )


def planted_roles_graph(
    num_roles: int = 64,
    role_size: int = 47,
    seed: int = 0,
    noise_links: int = 6,
    links: int = 6,
    num_hubs: int = 12,
    signal: float = 0.25,
) -> Graph:
    """Generate a graph whose labels are structural roles, which only a comparison of distant nodes reveals.

    A role is a set of hubs. Every node links to some hubs of its role, and to random nodes, which is noise. Hubs are
    drawn from all nodes, whatever their own roles, so that nodes of one role are not linked with each other, and hardly
    two nodes have the same links. Half of all roles have either label.

    Features are the label, as +1 or -1 times `signal`, plus normal noise in each of four columns: with the default they
    give the label in about 69 percent of all cases. The features of neighbours say nothing more, since neighbours have
    all roles.

    Args:
        num_roles: The number of roles.
        role_size: The number of nodes per role.
        seed: The seed of all random draws.
        noise_links: The number of random links per node.
        links: The number of hubs of its role that a node links to.
        num_hubs: The number of hubs of each role.
        signal: The distance of the mean feature from 0, in standard deviations of the noise.

    Returns:
        The graph. Edges have a direction.

    Raises:
        OptionError: If a size is too small or negative, or there are more hubs than nodes.

    Example:
        >>> planted_roles_graph(num_roles=4, role_size=20).num_nodes
        80
    """
    sizes_fit = num_roles >= 2 and 1 <= links <= num_hubs <= role_size
    if not sizes_fit or noise_links < 0 or signal < 0:
        raise OptionError(
            f"planted_roles_graph({num_roles=}, {role_size=}, {noise_links=}, {links=}, {num_hubs=}, {signal=}) "
            "cannot exist.",
            "Pass two roles or more, at most as many hubs as nodes of a role, links to some of them, nothing negative.",
        )
    rng = np.random.default_rng(seed)
    num_nodes = num_roles * role_size
    role = rng.permutation(np.repeat(np.arange(num_roles), role_size))
    y = rng.permutation(np.arange(num_roles) % 2)[role]
    hubs = rng.permutation(num_nodes)[: num_roles * num_hubs].reshape(num_roles, num_hubs)
    chosen = rng.random((num_nodes, num_hubs)).argsort(1)[:, :links]
    random = rng.integers(num_nodes, size=(num_nodes, noise_links))
    targets = np.hstack([np.take_along_axis(hubs[role], chosen, 1), random])
    x = signal * (2.0 * y[:, None] - 1) + rng.standard_normal((num_nodes, 4))
    return Graph(
        x=x.astype(np.float32),
        edge_index=np.stack([np.repeat(np.arange(num_nodes), targets.shape[1]), targets.ravel()]),
        y=y,
        directed=True,
        name="planted-roles",
        class_names=("negative", "positive"),
    )


def patents_like_graph(
    num_nodes: int = 2_923_922,
    num_edges: int = 13_975_788,
    num_features: int = 269,
    num_classes: int = 5,
    seed: int = 0,
    features_path: Path | None = None,
    near_share: float = 0.0,
) -> Graph:
    """Generate a graph of the shape of snap-patents: large, with hubs and mostly heterophilous.

    Classes are equally large and arranged in a circle. The first class of an edge is uniform; the second is each of its
    two neighbours in the circle four times as often as any other class or itself. Within a class of N nodes, in
    random order, node k is drawn with a probability proportional to (k + N/160²)^(-1/2): degrees follow a power law of
    exponent 3, as in preferential attachment, and the largest is at most about 80 times the mean. Loops and repeated
    edges are drawn again.

    Features are the mean of the class plus normal noise of variance 1 in every column. The means are normal with a
    length of about 1, so that the best classifier of five classes that sees only features is right in half of all
    cases.

    Args:
        num_nodes: The number of nodes.
        num_edges: The number of distinct undirected edges without loops, at most a quarter of all pairs.
        num_features: The number of features.
        num_classes: The number of classes.
        seed: The seed of all random draws.
        features_path: An .npy file to which the features are written and in which they stay, so that only the edges
            take memory. An existing file is replaced once the new one is complete.
        near_share: The share of edges between nodes whose numbers differ by at most `NEAR`, as after a renumbering by
            locality. Their first node is uniform, so that fewer edges lead to hubs; classes are chosen alike.

    Returns:
        The graph.

    Raises:
        OptionError: If the sizes do not fit each other.

    Example:
        >>> patents_like_graph(num_nodes=50, num_edges=60, num_features=3)
        Graph('patents-like': 50 nodes, 60 edges, 3 features, 5 classes)
    """
    if num_classes < 2 or num_nodes < num_classes or num_features < 1 or 8 * num_edges > num_nodes * (num_nodes - 1):
        raise OptionError(
            f"patents_like_graph({num_nodes=}, {num_edges=}, {num_features=}, {num_classes=}) cannot exist.",
            "Pass two classes, a node per class, one feature, and edges between at most a quarter of all pairs.",
        )
    from rich.console import Console

    from nlgnn.datasets.download import DownloadBar

    for_edges, for_features = np.random.default_rng(seed).spawn(2)
    bar = DownloadBar("generating a graph", Console(stderr=True), min_bytes=TWO_SECONDS_OF_BYTES)
    bar.total = 16 * num_edges + 4 * num_nodes * num_features
    try:
        num_near = round(near_share * num_edges)
        edges, y = _circle_of_classes(num_nodes, num_edges - num_near, num_classes, for_edges, bar)
        edges = _with_near_edges(edges, y, num_edges, num_classes, for_edges) if num_near else edges
        chunks = _noisy_means(y, num_classes, num_features, for_features, bar)
        if features_path is None:
            x = np.empty((num_nodes, num_features), np.float32)
            for start, rows in chunks:
                x[start : start + len(rows)] = rows
        else:
            _write_table(features_path, (num_nodes, num_features), chunks)
            x = np.load(features_path, mmap_mode="r")
    finally:
        bar.close()
    return Graph(x, edges, y, name="patents-like")


def _circle_of_classes(
    num_nodes: int, num_edges: int, num_classes: int, rng: np.random.Generator, bar: DownloadBar
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw edges and labels. Place p of a random node order has class p % C and is number p // C in its class."""
    class_sizes = (num_nodes - np.arange(num_classes) + num_classes - 1) // num_classes
    steps = np.full(num_classes, 1.0)  # entry i: from a class to the i-th next in the circle
    steps[[1, -1]] = 4

    def places_in(classes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Draw a place in each class. Σ (k + a)^(-1/2) grows as the root of k + a, so its inverse is a square."""
        low, high = 1 / 160, np.sqrt(1 + 1 / 160**2)
        share = (low + (high - low) * rng.random(len(classes))) ** 2 - low**2
        number = np.minimum((share * class_sizes[classes]).astype(np.int64), class_sizes[classes] - 1)
        return np.asarray(number * num_classes + classes)

    def draw(count: int) -> NDArray[np.int64]:
        """Draw pairs of places, each as one number with the smaller place first, without loops."""
        one_class = rng.integers(num_classes, size=count)
        other_class = (one_class + rng.choice(num_classes, count, p=steps / steps.sum())) % num_classes
        one, other = places_in(one_class), places_in(other_class)
        bar.update(16 * count)
        return np.asarray((np.minimum(one, other) * num_nodes + np.maximum(one, other))[one != other])

    pairs = np.empty(0, np.int64)
    while missing := num_edges - len(pairs):
        batches = [draw(min(EDGES_AT_ONCE, missing - start)) for start in range(0, missing, EDGES_AT_ONCE)]
        pairs = np.sort(np.concatenate([pairs, *batches]))  # np.unique takes a hundred times as long
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    order = rng.permutation(num_nodes)
    y = np.empty(num_nodes, np.int64)
    y[order] = np.arange(num_nodes) % num_classes
    return order[np.stack(np.divmod(pairs, num_nodes))], y


def _with_near_edges(
    edges: NDArray[np.int64], y: NDArray[np.int64], num_edges: int, num_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Add edges between nodes at most `NEAR` places apart, until there are `num_edges` without repetitions."""
    num_nodes = len(y)
    chances = np.full(num_classes, 0.25)
    chances[[1, -1]] = 1
    pairs = np.sort(edges.min(0) * num_nodes + edges.max(0))
    while missing := num_edges - len(pairs):
        one = rng.integers(num_nodes, size=min(EDGES_AT_ONCE, 2 * missing))
        other = one + rng.integers(1, min(NEAR, num_nodes - 1) + 1, size=len(one))
        one, other = one[other < num_nodes], other[other < num_nodes]
        kept = rng.random(len(one)) < chances[(y[other] - y[one]) % num_classes]
        drawn = np.setdiff1d(one[kept] * num_nodes + other[kept], pairs)
        pairs = np.sort(np.concatenate([pairs, rng.permutation(drawn)[:missing]]))
    return np.stack(np.divmod(pairs, num_nodes))


def _noisy_means(
    y: NDArray[np.int64], num_classes: int, num_features: int, rng: np.random.Generator, bar: DownloadBar
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield the number of the first row and some rows. The values do not depend on the size of a chunk."""
    means = rng.standard_normal((num_classes, num_features), np.float32) / np.float32(np.sqrt(num_features))
    step = rows_in_chunk(num_features)
    for start in range(0, len(y), step):
        labels = y[start : start + step]
        rows = rng.standard_normal((len(labels), num_features), np.float32)
        rows += means[labels]
        bar.update(rows.nbytes)
        yield start, rows


def _write_table(path: Path, shape: tuple[int, int], chunks: Iterator[tuple[int, NDArray[np.float32]]]) -> None:
    """Write chunks of rows as an .npy file."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}

    def write(part: Path) -> None:
        with part.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for _, rows in chunks:
                file.write(rows.data)

    write_whole(path, write)
