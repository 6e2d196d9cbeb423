"""Quality of predictions on the test nodes of all runs: confusion matrix, calibration, accuracy by group of nodes.

These functions look at test labels, after training, and decide nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import DEGREE_GROUPS, agreeing_shares, degree_groups
from nlgnn.graph.splits import Split

LOCAL_HOMOPHILY_GROUPS = ("0", "0 to 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 to 1", "1", "no labelled neighbour")


class HeldBack(NamedTuple):
    """Predictions with one entry per run and labelled test node of its split, run after run; all `[k]`.

    `confidences` holds the probability of each predicted class.
    """

    nodes: NDArray[np.int32]
    runs: NDArray[np.int32]
    labels: NDArray[np.int32]
    predictions: NDArray[np.int32]
    confidences: NDArray[np.floating]


def held_back(
    probabilities: NDArray[np.floating],
    graph: Graph,
    splits: Sequence[Split],
    decide: Callable[[NDArray[np.floating]], NDArray[np.int64]] = lambda of_nodes: of_nodes.argmax(1),
) -> HeldBack:
    """Collect the predictions of runs on their test nodes.

    Args:
        probabilities: Probabilities as `predict` returns them, `[runs, num_nodes, num_classes]`.
        graph: The graph that they were trained on. Test nodes of unknown label are left out.
        splits: The split of each run.
        decide: Returns the labels for probabilities `[k, c]`; by default the most probable ones.

    Returns:
        The predictions.
    """
    numbers, confidences = [], []
    # One run at a time, since copies for all runs of a graph with millions of nodes are large.
    for run, (of_run, split) in enumerate(zip(probabilities, splits, strict=True)):
        nodes = np.flatnonzero(split.test & graph.labelled)
        of_nodes = of_run[nodes]  # [test nodes, classes]
        predictions = decide(of_nodes)
        confidences.append(of_nodes[np.arange(len(nodes)), predictions])
        numbers.append(np.array([nodes, np.full(len(nodes), run), graph.y[nodes], predictions], np.int32))
    nodes, of_runs, labels, predictions = np.concatenate(numbers, axis=1)
    return HeldBack(nodes, of_runs, labels, predictions, np.concatenate(confidences))


def confusion_counts(held_back: HeldBack, num_classes: int) -> NDArray[np.int64]:
    """Return the confusion matrix over all runs: true classes in rows, predicted classes in columns."""
    pairs = held_back.labels * num_classes + held_back.predictions
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


class CalibrationBin(NamedTuple):
    """Number, mean confidence and accuracy of the predictions with a confidence above `low` and up to `high`."""

    low: float
    high: float
    predictions: int
    confidence: float
    accuracy: float


def calibration(held_back: HeldBack, bins: int = 10) -> list[CalibrationBin]:
    """Return mean confidence and accuracy in bins of equal width, over all runs; empty bins are left out."""
    edges = np.arange(bins + 1) / bins
    places = np.searchsorted(edges[1:-1], held_back.confidences)
    correct = held_back.predictions == held_back.labels
    counts = np.bincount(places, minlength=bins)
    sums = (np.bincount(places, weights=values, minlength=bins) for values in (held_back.confidences, correct))
    columns = (edges[:-1], edges[1:], counts, *(total / np.maximum(counts, 1) for total in sums))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [row for row in map(CalibrationBin._make, rows) if row.predictions]


def calibration_error(bins: Sequence[CalibrationBin]) -> float | None:
    """Return the expected calibration error: the mean of |confidence − accuracy| over predictions, or None."""
    total = sum(row.predictions for row in bins)
    return sum(row.predictions * abs(row.confidence - row.accuracy) for row in bins) / total if total else None


class Accuracy(NamedTuple):
    """Accuracy within a group of nodes, in percent: mean and standard deviation over runs.

    `predictions` counts predictions over all runs, `nodes` the distinct nodes among them. Runs without a test node in
    the group do not count; if only one is left, `std` is None.
    """

    group: str
    predictions: int
    nodes: int
    accuracy: float
    std: float | None


def accuracy_by_class(held_back: HeldBack, graph: Graph) -> list[Accuracy]:
    """Return the accuracy by true class; classes without test nodes are left out."""
    return _accuracies(held_back, graph.y, graph.class_names)


def accuracy_by_degree(held_back: HeldBack, graph: Graph) -> list[Accuracy]:
    """Return the accuracy by number of distinct neighbours, in the groups of `homophily_by_degree`."""
    degree = np.diff(graph.undirected_adjacency.indptr)
    return _accuracies(held_back, degree_groups(degree), DEGREE_GROUPS)


def accuracy_by_local_homophily(held_back: HeldBack, graph: Graph) -> list[Accuracy]:
    """Return the accuracy by the share of a node's labelled neighbours that have its label.

    Each group includes its lower end, but nodes without any agreeing neighbour are a group of their own.
    """
    if not len(held_back.nodes):  # There may be no labels at all.
        return []
    shares, labelled_neighbours = agreeing_shares(graph)
    groups = np.digitize(shares, [0.25, 0.5, 0.75, 1]) + (shares > 0)
    groups[labelled_neighbours == 0] = len(LOCAL_HOMOPHILY_GROUPS) - 1
    return _accuracies(held_back, groups, LOCAL_HOMOPHILY_GROUPS)


def _accuracies(held_back: HeldBack, group_of_node: NDArray[np.integer], names: Sequence[str]) -> list[Accuracy]:
    import polars as pl

    correct = 100.0 * (held_back.predictions == held_back.labels)
    tested = pl.DataFrame(
        {"node": held_back.nodes, "run": held_back.runs, "group": group_of_node[held_back.nodes], "correct": correct}
    )
    of_runs = tested.group_by("group", "run").agg(pl.col("correct").mean())
    counts = tested.group_by("group").agg(pl.len().alias("predictions"), pl.col("node").n_unique().alias("nodes"))
    means = of_runs.group_by("group").agg(pl.col("correct").mean().alias("mean"), pl.col("correct").std().alias("std"))
    rows = counts.join(means, on="group").sort("group").iter_rows()
    return [Accuracy(names[group], predictions, nodes, mean, std) for group, predictions, nodes, mean, std in rows]


def majority_accuracy(graph: Graph, split: Split) -> float | None:
    """Return the accuracy, in percent, of predicting the most frequent class of the training nodes.

    The first class wins a tie. The result is None without labelled test nodes.
    """
    of_test, of_train = (graph.y[part & graph.labelled] for part in (split.test, split.train))
    if not len(of_test):
        return None
    majority = np.bincount(of_train, minlength=graph.num_classes).argmax()
    return 100 * float((of_test == majority).mean())
