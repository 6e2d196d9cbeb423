"""A graph to learn a metric on."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from nlgnn.graph.graph import Graph

NODES, CLASSES = 60, 3


def random_graph(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = rng.integers(NODES, size=(2, 120))
    return Graph(rng.standard_normal((NODES, 4)), edges, rng.integers(CLASSES, size=NODES))


def some_known(graph: Graph) -> Tensor:
    """Every other label."""
    known = torch.from_numpy(graph.y.copy())
    known[1::2] = -1
    return known
