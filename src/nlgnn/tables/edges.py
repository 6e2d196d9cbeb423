"""Edges as pairs of node numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.errors import DataError
from nlgnn.graph.arrays import weight_matrix
from nlgnn.graph.audit import listed
from nlgnn.tables.column_kinds import category_keys
from nlgnn.tables.number_format import as_numbers
from nlgnn.tables.roles import EdgeRoles
from nlgnn.tables.time_columns import Times, read_times
from nlgnn.tables.values import Table, as_ids, as_text, counted, other_type, parsed_numbers, shown, simplified

MOST_TYPES = 20  # of edges
UnknownNodes = Literal["error", "drop", "add"]


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges between nodes.

    Args:
        ids: The ids of all nodes: those of the table, then those that only the edges name.
        edge_index: The node numbers, `[2, num_edges]`.
        weight: The weights, `[num_edges]`, or None.
        notes: Sentences about what was left out, added and counted.
        time: The times, one per edge, or None.
        type: The number of the type of each edge, or None.
        types: The names of the types.
    """

    ids: pl.Series
    edge_index: NDArray[np.int64]
    weight: NDArray[np.float32] | None
    notes: tuple[str, ...]
    time: Times | None = None
    type: NDArray[np.int64] | None = None
    types: tuple[str, ...] = ()


def node_ids(table: Table, column: str | None) -> pl.Series:
    """Return the id of each row, and raise an error if one is blank or repeated."""
    if column is None:
        return pl.int_range(table.num_rows, dtype=pl.Int64, eager=True)
    ids = read_ids(table, column)
    repeated = ids.is_first_distinct().not_().arg_true()
    if len(repeated):
        row = int(repeated[0])
        first = int(ids.eq(ids[row]).arg_true()[0])
        place = table.place(first).removeprefix(f"{table.source}, ")
        what = f"is {shown(ids[row])}, which {place} has already"
        raise table.fault(repeated, column, what, "Give every node one row with its own id.", "row")
    return ids


def read_ids(table: Table, column: str) -> pl.Series:
    """Read a column of ids, and raise an error if one is blank."""
    ids = as_ids(table.column(column), table)
    blank = ids.is_null().arg_true()
    if len(blank):
        raise table.fault(blank, column, "is blank", "Fill the cell with an id, or remove the row.", "row")
    return ids


def read_edges(
    table: Table,
    roles: EdgeRoles,
    ids: pl.Series | None,
    nodes_source: str,
    unknown_nodes: UnknownNodes,
    whole: bool = True,
) -> Edges:
    """Read the edges of a table between nodes of the given ids; None makes every id in the edges a node.

    If the table is not whole, loops and repeated edges are not counted.
    """
    ends = [read_ids(table, column) for column in (roles.source, roles.target)]
    ends = of_one_type(ends if ids is None else [*ends, ids])
    notes = [*table.notes, *roles.notes]
    if ids is None:
        ids = in_row_order(ends).unique(maintain_order=True)
        notes.append(f"The nodes are the {len(ids)} ids that {table.source} names.")
    else:
        ids = ends.pop()
    edge_index = numbers_of(ends, ids)
    weight = None if roles.weight is None else read_weights(table, roles.weight)
    time = None if roles.time is None else read_times(table, roles.time)
    type, types, type_notes = (None, (), []) if roles.type is None else read_types(table, roles.type)
    notes += type_notes
    known = (edge_index >= 0).all(axis=0)
    if not known.all():
        rows = np.flatnonzero(~known)
        named = in_row_order([end.gather(rows) for end in ends])
        strangers, count = named.filter(~named.is_in(ids.implode())).unique(maintain_order=True), len(rows)
        if unknown_nodes == "error":
            found = f"{counted(count, 'edge')}: {listed(map(shown, strangers))}"
            raise DataError(
                f"{table.place(int(rows[0]))} names an id that {nodes_source} lacks ({found}).",
                "Add these nodes, or leave such edges out (--unknown-nodes drop), or make them nodes (--unknown-nodes "
                f"add). If edges do not go from {roles.source!r} to {roles.target!r}, name the columns: --id-column, "
                "--source-column, --target-column.",
            )
        if unknown_nodes == "drop":
            edge_index = edge_index[:, known]
            weight = None if weight is None else weight[known]
            time = None if time is None else time._replace(values=time.values[known])
            type = None if type is None else type[known]
            found = counted(count, "edge")
            notes.append(f"{table.source}: edges to ids that {nodes_source} lacks were left out ({found}).")
        else:
            ids = pl.concat([ids, strangers])
            edge_index = numbers_of(ends, ids)
            found = counted(len(strangers), "id")
            notes.append(f"{table.source}: ids that {nodes_source} lacks became nodes ({found}).")
    if whole:
        notes += odd_edges(table, edge_index, weight, len(ids))
    return Edges(ids, edge_index, weight, tuple(notes), time, type, types)


