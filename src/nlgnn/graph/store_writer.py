"""Writing of a graph store: arrays that grow row by row, and the files of a graph in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from nlgnn.files import sha256_of
from nlgnn.graph.arrays import weight_matrix
from nlgnn.graph.features import row_chunks, rows_in_chunk
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.graph.store_files import ARRAYS, ENCODER, HEADER, IDS, NO_PART, Header

if TYPE_CHECKING:
    import polars as pl


class ArrayWriter:
    """A file in NumPy's format to which rows are appended.

    Args:
        path: The file.
        dtype: The type of the numbers.
        columns: The number of columns; None for a vector.
    """

    def __init__(self, path: Path, dtype: DTypeLike, columns: int | None = None) -> None:
        self.dtype, self.columns, self.rows = np.dtype(dtype), columns, 0
        self.file = path.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        shape = (self.rows,) if self.columns is None else (self.rows, self.columns)
        # The header has spare room for a longer number of rows, so that it can be replaced at the end.
        header = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self.file, header)

    def append(self, rows: NDArray[Any]) -> None:
        """Append rows."""
        self.file.write(np.ascontiguousarray(rows, self.dtype).data)
        self.rows += len(rows)

    def __enter__(self) -> ArrayWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.file.seek(0)
        self._write_header()
        self.file.close()


def index_type(nodes: int) -> type[np.signedinteger]:
    """Return the type of node numbers in `indices.npy`."""
    return np.int32 if nodes <= np.iinfo(np.int32).max else np.int64


def write_graph(graph: Graph, part: Path) -> None:
    """Write the files of a store of a graph in memory."""
    n = graph.num_nodes
    both = not graph.directed
    matrix = weight_matrix(graph.edge_index, graph.edge_weight, n, both_directions=both, loops=True)
    by_target = sparse.csr_array(matrix.T)
    by_target.sort_indices()
    with ArrayWriter(part / "x.npy", np.float32, graph.num_features) as writer:
        for rows in feature_chunks(graph):
            writer.append(rows)
    np.save(part / "indptr.npy", by_target.indptr.astype(np.int64))
    np.save(part / "indices.npy", by_target.indices.astype(index_type(n)))
    if graph.edge_weight is not None:
        np.save(part / "weights.npy", by_target.data)
    if graph.node_names is not None:
        import polars as pl

        write_ids(part, pl.Series("id", graph.node_names))
    splits = [split for fixed in graph.splits.values() for split in fixed]
    protocols = [(protocol, split.index) for protocol, fixed in graph.splits.items() for split in fixed]
    write_labels(part, graph.y, splits)
    header = Header(
        name=graph.name,
        nodes=n,
        edges=by_target.nnz,
        features=graph.num_features,
        classes=graph.class_names,
        directed=graph.directed,
        splits=len(splits),
        protocols=tuple(protocols),
        row_norm=graph.row_norm,
        source={"graph": graph.name},
    )
    write_header(part, header)


def feature_chunks(graph: Graph) -> Iterable[NDArray[np.float32]]:
    """Yield the features of a graph, some dense rows at a time."""
    if not isinstance(graph.x, sparse.csr_array):
        yield from (rows for _, rows in row_chunks(graph.x))
        return
    step = rows_in_chunk(graph.num_features)
    for start in range(0, graph.num_nodes, step):
        yield graph.x[start : start + step].toarray()


def write_ids(part: Path, ids: pl.Series) -> None:
    """Write the original ids of the nodes."""
    ids.alias("id").to_frame().write_parquet(part / IDS)


def write_labels(part: Path, y: NDArray[np.int64], splits: Sequence[Split]) -> None:
    """Write the labels and the splits."""
    np.save(part / "y.npy", y.astype(np.int64))
    with ArrayWriter(part / "split.npy", np.int8, len(y)) as writer:
        for split in splits:
            parts = np.full(len(y), NO_PART, np.int8)
            for number, mask in enumerate((split.train, split.val, split.test)):
                parts[mask] = number
            writer.append(parts[None])


def write_header(part: Path, header: Header) -> None:
    """Write `store.json` with the checksums of the files that are there; it is the last file."""
    names = sorted(path.name for path in part.iterdir() if path.is_file())
    sha256 = {name: sha256_of(part / name) for name in names if name in {*ARRAYS, IDS, ENCODER}}
    header = header.model_copy(update={"sha256": sha256})
    (part / HEADER).write_text(header.model_dump_json(indent=1) + "\n", "utf-8")
