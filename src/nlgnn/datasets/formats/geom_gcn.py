"""Text files of the Geom-GCN project: a table of nodes, a table of edges, ten split files, and relations.

Relations are pairs of neighbours with the quadrant in which one lies as seen from the other. A file has one line per
pair: `node1,node2 <tab> graph or latent_space <tab> 0 to 3`. The latent spaces are Isomap (MDS in the files), the
Poincaré disc and struc2vec; the programs that computed them were not published.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.formats.common import FRESH_COPY, binary_rows, node_order, reading, reading_npz
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split

SPACES = ("isomap-released", "poincare", "struc2vec")
Space = Literal["isomap-released", "poincare", "struc2vec"]
RELATIONS_HEADER = "node1,node2\tspace\trelation_type"
ParseFeatures = Callable[[list[str]], sparse.csr_array]


def dense_rows(texts: list[str]) -> sparse.csr_array:
    """Parse rows such as 0,1,0: single digits at even places, commas at odd places."""
    matrix = np.empty((len(texts), (len(texts[0]) + 1) // 2), np.uint8)
    for row, text in enumerate(texts):
        characters = np.frombuffer(text.encode(), np.uint8)
        digits = characters[::2] - ord("0")
        if len(digits) != matrix.shape[1] or (digits > 1).any() or (characters[1::2] != ord(",")).any():
            raise DataError(
                f"The features in line {row + 2} are not {matrix.shape[1]} zeros and ones like those in line 2.",
                FRESH_COPY,
            )
        matrix[row] = digits
    return sparse.csr_array(matrix, dtype=np.float32)


def column_lists(texts: list[str]) -> sparse.csr_array:
    """Parse rows such as 521,92,111: the columns that are 1."""
    columns = [np.array(text.split(","), dtype=np.int64) for text in texts]
    rows = np.repeat(np.arange(len(columns)), [len(row) for row in columns])
    flat = np.concatenate(columns)
    if flat.min() < 0:
        raise DataError(f"Line {rows[flat.argmin()] + 2} names feature {flat.min()}.", "Feature numbers start at 0.")
    return binary_rows(rows, flat, (len(columns), int(flat.max()) + 1))


def read_geom_gcn(
    nodes: Path,
    edges: Path,
    *splits: Path,
    name: str,
    directed: bool,
    parse_features: ParseFeatures = dense_rows,
) -> Graph:
    """Read a graph whose features are written as 0,1,0,0,…, or in the format of `parse_features`."""
    with reading(nodes):
        x, y = read_nodes(nodes, parse_features)
    with reading(edges):
        graph = Graph(x, read_edges(edges), y, directed=directed, name=name)
    return replace(graph, splits={"geom-gcn": read_mask_files(splits, len(y))})


def read_nodes(path: Path, parse_features: ParseFeatures) -> tuple[sparse.csr_array, NDArray[np.int64]]:
    """Read features and labels of lines with node number, features and label, in any order."""
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    for number, row in enumerate(rows, start=2):
        if len(row) != 3:
            raise DataError(f"Line {number} has {len(row)} columns instead of 3.", FRESH_COPY)
    node = np.array([row[0] for row in rows], dtype=np.int64)
    in_node_order = node_order(node, "The column of node numbers")
    y = np.array([row[2] for row in rows], dtype=np.int64)
    if y.min() < 0:
        raise DataError(f"Node {node[y.argmin()]} has label {y.min()}.", "Labels of these files start at 0.")
    return parse_features([row[1] for row in rows])[in_node_order], y[in_node_order]


def read_edges(path: Path) -> NDArray[np.int64]:
    """Read edges, `[2, num_edges]`."""
    edges = np.loadtxt(path, dtype=np.int64, delimiter="\t", skiprows=1, ndmin=2)
    if edges.shape[1] != 2:
        raise DataError(f"There are {edges.shape[1]} columns instead of 2.", "Give a source and a target per line.")
    return edges.T


def read_mask_files(paths: Sequence[Path], num_nodes: int) -> tuple[Split, ...]:
    """Read one split per npz file, which holds three masks."""
    splits = []
    for index, path in enumerate(paths):
        with reading_npz(path) as masks:
            parts = (masks["train_mask"], masks["val_mask"], masks["test_mask"])
            split = Split(*parts, protocol="geom-gcn", index=index)
            split.check_length(num_nodes, "masks")
            splits.append(split)
    return tuple(splits)


class Relations(NamedTuple):
    """Ordered pairs of nodes. A pair may occur twice, once per neighbourhood."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    latent: NDArray[np.bool_]  # neighbours in the latent space; otherwise in the graph
    quadrant: NDArray[np.int64]  # 0 to 3; 3 - q is opposite to q


def read_relations(path: Path) -> Relations:
    """Read a file of relations."""
    header, *lines = path.read_text("utf-8").splitlines() or [""]
    if header != RELATIONS_HEADER or not lines:
        raise DataError(f"It does not start with {RELATIONS_HEADER!r} and a line per pair.", FRESH_COPY)
    text = "\n".join(lines).replace("\tgraph\t", ",0,").replace("\tlatent_space\t", ",1,")
    table = np.loadtxt(text.split("\n"), dtype=np.int64, delimiter=",", ndmin=2)
    if table.shape[1] != 4 or table.min() < 0 or table[:, 2].max() > 1 or table[:, 3].max() > 3:
        raise DataError("A line is not two nodes, a space and a number from 0 to 3.", FRESH_COPY)
    first, second, latent, quadrant = table.T.copy()
    return Relations(first, second, latent.astype(bool), quadrant)
