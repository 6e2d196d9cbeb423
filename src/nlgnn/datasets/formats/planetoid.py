"""Pickles of the Planetoid project, written by Python 2."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.formats.common import FRESH_COPY, PickledMatrix, reading, unpickle
from nlgnn.datasets.formats.geom_gcn import read_mask_files
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph


def read_planetoid(
    allx: Path, tx: Path, ally: Path, ty: Path, graph: Path, test_index: Path, *splits: Path, name: str, directed: bool
) -> Graph:
    """Read a citation graph.

    Rows of allx and ally are the first nodes; rows of tx and ty are the nodes that test_index lists. Nodes that neither
    covers (15 of Citeseer) get a row of zeros and class 0, as in all public loaders.
    """
    first_x, test_x = read_matrix(allx), read_matrix(tx)
    first_y, test_y = read_classes(ally), read_classes(ty)
    with reading(test_index):
        test_nodes = np.loadtxt(test_index, dtype=np.int64, ndmin=1)
        sizes = (first_x.shape[0], len(first_y)), (test_x.shape[0], len(test_y), len(test_nodes))
        if any(len(set(part)) > 1 for part in sizes) or test_nodes.min() < len(first_y):
            raise DataError(
                f"The numbers of rows are {sizes[0]} (allx, ally) and {sizes[1]} (tx, ty, test_index), and test nodes "
                f"start at {test_nodes.min()}.",
                "The parts belong to different graphs, or one is truncated: replace them by fresh copies.",
            )
        num_nodes = int(test_nodes.max()) + 1
        node_of_row = np.concatenate([np.arange(len(first_y)), test_nodes])
        rows = sparse.coo_array(sparse.vstack([first_x, test_x]))
        x = sparse.csr_array((rows.data, (node_of_row[rows.row], rows.col)), shape=(num_nodes, rows.shape[1]))
        y = np.zeros(num_nodes, np.int64)
        y[node_of_row] = np.concatenate([first_y, test_y])
    with reading(graph):
        result = Graph(x, read_neighbours(graph), y, directed=directed, name=name)
    return replace(result, splits={"geom-gcn": read_mask_files(splits, num_nodes)})


def read_matrix(path: Path) -> sparse.csr_array:
    """Read a pickled SciPy matrix."""
    with reading(path):
        fields = _expect(unpickle(path.read_bytes()), PickledMatrix).fields
        matrix = sparse.csr_array(
            (fields["data"], fields["indices"], fields["indptr"]), shape=fields["_shape"], dtype=np.float32
        )
        matrix.check_format(full_check=True)
        return matrix


def read_classes(path: Path) -> NDArray[np.int64]:
    """Read class numbers from one-hot rows. A row of zeros, as in Citeseer, becomes class 0."""
    with reading(path):
        one_hot = _expect(unpickle(path.read_bytes()), np.ndarray)
        return np.asarray(one_hot.argmax(axis=1), np.int64)


def read_neighbours(path: Path) -> NDArray[np.int64]:
    """Read edges from a dictionary of lists: both directions, with loops and repetitions."""
    neighbours = _expect(unpickle(path.read_bytes()), dict)
    pairs = [(node, neighbour) for node, others in neighbours.items() for neighbour in others]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def _expect(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise DataError(f"It holds a {type(value).__name__} instead of a {kind.__name__}.", FRESH_COPY)
    return value
