"""Ties: the mean answer of a trained model over orders of the nodes whose sort keys are equal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.analysis.sequence import non_local
from nlgnn.errors import DataError
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.base import evaluating, logits_of, prepare
from nlgnn.nn.kernels.sorted_conv import rounded
from nlgnn.training.metrics import measure
from nlgnn.training.replica import Run

ORDERS = 20


def measure_ties(
    graph: Graph, splits: Sequence[Split], factory: Callable[[], nn.Module], metric: str, runs: Sequence[Run]
) -> dict[str, list[Any]]:
    """Return how many nodes share their sort key, and the test figure of the mean answer, for each run.

    Args:
        graph: The graph, with features scaled as in training.
        splits: The split of each run.
        factory: Returns a new non-local model.
        metric: The metric of the test figure.
        runs: The trained runs. Those that failed have None in both lists.
    """
    y = torch.from_numpy(graph.y)
    nodes: list[int | None] = []
    figures: list[float | None] = []
    for run, split in zip(runs, splits, strict=True):
        if run.failure is not None:
            nodes.append(None)
            figures.append(None)
            continue
        model = non_local(factory())
        model.load_state_dict(run.state)
        test = torch.from_numpy(split.test)
        nodes.append(tied_nodes(model, graph))
        figures.append(measure(metric, mean_over_ties(model, graph)[test], y[test]))
    return {"nodes": nodes, "test": figures}


def renumbered(graph: Graph, nodes: NDArray[np.int64]) -> Graph:
    """Return the graph with its nodes in another order, which is that of tied nodes. It has no splits."""
    if isinstance(graph.x, FeaturesOnDisk):
        raise DataError("features on disk cannot be put into another order.", "Read them into memory first.")
    places = np.empty_like(nodes)
    places[nodes] = np.arange(len(nodes))
    edges = places[graph.edge_index]
    return replace(graph, x=graph.x[nodes], edge_index=edges, y=graph.y[nodes], node_names=None, splits={})


def mean_over_ties(model: nn.Module, graph: Graph, orders: int = ORDERS) -> Tensor:
    """Return the logarithms of mean probabilities over random orders of the nodes, `[n, c]`."""
    random = np.random.default_rng(0)
    total = torch.zeros(graph.num_nodes, graph.num_classes)
    with evaluating(model), torch.no_grad():
        for _ in range(orders):
            nodes = random.permutation(graph.num_nodes)
            logits = logits_of(model(*prepare(model, renumbered(graph, nodes))))
            total[torch.from_numpy(nodes)] += logits.softmax(1)
    return (total / orders).log()


def tied_nodes(model: Any, graph: Graph) -> int:
    """Return the number of nodes whose rounded sort key another node has, too."""
    with evaluating(model), torch.no_grad():
        keys = rounded(model.ranking(*prepare(model, graph)).keys)
    _, counts = np.unique(keys, return_counts=True)
    return int(counts[counts > 1].sum())
