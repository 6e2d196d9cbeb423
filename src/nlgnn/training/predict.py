"""Predictions of a finished training: calibrated probabilities, new nodes, and the columns of their table."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import NlgnnWarning, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.tables import FeatureEncoder, TableGraph
from nlgnn.training.metrics import log_probabilities
from nlgnn.training.replica import Run

if TYPE_CHECKING:
    from nlgnn.training.train import Trained

Probabilities = NDArray[np.floating]
Columns = dict[str, NDArray[Any] | list[str]]

LARGEST_LOG_TEMPERATURE = 3.0


def temperature(probabilities: Probabilities, labels: NDArray[np.int64]) -> float:
    """Return the temperature that makes the labels of validation nodes most likely.

    It is 1 if they have fewer than two classes: labels of one class would make every model certain of it.

    Args:
        probabilities: The probabilities of the validation nodes, `[k, classes]`.
        labels: The labels of the validation nodes, `[k]`.
    """
    from scipy.optimize import minimize_scalar

    if len(np.unique(labels)) < 2:
        return 1.0
    logits, rows = _logits(probabilities), np.arange(len(labels))

    def negative_log_likelihood(log_temperature: float) -> float:
        scaled = logits / np.exp(log_temperature)
        return float((np.logaddexp.reduce(scaled, axis=1) - scaled[rows, labels]).mean())

    bounds = (-LARGEST_LOG_TEMPERATURE, LARGEST_LOG_TEMPERATURE)
    return float(np.exp(minimize_scalar(negative_log_likelihood, bounds=bounds, method="bounded").x))


def calibrated(probabilities: Probabilities, temperature: float) -> Probabilities:
    """Return the softmax of the logits divided by a temperature: the same predictions with another confidence."""
    scaled = _logits(probabilities) / temperature
    shifted: Probabilities = np.exp(scaled - np.logaddexp.reduce(scaled, axis=-1, keepdims=True))
    return shifted


def _logits(probabilities: Probabilities) -> NDArray[np.float64]:
    """Return logits up to a constant per row, which has no effect."""
    return log_probabilities(probabilities.astype(np.float64)).numpy()


def temperatures(
    probabilities: Probabilities, runs: Sequence[Run], graph: Graph, splits: Sequence[Split]
) -> list[float]:
    """Return the temperature of each run, found on the validation nodes of its split.

    Args:
        probabilities: The uncalibrated probabilities of the runs, `[runs, n, c]`.
        runs: The runs, all of which succeeded.
        graph: The graph that they were trained on.
        splits: The splits of the training, by the number of the run.
    """
    parts = [splits[run.index].val for run in runs]
    return [temperature(one[val], graph.y[val]) for one, val in zip(probabilities, parts, strict=True)]


def mean_probabilities(probabilities: Probabilities, temperatures: Sequence[float]) -> Probabilities:
    """Return the mean of the calibrated probabilities of all runs, `[n, c]`."""
    total = np.zeros(probabilities.shape[1:])
    for one, temperature in zip(probabilities, temperatures, strict=True):  # one at a time, to save memory
        total += calibrated(one, temperature)
    return total / len(probabilities)


def temperatures_of(trained: Trained, graph: Graph, probabilities: Probabilities) -> list[float]:
    """Return the temperature of each successful run, from its probabilities on the graph of its training."""
    splits = make_splits(graph, trained.plan.protocol, trained.plan.runs)
    return temperatures(probabilities, trained.finished, graph, splits)


def without_weights(graph: Graph, trained: object) -> Graph:
    """Return a graph without edge weights, for a model that was trained without them, and warn about it."""
    what = f"{trained} was trained without edge weights: those of graph {graph.name!r} are ignored."
    warnings.warn(what, NlgnnWarning, stacklevel=3)
    return replace(graph, edge_weight=None)


def new_graph(
    trained: Trained, graph: Graph, nodes: Path | None, edges: Path | None
) -> tuple[TableGraph, NDArray[np.int64]]:
    """Add new nodes and edges to the graph of a training.

    Args:
        trained: The training.
        graph: The graph that it was trained on.
        nodes: The table of new nodes, if any.
        edges: The table of new edges, if any.

    Returns:
        The larger graph, and the numbers of its new nodes.

    Raises:
        OptionError: If the model cannot predict nodes that it was not trained on, or if the graph has no tables.
    """
    plan = trained.plan
    refusal = trained.why_no_new_nodes
    if refusal:
        raise OptionError(*refusal)
    if plan.tables is None or plan.tables.graph_file is not None:
        what = f"the named graph {plan.graph!r}" if plan.tables is None else f"one file, {plan.tables.graph_file}"
        raise OptionError(
            f"{trained.folder.path} was trained on {what}: there are no tables to add new nodes to.",
            "Train on tables of your own: nlgnn train --nodes … --edges … --label …",
        )
    if plan.encoder is None:
        raise trained.folder.bad_config("it lacks 'encoder', which makes features of tables")
    encoder = FeatureEncoder.from_json(json.dumps(plan.encoder))
    found = plan.tables.read_with(nodes, edges, encoder, graph.class_names)
    if graph.edge_weight is None:  # the new table may have a column of weights though the table of training has none
        found = replace(found, graph=replace(found.graph, edge_weight=None))
    old = set(graph.node_names or ())
    return found, np.flatnonzero([name not in old for name in found.graph.node_names or ()])


def prediction_columns(
    graph: Graph,
    probabilities: Probabilities,
    labels: NDArray[np.int64],
    nodes: NDArray[np.int64],
    id_name: str | None = None,
    label_name: str | None = None,
) -> Columns:
    """Return a table with one row per node: id, predicted label, its probability and that of each class.

    Args:
        graph: The graph.
        probabilities: The probabilities of all nodes, `[n, c]`.
        labels: The predicted labels of all nodes, `[n]`.
        nodes: The numbers of the nodes in the table.
        id_name: The name of the column of ids, unless another column has it.
        label_name: The name of the column of labels, unless another column has it.
    """
    chosen, predicted = probabilities[nodes], labels[nodes]
    names = np.array(graph.class_names, dtype=object)
    figures = {
        "confidence": chosen[np.arange(len(nodes)), predicted],
        "was labelled": graph.labelled[nodes],
        **{f"probability of {name}": chosen[:, label] for label, name in enumerate(graph.class_names)},
    }
    own = (id_name or "id", label_name or "label")
    first, second = own if len({*own, *figures}) == len(figures) + 2 else ("id", "label")
    return {
        first: [graph.node_names[node] for node in nodes] if graph.node_names else nodes,
        second: names[predicted].tolist(),
        **figures,
    }
