"""Small graphs and short trainings for the tests of pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nlgnn.analysis import explain_node
from nlgnn.analysis.explain import Explanation
from nlgnn.graph.graph import Graph
from nlgnn.training.train import Plan, Trained, train

COMPARED = "mushroom-body-left"
# By the name of the folder.
TRAININGS: dict[str, dict[str, Any]] = {
    "run": {"model": "nlgcn"},
    "run-gcn": {"model": "gcn"},
    "run-nlgcn-kernel-1": {"model": "nlgcn", "kernel_size": 1},
    "run-wide": {"model": "nlgcn", "hidden": 9},
    "run-gcn-f1": {"model": "gcn", "metric": "macro-f1"},
    "run-mlp-tenth": {"model": "mlp", "protocol": "random-10"},
    "else": {"model": "gcn", "lr": 0.1},
}


def easy_graph(num_nodes: int = 60, num_classes: int = 3, edges: int | None = None, **given: Any) -> Graph:
    """A feature tells the class of most nodes; edges are random."""
    rng = np.random.default_rng(0)
    y = rng.permutation(np.arange(num_nodes) % num_classes)
    x = 0.8 * rng.random((num_nodes, num_classes))
    x[np.arange(num_nodes), y] += rng.random(num_nodes)
    edge_index = rng.integers(num_nodes, size=(2, 2 * num_nodes if edges is None else edges))
    names = [f"class {label}" for label in range(num_classes)]
    return Graph(**({"x": x, "edge_index": edge_index, "y": y, "name": "easy", "class_names": names} | given))


def trained_on(
    graph: Graph, path: Path, model: str = "nlmlp", runs: int | None = 2, protocol: str = "random-60", **options: Any
) -> Trained:
    wanted = {"hidden": 8, "epochs": 20, "lr": 0.02, "stopping": "never", "device": "cpu"} | options
    return train(Plan(graph.name, model, protocol, runs, "paper", wanted), graph, path, progress=False)


class Report(NamedTuple):
    """A page, and what it is of."""

    path: Path
    trained: Trained
    graph: Graph

    def explain(self, node: int) -> Explanation:
        model = self.trained.factory()
        model.load_state_dict(self.trained.runs[0].state)
        return explain_node(model, self.graph.scale_features(self.trained.recipe.features), node)
