"""Graphs and rows of a leaderboard for the tests of a race."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nlgnn.graph.graph import Graph
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry
from nlgnn.training.replica import Run


def runs(*validation: float | None, test: float = 50.0) -> list[Run]:
    """None is a run that failed."""
    return [
        Run(index, index, "random-60", index, failure="it failed")
        if figure is None
        else Run(index, index, "random-60", index, val={"accuracy": figure}, test={"accuracy": test})
        for index, figure in enumerate(validation)
    ]


def row(name: str, *validation: float | None, **fields: Any) -> Row:
    found = runs(*validation)
    entry = Entry(name, fields.pop("model", "gcn"), **fields)
    return Row(entry, "finished", "", [run.val for run in found], [run.test for run in found], 1.0, 0.1)


def board(*rows: Row, folder: Path | None = None) -> Leaderboard:
    return Leaderboard("graph", "random-60", "accuracy", list(rows), folder=folder)


def labelled(rare: int, nodes: int = 100) -> Graph:
    y = np.zeros(nodes, np.int64)
    y[:rare] = 1
    return Graph(np.ones((nodes, 1)), np.array([[0], [1]]), y, name="own")
