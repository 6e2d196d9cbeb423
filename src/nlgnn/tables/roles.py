"""Roles of columns: given, found by name, or found by content. Notes report what was found."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.audit import listed
from nlgnn.tables.values import Table, as_text, parsed_numbers, simplified

# Compared without case, blanks and punctuation: "Node ID" is node_id.
ID_NAMES = ("id", "nodeid", "node", "nid", "vertex", "vertexid", "key", "name", "uid", "uuid", "index")
SURE_ID_NAMES = {"id", "nodeid"}  # repeated values are an error here; columns of the other names are then no ids
# Also with "node" or "id" before or behind: source_id, FromNodeId, node1.
ENDS = "source-target src-dst src-dest from-to u-v 1-2 start-end head-tail sender-receiver citing-cited"
EDGE_NAMES = [pair.split("-") for pair in ENDS.split()]
WEIGHT_NAMES = ("weight", "w", "weights", "edgeweight")
SPLIT_NAMES = ("split", "part", "mask")
PARTS = {"train": "train", "training": "train", "test": "test", "testing": "test", "val": "val", "valid": "val"}
PARTS |= {"validation": "val", "dev": "val"}


@dataclass(frozen=True)
class NodeRoles:
    """The columns of a node table.

    Args:
        id: The column of ids; None if nodes are named by row numbers.
        label: The column of labels; None if no label is known.
        splits: One column per split.
        features: All other columns.
        notes: Sentences about how the columns were found.
    """

    id: str | None
    label: str | None = None
    splits: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EdgeRoles:
    """The columns of an edge table."""

    source: str
    target: str
    weight: str | None
    notes: list[str]


def node_roles(table: Table, id: str | None, label: str | None, split: str | None, find_splits: bool) -> NodeRoles:
    """Return the roles of the columns of a node table; columns that are not named are searched for."""
    notes: list[str] = []
    if label is not None:
        table.require(label, "the labels")
    splits = split_columns(table, split, notes) if split is not None or find_splits else ()
    taken = {*splits} if label is None else {label, *splits}
    if id is None:
        if label is not None and plain(label) in SURE_ID_NAMES and all_different(table, label):
            raise OptionError(
                f"The column {label!r} of {table.source} holds ids, not labels: all values are different.",
                "Name a column of classes.",
            )
        id = find_id(table, [name for name in table.columns if name not in taken], notes)
    else:
        table.require(id, "the ids")
    if id in taken or label in splits:
        twice = id if id in taken else label
        raise OptionError(f"The column {twice!r} of {table.source} has two roles.", "Name different columns.")
    features = tuple(name for name in table.columns if name not in {id, *taken})
    return NodeRoles(id, label, splits, features, tuple(notes))


def find_id(table: Table, candidates: list[str], notes: list[str]) -> str | None:
    """Return the column of ids, found by name or because all values differ; None if there is none."""
    by_name = {plain(name): name for name in reversed(candidates)}
    for known in ID_NAMES:
        if known in by_name and (known in SURE_ID_NAMES or all_different(table, by_name[known])):
            notes.append(f"{table.source}: the column {by_name[known]!r} holds the ids (found by its name).")
            return by_name[known]
    for name in candidates:
        if can_be_ids(table.column(name)) and all_different(table, name):
            notes.append(f"{table.source}: the column {name!r} holds the ids (the first with all values different).")
            return name
    notes.append(f"{table.source} has no column of ids: nodes are numbered from 0 in the order of its rows.")
    return None


def can_be_ids(values: pl.Series) -> bool:
    """Return whether a column holds text or whole numbers; measurements may all be different too."""
    values = simplified(values)
    if values.dtype == pl.String:
        numbers = parsed_numbers(values).drop_nulls()
        return len(numbers) < len(values) or bool((numbers == numbers.floor()).all())
    return values.dtype.is_integer()


def all_different(table: Table, name: str) -> bool:
    """Return whether no two cells of a column are equal and none is missing."""
    values = simplified(table.column(name))
    if values.dtype.is_nested():
        return False
    values = as_text(values) if values.dtype == pl.String else values
    return not values.has_nulls() and values.n_unique() == len(values)


def split_columns(table: Table, given: str | None, notes: list[str]) -> tuple[str, ...]:
    """Return the named column, or one named split, part or mask that holds parts; several if they are numbered."""
    prefixes = SPLIT_NAMES if given is None else (given,)
    for prefix in prefixes:
        numbered = {}
        for name in table.columns:
            if (name == given) if given is not None else (plain(name) == prefix):
                numbered = {0: name}
                break
            if match := re.fullmatch(rf"{re.escape(prefix)}[_\- ]?(\d+)", name, re.IGNORECASE):
                numbered[int(match[1])] = name
        names = tuple(numbered[number] for number in sorted(numbered))
        if names and (given is not None or all(holds_parts(table.column(name)) for name in names)):
            shown = repr(names[0]) if len(names) == 1 else f"{names[0]!r} to {names[-1]!r}"
            how = "" if given is not None else " (found by name)"
            notes.append(f"{table.source}: {shown} says which nodes train, validate and test{how}.")
            return names
    if given is not None:
        table.require(given, "the splits")
    return ()


def holds_parts(values: pl.Series) -> bool:
    """Return whether all values are names of parts such as train."""
    if simplified(values).dtype != pl.String:
        return False
    found = as_text(values).str.to_lowercase().unique().drop_nulls()
    return len(found) > 1 and bool(found.is_in(list(PARTS)).all())


def edge_roles(table: Table, source: str | None, target: str | None, weight: str | None) -> EdgeRoles:
    """Return the roles of the columns of an edge table; columns that are not named are searched for."""
    notes: list[str] = []
    for name, role in ((source, "the sources"), (target, "the targets"), (weight, "the weights")):
        if name is not None:
            table.require(name, role)
    by_name = {without_node_id(name): name for name in reversed(table.columns)}
    by_name |= {plain(name): name for name in reversed(table.columns)}
    if weight is None:
        weight = next((by_name[known] for known in WEIGHT_NAMES if known in by_name), None)
        weight = None if weight in (source, target) else weight
    if source is None or target is None:
        source, target, how = find_ends(table, by_name, source, target, weight)
        notes.append(f"{table.source}: edges go from {source!r} to {target!r} ({how}).")
    if weight is not None:
        notes.append(f"{table.source}: {weight!r} holds the weights of the edges.")
    if len({source, target, weight}) < 3:
        raise OptionError(
            f"A column of {table.source} has two roles: source {source!r}, target {target!r}, weight {weight!r}.",
            "Name three different columns.",
        )
    ignored = [name for name in table.columns if name not in (source, target, weight)]
    if ignored:
        notes.append(f"{table.source}: not used: {listed(map(repr, ignored))}.")
    return EdgeRoles(source, target, weight, notes)


def find_ends(
    table: Table, by_name: dict[str, str], source: str | None, target: str | None, weight: str | None
) -> tuple[str, str, str]:
    """Return the two ends, one of which may be given, and how they were found."""
    for first, second in EDGE_NAMES:
        ends = by_name.get(first), by_name.get(second)
        if ends[0] and ends[1] and source in (None, ends[0]) and target in (None, ends[1]):
            return ends[0], ends[1], "found by name"
    free = [name for name in table.columns if name not in (source, target, weight)]
    if len(free) < (source is None) + (target is None):
        raise DataError(
            f"{table.source} has too few columns for the two ends of an edge: {listed(map(repr, table.columns))}.",
            "Give a source and a target, separated by a comma, a tab or a semicolon.",
        )
    return source or free.pop(0), target or free.pop(0), "by position"


def without_node_id(name: str) -> str:
    """Return a plain name without "node" and "id" at its ends."""
    return re.sub(r"^(node)?(id)?|(node)?(id)?$", "", plain(name))


def plain(name: str) -> str:
    """Return a name without case, blanks and punctuation."""
    return re.sub(r"[\W_]+", "", name).lower()
