"""Graphs of the battery."""

from __future__ import annotations

import numpy as np

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, random_split


def random_graph(num_nodes: int = 24, num_classes: int = 3, edges: int = 50, seed: int = 0) -> Graph:
    """Normal features that tell the class somewhat, random edges; the last of many nodes is isolated."""
    rng = np.random.default_rng(seed)
    y = np.arange(num_nodes) % num_classes
    x = rng.standard_normal((num_nodes, 5))
    x[:, 0] += 2 * y
    edge_index = rng.integers(max(1, num_nodes - 1), size=(2, edges))
    return Graph(x, edge_index, y, name="random", class_names=[f"class {label}" for label in range(num_classes)])


def with_labels(graph: Graph, y: np.ndarray) -> Graph:
    return Graph(graph.x, graph.edge_index, y, name=graph.name, class_names=graph.class_names)


def split_of(graph: Graph) -> Split:
    return random_split(graph.y, "random-60", 0)