def of_one_type(ids: list[pl.Series]) -> list[pl.Series]:
    """Return all ids as integers if all are, and otherwise as text, because a CSV file writes 1 as "1"."""
    if all(series.dtype.is_integer() for series in ids):
        integers = [series.cast(pl.Int64, strict=False) for series in ids]
        if not any(series.has_nulls() for series in integers):
            return integers
    text = [series.cast(pl.String) for series in ids]
    if all(series.str.contains(r"^-?\d+(\.0)?$").all() for series in text):
        # Programs write whole numbers as 1.0 if a cell of the column is missing.
        whole = [series.str.strip_suffix(".0") for series in text]
        if whole[-1].n_unique() == text[-1].n_unique():
            return whole
    return text


def in_row_order(ends: list[pl.Series]) -> pl.Series:
    """Return the ids of all rows in one series, the source of a row before its target."""
    frame = pl.DataFrame([ends[0].alias("source"), ends[1].alias("target")])
    return frame.select(pl.concat_list(pl.all()).explode(empty_as_null=False)).to_series()


def numbers_of(ends: list[pl.Series], ids: pl.Series) -> NDArray[np.int64]:
    """Return the node numbers of sources and targets, `[2, num_edges]`, -1 where an id is unknown."""
    numbered = pl.DataFrame({"id": ids, "number": pl.int_range(len(ids), dtype=pl.Int64, eager=True)})
    matched = pl.DataFrame({"id": pl.concat(ends)}).join(numbered, on="id", how="left", maintain_order="left")
    return matched.get_column("number").fill_null(-1).to_numpy().reshape(2, -1)


def read_weights(table: Table, column: str) -> NDArray[np.float32]:
    """Read the weights of edges, which are numbers from 0 on."""
    weight = as_numbers(table.column(column), table)
    wrong = np.flatnonzero(~(weight >= 0))  # NaN is neither
    if len(wrong):
        what = "is blank" if np.isnan(weight[wrong[0]]) else f"is {weight[wrong[0]]:g}"
        raise table.fault(wrong, column, what, "Give each edge a weight of 0 or more.", "row")
    return weight.astype(np.float32)


def read_types(table: Table, column: str) -> tuple[NDArray[np.int64], tuple[str, ...], list[str]]:
    """Read the types of edges: their numbers, the names of at most 20 types, and notes.

    Spellings that differ only in case and blanks are one type, blank cells are the type "unknown", and rare types
    beyond the limit are the type "other". Of a table with further rows, the first rows decide.

    Raises:
        DataError: If the column does not hold types, or if all edges are of one type.
    """
    values = simplified(table.column(column))
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object) or values.dtype.is_temporal():
        raise other_type(table, values, "types of edges")
    text = as_text(values).fill_null("unknown")
    keys = category_keys(text)
    size = len(table.parts(keys)[0])
    frame = pl.DataFrame({"key": keys[:size], "name": text[:size]})
    counts = frame.group_by("key").agg(pl.len().alias("count"), pl.col("name").min())
    counts = counts.sort("count", "key", descending=[True, False])
    if counts.height < 2:
        raise DataError(
            f"{table.source}: all edges have the type {counts['name'][0]!r} (column {column!r}).",
            "Name a column with several values, or none.",
        )
    if counts.height > MOST_TYPES and not parsed_numbers(keys).has_nulls():
        raise DataError(
            f"{table.source}: the column {column!r} holds {counts.height} different numbers, which are no types.",
            "Use --weight-column for numbers.",
        )
    kept = counts.height if counts.height <= MOST_TYPES else MOST_TYPES - 1
    names, notes = counts["name"][:kept].to_list(), []
    codes = keys.replace_strict(counts["key"][:kept], list(range(kept)), default=kept, return_dtype=pl.Int64).to_numpy()
    shown_types = ", ".join(f"{name!r} ({count})" for name, count in zip(names, counts["count"], strict=False))
    notes.append(f"{table.source}: {column!r} holds the types of the edges: {shown_types}.")
    if (others := int((codes == kept).sum())) > 0:
        names.append("other" if "other" not in names else "other types")
        notes.append(
            f"{table.source}: edges of rarer types were merged into {names[-1]!r} ({counted(others, 'edge')})."
        )
    return codes, tuple(names), notes


def odd_edges(
    table: Table, edge_index: NDArray[np.int64], weight: NDArray[np.float32] | None, num_nodes: int
) -> list[str]:
    """Return notes about loops, repeated edges, and weights."""
    source, target = edge_index
    keys = np.sort(source * num_nodes + target)
    loops, repeated = int((source == target).sum()), int((keys[1:] == keys[:-1]).sum())
    how = "models count each once" if weight is None else "their weights are added"
    findings = {
        f" joins nodes to themselves ({counted(loops, 'edge')}): models ignore this.": loops,
        f" gives edges again ({counted(repeated, 'row')}): {how}.": repeated,
    }
    if weight is not None and len(weight):
        zeros = int((weight == 0).sum())
        one_way = weight_matrix(edge_index, weight, num_nodes, both_directions=False)
        unequal = one_way.minimum(one_way.T).multiply(one_way - one_way.T).nnz // 2
        findings |= {
            f": weights are from {weight.min():g} to {weight.max():g}. Loops that a model adds have weight 1.": True,
            f": edges of weight 0 were ignored ({counted(zeros, 'row')}).": zeros,
            f" gives the two directions of a pair different weights ({counted(unequal, 'pair')}): models that ignore "
            "the direction use the larger one.": unequal,
        }
    return [f"{table.source}{sentence}" for sentence, found in findings.items() if found]
