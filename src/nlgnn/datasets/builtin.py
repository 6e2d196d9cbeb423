"""Graphs that nobody has to download: the memory centre of a fruit-fly larva, left and right, and one made by rule."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from scipy import sparse

from nlgnn.datasets.dataset import PACKAGED_DATA
from nlgnn.datasets.fetch import cache_folder
from nlgnn.datasets.synthetic import patents_like_graph
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph

NEURON_TYPES = {"K": "Kenyon", "P": "Projection", "O": "Output", "I": "Input"}


def mushroom_body(side: Literal["left", "right"] = "left") -> Graph:
    """Neurons and who has synapses onto whom; the label is the neuron's type.

    `edge_index` runs from the sending to the receiving neuron, but the graph counts as undirected: a projection neuron
    is one that nobody here sends to, so that the direction alone would give its label away.
    """
    with gzip.open(PACKAGED_DATA / f"mushroom-body-{side}.csv.gz", "rt") as file:
        rows = [line.rstrip("\n").split(",") for line in file]
    codes = list(NEURON_TYPES)
    synapses = np.array([row[1:] for row in rows], dtype=np.int64)  # [num_neurons, num_neurons]
    return Graph(
        x=sparse.eye_array(len(rows), dtype=np.float32, format="csr"),
        edge_index=np.stack(synapses.nonzero()),
        y=np.array([codes.index(row[0]) for row in rows]),
        directed=False,
        name=f"mushroom-body-{side}",
        class_names=tuple(NEURON_TYPES.values()),
    )


def patents_like() -> Graph:
    """Made when it is first asked for; afterwards edges and labels are read from the cache, and features stay there."""
    from nlgnn.datasets.readers.reading import reading, reading_npz

    folder = cache_folder() / "made" / "patents-like-1"  # another number whenever the rule changes
    if not folder.is_dir():
        half_made = folder.with_name(f".{folder.name}.{os.getpid()}")
        try:
            half_made.mkdir(parents=True)
            graph = patents_like_graph(features_path=half_made / "features.npy")
            np.savez(half_made / "graph.npz", edge_index=graph.edge_index.astype(np.int32), y=graph.y.astype(np.int8))
            half_made.rename(folder)
        except OSError as error:
            if not folder.is_dir():  # another process may have been faster
                raise DataError(
                    f"{folder} cannot be written: {error.strerror or error}.",
                    "Free some space, or set NLGNN_CACHE to another folder.",
                ) from error
        finally:
            shutil.rmtree(half_made, ignore_errors=True)
    with reading_npz(folder / "graph.npz") as arrays:
        edge_index, y = arrays["edge_index"], arrays["y"]
    with reading(folder / "features.npy"):
        x = np.load(folder / "features.npy", mmap_mode="r")
    return Graph(x, edge_index, y, name="patents-like")


BUILTIN_GRAPHS: dict[str, Callable[[], Graph]] = {
    "mushroom-body-left": partial(mushroom_body, "left"),
    "mushroom-body-right": partial(mushroom_body, "right"),
    "patents-like": patents_like,
}
