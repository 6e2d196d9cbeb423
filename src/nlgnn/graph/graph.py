"""Graph: one attributed graph, as NumPy arrays and SciPy matrices, validated once and trusted afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.adjacency import pattern_of, weight_matrix, zero_one_matrix
from nlgnn.graph.on_disk import FeaturesOnDisk, row_chunks
from nlgnn.graph.splits import Split

FeatureScaling = Literal["none", "unit-sum", "unit-l2"]


@dataclass(frozen=True, eq=False, init=False)
class Graph:
    """Nodes with features and labels, and the edges between them.

    Args:
        x: features, `[num_nodes, num_features]`; SciPy sparse matrices stay sparse (CSR), and a memory map
            (`np.load(path, mmap_mode="r")`) stays on disk.
        edge_index: edges as given, `[2, num_edges]`, source then target; loops and repetitions may occur.
        y: labels, `[num_nodes]`; -1 is an unknown label, which is never compared with anything.
        directed: whether the direction of `edge_index` means something. Where not, either direction may be given.
        name: what tables and run folders call the graph.
        class_names: a name for each label; by default the numbers themselves.
        node_names: a name for each node; by default the numbers themselves.
        splits: the splits that came with the data, by protocol.
        edge_weight: `[num_edges]`, numbers from 0 on; None = edges have no weights. An edge of weight 0 is none.
    """

    x: NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk
    edge_index: NDArray[np.int64]
    y: NDArray[np.int64]
    directed: bool
    name: str
    class_names: tuple[str, ...]
    node_names: tuple[str, ...] | None
    splits: Mapping[str, tuple[Split, ...]]
    edge_weight: NDArray[np.float32] | None

    # Written out, because it takes more than it stores: lists, other number types, other sparse formats.
    def __init__(
        self,
        x: object,
        edge_index: object,
        y: object,
        directed: bool = False,
        name: str = "graph",
        class_names: Sequence[str] = (),
        node_names: Sequence[str] | None = None,
        splits: Mapping[str, Sequence[Split]] | None = None,
        edge_weight: object = None,
    ) -> None:
        labels = as_integers(y, f"graph {name!r}: labels")
        values = {
            "x": as_features(x, f"graph {name!r}: features"),
            "edge_index": as_integers(edge_index, f"graph {name!r}: edges"),
            "y": labels,
            "directed": directed,
            "name": name,
            "class_names": tuple(class_names) or tuple(str(c) for c in range(int(labels.max(initial=-1)) + 1)),
            "node_names": None if node_names is None else tuple(node_names),
            "splits": {protocol: tuple(fixed) for protocol, fixed in (splits or {}).items()},
            "edge_weight": None if edge_weight is None else as_weights(edge_weight, f"graph {name!r}: weights"),
        }
        for field_name, value in values.items():
            object.__setattr__(self, field_name, value)  # the class is frozen
        self._validate()

    def _validate(self) -> None:
        where, n = f"graph {self.name!r}", self.y.size
        if self.y.ndim != 1 or self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            raise DataError(
                f"{where}: labels of shape {self.y.shape}, edges of shape {self.edge_index.shape}.",
                "Labels are [num_nodes], edges [2, num_edges]; transpose a list of pairs.",
            )
        if n == 0:
            raise DataError(f"{where} has no nodes.", "Give at least one row of features and one label (-1 = unknown).")
        if self.x.ndim != 2 or self.x.shape[0] != n:
            raise DataError(
                f"{where}: {n} labels, but features of shape {self.x.shape}.",
                "Features need one row a node: [num_nodes, num_features].",
            )
        if self.edge_index.size and not (self.edge_index.min() >= 0 and self.edge_index.max() < n):
            column = int(np.flatnonzero(((self.edge_index < 0) | (self.edge_index >= n)).any(0))[0])
            raise DataError(
                f"{where}: edge {column} joins nodes {tuple(self.edge_index[:, column].tolist())}, "
                f"but nodes are numbered 0 to {n - 1}.",
                "Remove the edge or add the node.",
            )
        self._reject_bad_weights()
        outside = np.flatnonzero((self.y < -1) | (self.y >= len(self.class_names)))
        if len(outside):
            raise DataError(
                f"{where}: node {outside[0]} has label {self.y[outside[0]]}, outside the classes "
                f"0 to {len(self.class_names) - 1}.",
                "Use -1 for an unknown label, or name every class in class_names.",
            )
        self._reject_non_finite_features()
        if self.node_names is not None and len(self.node_names) != n:
            raise DataError(f"{where}: {n} nodes, but {len(self.node_names)} node names.", "Give one name a node.")
        for protocol, splits in self.splits.items():
            for split in splits:
                split.check_length(n, f"{where}, splits {protocol!r}, number {split.index}")

    def _reject_bad_weights(self) -> None:
        if self.edge_weight is None:
            return
        where, weight = f"graph {self.name!r}", self.edge_weight
        if weight.shape != (self.edge_index.shape[1],):
            raise DataError(
                f"{where}: {self.edge_index.shape[1]} edges, but weights of shape {weight.shape}.",
                "Give one weight an edge: [num_edges].",
            )
        wrong = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))  # NaN is neither
        if len(wrong):
            edge, ends = int(wrong[0]), tuple(self.edge_index[:, wrong[0]].tolist())
            raise DataError(
                f"{where}: edge {edge}, which joins nodes {ends}, has weight {weight[edge]:g} ({len(wrong)} such "
                "weights in all).",
                "The weight of an edge is a finite number from 0 on.",
            )
        if weight.sum(dtype=np.float64) > np.finfo(np.float32).max:  # then no sum of some of them can overflow
            raise DataError(f"{where}: the weights of its edges add up to more than 3e38.", "Divide all of them.")

    def _reject_non_finite_features(self) -> None:
        table = self.x.data[:, None] if isinstance(self.x, sparse.csr_array) else self.x
        count, first = 0, (0, 0, 0.0)
        for start, rows in row_chunks(table):
            bad = ~np.isfinite(rows)
            if count == 0 and bad.any():
                row, column = (int(i) for i in np.argwhere(bad)[0])
                first = (start + row, column, float(rows[row, column]))
            count += int(bad.sum())
        if count == 0:
            return
        node, column, value = first
        if isinstance(self.x, sparse.csr_array):  # so far the number of a stored entry
            node, column = int(np.searchsorted(self.x.indptr, node, side="right")) - 1, int(self.x.indices[node])
        raise DataError(
            f"graph {self.name!r}: feature column {column} of node {node} is {value} ({count} such values in all).",
            "Fill or drop missing values before building the graph.",
        )

    def __deepcopy__(self, memo: object) -> Graph:
        return self  # nothing in it changes, and it may be large

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features, "
            f"{self.num_classes} classes)"
        )

    @property
    def num_nodes(self) -> int:
        return len(self.y)

    @property
    def num_features(self) -> int:
        return int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_edges(self) -> int:
        """Distinct undirected edges without self loops."""
        return int(self.undirected_adjacency.nnz) // 2

    @property
    def labelled(self) -> NDArray[np.bool_]:
        return self.y >= 0

    @cached_property
    def directed_adjacency(self) -> sparse.csr_array:
        """0/1 matrix, row = source, column = target; repetitions merged, self loops dropped."""
        if self.edge_weight is not None:
            return pattern_of(self.directed_weights)
        return zero_one_matrix(self.edge_index, self.num_nodes, both_directions=False)

    @cached_property
    def undirected_adjacency(self) -> sparse.csr_array:
        """0/1 matrix of the symmetric closure; repetitions merged, self loops dropped."""
        if self.edge_weight is not None:
            return pattern_of(self.undirected_weights)
        return zero_one_matrix(self.edge_index, self.num_nodes, both_directions=True)

    @cached_property
    def directed_weights(self) -> sparse.csr_array:
        """`directed_adjacency` with the weights of edges, where they have some; those of repetitions add up."""
        if self.edge_weight is None:
            return self.directed_adjacency
        return weight_matrix(self.edge_index, self.edge_weight, self.num_nodes, both_directions=False)

    @cached_property
    def undirected_weights(self) -> sparse.csr_array:
        """The same of `undirected_adjacency`; of the two directions of a pair, the heavier one counts."""
        if self.edge_weight is None:
            return self.undirected_adjacency
        return weight_matrix(self.edge_index, self.edge_weight, self.num_nodes, both_directions=True)

    def scale_features(self, scaling: FeatureScaling | str) -> Graph:
        """The same graph with every feature row divided by its sum of absolute values or its L2 norm.

        Rows of zeros stay zero.
        """
        powers = {"unit-sum": 1, "unit-l2": 2}
        if scaling == "none":
            return self
        if scaling not in powers:
            raise OptionError(f"features={scaling!r} is unknown.", "Choose none, unit-sum or unit-l2.")
        x = self.x
        if isinstance(x, sparse.csr_array):
            scaled = sparse.diags_array(1 / row_norms(x, powers[scaling])) @ x
            return replace(self, x=scaled.astype(np.float32))
        factors = 1 / np.concatenate([row_norms(rows, powers[scaling]) for _, rows in row_chunks(x)])
        if isinstance(x, FeaturesOnDisk):
            return replace(self, x=x.multiplied(factors))
        dense = np.empty(x.shape, np.float32)
        for start, rows in row_chunks(x):
            dense[start : start + len(rows)] = rows * factors[start : start + len(rows), None]
        return replace(self, x=dense)

    def dense_features(self) -> NDArray[np.float32]:
        """One dense array in memory, for what needs that: sparse features are filled up, those on disk refused."""
        if isinstance(self.x, FeaturesOnDisk):
            raise DataError(
                f"graph {self.name!r}: its features are on disk ({self.x.path}), and this needs them in memory.",
                'Read them first: dataclasses.replace(graph, x=np.load(path)), without mmap_mode="r".',
            )
        return np.asarray(self.x.toarray() if isinstance(self.x, sparse.csr_array) else self.x)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of features, edges, their weights and labels: two graphs with one fingerprint give one result."""
        sizes = (self.num_nodes, self.num_features, self.num_classes, self.directed)
        digest = hashlib.sha256(repr(sizes).encode())
        x = self.x
        if isinstance(x, sparse.csr_array):
            # SciPy picks the width of its indices by size; the fingerprint must not depend on it.
            for array in (x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64)):
                digest.update(array.data)
        else:
            for _, rows in row_chunks(x):
                digest.update(np.ascontiguousarray(rows).data)
        for array in (self.edge_index, self.y, *(() if self.edge_weight is None else (self.edge_weight,))):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def row_norms(rows: NDArray[np.float32] | sparse.csr_array, power: int) -> NDArray[np.float64]:
    """The L1 or L2 norm of each row; 1 for rows of zeros, which dividing then leaves alone."""
    norms: NDArray[np.float64] = (abs(rows).astype(np.float64) ** power).sum(axis=1) ** (1 / power)
    norms[norms == 0] = 1
    return norms


