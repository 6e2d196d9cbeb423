"""Files of the LINKX project: Facebook 100 and snap-patents (MATLAB), Twitch (two CSV files and JSON), splits."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import io, sparse

from nlgnn.datasets.formats.common import FRESH_COPY, PARTS, binary_rows, node_order, one_hot, reading, unpickle_npy
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split

GENDER = 1  # column of local_info; 0 there means that nothing was entered
NUM_YEAR_CLASSES = 5
NUM_TWITCH_FEATURES = 3170  # one numbering of games and habits for all countries


def read_fb100(path: Path, *, name: str, directed: bool) -> Graph:
    """Read a Facebook 100 file: labels are the gender entered (-1 if missing), features one-hot codes of the rest."""
    with reading(path):
        contents = read_mat(path)
        friendships = sparse.coo_array(contents["A"])
        profiles = contents["local_info"].astype(np.int64)
        # Missing (0) is a value like any other.
        others = [np.unique(column, return_inverse=True) for column in np.delete(profiles, GENDER, axis=1).T]
        return Graph(
            x=sparse.csr_array(sparse.hstack([one_hot(codes, len(distinct)) for distinct, codes in others])),
            edge_index=np.stack([friendships.row, friendships.col]),
            y=profiles[:, GENDER] - 1,
            directed=directed,
            name=name,
        )


def read_snap_patents(path: Path, splits: Path, *, name: str, directed: bool) -> Graph:
    """Read the patents, whose labels are the years of granting in five classes."""
    with reading(path):
        contents = read_mat(path)
        y = quantile_classes(contents["years"].ravel(), NUM_YEAR_CLASSES)
        num_nodes = contents["num_nodes"].item()
        if len(y) != num_nodes:
            raise DataError(f"{len(y)} years, but num_nodes is {num_nodes}.", FRESH_COPY)
        x = sparse.csr_array(contents["node_feat"], dtype=np.float32)
        graph = Graph(x, contents["edge_index"], y, directed=directed, name=name)
    return replace(graph, splits={"linkx": read_linkx_splits(splits, len(y))})


def read_mat(path: Path) -> dict[str, Any]:
    """Return the variables of a MATLAB file."""
    with path.open("rb") as file:
        variables: dict[str, Any] = io.loadmat(file)
        return variables


def quantile_classes(values: NDArray[np.generic], num_classes: int) -> NDArray[np.int64]:
    """Return classes of numbers: class k is from quantile k/num_classes (included) to the next quantile (excluded).

    Equal values share a class, so that classes are only about equally large. NaN becomes the unknown label -1.
    """
    numbers = np.asarray(values, np.float64)
    lower_bounds = np.nanquantile(numbers, np.arange(1, num_classes) / num_classes)
    classes = np.searchsorted(lower_bounds, numbers, side="right")
    return np.where(np.isnan(numbers), -1, classes)


def read_twitch(target: Path, features: Path, edges: Path, splits: Path, *, name: str, directed: bool) -> Graph:
    """Read a graph whose label says whether a streamer uses mature language."""
    with reading(target):
        y = read_target(target)
    with reading(features):
        x = read_features(features, len(y))
    with reading(edges):
        edge_index = np.loadtxt(edges, dtype=np.int64, delimiter=",", skiprows=1, ndmin=2).T
        graph = Graph(x, edge_index, y, directed=directed, name=name)
    return replace(graph, splits={"linkx": read_linkx_splits(splits, len(y))})


def read_target(path: Path) -> NDArray[np.int64]:
    """Read labels of rows in any order; `new_id` is the node number in the other files."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    words = {"True": 1, "False": 0}
    for number, row in enumerate(rows, start=2):
        if row["mature"] not in words:
            raise DataError(f"Line {number}: column 'mature' is {row['mature']!r}.", "Write True or False.")
    node = np.array([row["new_id"] for row in rows], dtype=np.int64)
    labels = np.array([words[row["mature"]] for row in rows], dtype=np.int64)
    return labels[node_order(node, "Column 'new_id'")]


def read_features(path: Path, num_nodes: int) -> sparse.csr_array:
    """Read a dictionary from node numbers to the columns that are 1, which may repeat."""
    lists = json.loads(path.read_text("utf-8"))
    rows = np.array([int(node) for node, columns in lists.items() for _ in columns], dtype=np.int64)
    columns = np.array([column for columns in lists.values() for column in columns], dtype=np.int64)
    return binary_rows(rows, columns, (num_nodes, NUM_TWITCH_FEATURES))


def read_linkx_splits(path: Path, num_nodes: int) -> tuple[Split, ...]:
    """Read the splits of the LINKX project: a pickled array of dictionaries of node numbers."""
    with reading(path):
        splits = []
        for index, parts in enumerate(unpickle_npy(path)):
            train, val, test = (parts[part] for part in PARTS)
            splits.append(Split.from_indices(num_nodes, train, val, test, protocol="linkx", index=index))
        return tuple(splits)
