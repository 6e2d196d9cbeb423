"""What the tests of this folder share: cells that need no training, and a graph with fixed splits that needs little."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nlgnn.experiments.cells import Cell, cell_path
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split


@dataclass(frozen=True)
class FakeCell(Cell):
    """It measures its own lr; its `measured` counts how often."""

    store: ClassVar[str] = "."
    dataset: str = "texas"
    system: str = "gcn"
    lr: float = 0.1
    measured: list[float] = field(default_factory=list)

    @property
    def label(self) -> str:
        return self.system

    def quick(self) -> FakeCell:
        return self

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        assert unfinished.is_dir()
        self.measured.append(self.lr)
        return {"seconds": 1.0, "model": {}, "recipe": {"lr": self.lr}}

    def settings(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"lr": self.lr, "invented later": 1}


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


def write_result(cell: Cell, folder: Path, **result: Any) -> None:
    path = cell_path(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"seconds": 1.0, "model": {}, "recipe": {}, **result}))