def as_features(values: object, what: str) -> NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk:
    """float32, dense, CSR or on disk as given; an error where the values are no numbers."""
    if isinstance(values, FeaturesOnDisk):
        return values
    if (
        isinstance(values, np.memmap) and values.filename is not None
    ):  # a copy of a map is a plain array in all but name
        return FeaturesOnDisk.from_memmap(values, what)
    try:
        with np.errstate(over="ignore"):  # what is too large for float32 becomes inf, and is then reported as such
            if not sparse.issparse(values):
                return np.asarray(values, np.float32)
            # A copy, since the next two lines work in place: one form for equal matrices, no entry stored twice.
            x = sparse.csr_array(values, dtype=np.float32, copy=True)
            x.sum_duplicates()
            x.eliminate_zeros()
            return x
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not a table of numbers: {error}.", "Encode text and categories first.") from error


def as_weights(values: object, what: str) -> NDArray[np.float32]:
    """float32; an error where the values are no numbers."""
    try:
        with np.errstate(over="ignore"):  # what is too large for float32 becomes inf, and is then reported as such
            return np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not numbers: {error}.", "Give a number from 0 on for each edge.") from error


def as_integers(values: object, what: str) -> NDArray[np.int64]:
    """int64; an error where the values are no whole numbers."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        hint = (
            " For names: class_names, y = np.unique(names, return_inverse=True)." if array.dtype.kind in "OUS" else ""
        )
        raise DataError(f"{what} are of type {array.dtype}.", f"Give whole numbers.{hint}")
    return array.astype(np.int64, copy=False)
