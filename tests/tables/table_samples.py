"""For the tests of tables: files in a folder, and what is read from them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy import sparse

from hostile_tables import EDGES, NODES, encoded
from nlgnn.tables import TableGraph, read_graph


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        (folder / name).write_bytes(encoded(content))
    return folder


def read(folder: Path, nodes: str | bytes = NODES, edges: str | bytes = EDGES, **options: object) -> TableGraph:
    """The graph of two CSV files."""
    write(folder, {"nodes.csv": nodes, "edges.csv": edges})
    return read_graph(folder / "nodes.csv", folder / "edges.csv", **{"label": "label", **options})


def dense(x: object) -> np.ndarray:
    return x.toarray() if isinstance(x, sparse.csr_array) else np.asarray(x)
