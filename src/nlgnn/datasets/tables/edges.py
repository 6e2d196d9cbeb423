"""Edges as pairs of node numbers: ids are matched without a Python object a row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.datasets.tables.roles import EdgeRoles
from nlgnn.datasets.tables.table import Table
from nlgnn.datasets.tables.values import as_ids, as_numbers, counted, shown
from nlgnn.errors import DataError
from nlgnn.graph.adjacency import weight_matrix

UnknownNodes = Literal["error", "drop", "add"]


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges between nodes.

    Args:
        ids: of all nodes: those of the table, then those that only the edges name.
        edge_index: `[2, num_edges]`, node numbers.
        weight: `[num_edges]`, or None.
        notes: what was dropped, added and counted.
    """

    ids: pl.Series
    edge_index: NDArray[np.int64]
    weight: NDArray[np.float32] | None
    notes: tuple[str, ...]


def node_ids(table: Table, column: str | None) -> pl.Series:
    """The id of each row, all different, none blank."""
    if column is None:
        return pl.int_range(table.num_rows, dtype=pl.Int64, eager=True)
    ids = as_ids(table.column(column), table)
    reject_blank_ids(ids, table, column)
    repeated = ids.is_first_distinct().not_().arg_true()
    if len(repeated):
        row = int(repeated[0])
        first = int(ids.eq(ids[row]).arg_true()[0])
        place = table.place(first).removeprefix(f"{table.source}, ")
        raise DataError(
            f"{table.place(row, column)} is {shown(ids[row])}, which {place} has already "
            f"({counted(len(repeated), 'row')}).",
            "Every node needs an id of its own, and one row.",
        )
    return ids


def reject_blank_ids(ids: pl.Series, table: Table, column: str) -> None:
    blank = ids.is_null().arg_true()
    if len(blank):
        raise DataError(
            f"{table.place(int(blank[0]), column)} is blank ({counted(len(blank), 'row')}).",
            "Every node needs an id, and every edge two: fill the cell or remove the row.",
        )


def read_edges(
    table: Table, roles: EdgeRoles, ids: pl.Series | None, nodes_source: str, unknown_nodes: UnknownNodes
) -> Edges:
    """The edges of a table between nodes of the given ids; None = every id that the edges name is a node."""
    ends: list[pl.Series] = []
    for column in (roles.source, roles.target):
        end = as_ids(table.column(column), table)
        reject_blank_ids(end, table, column)
        ends.append(end)
    known_ids = of_one_type([*ends] if ids is None else [*ends, ids])
    ends, ids = known_ids[:2], None if ids is None else known_ids[2]
    notes = []
    if ids is None:
        in_order = pl.DataFrame([ends[0].alias("source"), ends[1].alias("target")]).select(
            pl.concat_list(pl.all()).explode(empty_as_null=False)
        )
        ids = in_order.to_series().unique(maintain_order=True)
        notes.append(f"The nodes are the {len(ids)} ids that {table.source} names.")
    numbers = [numbers_of(end, ids) for end in ends]
    weight = None if roles.weight is None else read_weights(table, roles.weight)
    known = (numbers[0] >= 0) & (numbers[1] >= 0)
    if not known.all():
        strangers, first_row = unknown_ids(ends, numbers)
        count = int((~known).sum())
        if unknown_nodes == "error":
            first_five = ", ".join(map(shown, strangers[:5].to_list())) + (", …" if len(strangers) > 5 else "")
            raise DataError(
                f"{table.place(first_row)}: an id that {nodes_source} lacks; {count} "
                f"{'edge names' if count == 1 else 'edges name'} {len(strangers)} such: {first_five}.",
                f"Add these nodes. Edges were taken to go from {roles.source!r} to {roles.target!r}. Or give "
                "--unknown-nodes drop, which leaves such edges out, or add, which makes nodes of them, or name other "
                "columns: --id-column, --source-column, --target-column.",
            )
        if unknown_nodes == "drop":
            numbers = [number[known] for number in numbers]
            weight = None if weight is None else weight[known]
            notes.append(
                f"{table.source}: edges to ids that {nodes_source} lacks were left out ({counted(count, 'edge')})."
            )
        else:
            ids = pl.concat([ids, strangers.alias(ids.name)])
            numbers = [numbers_of(end, ids) for end in ends]
            notes.append(
                f"{table.source}: ids that {nodes_source} lacks became nodes ({counted(len(strangers), 'id')})."
            )
    edge_index = np.stack(numbers)
    notes += odd_edges(table, edge_index, weight is not None, len(ids))
    notes += [] if weight is None else odd_weights(table, edge_index, weight, len(ids))
    return Edges(ids, edge_index, weight, tuple(notes))


