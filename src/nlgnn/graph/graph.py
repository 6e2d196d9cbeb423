"""Graph: an attributed graph of NumPy arrays and SciPy matrices, validated once, and its adjacency matrices."""

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
from nlgnn.graph.features import FeaturesOnDisk, row_chunks
from nlgnn.graph.splits import Split

FeatureScaling = Literal["none", "unit-sum", "unit-l2"]


@dataclass(frozen=True, eq=False, init=False)
class Graph:
    """A graph with features and labels of its nodes.

    Args:
        x: The features, `[num_nodes, num_features]`. SciPy sparse matrices stay sparse (CSR), and a memory map
            (`np.load(path, mmap_mode="r")`) stays on disk. In a dense array in memory NaN is a missing value, which few
            models take.
        edge_index: The edges, `[2, num_edges]`, source then target. They are kept as given, with loops and repetitions.
        y: The labels, `[num_nodes]`. -1 is an unknown label, which is never compared with any other.
        directed: Whether the direction of `edge_index` has a meaning. If not, either direction may be given.
        name: The name of the graph in tables and run folders.
        class_names: A name per class; by default the class numbers.
        node_names: A name per node; by default the node numbers.
        splits: The splits that came with the data, by protocol.
        edge_weight: The weights of the edges, `[num_edges]`, numbers from 0 on; None for edges without weights. An edge
            of weight 0 is ignored.

    Raises:
        DataError: If the arrays do not fit each other. The error names the first node or edge at fault.

    Example:
        >>> Graph(x=[[1.0], [0.0], [2.0]], edge_index=[[0, 1], [1, 2]], y=[0, 1, -1], name="path")
        Graph('path': 3 nodes, 2 edges, 1 features, 2 classes)
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

    # Written out because arguments are converted: lists, other number types, other sparse formats.
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
            "edge_weight": None if edge_weight is None else as_floats(edge_weight, f"graph {name!r}: weights"),
        }
        for field_name, value in values.items():
            object.__setattr__(self, field_name, value)  # the class is frozen
        self._validate()

    def _validate(self) -> None:
        where, n = f"graph {self.name!r}", self.y.size
        if self.y.ndim != 1 or self.edge_index.ndim != 2 or self.edge_index.shape[0] != 2:
            raise DataError(
                f"{where}: labels of shape {self.y.shape}, edges of shape {self.edge_index.shape}.",
                "Give labels as [num_nodes] and edges as [2, num_edges]; transpose a list of pairs.",
            )
        if n == 0:
            raise DataError(f"{where} has no nodes.", "Give at least one row of features and one label (-1 = unknown).")
        if self.x.ndim != 2 or self.x.shape[0] != n:
            raise DataError(
                f"{where}: {n} labels, but features of shape {self.x.shape}.",
                "Give one row of features per node: [num_nodes, num_features].",
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
        self._reject_bad_features()
        if self.node_names is not None and len(self.node_names) != n:
            raise DataError(f"{where}: {n} nodes, but {len(self.node_names)} node names.", "Give one name per node.")
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
                "Give one weight per edge: [num_edges].",
            )
        wrong = np.flatnonzero(~((weight >= 0) & np.isfinite(weight)))  # NaN is neither
        if len(wrong):
            edge, ends = int(wrong[0]), tuple(self.edge_index[:, wrong[0]].tolist())
            raise DataError(
                f"{where}: edge {edge}, which joins nodes {ends}, has weight {weight[edge]:g} ({len(wrong)} such "
                "weights in all).",
                "Give each edge a finite weight of 0 or more.",
            )
        if weight.sum(dtype=np.float64) > np.finfo(np.float32).max:  # otherwise no partial sum can overflow
            raise DataError(
                f"{where}: the weights of its edges add up to more than 3e38.", "Divide all of them by a number."
            )

    def _reject_bad_features(self) -> None:
        table = self.x.data[:, None] if isinstance(self.x, sparse.csr_array) else self.x
        count, first = 0, (0, 0, 0.0)
        for start, rows in row_chunks(table):
            # NaN in an array in memory is a missing value: models decide about it.
            bad = np.isinf(rows) if isinstance(self.x, np.ndarray) else ~np.isfinite(rows)
            if count == 0 and bad.any():
                row, column = (int(i) for i in np.argwhere(bad)[0])
                first = (start + row, column, float(rows[row, column]))
            count += int(bad.sum())
        if count == 0:
            return
        node, column, value = first
        if isinstance(self.x, sparse.csr_array):  # `node` is the number of a stored entry
            node, column = int(np.searchsorted(self.x.indptr, node, side="right")) - 1, int(self.x.indices[node])
        raise DataError(
            f"graph {self.name!r}: feature column {column} of node {node} is {value} ({count} such values in all).",
            "Fill or drop missing values before building the graph.",
        )

    def __deepcopy__(self, memo: object) -> Graph:
        return self  # it is immutable, and may be large

    def __repr__(self) -> str:
        return (
            f"Graph({self.name!r}: {self.num_nodes} nodes, {self.num_edges} edges, {self.num_features} features, "
            f"{self.num_classes} classes)"
        )

    @property
    def num_nodes(self) -> int:
        """The number of nodes."""
        return len(self.y)

    @property
    def num_features(self) -> int:
        """The number of feature columns."""
        return int(self.x.shape[1])

    @property
    def num_classes(self) -> int:
        """The number of classes."""
        return len(self.class_names)

    @property
    def num_edges(self) -> int:
        """The number of distinct undirected edges without loops."""
        return int(self.undirected_adjacency.nnz) // 2

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """The mask of nodes whose label is known, `[num_nodes]`."""
        return self.y >= 0

    @cached_property
    def has_missing_features(self) -> bool:
        """True if a feature is missing (NaN)."""
        return isinstance(self.x, np.ndarray) and any(bool(np.isnan(rows).any()) for _, rows in row_chunks(self.x))

    def require_features(self, what: str) -> None:
        """Raise a `DataError` if a feature is missing, for work that cannot do without; `what` names the work."""
        if self.has_missing_features:
            missing = np.argwhere(np.isnan(np.asarray(self.x)))
            node, column = missing[0].tolist()
            raise DataError(
                f"graph {self.name!r}: feature column {column} of node {node} is missing ({len(missing)} such values "
                f"in all), which {what} cannot take.",
                "Fill them, such as by np.where(np.isnan(x), np.nanmean(x, axis=0), x), or train trees.",
            )

    @cached_property
    def directed_adjacency(self) -> sparse.csr_array:
        """The 0/1 matrix of the edges, rows are sources; repetitions are merged and loops dropped."""
        return self.directed_weights if self.edge_weight is None else pattern_of(self.directed_weights)

    @cached_property
    def undirected_adjacency(self) -> sparse.csr_array:
        """The 0/1 matrix of the edges in both directions; repetitions are merged and loops dropped."""
        return self.undirected_weights if self.edge_weight is None else pattern_of(self.undirected_weights)

    @cached_property
    def directed_weights(self) -> sparse.csr_array:
        """`directed_adjacency` with the weights of edges, if they have any; those of repetitions add up."""
        return weight_matrix(self.edge_index, self.edge_weight, self.num_nodes, both_directions=False)

    @cached_property
    def undirected_weights(self) -> sparse.csr_array:
        """`undirected_adjacency` with the weights of edges; the larger weight of two directions counts."""
        return weight_matrix(self.edge_index, self.edge_weight, self.num_nodes, both_directions=True)

    def scale_features(self, scaling: FeatureScaling | str) -> Graph:
        """Return the graph with scaled feature rows. Rows of zeros stay zero.

        Args:
            scaling: "unit-sum" divides a row by the sum of its absolute values, "unit-l2" by its L2 norm, "none"
                changes nothing.

        Returns:
            A new graph.

        Raises:
            OptionError: If the scaling is unknown.

        Example:
            >>> Graph([[1, 3], [0, 0]], [[0], [1]], [0, 1]).scale_features("unit-sum").x.tolist()
            [[0.25, 0.75], [0.0, 0.0]]
        """
        powers = {"unit-sum": 1, "unit-l2": 2}
        if scaling == "none":
            return self
        if scaling not in powers:
            raise OptionError(f"features={scaling!r} is unknown.", "Choose none, unit-sum or unit-l2.")
        self.require_features(f"the scaling {scaling!r}")
        x = self.x
        if isinstance(x, sparse.csr_array):
            scaled = sparse.diags_array(1 / row_norms(x, powers[scaling])) @ x
            return replace(self, x=scaled.astype(np.float32))
        factors = 1 / np.concatenate([row_norms(rows, powers[scaling]) for _, rows in row_chunks(x)])
        if isinstance(x, FeaturesOnDisk):
            return replace(self, x=x.multiplied(factors))
        # Multiplied in double precision; `out` avoids a whole array of it.
        return replace(self, x=np.multiply(x, factors[:, None], out=np.empty_like(x)))

    def dense_features(self) -> NDArray[np.float32]:
        """Return the features as a dense array in memory; features on disk are refused."""
        if isinstance(self.x, FeaturesOnDisk):
            raise DataError(
                f"graph {self.name!r}: the features are on disk ({self.x.path}), but are needed in memory.",
                'Read them first: dataclasses.replace(graph, x=np.load(path)), without mmap_mode="r".',
            )
        return np.asarray(self.x.toarray() if isinstance(self.x, sparse.csr_array) else self.x)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of features, edges, weights and labels: graphs of one fingerprint give the same results."""
        sizes = (self.num_nodes, self.num_features, self.num_classes, self.directed)
        digest = hashlib.sha256(repr(sizes).encode())
        x = self.x
        if isinstance(x, sparse.csr_array):
            # The fingerprint must not depend on the integer type that SciPy chooses for its indices.
            for array in (x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64)):
                digest.update(array.data)
        else:
            for _, rows in row_chunks(x):
                digest.update(np.ascontiguousarray(rows).data)
        for array in (self.edge_index, self.y, *(() if self.edge_weight is None else (self.edge_weight,))):
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]


