"""Statistics over the neighbours of each node: means and spreads of columns, and shares of training labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.tables.structural import edge_chunks

STATISTICS = ("mean", "standard deviation", "minimum", "maximum")
VALUES_AT_ONCE = 1 << 23
CLASSES_AT_ONCE = 16
ONE_HOP_PRIOR, TWO_HOP_PRIOR = 2.0, 1.0  # labels that are added to those of neighbours, equally many per class


def neighbour_means(adjacency: sparse.csr_array, columns: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return the mean of each column over the neighbours of each node.

    Missing values (NaN) are left out. The mean of no value is 0.

    Args:
        adjacency: The 0/1 matrix whose row v has the neighbours of v.
        columns: The columns, `[n, d]`.

    Example:
        >>> path = sparse.csr_array(np.array([[0, 1, 0], [1, 0, 1], [0, 0, 0]], np.float32))
        >>> neighbour_means(path, np.array([[1], [2], [5]], np.float32)).ravel().tolist()
        [2.0, 3.0, 0.0]
    """
    missing = np.isnan(columns)
    if not missing.any():
        sums = adjacency @ columns
        counts = np.diff(adjacency.indptr).astype(np.float32)[:, None]
    else:
        sums = adjacency @ np.where(missing, np.float32(0), columns)
        counts = adjacency @ (~missing).astype(np.float32)
    sums /= np.maximum(counts, 1)
    return np.asarray(sums)


