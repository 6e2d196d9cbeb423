"""The npz files of the heterophilous-graphs project."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nlgnn.datasets.readers.reading import reading_npz, sparse_if_mostly_zero
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split


def read_heterophilous(path: Path, *, name: str, directed: bool) -> Graph:
    """Edges are [num_edges, 2], each undirected edge once; masks are [num_splits, num_nodes]."""
    with reading_npz(path) as arrays:
        masks = zip(arrays["train_masks"], arrays["val_masks"], arrays["test_masks"], strict=True)
        splits = tuple(Split(*parts, protocol="heterophilous", index=index) for index, parts in enumerate(masks))
        return Graph(
            x=sparse_if_mostly_zero(np.asarray(arrays["node_features"], np.float32)),
            edge_index=arrays["edges"].T,
            y=arrays["node_labels"],
            directed=directed,
            name=name,
            splits={"heterophilous": splits},
        )
