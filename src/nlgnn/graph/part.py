"""GraphPart: the part of a graph that one of several processes holds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError
from nlgnn.graph.arrays import pattern_of
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph


class GraphPart(Graph):
    """The features and edges of a range of nodes, and the labels and splits of all nodes.

    Matrices have the shape of those of the whole graph, but only the rows of the range have entries. `edge_index` holds
    the edges of these rows.

    Args:
        first: The first node of the range.
        x: The features of the range, `[stop - first, num_features]`.
        matrices: `undirected_weights` and `directed_weights`, of which only the rows of the range are filled.
        fields: All other fields of `Graph`, `fingerprint` included.
    """

    first: int

    def __init__(
        self,
        first: int,
        x: NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk,
        matrices: dict[str, sparse.csr_array],
        fields: dict[str, Any],
    ) -> None:
        rows, columns = matrices["undirected_weights"].tocoo().coords
        edges = np.stack([rows, columns]).astype(np.int64)
        own = {"first": first, "x": x, "edge_index": edges, "later_edges": None, "edge_type": None, "edge_types": ()}
        for name, value in {**fields, **own, **matrices}.items():
            self.__dict__[name] = value  # cached properties included: the class is frozen

    @classmethod
    def of(cls, graph: Graph, first: int, stop: int) -> GraphPart:
        """Return the part of a graph that is held whole.

        Raises:
            DataError: If the graph has types of edges or edges of the test period, which a part does not hold.
        """
        if graph.edge_type is not None or graph.later_edges is not None:
            what = "types of edges" if graph.edge_type is not None else "edges of the test period"
            raise DataError(
                f"graph {graph.name!r} has {what}, which several processes do not share.", "Use one process."
            )
        kept = ("y", "directed", "name", "class_names", "node_names", "splits", "edge_weight", "row_norm")
        fields = {name: getattr(graph, name) for name in kept} | {"fingerprint": graph.fingerprint}
        matrices = {
            name: rows_of(getattr(graph, name), first, stop) for name in ("undirected_weights", "directed_weights")
        }
        x = graph.x.part(first, stop) if isinstance(graph.x, FeaturesOnDisk) else graph.x[first:stop].copy()
        return cls(first, x, matrices, fields)

    @property
    def num_features(self) -> int:
        return int(self.x.shape[1])

    @property
    def undirected_adjacency(self) -> sparse.csr_array:
        return pattern_of(self.undirected_weights)

    @property
    def directed_adjacency(self) -> sparse.csr_array:
        return pattern_of(self.directed_weights)

    @property
    def past(self) -> Graph:
        return self

    def with_features(self, x: NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk) -> GraphPart:
        other = object.__new__(GraphPart)
        other.__dict__.update(self.__dict__, x=x)
        return other


def rows_of(matrix: sparse.csr_array, first: int, stop: int) -> sparse.csr_array:
    """Return a matrix of the same shape that has only some of the rows."""
    begin, end = matrix.indptr[first], matrix.indptr[stop]
    pointers = matrix.indptr.clip(begin, end) - begin
    return sparse.csr_array((matrix.data[begin:end].copy(), matrix.indices[begin:end].copy(), pointers), matrix.shape)
