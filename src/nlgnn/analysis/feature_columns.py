"""Graphs in which a column of features tells nothing: of one node, or of all. What a model then says shows its use.

A column of a table may be many features; `slots` says where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.graph import Graph
from nlgnn.graph.on_disk import FeaturesOnDisk


def row_and_average(graph: Graph, node: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The features of a node, and what they are on average over all nodes."""
    assert not isinstance(graph.x, FeaturesOnDisk)  # columns of a table are in memory
    row, average = graph.x[[node]], graph.x.mean(axis=0)
    row = row.toarray() if isinstance(row, sparse.csr_array) else row
    return np.asarray(row, np.float32).ravel(), np.asarray(average, np.float32).ravel()


def by_distance(graph: Graph, node: int, slots: Mapping[str, slice]) -> list[str]:
    """Columns, those first in which a node is furthest from the average of all nodes."""
    row, average = row_and_average(graph, node)
    distances = {name: float(np.linalg.norm(row[part] - average[part])) for name, part in slots.items()}
    return sorted(distances, key=lambda name: -distances[name])


def averaged(graph: Graph, node: int, slots: slice) -> Graph:
    """The graph with one column of one node as it is on average."""
    row, average = row_and_average(graph, node)
    row[slots] = average[slots]
    x = graph.x
    if isinstance(x, sparse.csr_array):
        rows = [x[:node], sparse.csr_array(row[None]), x[node + 1 :]]
        return replace(graph, x=sparse.csr_array(sparse.vstack([part for part in rows if part.shape[0]], format="csr")))
    changed = np.array(x)
    changed[node] = row
    return replace(graph, x=changed)


def shuffled(graph: Graph, slots: slice, seed: int) -> Graph:
    """The graph with one column dealt out anew among its nodes."""
    x, order = graph.x, np.random.default_rng(seed).permutation(graph.num_nodes)
    if isinstance(x, sparse.csr_array):
        parts = [x[:, : slots.start], x[:, slots][order], x[:, slots.stop :]]
        return replace(graph, x=sparse.csr_array(sparse.hstack(parts, format="csr")))
    changed = np.array(x)
    changed[:, slots] = changed[order, slots]
    return replace(graph, x=changed)