def neighbour_spreads(
    adjacency: sparse.csr_array, columns: Float[np.ndarray, "n d"], means: Float[np.ndarray, "n d"]
) -> Iterator[tuple[NDArray[np.int64], Float[np.ndarray, "3 k d"]]]:
    """Yield standard deviation, minimum and maximum of each column over neighbours, for some nodes at a time.

    Values of neighbours are gathered in chunks of a fixed size. Nodes without neighbours are left out, and missing
    values (NaN) too; of no value, all three are 0.

    Args:
        adjacency: The 0/1 matrix whose row v has the neighbours of v.
        columns: The columns, `[n, d]`.
        means: The result of `neighbour_means`.

    Yields:
        The node numbers and `[3, len(nodes), d]`.
    """
    for start, stop in edge_chunks(adjacency.indptr, max(1, VALUES_AT_ONCE // max(1, columns.shape[1]))):
        degree = np.diff(adjacency.indptr[start : stop + 1])
        nodes = start + np.flatnonzero(degree)
        if len(nodes) == 0:
            continue
        degree = degree[degree > 0]
        first = np.cumsum(degree) - degree
        values = columns[adjacency.indices[adjacency.indptr[start] : adjacency.indptr[stop]]]
        missing = np.isnan(values)
        some_missing = bool(missing.any())
        smallest = np.minimum.reduceat(np.where(missing, np.inf, values) if some_missing else values, first)
        largest = np.maximum.reduceat(np.where(missing, -np.inf, values) if some_missing else values, first)
        deviations = values - np.repeat(means[nodes], degree, axis=0)
        deviations[missing] = 0
        counts = np.add.reduceat(~missing, first, dtype=np.float32) if some_missing else degree[:, None]
        deviation = np.sqrt(np.add.reduceat(deviations * deviations, first) / np.maximum(counts, 1))
        spreads = np.stack([deviation, smallest, largest])
        spreads[:, np.broadcast_to(counts == 0, deviation.shape)] = 0
        yield nodes, spreads.astype(np.float32)


def two_hop_paths(directions: Mapping[str, sparse.csr_array]) -> dict[str, tuple[str, str]]:
    """Return the paths of two edges whose ends are counted: a name, and the directions of both edges."""
    if "out-" not in directions:
        return {"at two hops": ("", "")}
    return {
        "two steps out": ("out-", "out-"),
        "two steps in": ("in-", "in-"),
        "one step out and one in": ("out-", "in-"),
        "one step in and one out": ("in-", "out-"),
        "at two hops": ("", ""),
    }


def label_shares(
    directions: Mapping[str, sparse.csr_array], known: Int[np.ndarray, " n"], num_classes: int
) -> Float[np.ndarray, "n k"]:
    """Return smoothed class shares of training nodes at one and two hops.

    With one hop, the share of class c is (training neighbours of class c + 2 / classes) / (training neighbours + 2).
    With two hops, each neighbour contributes the counts of its own training neighbours, divided by the number of
    neighbours of the first node; 1 label is added. The label of a node never enters its own row: there are no loops,
    and paths that return to the node are left out. Counts are whole numbers in double precision, so that leaving them
    out is exact.

    A label near many nodes lowers the shares of its own class in its own row in comparison with other rows. In dense
    graphs a model can learn this from training nodes, although it says nothing about other nodes. Validation decides
    whether these columns help.

    Args:
        directions: The 0/1 matrices of neighbours without loops, by direction: "" for all, and "out-" and "in-" if
            the graph has directions.
        known: The labels of training nodes, and -1 for all other nodes.
        num_classes: The number of classes.

    Returns:
        The columns in the order of `label_names`, as float32.

    Example:
        >>> pair = {"": sparse.csr_array(np.array([[0, 1], [1, 0]], np.float32))}
        >>> print(label_shares(pair, np.array([0, 1]), 2).round(2))
        [[0.33 0.67 0.69 0.5  0.5 ]
         [0.67 0.33 0.69 0.5  0.5 ]]
    """
    paths = two_hop_paths(directions)
    degree = {direction: np.maximum(np.diff(matrix.indptr), 1) for direction, matrix in directions.items()}
    returns = {name: returning_paths(directions[one], directions[two]) for name, (one, two) in paths.items()}
    shown = (known >= 0).astype(np.float64)
    reached = {direction: matrix @ shown for direction, matrix in directions.items()}
    totals = {name: directions[one] @ reached[two] - returns[name] * shown for name, (one, two) in paths.items()}
    table = np.empty((len(known), len(label_names(directions, [""] * num_classes))), np.float32)
    for start in range(0, num_classes, CLASSES_AT_ONCE):
        classes = np.arange(start, min(start + CLASSES_AT_ONCE, num_classes))
        one_hot = (known[:, None] == classes).astype(np.float64)
        counts = {direction: matrix @ one_hot for direction, matrix in directions.items()}
        place = 0
        for direction in directions:
            shares = smoothed(counts[direction], reached[direction], ONE_HOP_PRIOR, num_classes)
            table[:, place + classes] = shares
            table[:, place + num_classes] = np.log1p(reached[direction])
            place += num_classes + 1
        for name, (one, two) in paths.items():
            ends = directions[one] @ counts[two] - returns[name][:, None] * one_hot
            ends /= degree[one][:, None]
            table[:, place + classes] = smoothed(ends, totals[name] / degree[one], TWO_HOP_PRIOR, num_classes)
            place += num_classes
    return table


def label_names(directions: Mapping[str, sparse.csr_array], class_names: Sequence[str]) -> list[str]:
    """Return a name per column of `label_shares`."""
    names = []
    for direction in directions:
        names += [f"share of class {name} among training {direction}neighbours" for name in class_names]
        names.append(f"log number of training {direction}neighbours")
    for path in two_hop_paths(directions):
        names += [f"share of class {name} among training nodes {path}" for name in class_names]
    return names


def smoothed(
    counts: NDArray[np.float64], total: NDArray[np.float64], prior: float, num_classes: int
) -> NDArray[np.float64]:
    """Return shares of counts after adding labels, equally many per class.

    Class shares of the training nodes would be the usual addition, but depend on the label of the node itself.
    """
    return np.asarray((counts + prior / num_classes) / (total + prior)[:, None])


def returning_paths(first: sparse.csr_array, second: sparse.csr_array) -> NDArray[np.float64]:
    """Return the number of paths of two edges from each node back to itself."""
    return np.asarray(first.multiply(second.T).sum(axis=1), np.float64)