def of_one_type(ids: list[pl.Series]) -> list[pl.Series]:
    """All as integers if all are; otherwise all as text: where types differ, one file had to write 1 as "1"."""
    if all(series.dtype.is_integer() for series in ids):
        integers = [series.cast(pl.Int64, strict=False) for series in ids]
        if not any(series.has_nulls() for series in integers):
            return integers
    return [series.cast(pl.String) for series in ids]


def numbers_of(end: pl.Series, ids: pl.Series) -> NDArray[np.int64]:
    """The number of each id, -1 where it is unknown."""
    numbered = pl.DataFrame({"id": ids, "number": pl.int_range(len(ids), dtype=pl.Int64, eager=True)})
    matched = pl.DataFrame({"id": end}).join(numbered, on="id", how="left", maintain_order="left")
    return matched.get_column("number").fill_null(-1).to_numpy()


def unknown_ids(ends: list[pl.Series], numbers: list[NDArray[np.int64]]) -> tuple[pl.Series, int]:
    """The ids that are no node's, in the order in which rows name them, and the first such row."""
    rows = [np.flatnonzero(number < 0) for number in numbers]
    found = pl.concat([end.gather(row).alias("id") for end, row in zip(ends, rows, strict=True)])
    in_order = np.argsort(np.concatenate(rows), kind="stable")
    return found.gather(in_order).unique(maintain_order=True), int(np.concatenate(rows).min())


def read_weights(table: Table, column: str) -> NDArray[np.float32]:
    weight = as_numbers(table.column(column), table)
    wrong = np.flatnonzero(~(weight >= 0))  # NaN is neither
    if len(wrong):
        row = int(wrong[0])
        what = "blank" if np.isnan(weight[row]) else f"{weight[row]:g}"
        raise DataError(
            f"{table.place(row, column)} is {what} ({counted(len(wrong), 'row')}).",
            "The weight of an edge is a number from 0 on.",
        )
    return weight.astype(np.float32)


def odd_edges(table: Table, edge_index: NDArray[np.int64], weighted: bool, num_nodes: int) -> list[str]:
    source, target = edge_index
    loops = int((source == target).sum())
    keys = np.sort(source * num_nodes + target)
    repeated = int((keys[1:] == keys[:-1]).sum())
    notes = (
        [f"{table.source} joins nodes to themselves ({counted(loops, 'edge')}): models leave that out."]
        if loops
        else []
    )
    if repeated:
        how = "their weights are added" if weighted else "models count each once"
        notes.append(f"{table.source} gives edges again ({counted(repeated, 'row')}): {how}.")
    return notes


def odd_weights(table: Table, edge_index: NDArray[np.int64], weight: NDArray[np.float32], num_nodes: int) -> list[str]:
    if not len(weight):
        return []
    notes = [
        f"{table.source}: weights are from {weight.min():g} to {weight.max():g}. Where a model adds a node itself to "
        "its neighbours, it weighs 1."
    ]
    if nothing := int((weight == 0).sum()):
        notes.append(f"{table.source}: an edge of weight 0 is none ({counted(nothing, 'row')}).")
    one_way = weight_matrix(edge_index, weight, num_nodes, both_directions=False)
    in_both = one_way.minimum(one_way.T)
    if unequal := in_both.multiply(one_way - one_way.T).nnz // 2:
        notes.append(
            f"{table.source} gives the two directions of a pair different weights ({counted(unequal, 'pair')}): where "
            "direction does not count, the larger one is taken."
        )
    return notes
