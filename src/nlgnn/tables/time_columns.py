"""Columns of times and groups, and the splits that they give."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from nlgnn.errors import DataError
from nlgnn.graph.column_splits import group_splits, time_split
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import GROUP, TIME, Split
from nlgnn.tables.date_format import as_days, days_of, find_dates, time_unit
from nlgnn.tables.number_format import find_numbers
from nlgnn.tables.roles import NodeRoles
from nlgnn.tables.values import Table, all_parsed, as_text, counted, other_type, simplified


class Times(NamedTuple):
    """Times of rows: days since 1970 or plain numbers, NaN where missing, and remarks about how they were read."""

    values: NDArray[np.float64]
    are_dates: bool
    remarks: tuple[str, ...] = ()

    def shown(self, value: float) -> str:
        """Return a time as text.

        Example:
            >>> Times(np.array([1.0, 2.0]), are_dates=True).shown(1.0)
            '1970-01-02'
        """
        if not self.are_dates:
            return f"{value:.10g}"
        moment = np.datetime64(round(value * 86_400), "s")
        whole = bool((np.floor(known := self.values[~np.isnan(self.values)]) == known).all())
        return str(moment.astype("datetime64[D]")) if whole else str(moment).replace("T", " ")


def read_times(table: Table, column: str) -> Times:
    """Read a column of dates, of epoch seconds or of other numbers.

    Raises:
        DataError: If a cell is neither, or if all cells are blank or equal.
    """
    values = simplified(table.column(column))
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object, pl.Boolean):
        raise other_type(table, values, "dates or numbers")
    found = None if values.dtype.is_temporal() else find_numbers(values)
    if found is not None and all_parsed(found.present, found.numbers):
        numbers = found.numbers.fill_null(np.nan).to_numpy()
        unit = time_unit(numbers[~np.isnan(numbers)])
        times = Times(days_of(numbers, unit), True, (f"read as {unit}",)) if unit else Times(numbers, False)
    else:
        remarks = () if values.dtype.is_temporal() else find_dates(values).remarks
        times = Times(as_days(values, table), True, remarks)
    distinct = np.unique(times.values[~np.isnan(times.values)])
    if len(distinct) < 2:
        what = "is blank in all rows" if len(distinct) == 0 else f"has one time, {times.shown(distinct[0])}"
        raise DataError(f"{table.source}: the column {column!r} {what}.", "Name a column with different times.")
    return times


def read_groups(table: Table, column: str) -> NDArray[np.int64]:
    """Return the number of the group of each row; a blank cell is a group of its own."""
    values = simplified(table.column(column))
    if values.dtype.is_nested() or values.dtype in (pl.Binary, pl.Object):
        raise other_type(table, values, "names of groups")
    text = as_text(values)
    numbers = text.rank("dense").cast(pl.Int64).to_frame("group")
    own = pl.int_range(len(text), dtype=pl.Int64, eager=True) + text.n_unique() + 1
    return numbers.get_column("group").fill_null(own).to_numpy() - 1


class OwnSplits(NamedTuple):
    """The splits that columns of times and groups give, and the time at which validation ends.

    Args:
        splits: The splits by protocol; empty without such columns.
        times: The times of the nodes, if there are any.
        last_known: The time of the latest training or validation node.
        notes: Sentences about what was decided.
    """

    splits: dict[str, tuple[Split, ...]]
    times: Times | None = None
    last_known: float = np.inf
    notes: tuple[str, ...] = ()


def column_splits(table: Table, roles: NodeRoles, y: NDArray[np.int64]) -> OwnSplits:
    """Return the split by time, or the splits by group, of a table of nodes."""
    if roles.time is None and roles.group is None:
        return OwnSplits({})
    groups = None if roles.group is None else read_groups(table, roles.group)
    try:
        if roles.time is None:
            assert groups is not None
            splits = group_splits(groups, y)
            sizes = np.unique(groups[y >= 0], return_counts=True)[1]
            note = f"{len(splits)} splits keep the {len(sizes)} groups of {roles.group!r} in one part each."
            large = sizes.max() * len(splits) > (y >= 0).sum()
            note += f" The largest has {sizes.max()} nodes, more than an equal part." * bool(large)
            return OwnSplits({GROUP: splits}, notes=(note,))
        times = read_times(table, roles.time)
        split = time_split(times.values, y, groups)
    except DataError as error:
        if error.what.startswith(table.source):
            raise
        names = " and ".join(repr(name) for name in (roles.time, roles.group) if name is not None)
        raise DataError(f"{table.source}, column {names}: {error.what}", error.how) from None
    remarks = "".join(f" ({remark})" for remark in times.remarks)
    ranges = []
    for part, mask in {"training": split.train, "validation": split.val, "test": split.test}.items():
        first, last = times.values[mask].min(), times.values[mask].max()
        ranges.append(f"{part} {times.shown(first)} to {times.shown(last)} ({mask.sum()} nodes)")
    notes = [f"Split by {roles.time!r}{remarks}: {', '.join(ranges)}."]
    if roles.group is not None:
        notes.append(f"Each group of {roles.group!r} is in one part, that of its latest node.")
    if without := int((np.isnan(times.values) & (y >= 0)).sum()):
        notes.append(f"Labelled nodes without a time are in no part ({counted(without, 'node')}).")
    return OwnSplits({TIME: (split,)}, times, float(times.values[split.train | split.val].max()), tuple(notes))


def with_later_edges(graph: Graph, edge_times: Times | None, own: OwnSplits, column: str | None) -> tuple[Graph, str]:
    """Return the graph with a mask of the edges after the last validation node, and a note about them.

    Edges without a time may be of the test period, and are marked too.

    Raises:
        DataError: If times of nodes and edges cannot be compared.
    """
    if edge_times is None or own.times is None:
        return graph, ""
    if edge_times.are_dates != own.times.are_dates:
        kinds = ["dates" if times.are_dates else "numbers" for times in (own.times, edge_times)]
        raise DataError(
            f"Times of nodes are {kinds[0]}, but {column!r}, the times of edges, holds {kinds[1]}.",
            "Give both in the same form.",
        )
    later = ~(edge_times.values <= own.last_known)
    end = own.times.shown(own.last_known)
    if later.all():
        raise DataError(
            f"All edges are later than the last validation node ({end}), so that training would have none (column "
            f"{column!r}).",
            "Leave --edge-time-column out, or correct the times.",
        )
    note = (
        f"Models are trained and validated without {later.sum()} of {len(later)} edges, whose {column!r} is later than "
        f"the last validation node ({end}). They are tested with all edges."
    )
    if missing := int(np.isnan(edge_times.values).sum()):
        note += f" Edges without a time are among them ({counted(missing, 'edge')})."
    return replace(graph, later_edges=later), note
