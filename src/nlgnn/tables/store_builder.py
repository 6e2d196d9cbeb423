"""build_store: a graph store from tables of any size, within a limit of memory.

The table of nodes is read one column at a time and that of edges a number of rows at a time, by the functions of
`read_graph`, so that both give the same graph. Encoded columns go to files of their own, which are then joined row by
row; edges are sorted on disk.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError
from nlgnn.files import refuse_existing, write_whole_folder
from nlgnn.graph.edge_sort import EdgeList, sort_edges
from nlgnn.graph.locality import local_order
from nlgnn.graph.splits import Split
from nlgnn.graph.store import GraphStore
from nlgnn.graph.store_files import ENCODER, Header
from nlgnn.graph.store_writer import ArrayWriter, index_type, write_header, write_ids, write_labels
from nlgnn.tables.column_choice import ColumnChoice
from nlgnn.tables.column_kinds import Block
from nlgnn.tables.edges import UnknownNodes, node_ids, read_edges
from nlgnn.tables.encoder import FeatureEncoder, Row
from nlgnn.tables.labels import labels_in_use, likely_leaks, read_labels, read_splits
from nlgnn.tables.large_table import LargeTable, open_large_table
from nlgnn.tables.read import default_name, encoder_note, in_table_order, leak_warning, role_rows
from nlgnn.tables.roles import EdgeRoles, NodeRoles, edge_roles, node_roles
from nlgnn.tables.time_columns import column_splits
from nlgnn.tables.values import NoRowsError, Table, all_parsed, parsed_numbers, simplified

# Memory of the process before it reads anything, per node for ids and their table of places, and per row of edges.
FIXED_BYTES, BYTES_PER_NODE, BYTES_PER_EDGE_ROW = 300 << 20, 160, 400
COLUMN_COPIES = 5  # of a column in memory while it is encoded
LEAST_MEMORY = 512 << 20
FEWEST_EDGE_ROWS = 1 << 15
FEATURE_SHARE = 1 / 8  # of the memory, for rows of features
DISK_RESERVE = 64 << 20

Tell = Callable[[str, float], None]


@dataclass(frozen=True, eq=False)
class BuiltStore:
    """A store that was made from tables.

    Args:
        store: The store.
        notes: Sentences about what was found and decided.
        warnings: Sentences about what may be wrong.
        columns: Each column of the table of nodes with its kind, see `TableGraph`.
    """

    store: GraphStore
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    columns: tuple[Row, ...]


@dataclass(frozen=True)
class TableColumns:
    """The columns of the two tables and what they mean; the arguments are those of `read_graph`."""

    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    split: str | None = None
    weight: str | None = None
    time: str | None = None
    group: str | None = None
    directed: bool = False
    unknown_nodes: UnknownNodes = "error"
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    kind: Mapping[str, str] | None = None
    drop_leaks: bool = False


def build_store(
    nodes: str | Path,
    edges: str | Path | None,
    folder: str | Path,
    columns: TableColumns,
    *,
    memory: int,
    renumber: bool = False,
    name: str | None = None,
    tell: Tell = lambda words, share: None,
) -> BuiltStore:
    """Write a store from tables that need not fit into memory.

    Args:
        nodes: The file of nodes: CSV, TSV or Parquet. JSON lines are read into memory.
        edges: The file of edges; None for a graph without edges.
        folder: The folder, which must not exist. It exists with all of its files or not at all.
        columns: The columns and what they mean.
        memory: The number of bytes to use.
        renumber: Whether nodes are numbered so that neighbours are near each other.
        name: The name of the graph; by default that of the file.
        tell: Called with the current step and the share of it that is done.

    Returns:
        The store, and what was found.

    Raises:
        DataError: If a table cannot be used, or needs more memory. The error names file, line and column.
    """
    folder = Path(folder)
    refuse_existing(folder)
    if memory < LEAST_MEMORY:
        raise DataError(f"{memory >> 20} MiB are too little.", f"Allow at least {LEAST_MEMORY >> 20} MiB (--memory).")
    found: list[BuiltStore] = []

    def write(part: Path) -> None:
        work = part / "work"
        for place in (work, work / "nodes", work / "edges"):
            place.mkdir()
        builder = _Builder(part, work, columns, memory, tell, name or default_name(nodes, edges))
        told = builder.write(nodes, edges, renumber)
        shutil.rmtree(work)
        write_header(part, builder.header)
        found.append(told)

    write_whole_folder(folder, write)
    return replace(found[0], store=GraphStore.open(folder))


class _Builder:
    """The work of `build_store` in a folder."""

    header: Header

    def __init__(self, part: Path, work: Path, columns: TableColumns, memory: int, tell: Tell, name: str) -> None:
        self.part, self.work, self.columns, self.tell, self.name = part, work, columns, tell, name
        self.limit = memory
        self.memory = memory - FIXED_BYTES  # for arrays

    def write(self, nodes: str | Path, edges: str | Path | None, renumber: bool) -> BuiltStore:
        """Write all files but the header."""
        chosen = self.columns
        choice = ColumnChoice.of(chosen.drop, chosen.keep, chosen.kind, chosen.drop_leaks)
        self.tell("reading nodes", 0)
        large = open_large_table(nodes, self.work / "nodes", self.memory)
        self._check_memory(large, choice)
        table = large.table
        roles = node_roles(table, chosen.id, chosen.label, chosen.split, True, choice, chosen.time, chosen.group)
        ids = node_ids(table, roles.id)
        if not [name for name in roles.features if roles.kinds.get(name) != "ignore"]:
            raise _no_features(table)
        ids, edge_list, edge_notes = self._read_edges(edges, table, roles, ids)
        n = len(ids)
        table = replace(table, added_rows=n - table.num_rows)
        order = self._local_order(edge_list, n) if renumber else None
        number_of = None if order is None else inverse(order)
        self.tell("sorting edges", 0)
        found = sort_edges(edge_list, self.part, n, not chosen.directed, self.memory // 2, number_of)
        edge_list.path.unlink()
        labels = read_labels(table, roles.label)
        own = column_splits(table, roles, labels.y)
        splits, split_notes = ((), []) if own.splits else read_splits(table, roles.splits, labels.y)
        by_protocol = {"column": splits} if splits else own.splits
        write_ids(self.part, ids if order is None else ids.gather(order))
        flat = [split for fixed in by_protocol.values() for split in fixed]
        write_labels(self.part, *_reordered(labels.y, flat, order))
        encoder, warnings = self._fit(table, roles, labels_in_use(labels.y, flat))
        self._write_features(table, encoder, order)
        (self.part / ENCODER).write_text(encoder.to_json(), "utf-8")
        self.header = Header(
            name=self.name,
            nodes=n,
            edges=found.entries,
            features=encoder.num_slots,
            classes=labels.class_names,
            directed=chosen.directed,
            splits=len(flat),
            protocols=tuple((protocol, split.index) for protocol, fixed in by_protocol.items() for split in fixed),
            row_norm=encoder.row_norm,
            source={"renumbered": renumber, "label": roles.label, "id": roles.id},
        )
        kind = "weighted edges" if edge_list.weighted else "edges"
        counts = f"{edge_list.length:,} {kind} became {found.entries:,} entries"
        dropped = {"loops": found.loops, "weight 0": found.zeros}
        counts += "".join(f", {count:,} of {words}" for words, count in dropped.items() if count)
        notes = (*table.notes, *roles.notes, *edge_notes, f"{counts}.", *labels.notes, *split_notes, *own.notes)
        columns = in_table_order((*role_rows(roles), *encoder.describe()), table)
        # The store is opened under its final name.
        store = GraphStore(self.part, self.header, {})
        return BuiltStore(store, (*notes, encoder_note(encoder)), (*labels.warnings, *warnings), columns)

    def _check_memory(self, large: LargeTable, choice: ColumnChoice) -> None:
        """Raise an error if one column, or the ids of all nodes, take more memory than is allowed."""
        name, size = large.largest_column
        of_column = 0 if name in choice.drop or (choice.keep and name not in choice.keep) else COLUMN_COPIES * size
        of_nodes = BYTES_PER_NODE * large.table.num_rows
        if max(of_column, of_nodes) > self.memory:
            needed = max(of_column, of_nodes) + FIXED_BYTES
            what = f"the column {name!r}" if of_column > of_nodes else f"{large.table.num_rows:,} nodes"
            raise DataError(
                f"{large.table.source}: {what} may take {needed / 2**30:.1f} GiB, but {self.limit / 2**30:.1f} GiB are "
                "allowed.",
                "Allow more (--memory)" + f", or leave the column out (--drop {name})." * (of_column > of_nodes),
            )

    def _read_edges(
        self, path: str | Path | None, nodes: Table, roles: NodeRoles, ids: pl.Series
    ) -> tuple[pl.Series, EdgeList, list[str]]:
        """Return the ids of all nodes, the edges between their numbers, and notes."""
        if path is None:
            return ids, EdgeList(self.work / "edge-list", len(ids), False), ["There are no edges."]
        chosen = self.columns
        where = f"{nodes.source} ({'its rows' if roles.id is None else repr(roles.id)})"
        self.tell("reading edges", 0)
        try:
            large = open_large_table(path, self.work / "edges", self.memory)
        except NoRowsError as error:
            return ids, EdgeList(self.work / "edge-list", len(ids), False), [error.what]
        table = large.table
        of_edges = edge_roles(table, chosen.source, chosen.target, chosen.weight)
        found = EdgeList(self.work / "edge-list", len(ids), of_edges.weight is not None)
        self._check_disk(table.num_rows * found.dtype.itemsize * 4, "the edges")
        left = max(self.memory - BYTES_PER_NODE * len(ids), self.memory // 8)
        rows = max(FEWEST_EDGE_ROWS, left // 2 // BYTES_PER_EDGE_ROW)
        notes, left_out, done = [*table.notes, *of_edges.notes], 0, 0
        names = [name for name in (of_edges.source, of_edges.target, of_edges.weight) if name is not None]
        before = len(ids)
        for chunk in large.chunks(names, rows):
            read = _edges_of(chunk, of_edges, ids, where, chosen.unknown_nodes)
            ids = read.ids
            left_out += chunk.num_rows - read.edge_index.shape[1]
            found.append(read.edge_index, read.weight)
            done += chunk.num_rows
            self.tell("reading edges", done / table.num_rows)
        if left_out:
            notes.append(f"{table.source}: edges to ids that {where} lacks were left out ({left_out} such edges).")
        if len(ids) > before:
            notes.append(f"{table.source}: ids that {where} lacks became nodes ({len(ids) - before} such ids).")
        shutil.rmtree(self.work / "edges")
        return ids, found, notes

    def _local_order(self, edges: EdgeList, n: int) -> NDArray[np.integer]:
        """Return the nodes by locality."""
        self.tell("renumbering", 0)
        folder = self.work / "order"
        folder.mkdir()
        pattern = EdgeList(folder / "edge-list", n, weighted=False)
        for chunk in edges.chunks(max(FEWEST_EDGE_ROWS, self.memory // 128)):
            pattern.append(np.stack([chunk["source"], chunk["target"]]).astype(np.int64))
        sort_edges(pattern, folder, n, True, self.memory // 2)
        indptr, indices = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("indptr", "indices"))
        order = local_order(indptr, indices, self.memory)
        shutil.rmtree(folder)
        return order

    def _fit(self, table: Table, roles: NodeRoles, y: NDArray[np.int64]) -> tuple[FeatureEncoder, list[str]]:
        """Return the encoder of the columns, and warnings about those that reveal the label."""
        self.tell("fitting columns", 0)
        encoder = FeatureEncoder.fit(table, roles.features, kinds=roles.kinds)
        leaks = likely_leaks(table, encoder.columns, y)
        if self.columns.drop_leaks:
            encoder = encoder.without(leaks, "leak")
        if not encoder.columns:
            raise _no_features(table)
        warnings = [] if self.columns.drop_leaks else [leak_warning(name, share) for name, share in leaks.items()]
        return encoder, warnings

    def _write_features(self, table: Table, encoder: FeatureEncoder, order: NDArray[np.integer] | None) -> None:
        """Write the features: each column into files of its own, which are then joined."""
        n = table.num_rows + table.added_rows
        self._check_disk(2 * 4 * n * encoder.num_slots, f"{encoder.num_slots} features of {n:,} nodes")
        folder = self.work / "columns"
        folder.mkdir()
        blocks: list[_StoredBlock] = []
        for place, column in enumerate(encoder.columns):
            self.tell("encoding columns", place / len(encoder.columns))
            for block in column.encode(table.column(column.name), table):
                blocks.append(_StoredBlock.write(block, folder / str(len(blocks)), order))
        rows = max(1, int(self.memory * FEATURE_SHARE) // max(1, 4 * encoder.num_slots))
        with ExitStack() as stack:
            writer = stack.enter_context(ArrayWriter(self.part / "x.npy", np.float32, encoder.num_slots))
            for start in range(0, n, rows):
                self.tell("writing features", start / n)
                x = np.empty((min(rows, n - start), encoder.num_slots), np.float32)
                first = 0
                for stored in blocks:
                    stored.read_into(x[:, first : first + stored.columns], start)
                    first += stored.columns
                writer.append(x)

    def _check_disk(self, needed: int, what: str) -> None:
        free = shutil.disk_usage(self.part).free
        if needed + DISK_RESERVE > free:
            raise DataError(
                f"{what} take up to {needed / 1e9:.1f} GB of disk space, but {free / 1e9:.1f} GB are free at "
                f"{self.part.parent}.",
                "Free some space, or name another folder.",
            )


@dataclass(frozen=True)
class _StoredBlock:
    """Some columns of features in a file: dense, or the non-zero entries of each row."""

    path: Path
    columns: int
    starts: NDArray[np.int64] | None = None

    @classmethod
    def write(cls, block: Block, path: Path, order: NDArray[np.integer] | None) -> _StoredBlock:
        """Write a block in another order of rows."""
        block = block if order is None else block[order]
        if not isinstance(block, sparse.csr_array):
            np.ascontiguousarray(block, np.float32).tofile(path)
            return cls(path, block.shape[1])
        entries = np.empty(block.nnz, ENTRY)
        entries["column"], entries["value"] = block.indices, block.data
        entries.tofile(path)
        np.save(path.with_suffix(".npy"), block.indptr.astype(np.int64))
        return cls(path, block.shape[1], np.load(path.with_suffix(".npy"), mmap_mode="r"))

    def read_into(self, x: NDArray[np.float32], start: int) -> None:
        """Read rows from `start` on into an array."""
        if self.starts is None:
            skipped = 4 * start * self.columns
            x[:] = np.fromfile(self.path, np.float32, x.size, offset=skipped).reshape(x.shape)
            return
        places = np.array(self.starts[start : start + len(x) + 1])
        count, skipped = int(places[-1] - places[0]), int(places[0]) * ENTRY.itemsize
        entries = np.fromfile(self.path, ENTRY, count, offset=skipped)
        x[:] = 0
        x[np.repeat(np.arange(len(x)), np.diff(places)), entries["column"]] = entries["value"]


ENTRY = np.dtype([("column", np.int32), ("value", np.float32)])


def _edges_of(chunk: Table, roles: EdgeRoles, ids: pl.Series, where: str, unknown_nodes: UnknownNodes) -> Any:
    """Read some rows of the table of edges."""
    if roles.weight is not None:
        values = simplified(chunk.column(roles.weight))
        if values.dtype == pl.String and not all_parsed(values, parsed_numbers(values)):
            # The meaning of 1,234 follows from all cells of a column, which are not at hand.
            plain = parsed_numbers(values)
            wrong = (plain.is_null() & values.is_not_null()).arg_true()
            what, how = f"is {values[int(wrong[0])]!r}, not a plain number", "Write weights such as 1234.5."
            raise chunk.fault(wrong, roles.weight, what, how)
    return read_edges(chunk, roles, ids, where, unknown_nodes, whole=False)


def _no_features(table: Table) -> DataError:
    return DataError(
        f"No column of {table.source} becomes a feature.",
        "Add columns of features, or train on the tables, which makes features from the edges (--nodes, --edges).",
    )


def inverse(order: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return the new number of each node from the old numbers in the new order."""
    number_of = np.empty(len(order), index_type(len(order)))
    number_of[order] = np.arange(len(order))
    return number_of


def _reordered(
    y: NDArray[np.int64], splits: Sequence[Split], order: NDArray[np.integer] | None
) -> tuple[NDArray[np.int64], list[Split]]:
    if order is None:
        return y, list(splits)
    moved = [
        Split(split.train[order], split.val[order], split.test[order], split.protocol, split.index) for split in splits
    ]
    return y[order], moved
