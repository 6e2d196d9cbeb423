"""Geom-GCN's text files: a table of nodes, a table of edges, ten split files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.readers.reading import binary_rows, reading, reading_npz
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split

ParseFeatures = Callable[[list[str]], sparse.csr_array]


def read_geom_gcn(nodes: Path, edges: Path, *splits: Path, name: str, directed: bool) -> Graph:
    """Features are written out as 0,1,0,0,…"""
    return _read(nodes, edges, splits, dense_rows, name, directed)


def read_geom_gcn_lists(nodes: Path, edges: Path, *splits: Path, name: str, directed: bool) -> Graph:
    """Features are lists of the columns that are 1 (film)."""
    return _read(nodes, edges, splits, column_lists, name, directed)


def _read(
    nodes: Path, edges: Path, splits: Sequence[Path], parse_features: ParseFeatures, name: str, directed: bool
) -> Graph:
    with reading(nodes):
        x, y = read_nodes(nodes, parse_features)
    with reading(edges):
        graph = Graph(x, read_edges(edges), y, directed=directed, name=name)
    return replace(graph, splits={"geom-gcn": read_mask_files(splits, len(y))})


def read_nodes(path: Path, parse_features: ParseFeatures) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Node number, features, label; in any order of the numbers."""
    rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    for number, row in enumerate(rows, start=2):
        if len(row) != 3:
            raise DataError(f"line {number} has {len(row)} columns instead of 3.", "Replace the file by a fresh copy.")
    node = np.array([row[0] for row in rows], dtype=np.int64)
    if not np.array_equal(np.sort(node), np.arange(len(rows))):
        raise DataError(
            f"the node numbers of its {len(rows)} lines are not 0 to {len(rows) - 1}, each once.",
            "Replace the file by a fresh copy.",
        )
    in_node_order = np.argsort(node)
    y = np.array([row[2] for row in rows], dtype=np.int64)
    if y.min() < 0:
        raise DataError(f"node {node[y.argmin()]} has label {y.min()}.", "Labels of these files start at 0.")
    return parse_features([row[1] for row in rows])[in_node_order], y[in_node_order]


def dense_rows(texts: list[str]) -> sparse.csr_array:
    """Rows such as 0,1,0: single digits at the even places, commas at the odd ones."""
    matrix = np.empty((len(texts), (len(texts[0]) + 1) // 2), np.uint8)
    for row, text in enumerate(texts):
        characters = np.frombuffer(text.encode(), np.uint8)
        digits = characters[::2] - ord("0")
        if len(digits) != matrix.shape[1] or (digits > 1).any() or (characters[1::2] != ord(",")).any():
            raise DataError(
                f"the features in line {row + 2} are not {matrix.shape[1]} zeros and ones like those in line 2.",
                "Replace the file by a fresh copy.",
            )
        matrix[row] = digits
    return sparse.csr_array(matrix, dtype=np.float32)


def column_lists(texts: list[str]) -> sparse.csr_array:
    """Rows such as 521,92,111: the columns that are 1."""
    columns = [np.array(text.split(","), dtype=np.int64) for text in texts]
    rows = np.repeat(np.arange(len(columns)), [len(row) for row in columns])
    flat = np.concatenate(columns)
    if flat.min() < 0:
        raise DataError(f"line {rows[flat.argmin()] + 2} names feature {flat.min()}.", "Feature numbers start at 0.")
    return binary_rows(rows, flat, (len(columns), int(flat.max()) + 1))


def read_edges(path: Path) -> NDArray[np.int64]:
    edges = np.loadtxt(path, dtype=np.int64, delimiter="\t", skiprows=1, ndmin=2)
    if edges.shape[1] != 2:
        raise DataError(f"{edges.shape[1]} columns instead of 2.", "An edge is a source and a target.")
    return edges.T


def read_mask_files(paths: Sequence[Path], num_nodes: int) -> tuple[Split, ...]:
    """One npz file a split, three masks inside."""
    splits = []
    for index, path in enumerate(paths):
        with reading_npz(path) as masks:
            parts = (masks["train_mask"], masks["val_mask"], masks["test_mask"])
            split = Split(*parts, protocol="geom-gcn", index=index)
            split.check_length(num_nodes, "masks")
            splits.append(split)
    return tuple(splits)
