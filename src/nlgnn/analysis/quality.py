"""How good predictions are, over the test nodes of all runs: confusion, calibration, accuracy by kind of node.

It looks at test labels, after training, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import DEGREE_GROUPS, agreeing_shares, degree_groups
from nlgnn.graph.splits import Split

LOCAL_HOMOPHILY_GROUPS = (
    "0",
    "0 to 0.25",
    "0.25 to 0.5",
    "0.5 to 0.75",
    "0.75 to 1",
    "1",
    "no labelled neighbour",
)


class HeldBack(NamedTuple):
    """One entry a run and labelled test node of its split, run after run; all `[k]`.

    `confidences` is the probability that the run gave to its prediction.
    """

    nodes: NDArray[np.int32]
    runs: NDArray[np.int32]
    labels: NDArray[np.int32]
    predictions: NDArray[np.int32]
    confidences: NDArray[np.floating]


def held_back(probabilities: NDArray[np.floating], graph: Graph, splits: Sequence[Split]) -> HeldBack:
    """What runs predicted of their test nodes.

    Args:
        probabilities: `[runs, num_nodes, num_classes]`, as `predict` gives them.
        graph: the one that they were trained on. Test nodes of unknown label are left out.
        splits: the split of each of these runs.
    """
    numbers, confidences = [], []
    # One run at a time: of millions of nodes, the copies below are best not made of all runs at once.
    for run, (of_run, split) in enumerate(zip(probabilities, splits, strict=True)):
        nodes = np.flatnonzero(split.test & graph.labelled)
        of_nodes = of_run[nodes]  # [test nodes, classes]
        predictions = of_nodes.argmax(1)
        confidences.append(of_nodes.max(1))
        numbers.append(np.array([nodes, np.full(len(nodes), run), graph.y[nodes], predictions], np.int32))
    nodes, of_runs, labels, predictions = np.concatenate(numbers, axis=1)
    return HeldBack(nodes, of_runs, labels, predictions, np.concatenate(confidences))


def confusion_counts(held_back: HeldBack, num_classes: int) -> NDArray[np.int64]:
    """`[num_classes, num_classes]`: how often the row's class was predicted as the column's, over all runs."""
    pairs = held_back.labels * num_classes + held_back.predictions
    return np.bincount(pairs, minlength=num_classes**2).reshape(num_classes, num_classes)


class CalibrationBin(NamedTuple):
    """The predictions with a confidence above `low` and up to `high`: how many, and shares from 0 to 1."""

    low: float
    high: float
    predictions: int
    confidence: float
    accuracy: float


def calibration(held_back: HeldBack, bins: int = 10) -> list[CalibrationBin]:
    """Mean confidence beside accuracy in bins of equal width, over all runs; empty bins are left out."""
    if bins < 1:
        raise OptionError(f"bins={bins} is no number of bins.", "Give at least 1.")
    edges = np.arange(bins + 1) / bins
    places = np.searchsorted(edges[1:-1], held_back.confidences)
    correct = held_back.predictions == held_back.labels
    counts = np.bincount(places, minlength=bins)
    sums = (np.bincount(places, weights=values, minlength=bins) for values in (held_back.confidences, correct))
    columns = (edges[:-1], edges[1:], counts, *(total / np.maximum(counts, 1) for total in sums))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return [row for row in map(CalibrationBin._make, rows) if row.predictions]


def calibration_error(bins: Sequence[CalibrationBin]) -> float | None:
    """Expected calibration error, a share: |confidence − accuracy|, averaged over predictions; None without any."""
    total = sum(row.predictions for row in bins)
    return sum(row.predictions * abs(row.confidence - row.accuracy) for row in bins) / total if total else None


class Accuracy(NamedTuple):
    """Accuracy within a group of nodes, in percent: mean and standard deviation of what each run has there.

    `predictions` counts them over all runs, `nodes` the distinct nodes among them. Runs without a test node in the
    group do not count; where only one is left, `std` is None.
    """

    group: str
    predictions: int
    nodes: int
    accuracy: float
    std: float | None


def accuracy_by_class(held_back: HeldBack, graph: Graph) -> list[Accuracy]:
    """By true class; classes without test nodes are left out."""
    return _accuracies(held_back, graph.y, graph.class_names)


def accuracy_by_degree(held_back: HeldBack, graph: Graph) -> list[Accuracy]:
    """By the number of distinct neighbours, labelled or not, direction ignored; groups as in `homophily_by_degree`."""
    degree = np.diff(graph.undirected_adjacency.indptr)
    return _accuracies(held_back, degree_groups(degree), DEGREE_GROUPS)


def accuracy_by_local_homophily(held_back: HeldBack, graph: Graph) -> list[Accuracy]:
    """By the share of a node's labelled neighbours that have its label.

    Each group includes its lower end, save that nodes of which no neighbour agrees are a group of their own.
    """
    if not len(held_back.nodes):  # then there may be no labels at all
        return []
    shares, labelled_neighbours = agreeing_shares(graph)
    groups = np.digitize(shares, [0.25, 0.5, 0.75, 1]) + (shares > 0)
    groups[labelled_neighbours == 0] = len(LOCAL_HOMOPHILY_GROUPS) - 1
    return _accuracies(held_back, groups, LOCAL_HOMOPHILY_GROUPS)


def _accuracies(held_back: HeldBack, group_of_node: NDArray[np.integer], names: Sequence[str]) -> list[Accuracy]:
    runs, width = int(held_back.runs.max(initial=-1)) + 1, len(names)
    places = held_back.runs * width + group_of_node[held_back.nodes]
    correct = held_back.predictions == held_back.labels
    counts, hits = (
        np.bincount(chosen, minlength=runs * width).reshape(runs, width) for chosen in (places, places[correct])
    )
    tested = np.zeros(len(group_of_node), bool)
    tested[held_back.nodes] = True
    nodes = np.bincount(group_of_node[tested], minlength=width)
    rows = []
    for number, name in enumerate(names):
        took_part = counts[:, number] > 0
        if took_part.any():
            each = (100 * hits[took_part, number] / counts[took_part, number]).tolist()
            std = stdev(each) if len(each) > 1 else None
            rows.append(Accuracy(name, int(counts[:, number].sum()), int(nodes[number]), fmean(each), std))
    return rows


def majority_accuracy(graph: Graph, split: Split) -> float | None:
    """Percent of the labelled test nodes that have the most frequent class of the training nodes.

    Of classes that are equally frequent it is the first. None without labelled test nodes.
    """
    of_test, of_train = (graph.y[part & graph.labelled] for part in (split.test, split.train))
    if not len(of_test):
        return None
    majority = np.bincount(of_train, minlength=graph.num_classes).argmax()
    return 100 * float((of_test == majority).mean())
