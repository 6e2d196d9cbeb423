"""Twins: nodes with the same out-neighbours, and test figures without those that have a twin in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nlgnn.graph.descriptions import adjacency
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.fit import predict
from nlgnn.training.metrics import measure
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run


def out_twins(graph: Graph) -> NDArray[np.int64]:
    """Return a number per node; nodes with the same out-neighbours have the same number.

    Labels are not looked at. Nodes without out-neighbours have numbers of their own.

    Example:
        >>> out_twins(Graph([[1]] * 4, [[0, 1, 2], [3, 3, 0]], [0, 1, 0, 1], directed=True)).tolist()
        [0, 0, 2, 3]
    """
    links = adjacency(graph, "out-")
    first: dict[bytes, int] = {}
    rows = (np.sort(links.indices[start:stop]) for start, stop in zip(links.indptr, links.indptr[1:], strict=False))
    return np.array([first.setdefault(row.tobytes(), node) if len(row) else node for node, row in enumerate(rows)])


def measure_without_twins(
    graph: Graph,
    splits: Sequence[Split],
    factory: Callable[[], nn.Module],
    recipe: Recipe,
    runs: Sequence[Run],
) -> dict[str, list[Any]]:
    """Return the share of test nodes with a twin in training, and the test figure of all others, for each run.

    Args:
        graph: The graph, with features as they were given.
        splits: The split of each run.
        factory: Returns a new model.
        recipe: The recipe of the training.
        runs: The trained runs. Those that failed have None in both lists.
    """
    twins, y = out_twins(graph), torch.from_numpy(graph.y)
    finished = [run for run in runs if run.failure is None]
    predictions = iter(predict(factory, graph, finished, recipe))
    shares: list[float | None] = []
    figures: list[float | None] = []
    for run, split in zip(runs, splits, strict=True):
        if run.failure is not None:
            shares.append(None)
            figures.append(None)
            continue
        has_twin = np.isin(twins, twins[split.train])
        rest = torch.from_numpy(split.test & ~has_twin)
        shares.append(round(float(has_twin[split.test].mean()), 5))
        figures.append(measure(recipe.metric, next(predictions)[rest].log(), y[rest]))
    return {"shares": shares, "test": figures}
