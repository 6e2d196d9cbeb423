"""Which graph a command is about: a named one, or the user's own, whose flags several commands have."""

from __future__ import annotations

import inspect
import json
import os
import shlex
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from nlgnn.commands.terminal import errors
from nlgnn.errors import DataError, OptionError

if TYPE_CHECKING:
    from nlgnn.datasets import Dataset
    from nlgnn.datasets.own import OwnTables
    from nlgnn.datasets.tables import TableGraph
    from nlgnn.graph.graph import Graph

Flags = Mapping[str, tuple[Any, Any]]  # by name: the type, and what typer is to know

GraphName = Annotated[str | None, typer.Argument(help="A named graph: see `nlgnn datasets`.", show_default=False)]


def _flag(kind: type, words: str, default: str | bool = False, *names: str) -> tuple[Any, Any]:
    return kind, typer.Option(*names, help=words, show_default=default)


FOUND = "found by name or position"
TABLE_FLAGS: Flags = {
    "nodes": _flag(Path, "Your own graph: a table with a row a node (CSV, TSV, Parquet, JSON lines)."),
    "edges": _flag(Path, "A table with a row an edge."),
    "graph_file": _flag(Path, "Or both in one file: .graphml or .npz."),
    "label": _flag(str, "The column of labels; blank means unknown."),
    "id_column": _flag(str, "The column by which edges name nodes.", FOUND),
    "source_column": _flag(str, "Where an edge comes from.", FOUND),
    "target_column": _flag(str, "Where it goes to.", FOUND),
    "weight_column": _flag(str, "The weight of an edge.", "found by name, else 1"),
    "split_column": _flag(str, "A column of train, val and test.", "found by name, else random splits"),
    "directed_edges": _flag(bool, "The direction of edges means something.", False, "--directed-edges"),
    "unknown_nodes": _flag(str, "Edges to nodes that are no rows: error, drop them, or add the nodes.", "error"),
}
# The same as keys of a TOML file.
TABLE_KEYS = {name: str if kind is Path else kind for name, (kind, _) in TABLE_FLAGS.items()}
OF_TABLES = {"nodes", "edges", "id_column", "source_column", "target_column", "unknown_nodes"}
OF_COLUMNS = {*OF_TABLES, "label", "split_column", "weight_column"}
ROLES = {name: name.removesuffix("_column") for name in TABLE_KEYS} | {"directed_edges": "directed"}


def with_flags(function: Callable[..., None], first: Flags, last: Flags | None = None) -> Callable[..., None]:
    """`function` with flags in place of its `**` argument: some before all others, some behind them."""
    own = inspect.signature(function, eval_str=True).parameters.values()
    named = [parameter for parameter in own if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
    before, behind = (
        [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
            )
            for name, (kind, option) in (flags or {}).items()
        ]
        for flags in (first, last)
    )
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in (*named[:1], *before, *named[1:], *behind)  # the graph comes first
    ]

    def command(**given: Any) -> None:
        function(**given)

    command.__doc__ = function.__doc__
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def own_tables(settings: dict[str, Any]) -> OwnTables | None:
    """The user's own graph, where its files are among the settings, which they are taken out of."""
    given = {name: value for name in TABLE_KEYS if (value := settings.pop(name, None)) is not None}
    if not given:
        return None
    files = {name: given.pop(name) for name in ("nodes", "edges", "graph_file") if name in given}
    if not files:
        raise OptionError(
            "something is said of tables, but none is given.", "Give --nodes, --edges or both, or --graph-file."
        )
    if "graph_file" in files:
        _check_graph_file(str(files["graph_file"]), [*files, *given])
    from nlgnn.datasets.own import OwnTables

    roles = {ROLES[name]: value for name, value in given.items()}
    return OwnTables.at(**files, **roles)


def _check_graph_file(path: str, given: list[str]) -> None:
    """Raise for a file of another kind, and for flags that do not go with it."""
    from nlgnn.datasets.tables.graph_files import check_graph_file, has_columns

    check_graph_file(path)
    misplaced = [name for name in given if name in (OF_TABLES if has_columns(path) else OF_COLUMNS)]
    if misplaced:
        flag = f"--{misplaced[0].replace('_', '-')}"
        raise OptionError(f"{flag} does not go with {path}, which has no such tables or columns.", f"Leave {flag} out.")


class GivenGraph(NamedTuple):
    """Its name, the protocol that goes with it, and what loads it; of a user's own also where it comes from, what made
    its features, and what was said of it."""

    name: str
    protocol: str
    load: Callable[[], Graph]
    tables: OwnTables | None = None
    encoder: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


def given_graph(command: str, name: str | None, tables: OwnTables | None, allow_unverified: bool) -> GivenGraph:
    """A user's own is read at once, and what was found is said."""
    if tables is not None:
        if name is not None:
            raise OptionError(f"{name!r} is named, and a graph of your own is given.", "Leave one of them out.")
        return _read(tables)
    if name is None:
        raise OptionError(
            "no graph is named.",
            f"Name one: nlgnn {command} texas. `nlgnn datasets` lists them. For your own give --nodes, --edges and "
            "--label.",
        )
    from nlgnn.datasets import load_graph

    dataset = _described(command, name)
    load = partial(load_graph, dataset.name, allow_unverified=allow_unverified)
    return GivenGraph(dataset.name, dataset.default_protocol, load)


def _described(command: str, name: str) -> Dataset:
    from nlgnn.datasets import describe

    try:
        return describe(name)
    except DataError:
        from nlgnn.datasets.tables.graph_files import GRAPH_FILES, has_columns
        from nlgnn.datasets.tables.table import TABLE_FILES

        if not (os.path.isfile(name) or name.lower().endswith((*TABLE_FILES, *GRAPH_FILES))):
            raise
        flag, others = ("--graph-file", "") if name.lower().endswith(GRAPH_FILES) else ("--nodes", " --edges FILE")
        others += " --label COLUMN" * has_columns(name)
        raise OptionError(
            f"{name} is a file, not the name of a graph.",
            f"Give your own graph by flags: nlgnn {command} {flag} {shlex.quote(name)}{others}",
        ) from None


def _read(tables: OwnTables) -> GivenGraph:
    from nlgnn.training.systems import default_protocol

    if tables.label is None and tables.has_columns:
        raise OptionError("no column of labels is named.", "Name it: --label COLUMN. Blank cells are unknown labels.")
    found = tables.read()
    if found.graph.num_classes == 0:
        raise DataError(
            f"{tables.graph_file} holds no labels.", "Add an array of class numbers, labels; -1 is unknown."
        )
    encoder = None if found.encoder is None else json.loads(found.encoder.to_json())
    protocol = default_protocol(found.graph)
    return GivenGraph(tables.name, protocol, lambda: found.graph, tables, encoder, tell_findings(found))


def tell_findings(found: TableGraph) -> tuple[str, ...]:
    """Warnings come last, for the eye; what was said."""
    sentences = (*found.notes, *(f"warning: {warning}" for warning in found.warnings))
    for sentence in sentences:
        errors.print(sentence, soft_wrap=True, markup=False)
    return sentences
