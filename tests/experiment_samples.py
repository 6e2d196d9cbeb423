"""A graph with fixed splits that needs little training."""

from __future__ import annotations

import numpy as np

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.selection.clock import Clock


def small_graph(num_splits: int = 3, test_labels: int = 0) -> Graph:
    """Features tell the class of most nodes. All splits have one test set, whose labels `test_labels` turns."""
    rng = np.random.default_rng(0)
    y = np.arange(30) % 2
    x = rng.random((30, 3))
    x[np.arange(30), y] += 2 * rng.random(30)
    test = np.arange(20, 30)
    y[test] = (y[test] + test_labels) % 2
    orders = [rng.permutation(20) for _ in range(num_splits)]
    splits = [
        Split.from_indices(30, order[:10], order[10:], test, "geom-gcn", index) for index, order in enumerate(orders)
    ]
    edges = rng.integers(30, size=(2, 40))
    return Graph(x, edges, y, name="texas", splits={"geom-gcn": splits})


class Countdown(Clock):
    """A clock with some seconds left at the beginning, and none after a number of looks."""

    def __init__(self, *left: float) -> None:
        super().__init__(1e9)
        self.values = list(left)

    @property
    def left(self) -> float:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]
