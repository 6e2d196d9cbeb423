"""Facebook 100: one MATLAB file a university."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.readers.reading import read_mat, reading
from nlgnn.graph.graph import Graph

GENDER = 1  # column of local_info; 0 there means that nothing was entered


def read_fb100(path: Path, *, name: str, directed: bool) -> Graph:
    """Label = gender entered, unknown (-1) where missing. Features = one-hot codes of the other columns."""
    contents = read_mat(path)
    with reading(path):
        friendships = sparse.coo_array(contents["A"])
        profiles = contents["local_info"].astype(np.int64)
        return Graph(
            x=sparse.csr_array(sparse.hstack([one_hot(column) for column in np.delete(profiles, GENDER, axis=1).T])),
            edge_index=np.stack([friendships.row, friendships.col]),
            y=profiles[:, GENDER] - 1,
            directed=directed,
            name=name,
        )


def one_hot(values: NDArray[np.int64]) -> sparse.csr_array:
    """A column for each value that occurs, missing (0) among them."""
    distinct, code = np.unique(values, return_inverse=True)
    rows = np.arange(len(values))
    return sparse.csr_array((np.ones(len(values), np.float32), (rows, code)), shape=(len(values), len(distinct)))
