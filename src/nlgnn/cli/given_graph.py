"""The graph that a command was given: a named one, or the user's own tables."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nlgnn.cli.console import column_table, errors
from nlgnn.cli.options import NOT_IN_GRAPHML, NOT_IN_NPZ, ROLES, TABLE_FLAGS
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.splits import GROUP, TIME
from nlgnn.graph.store_files import HEADER, is_store

if TYPE_CHECKING:
    from nlgnn.datasets import Dataset
    from nlgnn.graph.graph import Graph
    from nlgnn.tables import TableGraph
    from nlgnn.tables.source import OwnTables


def own_tables(settings: dict[str, Any]) -> OwnTables | None:
    """Take the user's own tables out of the settings of a command; return None if there are none."""
    given = {name: value for name in TABLE_FLAGS if (value := settings.pop(name, None)) is not None}
    if names_store(settings.get("graph")):
        given.setdefault("graph_file", Path(settings["graph"]))
    if not given:
        return None
    if not given.keys() & {"nodes", "edges", "graph_file"}:
        flag = f"--{next(iter(given)).replace('_', '-')}"
        raise OptionError(f"{flag} is given without tables.", "Give --nodes, --edges or both, or --graph-file.")
    check_protocol_of_columns(given, settings.get("splits"))
    from nlgnn.tables.column_choice import parsed_kinds
    from nlgnn.tables.graph_files import check_graph_file, has_columns
    from nlgnn.tables.source import OwnTables

    if path := given.get("graph_file"):
        check_graph_file(path)
        unfit = NOT_IN_GRAPHML if has_columns(path) else NOT_IN_NPZ
        for name in given.keys() & (unfit | {"directed_edges"} if is_store(path) else unfit):
            flag = f"--{name.replace('_', '-')}"
            why = "which states the direction" if name == "directed_edges" else "which has no such columns"
            raise OptionError(f"{flag} does not apply to {path}, {why}.", f"Leave {flag} out.")
    roles: dict[str, Any] = {ROLES[name]: value for name, value in given.items() if name != "kind"}
    roles |= {name: tuple(roles[name]) for name in ("drop", "keep") if name in roles}
    return OwnTables.at(**roles, kind=parsed_kinds(given.get("kind", ())))


def check_protocol_of_columns(given: Mapping[str, Any], protocol: str | None) -> None:
    """Raise if a column decides the splits, and something else too."""
    for name, own in (("time_column", TIME), ("group_column", GROUP)):
        if name in given:
            others = {"--split-column": given.get("split_column"), "--splits": protocol if protocol != own else None}
            for flag, value in others.items():
                if value is not None:
                    column = f"--{name.replace('_', '-')}"
                    raise OptionError(f"{column} and {flag} {value} both say how to split.", "Leave one of them out.")
            return


def names_store(graph: object) -> bool:
    """Return whether the graph of a command is the folder of a store; the name of a graph has precedence."""
    if not isinstance(graph, str) or not is_store(graph):
        return False
    from nlgnn.datasets import describe

    try:
        describe(graph)
    except DataError:
        return True
    return False


def check_label(given: Mapping[str, Any]) -> None:
    """Raise if tables are given without the column of their labels."""
    if given.get("graph_file") is not None and is_store(given["graph_file"]):
        return
    if given.get("label") is None and not str(given.get("graph_file")).lower().endswith(".npz"):
        raise OptionError("No label column was given.", "Pass --label COLUMN. Blank cells are unknown labels.")


class GivenGraph(NamedTuple):
    """The graph that a command was given.

    Attributes:
        name: The name of the graph.
        protocol: The splits that it is trained on by default.
        load: Loads the graph.
        tables: The files of a user's own graph.
        encoder: The feature encoder of a user's own graph, as JSON.
        notes: Remarks from reading a user's own graph.
    """

    name: str
    protocol: str
    load: Callable[[], Graph]
    tables: OwnTables | None = None
    encoder: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def given_graph(command: str, name: str | None, tables: OwnTables | None, allow_unverified: bool) -> GivenGraph:
    """Return the named graph, or read the user's own and print the remarks.

    Raises:
        OptionError: If no graph or two graphs are given.
        DataError: If there is no graph of that name, or the tables cannot be read.
    """
    if tables is not None and name is not None and not (tables.is_store and names_store(name)):
        raise OptionError(f"Both the graph {name!r} and tables are given.", "Leave one of them out.")
    if tables is not None:
        return _read(tables)
    from nlgnn.datasets import load_graph

    dataset = describe_graph(command, name)
    load = partial(load_graph, dataset.name, allow_unverified=allow_unverified)
    return GivenGraph(dataset.name, dataset.default_protocol, load)


def describe_graph(command: str, name: str | None) -> Dataset:
    """Return the catalogue entry of a named graph; the error for a file name shows the flags to use."""
    from nlgnn.datasets import describe

    if name is None:
        how = f"Name one (`nlgnn datasets` lists them): nlgnn {command} texas. Or give --nodes, --edges and --label."
        raise OptionError("No graph is named.", how)
    try:
        return describe(name)
    except DataError:
        from nlgnn.tables.graph_files import GRAPH_FILES, has_columns
        from nlgnn.tables.table_files import TABLE_FILES

        if os.path.isdir(name):
            what = f"{name} is a folder, but no graph store: it has no {HEADER}."
            raise OptionError(what, "Name a folder that `nlgnn store` wrote.") from None

        if not (os.path.isfile(name) or name.lower().endswith((*TABLE_FILES, *GRAPH_FILES))):
            raise
        flag, others = ("--graph-file", "") if name.lower().endswith(GRAPH_FILES) else ("--nodes", " --edges FILE")
        others += " --label COLUMN" * has_columns(name)
        raise OptionError(
            f"{name} is a file, not the name of a graph.",
            f"Give your own graph by flags: nlgnn {command} {flag} {shlex.quote(name)}{others}",
        ) from None


def _read(tables: OwnTables) -> GivenGraph:
    from nlgnn.models.build import default_protocol

    check_label({"label": tables.label, "graph_file": tables.graph_file})
    found = tables.read()
    if found.graph.num_classes == 0:
        raise DataError(
            f"{tables.graph_file} holds no labels.", "Add an array `labels` of class numbers (-1: unknown)."
        )
    encoder = None if found.encoder is None else json.loads(found.encoder.to_json())
    protocol = default_protocol(found.graph)
    return GivenGraph(tables.name, protocol, lambda: found.graph, tables, encoder, tell_findings(found))


def tell_findings(found: TableGraph) -> tuple[str, ...]:
    """Print notes, columns and warnings about a user's tables, and return the notes and warnings."""
    warnings = tuple(f"warning: {warning}" for warning in found.warnings)
    for sentence in found.notes:
        errors.print(sentence, soft_wrap=True, markup=False)
    if found.columns:
        errors.print(column_table(found.columns))
    for sentence in warnings:
        errors.print(sentence, soft_wrap=True, markup=False)
    return (*found.notes, *warnings)
