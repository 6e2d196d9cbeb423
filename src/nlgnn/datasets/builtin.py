"""The graphs that ship with the package: the memory centre of a fruit-fly larva, left and right."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from scipy import sparse

from nlgnn.datasets.dataset import PACKAGED_DATA
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


PACKAGED_GRAPHS: dict[str, Callable[[], Graph]] = {
    "mushroom-body-left": partial(mushroom_body, "left"),
    "mushroom-body-right": partial(mushroom_body, "right"),
}
