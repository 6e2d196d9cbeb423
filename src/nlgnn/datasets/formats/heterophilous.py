"""npz files of the heterophilous-graphs project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import sparse

from nlgnn.datasets.formats.common import SPARSE_BELOW, reading_npz
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split


def read_heterophilous(path: Path, *, name: str, directed: bool) -> Graph:
    """Read a file of edges `[num_edges, 2]`, each undirected edge once, and masks `[num_splits, num_nodes]`."""
    with reading_npz(path) as arrays:
        masks = zip(arrays["train_masks"], arrays["val_masks"], arrays["test_masks"], strict=True)
        splits = tuple(Split(*parts, protocol="heterophilous", index=index) for index, parts in enumerate(masks))
        x = np.asarray(arrays["node_features"], np.float32)
        return Graph(
            x=sparse.csr_array(x) if np.count_nonzero(x) < SPARSE_BELOW * x.size else x,
            edge_index=arrays["edges"].T,
            y=arrays["node_labels"],
            directed=directed,
            name=name,
            splits={"heterophilous": splits},
        )
