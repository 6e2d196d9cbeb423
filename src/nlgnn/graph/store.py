"""GraphStore: a graph in a folder of arrays, of which each process reads the rows that it needs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError
from nlgnn.files import sha256_of, write_whole_folder
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.graph.store_files import (
    ENCODER,
    IDS,
    NO_PART,
    TEST,
    TRAIN,
    VAL,
    Header,
    StoredArray,
    check_regular,
    damaged,
    read_header,
    stored_array,
)
from nlgnn.graph.store_writer import write_graph
from nlgnn.limits import require_memory

if TYPE_CHECKING:
    import polars as pl

# Features up to this size are read into memory, as those of tables are.
IN_MEMORY_BYTES = 1 << 30
BYTES_PER_NODE, BYTES_PER_ENTRY = 120, 40  # of a whole graph, besides its features


class Rows(NamedTuple):
    """The rows of some nodes.

    Attributes:
        start: The number of the first node.
        x: The features, `[rows, num_features]`, as a memory map.
        y: The labels, `[rows]`.
        indptr: The places in `indices` where each row begins, `[rows + 1]`, from 0.
        indices: The numbers of the sources of edges into each node.
        weights: The weights of these edges, or None.
        split: The part of each node in each split, `[num_splits, rows]`.
    """

    start: int
    x: NDArray[np.float32]
    y: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.integer]
    weights: NDArray[np.float32] | None
    split: NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class GraphStore:
    """A graph in a folder.

    The adjacency is stored by target: row i holds the sources of the edges into node i, in ascending order. Edges of
    undirected graphs are stored in both directions. Repeated edges are one entry with the sum of their weights.

    Args:
        folder: The folder.
        header: The sizes.
        arrays: The arrays by name of file.

    Example:
        >>> import tempfile
        >>> graph = Graph(x=[[1.0], [0.0], [2.0]], edge_index=[[0, 1], [1, 2]], y=[0, 1, -1], name="path")
        >>> store = GraphStore.write(graph, Path(tempfile.mkdtemp()) / "path")
        >>> store.rows(1, 2).indices.tolist()
        [0, 2]
    """

    folder: Path
    header: Header
    arrays: dict[str, StoredArray]

    @classmethod
    def open(cls, folder: str | Path) -> GraphStore:
        """Open a store, whose files must have the sizes and types that `store.json` states. Nothing else is read.

        Args:
            folder: The folder.

        Returns:
            The store.

        Raises:
            DataError: If a file is missing, or of another size or type.
        """
        folder = Path(folder)
        header = read_header(folder)
        arrays = {}
        for name, (types, shape) in header.arrays().items():
            arrays[name] = stored_array(folder / name, types, shape)
            if name not in header.sha256:
                raise damaged(folder, f"there is no checksum of {name}")
        for name in {IDS, ENCODER} & header.sha256.keys():
            check_regular(folder / name)
        return cls(folder, header, arrays)

    @classmethod
    def write(cls, graph: Graph, folder: str | Path) -> GraphStore:
        """Write a graph into a new folder, which exists with all of its files or not at all.

        Args:
            graph: The graph.
            folder: The folder, which must not exist.

        Returns:
            The store.

        Raises:
            DataError: If the graph has types of edges or edges of the test period, which a store does not hold.
            OSError: If the folder cannot be written.
        """
        if graph.edge_type is not None or graph.later_edges is not None:
            what = "types of edges" if graph.edge_type is not None else "edges of the test period"
            raise DataError(f"graph {graph.name!r} has {what}, which a store does not hold.", "Leave them out.")
        folder = Path(folder)
        write_whole_folder(folder, lambda part: write_graph(graph, part))
        return cls.open(folder)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.header.nodes

    @property
    def edges(self) -> int:
        """The number of stored entries; an undirected edge is two."""
        return self.header.edges

    @property
    def features(self) -> int:
        """The number of features."""
        return self.header.features

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes."""
        return self.header.classes

    @property
    def directed(self) -> bool:
        """True if the direction of edges has a meaning."""
        return self.header.directed

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.header.name

    @cached_property
    def fingerprint(self) -> str:
        """A hash of sizes and checksums: stores of one fingerprint hold the same graph."""
        content = self.header.model_dump_json(exclude={"source", "name"})
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def rows(self, start: int, stop: int) -> Rows:
        """Read the rows of nodes `start` to `stop - 1`. Nothing else of the files is read.

        Args:
            start: The first node.
            stop: The node after the last one; equal to `start` for no node.

        Returns:
            The rows.

        Raises:
            DataError: If there are no such nodes, or if the files are damaged.
        """
        if not 0 <= start <= stop <= self.nodes:
            raise DataError(
                f"{self.folder} has no nodes {start} to {stop - 1}.", f"Its nodes are 0 to {self.nodes - 1}."
            )
        indptr = self.arrays["indptr.npy"].read(start, stop + 1)
        first, last = int(indptr[0]), int(indptr[-1])
        if first < 0 or last > self.edges or (np.diff(indptr) < 0).any():
            raise damaged(self.folder, "indptr.npy is not ascending")
        indices = self.arrays["indices.npy"].read(first, last)
        y = self.arrays["y.npy"].read(start, stop)
        split = np.stack(list(self._split_rows(start, stop))) if self.header.splits else None
        for file, values, low, high in (
            ("indices.npy", indices, 0, self.nodes),
            ("y.npy", y, -1, len(self.classes)),
            ("split.npy", split, NO_PART, TEST + 1),
        ):
            if values is not None and values.size and not (values.min() >= low and values.max() < high):
                raise damaged(self.folder, f"{file} has a number outside {low} to {high - 1}")
        return Rows(
            start=start,
            x=self.arrays["x.npy"].mapped(start, stop),
            y=y,
            indptr=indptr - first,
            indices=indices,
            weights=self.arrays["weights.npy"].read(first, last) if "weights.npy" in self.arrays else None,
            split=np.zeros((0, stop - start), np.int8) if split is None else split,
        )

    def _split_rows(self, start: int, stop: int) -> Iterator[NDArray[np.int8]]:
        stored = self.arrays["split.npy"]
        for number in range(self.header.splits):
            flat = stored._replace(offset=stored.offset + number * self.nodes, shape=(self.nodes,))
            yield flat.read(start, stop)

    def to_graph(self, on_disk: bool | None = None, named: bool = True) -> Graph:
        """Return the whole graph, for one process. Checksums are compared before.

        Args:
            on_disk: Whether features stay on disk; by default those above 1 GiB.
            named: Whether the graph has the names of the nodes, which take memory.

        Returns:
            The graph.

        Raises:
            DataError: If a file is damaged.
        """
        if on_disk is None:
            on_disk = 4 * self.nodes * self.features > IN_MEMORY_BYTES
        needed = BYTES_PER_NODE * self.nodes + BYTES_PER_ENTRY * self.edges
        needed += 0 if on_disk else 4 * self.nodes * self.features
        require_memory(needed, self.folder, "Allow more memory, or train over several processes.")
        self.verify()
        rows = self.rows(0, self.nodes)
        target = np.repeat(np.arange(self.nodes), np.diff(rows.indptr))
        kept = slice(None) if self.directed else rows.indices <= target  # of two directions, one is enough
        edge_index = np.stack([rows.indices[kept], target[kept]]).astype(np.int64)
        ids = self.ids() if named else None
        return Graph(
            x=rows.x if on_disk else np.array(rows.x),
            edge_index=edge_index,
            y=rows.y,
            directed=self.directed,
            name=self.name,
            class_names=self.classes,
            node_names=None if ids is None else ids.cast(str).to_list(),
            splits=self.splits_of(rows.split),
            edge_weight=None if rows.weights is None else rows.weights[kept],
            row_norm=self.header.row_norm,
        )

    def splits_of(self, parts: NDArray[np.int8]) -> dict[str, tuple[Split, ...]]:
        """Return splits by protocol, from the parts of some or all nodes."""
        found: dict[str, tuple[Split, ...]] = {}
        for (protocol, index), part in zip(self.header.protocols, parts, strict=True):
            split = Split(part == TRAIN, part == VAL, part == TEST, protocol=protocol, index=index)
            found[protocol] = (*found.get(protocol, ()), split)
        return found

    def ids(self) -> pl.Series | None:
        """Return the original ids in the order of the rows; None if nodes are named by their numbers."""
        if IDS not in self.header.sha256:
            return None
        import polars as pl

        try:
            frame = pl.read_parquet(self.folder / IDS, memory_map=False)
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            raise damaged(self.folder, f"{IDS} cannot be read") from error
        if frame.columns != ["id"] or frame.height != self.nodes:
            raise damaged(self.folder, f"{IDS} does not hold {self.nodes} ids")
        return frame.to_series()

    def verify(self) -> None:
        """Raise a `DataError` unless all files have the checksums that were stored with them."""
        for name, known in self.header.sha256.items():
            if sha256_of(self.folder / name) != known:
                raise damaged(self.folder, f"the checksum of {name} is wrong")
