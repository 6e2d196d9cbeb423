"""The columns of a user's table: how much a model uses them, and their effect on one node.

The effect of a column is measured on graphs in which it carries no information, for one node or for all nodes. One
column of a table may be several features; `slots` says where they are.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.selection.statistics import spread
from nlgnn.tables import FeatureEncoder
from nlgnn.tables.column_kinds import Numbers
from nlgnn.training.fit import predict
from nlgnn.training.metrics import log_probabilities, measure
from nlgnn.training.replica import Run
from nlgnn.training.train import Plan, Trained

MOST_COLUMNS = 30  # Columns that are tried at most.
MOST_EVALUATED = 5_000_000  # Nodes that are evaluated at most, over all columns: some seconds.


def row_and_average(graph: Graph, node: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the features of a node, and their average over all nodes."""
    assert not isinstance(graph.x, FeaturesOnDisk)  # Columns of a table are in memory.
    row, average = graph.x[[node]], graph.x.mean(axis=0)
    row = row.toarray() if isinstance(row, sparse.csr_array) else row
    return np.asarray(row, np.float32).ravel(), np.asarray(average, np.float32).ravel()


def with_rows(graph: Graph, nodes: Sequence[int] | NDArray[np.int64], row: NDArray[np.float32]) -> Graph:
    """Return the graph with other features of some nodes, the same for all of them."""
    x, chosen = graph.x, np.zeros(graph.num_nodes, np.float32)
    chosen[np.asarray(nodes, np.int64)] = 1
    if isinstance(x, sparse.csr_array):
        added = sparse.csr_array(chosen[:, None]) @ sparse.csr_array(row[None])
        return replace(graph, x=sparse.csr_array(sparse.diags_array(1 - chosen) @ x + added))
    changed = np.array(x)
    changed[chosen > 0] = row
    return replace(graph, x=changed)


def shuffled(graph: Graph, slots: slice, seed: int) -> Graph:
    """Return the graph with one column permuted among its nodes."""
    x, order = graph.x, np.random.default_rng(seed).permutation(graph.num_nodes)
    if isinstance(x, sparse.csr_array):
        parts = [x[:, : slots.start], x[:, slots][order], x[:, slots.stop :]]
        return replace(graph, x=sparse.csr_array(sparse.hstack(parts, format="csr")))
    changed = np.array(x)
    changed[:, slots] = changed[order, slots]
    return replace(graph, x=changed)


def encoder_of(plan: Plan) -> FeatureEncoder | None:
    """Return the encoder that made the features of a training; None if they were numbers already."""
    return None if plan.encoder is None else FeatureEncoder.from_json(json.dumps(plan.encoder))


class ColumnEffect(NamedTuple):
    """Effect of one column on one node.

    Attributes:
        column: Name of the column.
        value: Value of the node.
        probability: Probability of the predicted class after the column was replaced by its average.
        change: Change of that probability.
        prediction: Class that is predicted then.
    """

    column: str
    value: str
    probability: float
    change: float
    prediction: str


def column_effects(trained: Trained, graph: Graph, node: int, run: Run) -> list[ColumnEffect]:
    """Measure the effect of columns on one node, sorted by the size of the change.

    Columns in which the node is furthest from the average are tried. Other nodes and other columns keep their encoded
    values; where rows are scaled, that comes afterwards.

    Args:
        trained: A training on a user's tables.
        graph: Its graph.
        node: Number of the node.
        run: The run whose weights are used.

    Returns:
        The effects; an empty list for a graph without columns.
    """
    encoder = encoder_of(trained.plan)
    if encoder is None or trained.plan.tables is None:
        return []

    def probabilities(changed: Graph) -> NDArray[np.float32]:
        of_node: NDArray[np.float32] = predict(trained.factory, changed, [run], trained.recipe)[0, node].numpy()
        return of_node

    table = None if encoder.structural else trained.plan.tables.node_table()
    row, average = row_and_average(graph, node)
    furthest = sorted(encoder.slots.items(), key=lambda item: -np.linalg.norm((row - average)[item[1]]))
    before, effects = probabilities(graph), []
    predicted = int(before.argmax())
    most = min(MOST_COLUMNS, max(3, MOST_EVALUATED // graph.num_nodes))
    for name, slots in furthest[:most]:
        changed = row.copy()
        changed[slots] = average[slots]
        after = probabilities(with_rows(graph, [node], changed))
        if table is None:
            value = f"{_original_number(encoder, name, float(row[slots.start])):.4g}"
        else:
            cell = table.column(name)[node] if node < table.num_rows else None  # Edges may name further nodes.
            value = "missing" if cell is None or cell == "" else str(cell)
        change = float(after[predicted] - before[predicted])
        prediction = graph.class_names[int(after.argmax())]
        effects.append(ColumnEffect(name, value, float(after[predicted]), change, prediction))
    return sorted(effects, key=lambda effect: -abs(effect.change))


def _original_number(encoder: FeatureEncoder, name: str, slot: float) -> float:
    """Return a number as it was before it was standardised."""
    (column,) = [column for column in encoder.columns if column.name == name]
    assert isinstance(column, Numbers)  # All features that are made from links are numbers.
    return slot * column.scale + column.offset


def runs_to_measure(trained: Trained, graph: Graph, encoder: FeatureEncoder) -> list[Run]:
    """Return the runs in which columns are permuted: fewer with many columns or on a large graph, and maybe none."""
    of_one_run = len(encoder.columns) * graph.num_nodes * trained.num_models
    return trained.finished[: MOST_EVALUATED // max(1, of_one_run)]


def metric_lost(trained: Trained, graph: Graph, splits: Sequence[Split], encoder: FeatureEncoder) -> dict[str, str]:
    """Return the loss in points of the training's metric on test nodes by permuted column.

    Returns:
        Mean and standard deviation over `runs_to_measure`, as text, the largest mean first; empty without such runs, or
        if the test nodes of a run have no labels.
    """
    some = trained.with_runs(runs_to_measure(trained, graph, encoder))
    metric, y = trained.recipe.metric, torch.tensor(graph.y)
    tested = [torch.from_numpy(splits[run.index].test & graph.labelled) for run in some.runs]
    if not tested or not all(mask.any() for mask in tested):
        return {}

    def figures(changed: Graph) -> NDArray[np.float64]:
        logits = log_probabilities(some.probabilities(changed))  # [runs, n, c]
        return np.array([measure(metric, of_run[mask], y[mask]) for of_run, mask in zip(logits, tested, strict=True)])

    before, lost = figures(graph), {}
    for seed, (name, slots) in enumerate(encoder.slots.items()):
        lost[name] = before - figures(shuffled(graph, slots, seed))
    order = sorted(lost, key=lambda name: -lost[name].mean())
    return {name: str(spread(lost[name].tolist())) for name in order}
