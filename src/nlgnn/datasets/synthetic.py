"""Graphs made by rule, on which it is known what a model could find."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.on_disk import rows_in_chunk

if TYPE_CHECKING:
    from nlgnn.datasets.progress import DownloadBar

EDGES_AT_ONCE = 1 << 21
TWO_SECONDS_OF_BYTES = 200_000_000


def planted_order_graph(
    num_groups: int = 188,
    group_size: int = 16,
    seed: int = 0,
    noise: float = 1.9,
    mean_degree: int = 4,
    nuisance: int = 0,
) -> Graph:
    """Labels that only the right order of the nodes reveals.

    The nodes of a group share a key. A group's value is +1 or -1, and its sign is their label; every node sees that
    value plus normal noise. Edges are random and say nothing. Features are [key, value] as they are, so that a linear
    local part can pass the key on as score: sorted by it, group mates stand side by side.

    With the default noise a node's own value gives the right label in about 70 percent of all cases, the mean over
    nine nodes that stand side by side in the order of the keys in about 90 percent.

    Args:
        noise: standard deviation of the noise.
        mean_degree: neighbours of a node, on average.
        nuisance: further columns of normal noise. With some, all columns are standardised and then rotated at random,
            so that no column is the key.
    """
    if num_groups < 2 or group_size < 1 or noise < 0 or mean_degree < 0 or nuisance < 0:
        raise OptionError(
            f"planted_order_graph({num_groups=}, {group_size=}, {noise=}, {mean_degree=}, {nuisance=}).",
            "It needs at least two groups of at least one node, and nothing negative.",
        )
    rng = np.random.default_rng(seed)
    num_nodes = num_groups * group_size
    # Half of the groups each, in an order that has nothing to do with the key.
    group_label = rng.permutation(np.arange(num_groups) % 2)
    group_key = np.linspace(-1, 1, num_groups)
    # Shuffled, so that a node's number does not tell its group.
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


def patents_like_graph(
    num_nodes: int = 2_923_922,
    num_edges: int = 13_975_788,
    num_features: int = 269,
    num_classes: int = 5,
    seed: int = 0,
    features_path: Path | None = None,
) -> Graph:
    """A graph of the shape of snap-patents: large, with hubs, and with neighbours mostly of other classes.

    Classes are equally large and stand in a circle. Of the two classes that an edge joins, the first is any, the second
    either neighbour of it in the circle four times as often as any other class or itself. Within a class of N nodes, in
    a random order, number k is taken with a chance proportional to (k + N/160²)^(-1/2): degrees follow a power law of
    exponent 3, as preferential attachment gives, and the largest is at most about 80 times the mean. Loops and
    repetitions are drawn again.

    Features are the class's mean plus normal noise of variance 1 in every column. The means are normal too, at a length
    of about 1, so that the best classifier of five classes that sees features alone is right in half of all cases.

    Args:
        num_edges: distinct undirected edges without loops, at most a quarter of all pairs.
        features_path: an .npy file that the features are written to, and stay in: the memory needed is then that of the
            edges. What was there before is replaced, once the new file is whole.
    """
    if num_classes < 2 or num_nodes < num_classes or num_features < 1 or 8 * num_edges > num_nodes * (num_nodes - 1):
        raise OptionError(
            f"patents_like_graph({num_nodes=}, {num_edges=}, {num_features=}, {num_classes=}).",
            "It needs two classes, a node a class, a feature, and edges between at most a quarter of all pairs.",
        )
    from rich.console import Console

    from nlgnn.datasets.progress import DownloadBar

    for_edges, for_features = np.random.default_rng(seed).spawn(2)
    bar = DownloadBar("making a graph", Console(stderr=True), worth_a_bar=TWO_SECONDS_OF_BYTES)
    bar.total = 16 * num_edges + 4 * num_nodes * num_features
    try:
        edges, y = _circle_of_classes(num_nodes, num_edges, num_classes, for_edges, bar)
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
    """Edges and labels. Place p of a random order of the nodes is of class p % C, and the (p // C)-th of its class."""
    class_sizes = (num_nodes - np.arange(num_classes) + num_classes - 1) // num_classes
    steps = np.full(num_classes, 1.0)  # from a class to the next one in the circle, and so on round to itself
    steps[[1, -1]] = 4

    def places_in(classes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Σ (k + a)^(-1/2) grows as the root of k + a, so that its inverse is a square."""
        low, high = 1 / 160, np.sqrt(1 + 1 / 160**2)
        share = (low + (high - low) * rng.random(len(classes))) ** 2 - low**2
        number = np.minimum((share * class_sizes[classes]).astype(np.int64), class_sizes[classes] - 1)
        places: NDArray[np.int64] = number * num_classes + classes
        return places

    def draw(count: int) -> NDArray[np.int64]:
        """Pairs of places as one number each, the smaller place first; loops left out."""
        one_class = rng.integers(num_classes, size=count)
        other_class = (one_class + rng.choice(num_classes, count, p=steps / steps.sum())) % num_classes
        one, other = places_in(one_class), places_in(other_class)
        bar.update(16 * count)
        pairs: NDArray[np.int64] = (np.minimum(one, other) * num_nodes + np.maximum(one, other))[one != other]
        return pairs

    pairs = np.empty(0, np.int64)
    while missing := num_edges - len(pairs):
        batches = [draw(min(EDGES_AT_ONCE, missing - start)) for start in range(0, missing, EDGES_AT_ONCE)]
        pairs = np.sort(np.concatenate([pairs, *batches]))  # np.unique takes a hundred times as long
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]
    order = rng.permutation(num_nodes)
    y = np.empty(num_nodes, np.int64)
    y[order] = np.arange(num_nodes) % num_classes
    return order[np.stack(np.divmod(pairs, num_nodes))], y


def _noisy_means(
    y: NDArray[np.int64], num_classes: int, num_features: int, rng: np.random.Generator, bar: DownloadBar
) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The first row's number and some rows. Numbers are drawn one after another, whatever the size of a chunk."""
    means = rng.standard_normal((num_classes, num_features), np.float32) / np.float32(np.sqrt(num_features))
    step = rows_in_chunk(num_features)
    for start in range(0, len(y), step):
        labels = y[start : start + step]
        rows = rng.standard_normal((len(labels), num_features), np.float32)
        rows += means[labels]
        bar.update(rows.nbytes)
        yield start, rows


def _write_table(path: Path, shape: tuple[int, int], chunks: Iterator[tuple[int, NDArray[np.float32]]]) -> None:
    """An .npy file, written under another name and renamed, so that it is there whole or not at all."""
    half_written = path.with_name(f".{path.name}.{os.getpid()}")
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.float32)), "fortran_order": False, "shape": shape}
    try:
        with half_written.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for _, rows in chunks:
                file.write(rows.data)
            file.flush()
            os.fsync(file.fileno())
        half_written.replace(path)
    finally:
        half_written.unlink(missing_ok=True)
