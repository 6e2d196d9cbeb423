"""MUSAE's Twitch graphs: two CSV files, one JSON file, and LINKX's splits."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.readers.index_splits import read_linkx_splits
from nlgnn.datasets.readers.reading import binary_rows, reading
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

NUM_FEATURES = 3170  # one numbering of games and habits for all countries


def read_twitch(target: Path, features: Path, edges: Path, splits: Path, *, name: str, directed: bool) -> Graph:
    """Label = does the streamer use mature language."""
    with reading(target):
        y = read_target(target)
    with reading(features):
        x = read_features(features, len(y))
    with reading(edges):
        edge_index = np.loadtxt(edges, dtype=np.int64, delimiter=",", skiprows=1, ndmin=2).T
        graph = Graph(x, edge_index, y, directed=directed, name=name)
    return replace(graph, splits={"linkx": read_linkx_splits(splits, len(y))})


def read_target(path: Path) -> NDArray[np.int64]:
    """Rows in any order; `new_id` is the node number that the other files use."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    words = {"True": 1, "False": 0}
    for number, row in enumerate(rows, start=2):
        if row["mature"] not in words:
            raise DataError(f"line {number}: column 'mature' is {row['mature']!r}.", "It should be True or False.")
    node = np.array([row["new_id"] for row in rows], dtype=np.int64)
    if not np.array_equal(np.sort(node), np.arange(len(rows))):
        raise DataError(
            f"column 'new_id' of its {len(rows)} rows is not 0 to {len(rows) - 1}, each once.",
            "Replace the file by a fresh copy.",
        )
    labels = np.array([words[row["mature"]] for row in rows], dtype=np.int64)
    return labels[np.argsort(node)]


def read_features(path: Path, num_nodes: int) -> sparse.csr_array:
    """A dictionary: node number -> columns that are 1, some of them named twice."""
    lists = json.loads(path.read_text())
    rows = np.array([int(node) for node, columns in lists.items() for _ in columns], dtype=np.int64)
    columns = np.array([column for columns in lists.values() for column in columns], dtype=np.int64)
    return binary_rows(rows, columns, (num_nodes, NUM_FEATURES))
