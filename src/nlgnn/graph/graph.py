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
from nlgnn.graph.arrays import as_features, as_floats, as_integers, pattern_of, row_norms, weight_matrix
from nlgnn.graph.features import FeaturesOnDisk, row_chunks
from nlgnn.graph.splits import TIME, Split

MOST_CLASSES = 10_000  # that class numbers alone can make; each class takes a column of every output
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
        row_norm: The number by which `scale_features` divides all features, for columns of a table. None divides each
            row by its own norm, which suits bags of words.
        later_edges: The mask of edges that appear in the test period only, `[num_edges]`. Models are trained and
            validated without them; None if there are none.
        edge_type: The number of the type of each edge, `[num_edges]`; None for edges of one type.
        edge_types: The names of the types.

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
    row_norm: float | None
    later_edges: NDArray[np.bool_] | None
    edge_type: NDArray[np.int64] | None
    edge_types: tuple[str, ...]

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
        row_norm: float | None = None,
        later_edges: object = None,
        edge_type: object = None,
        edge_types: Sequence[str] = (),
    ) -> None:
        labels = as_integers(y, f"graph {name!r}: labels")
        if not class_names and labels.max(initial=-1) >= MOST_CLASSES:
            node = int(labels.argmax())
            raise DataError(
                f"graph {name!r}: node {node} has class number {labels.flat[node]}, and there would be a class for "
                f"each number up to it, more than {MOST_CLASSES:,}.",
                "Number the classes from 0: np.unique(y[y >= 0], return_inverse=True). Or name them in class_names.",
            )
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
            "row_norm": row_norm,
            "later_edges": None if later_edges is None else np.asarray(later_edges, bool),
            "edge_type": None if edge_type is None else as_integers(edge_type, f"graph {name!r}: types of edges"),
            "edge_types": tuple(edge_types),
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
        self._reject_bad_columns_of_edges()
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

    def _reject_bad_columns_of_edges(self) -> None:
        where, shape = f"graph {self.name!r}", (self.edge_index.shape[1],)
        for name, column in (("later_edges", self.later_edges), ("edge_type", self.edge_type)):
            if column is not None and column.shape != shape:
                raise DataError(
                    f"{where}: {shape[0]} edges, but {name} of shape {column.shape}.",
                    "Give one value per edge: [num_edges].",
                )
        types = self.edge_type
        if types is not None and types.size and not 0 <= types.min() <= types.max() < len(self.edge_types):
            raise DataError(
                f"{where}: types of edges from {types.min()} to {types.max()}, but {len(self.edge_types)} names.",
                "Number the types from 0 and name each in edge_types.",
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

    def require_features(self, otherwise: str = "or train trees.") -> None:
        """Raise a `DataError` if a feature is missing.

        Args:
            otherwise: What to do instead of filling missing values, which ends the error.
        """
        if self.has_missing_features:
            missing = np.argwhere(np.isnan(np.asarray(self.x)))
            node, column = missing[0].tolist()
            count = "a missing feature value" if len(missing) == 1 else f"{len(missing)} missing feature values"
            first = "" if len(missing) == 1 else "the first "
            raise DataError(
                f"graph {self.name!r} has {count} (NaN), {first}in column {column} of node {node}.",
                f"Fill missing values, such as by np.nan_to_num(x), {otherwise}",
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

    @cached_property
    def past(self) -> Graph:
        """The graph without its `later_edges`, on which models are trained and validated."""
        if self.later_edges is None:
            return self
        return replace(self.with_edges(~self.later_edges), later_edges=None)

    @cached_property
    def relations(self) -> dict[str, Graph]:
        """The edges of each type as a graph without features; empty for edges of one type."""
        if self.edge_type is None:
            return {}
        bare = replace(self, x=np.zeros((self.num_nodes, 0), np.float32), splits={}, later_edges=None)
        return {name: bare.with_edges(self.edge_type == number) for number, name in enumerate(self.edge_types)}

    def with_edges(self, kept: NDArray[np.bool_]) -> Graph:
        """Return the graph with those edges for which `kept`, in the order of `edge_index`, is true."""
        return replace(
            self,
            edge_index=self.edge_index[:, kept],
            edge_weight=None if self.edge_weight is None else self.edge_weight[kept],
            edge_type=None if self.edge_type is None else self.edge_type[kept],
            later_edges=None if self.later_edges is None else self.later_edges[kept],
        )

    @property
    def time_split(self) -> Split | None:
        """The split by time that belongs to `later_edges`, if any."""
        return next((split for splits in self.splits.values() for split in splits if split.protocol == TIME), None)

    def scale_features(self, scaling: FeatureScaling | str) -> Graph:
        """Return the graph with scaled feature rows. Rows of zeros stay zero.

        A single feature is never scaled, because only its sign would be left. If the graph has a `row_norm`, all rows
        are divided by it.

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
        self.require_features()
        x, power = self.x, powers[scaling]
        if self.num_features == 1:
            return self
        if self.row_norm is not None:
            factors = np.full(x.shape[0], 1 / self.row_norm)
        elif isinstance(x, sparse.csr_array):
            factors = 1 / row_norms(x, power)
        else:
            factors = 1 / np.concatenate([np.ones(0), *(row_norms(rows, power) for _, rows in row_chunks(x))])
        if isinstance(x, sparse.csr_array):
            return self.with_features((sparse.diags_array(factors) @ x).astype(np.float32))
        if isinstance(x, FeaturesOnDisk):
            return self.with_features(x.multiplied(factors))
        # Multiplied in double precision; `out` avoids a whole array of it.
        return self.with_features(np.multiply(x, factors[:, None], out=np.empty_like(x)))

    def with_features(self, x: NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk) -> Graph:
        """Return the graph with other features, given as one row per node."""
        return replace(self, x=x)

    def dense_features(self) -> NDArray[np.float32]:
        """Return the features as a dense array in memory. Those on disk raise a `DataError`."""
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
        digest = hashlib.sha256(repr(sizes if self.row_norm is None else (*sizes, self.row_norm)).encode())
        x = self.x
        if isinstance(x, sparse.csr_array):
            # The fingerprint must not depend on the integer type that SciPy chooses for its indices.
            for array in (x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64)):
                digest.update(array.data)
        else:
            for _, rows in row_chunks(x):
                digest.update(np.ascontiguousarray(rows).data)
        optional = [array for array in (self.edge_weight, self.later_edges, self.edge_type) if array is not None]
        for array in (self.edge_index, self.y, *optional):
            digest.update(np.ascontiguousarray(array).data)
        if self.edge_type is not None:
            digest.update(repr(self.edge_types).encode())
        return digest.hexdigest()[:16]
