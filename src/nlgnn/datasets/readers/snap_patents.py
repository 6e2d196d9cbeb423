"""LINKX's patents: one MATLAB file and its splits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.datasets.readers.index_splits import read_linkx_splits
from nlgnn.datasets.readers.reading import read_mat, reading
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

NUM_CLASSES = 5


def read_snap_patents(path: Path, splits: Path, *, name: str, directed: bool) -> Graph:
    """Label = the year of granting, in five classes."""
    contents = read_mat(path)
    with reading(path):
        x = sparse.csr_array(contents["node_feat"], dtype=np.float32)
        y = quantile_classes(contents["years"].ravel(), NUM_CLASSES)
        num_nodes = contents["num_nodes"].item()
        if len(y) != num_nodes:
            raise DataError(f"{len(y)} years, but num_nodes is {num_nodes}.", "Replace it by a fresh copy.")
        graph = Graph(x, contents["edge_index"], y, directed=directed, name=name)
    return replace(graph, splits={"linkx": read_linkx_splits(splits, len(y))})


def quantile_classes(values: NDArray[np.generic], num_classes: int) -> NDArray[np.int64]:
    """Class k holds the values from quantile k/num_classes (included) to quantile (k+1)/num_classes (excluded).

    Equal values stay together, so classes are only about equally large. An unknown value (NaN) is an unknown label.
    """
    numbers = np.asarray(values, np.float64)
    lower_bounds = np.nanquantile(numbers, np.arange(1, num_classes) / num_classes)
    classes = np.searchsorted(lower_bounds, numbers, side="right")
    return np.where(np.isnan(numbers), -1, classes)