def row_norms(rows: NDArray[np.floating] | sparse.csr_array, power: int) -> NDArray[np.float64]:
    """Return the L1 or L2 norm of each row; 1 for rows of zeros, so that division does not change them."""
    norms: NDArray[np.float64] = (abs(rows).astype(np.float64) ** power).sum(axis=1) ** (1 / power)
    norms[norms == 0] = 1
    return norms


def as_features(values: object, what: str) -> NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk:
    """Return features as float32: dense, CSR or on disk as given. Raise an error if the values are not numbers."""
    if isinstance(values, FeaturesOnDisk):
        return values
    if isinstance(values, np.memmap) and values.filename is not None:  # a copy of a map has no file
        return FeaturesOnDisk.from_memmap(values, what)
    if not sparse.issparse(values):
        return as_floats(values, what)
    with np.errstate(over="ignore"):
        # A copy, because the next two lines work in place and give equal matrices one form.
        x = sparse.csr_array(values, dtype=np.float32, copy=True)
    x.sum_duplicates()
    x.eliminate_zeros()
    return x


def as_floats(values: object, what: str) -> NDArray[np.float32]:
    """Return an array of float32. Raise an error if the values are not numbers."""
    try:
        with np.errstate(over="ignore"):  # values too large for float32 become inf, which is reported later
            return np.asarray(values, np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not an array of numbers: {error}.", "Encode text and categories first.") from error


def as_integers(values: object, what: str) -> NDArray[np.int64]:
    """Return integers as int64. Raise an error if the values are not whole numbers."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        how = "Give whole numbers. For names: class_names, y = np.unique(names, return_inverse=True)."
        raise DataError(f"{what} are of type {array.dtype}.", how)
    return array.astype(np.int64, copy=False)


def weight_matrix(
    edge_index: NDArray[np.int64],
    weight: NDArray[np.float32] | None,
    num_nodes: int,
    both_directions: bool,
    loops: bool = False,
) -> sparse.csr_array:
    """Return the matrix of edge weights (row = source, column = target).

    Weights of repetitions add up, and entries of 0 are removed. Without weights every entry is 1. With both directions,
    a pair of nodes has the larger weight of the two, so that it makes no difference whether an edge is given in one
    direction or in both. Kipf and Welling take the maximum too.
    """
    source, target = edge_index
    kept = (source != target) | loops
    # SciPy would convert them to this type anyway, after a copy of twice the size.
    number = np.int32 if num_nodes <= np.iinfo(np.int32).max else np.int64
    ends = source[kept].astype(number), target[kept].astype(number)
    values = np.ones(len(ends[0]), np.float32) if weight is None else weight[kept]
    matrix = sparse.csr_array((values, ends), shape=(num_nodes, num_nodes))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if weight is None:
        matrix.data[:] = 1
    return sparse.csr_array(matrix.maximum(matrix.T)) if both_directions else matrix


def pattern_of(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return the matrix with 1 for every entry; both share their index arrays."""
    ones = np.ones(matrix.nnz, np.float32)
    return sparse.csr_array((ones, matrix.indices, matrix.indptr), shape=matrix.shape)
