"""Roles of columns: given, found by name, or found by content. Notes report what was found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import polars as pl

from nlgnn.errors import DataError, OptionError
from nlgnn.graph.audit import listed
from nlgnn.tables.column_choice import ColumnChoice
from nlgnn.tables.date_format import find_dates
from nlgnn.tables.detection import Kind
from nlgnn.tables.number_format import find_numbers
from nlgnn.tables.values import Table, all_parsed, as_text, parsed_numbers, simplified

# Compared without case, blanks and punctuation: "Node ID" is node_id.
ID_NAMES = ("id", "nodeid", "node", "nid", "vertex", "vertexid", "key", "name", "uid", "uuid", "index")
SURE_ID_NAMES = {"id", "nodeid"}  # repeated values are an error here; columns of the other names are then no ids
# Also with "node" or "id" before or behind: source_id, FromNodeId, node1.
ENDS = "source-target src-dst src-dest from-to u-v 1-2 start-end head-tail sender-receiver citing-cited payer-payee"
ENDS += " buyer-seller caller-callee follower-followee parent-child owner-owned debtor-creditor"
OF_ENDS = "(node|account|acct|user|customer|company|page|person)?(id|name)?"  # behind from, to, source …
EDGE_NAMES = [pair.split("-") for pair in ENDS.split()]
WEIGHT_NAMES = ("weight", "w", "weights", "edgeweight")
SPLIT_NAMES = ("split", "part", "mask")
PARTS = {"train": "train", "training": "train", "test": "test", "testing": "test", "val": "val", "valid": "val"}
PARTS |= {"validation": "val", "dev": "val"}
NO_CHOICE = ColumnChoice()


@dataclass(frozen=True)
class NodeRoles:
    """The columns of a node table.

    Args:
        id: The column of ids; None if nodes are named by row numbers.
        label: The column of labels; None if no label is known.
        splits: One column per split.
        features: All other columns.
        kinds: The kinds of columns that the user chose; those to leave out are of the kind "ignore".
        notes: Sentences about how the columns were found.
        time: The column of times that splits follow.
        group: The column of groups, each of which is in one part of a split.
    """

    id: str | None
    label: str | None = None
    splits: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    time: str | None = None
    group: str | None = None


@dataclass(frozen=True)
class EdgeRoles:
    """The columns of an edge table."""

    source: str
    target: str
    weight: str | None
    notes: list[str]
    time: str | None = None
    type: str | None = None


def node_roles(
    table: Table,
    id: str | None,
    label: str | None,
    split: str | None,
    find_splits: bool,
    choice: ColumnChoice = NO_CHOICE,
    time: str | None = None,
    group: str | None = None,
) -> NodeRoles:
    """Return the roles of the columns of a node table; columns that are not named are searched for.

    Times and groups are features only if `choice` keeps them or gives them a kind.
    """
    notes: list[str] = []
    if choice:
        choice = choice.checked(table, {"ids": id, "labels": label, "splits": split})
    whole, table = table, choice.without_dropped(table)
    if label is not None:
        table.require(label, "the labels")
    for column, role in ((time, "the times"), (group, "the groups")):
        if column is not None:
            whole.require(column, role)
            if column in (id, label):
                raise OptionError(f"The column {column!r} of {whole.source} has two roles.", "Name different columns.")
    ordering = {column for column in (time, group) if column is not None}
    found: list[str] = []
    splits = split_columns(table, split, found) if split is not None or find_splits else ()
    notes += found if not ordering else [f"Not used: {listed(map(repr, splits))}."] * bool(splits)
    taken = {*splits} if label is None else {label, *splits}
    if id is None:
        if label is not None and plain(label) in SURE_ID_NAMES and all_different(table, label):
            raise OptionError(
                f"The column {label!r} of {table.source} holds ids, not labels: all values are different.",
                "Name a column of classes.",
            )
        # A column whose kind was given is a feature.
        id = find_id(table, [name for name in table.columns if name not in {*taken, *ordering, *choice.kind}], notes)
    else:
        table.require(id, "the ids")
    if id in taken or label in splits:
        twice = id if id in taken else label
        raise OptionError(f"The column {twice!r} of {table.source} has two roles.", "Name different columns.")
    taken |= {column for column in ordering if column not in choice.keep and column not in choice.kind}
    features = tuple(name for name in whole.columns if name not in {id, *taken})
    return NodeRoles(id, label, splits, features, choice.kinds_of(features), tuple(notes), time, group)


def find_id(table: Table, candidates: list[str], notes: list[str]) -> str | None:
    """Return the column of ids, found by name or because all values differ; None if there is none."""
    by_name = {plain(name): name for name in reversed(candidates)}
    for known in ID_NAMES:
        if known in by_name and (known in SURE_ID_NAMES or all_different(table, by_name[known])):
            notes.append(f"{table.source}: the column {by_name[known]!r} holds the ids (found by its name).")
            return by_name[known]
    for name in candidates:
        values = table.column(name)
        if can_be_ids(values) and all_different(table, name) and not is_measured(values):
            notes.append(f"{table.source}: the column {name!r} holds the ids (the first with all values different).")
            return name
    notes.append(f"{table.source} has no column of ids: nodes are numbered from 0 in the order of its rows.")
    return None


def can_be_ids(values: pl.Series) -> bool:
    """Return whether a column holds text or whole numbers; measurements may all be different too."""
    values = simplified(values)
    if values.dtype != pl.String:
        return values.dtype.is_integer()
    numbers = parsed_numbers(values).drop_nulls()
    return len(numbers) < len(values) or bool((numbers == numbers.floor()).all())


def is_measured(values: pl.Series) -> bool:
    """Return whether text holds dates, or numbers that are not plain."""
    if simplified(values).dtype != pl.String or all_parsed(values, parsed_numbers(values)):
        return False
    return not (find_numbers(values).numbers.has_nulls() and find_dates(values).days.has_nulls())


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


def edge_roles(
    table: Table,
    source: str | None,
    target: str | None,
    weight: str | None,
    time: str | None = None,
    type: str | None = None,
) -> EdgeRoles:
    """Return the roles of the columns of an edge table; ends and weights that are not named are searched for."""
    notes: list[str] = []
    given = {"the sources": source, "the targets": target, "the weights": weight, "the times": time, "the types": type}
    for role, name in given.items():
        if name is not None:
            table.require(name, role)
    other = [name for name in (time, type) if name is not None]
    by_name = {without_node_id(name): name for name in reversed(table.columns) if name not in other}
    by_name |= {plain(name): name for name in reversed(table.columns) if name not in other}
    if weight is None:
        weight = next((by_name[known] for known in WEIGHT_NAMES if known in by_name), None)
        weight = None if weight in (source, target) else weight
    if source is None or target is None:
        source, target, how = find_ends(table, by_name, source, target, [weight, *other])
        notes.append(f"{table.source}: edges go from {source!r} to {target!r} ({how}).")
    if weight is not None:
        notes.append(f"{table.source}: {weight!r} holds the weights of the edges.")
    named = [source, target, *([] if weight is None else [weight]), *other]
    if len(set(named)) < len(named):
        raise OptionError(f"A column of {table.source} has two roles: {listed(map(repr, named))}.", "Name each once.")
    ignored = [name for name in table.columns if name not in named]
    if ignored:
        flags = {"--weight-column": weight, "--edge-type-column": type, "--edge-time-column": time}
        free = [flag for flag, name in flags.items() if name is None]
        how = f" {' or '.join(free)} can name one." if free else ""
        notes.append(f"{table.source}: not used: {listed(map(repr, ignored))}.{how}")
    return EdgeRoles(source, target, weight, notes, time, type)


def find_ends(
    table: Table, by_name: dict[str, str], source: str | None, target: str | None, others: list[str | None]
) -> tuple[str, str, str]:
    """Return the two ends, one of which may be given, and how they were found; `others` have another role."""
    for first, second in EDGE_NAMES:
        ends = by_name.get(first), by_name.get(second)
        if ends[0] and ends[1] and source in (None, ends[0]) and target in (None, ends[1]):
            return ends[0], ends[1], "found by name"
    free = [name for name in table.columns if name not in (source, target, *others)]
    if len(free) < (source is None) + (target is None):
        raise DataError(
            f"{table.source} has too few columns for the two ends of an edge: {listed(map(repr, table.columns))}.",
            "Give a source and a target, separated by a comma, a tab or a semicolon.",
        )
    return source or free.pop(0), target or free.pop(0), "by position"


def without_node_id(name: str) -> str:
    """Return a plain name without "node", "id" and the like at its ends."""
    return re.sub(rf"^(node)?(id)?|{OF_ENDS}$", "", plain(name))


def plain(name: str) -> str:
    """Return a name without case, blanks and punctuation."""
    return re.sub(r"[\W_]+", "", name).lower()
