"""read_graph: a graph from a table of nodes and a table of edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl

from nlgnn.errors import OptionError, nearest
from nlgnn.graph.audit import listed
from nlgnn.graph.graph import Graph
from nlgnn.tables.column_choice import ColumnChoice, dropping
from nlgnn.tables.edges import Edges, UnknownNodes, node_ids, read_edges
from nlgnn.tables.encoder import FeatureEncoder, Row
from nlgnn.tables.labels import labels_in_use, likely_leaks, read_labels, read_splits
from nlgnn.tables.roles import NodeRoles, edge_roles, node_roles
from nlgnn.tables.structural import structural_table
from nlgnn.tables.table_files import read_table
from nlgnn.tables.time_columns import OwnSplits, column_splits, with_later_edges
from nlgnn.tables.values import NoRowsError, Table


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph from a user's tables.

    Args:
        graph: The graph, whose nodes are named by their ids. Split columns become the protocol "column".
        encoder: The encoder of the features; None if the file holds features as numbers.
        notes: Sentences about what was found and decided.
        warnings: Sentences about what may be wrong.
        columns: Each column of the table of nodes with its kind, its number of features and of missing values, and
            remarks.
    """

    graph: Graph
    encoder: FeatureEncoder | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    columns: tuple[Row, ...] = ()


def read_graph(
    nodes: object = None,
    edges: object = None,
    *,
    label: str | None = None,
    id: str | None = None,
    source: str | None = None,
    target: str | None = None,
    split: str | None = None,
    weight: str | None = None,
    time: str | None = None,
    group: str | None = None,
    edge_time: str | None = None,
    edge_type: str | None = None,
    directed: bool = False,
    unknown_nodes: UnknownNodes = "error",
    name: str | None = None,
    drop: Sequence[str] | str = (),
    keep: Sequence[str] | str = (),
    kind: Mapping[str, str] | None = None,
    drop_leaks: bool = False,
    standardise: bool = True,
    encoder: FeatureEncoder | None = None,
    class_names: Sequence[str] | None = None,
) -> TableGraph:
    """Read a graph from tables: paths (CSV, TSV, Parquet, JSON lines) or data frames.

    Columns that are not named are found by name or position, and `notes` reports which. All columns of nodes except id,
    label and splits become features. Without any, features are computed from the edges.

    Args:
        nodes: A table with one row per node; None to use the ids in the edges as nodes.
        edges: A table with one row per edge; None for a graph without edges.
        label: The column of labels. Blank cells are unknown labels.
        id: The column of node ids, which the edges refer to.
        source: The column of edges with the id of the source.
        target: The column of edges with the id of the target.
        split: A column of train, val and test; `split` also finds split_0, split_1, …
        weight: A column of edge weights, which are numbers from 0 on. Weights of repeated edges add up; models that
            ignore the direction use the larger weight of the two directions.
        time: A column of dates or numbers. The earliest labelled nodes are for training, the next for validation and
            the latest for test (protocol "time"). It becomes a feature only if `keep` or `kind` names it.
        group: A column of groups, such as households, each of which is in one part of a split (protocol "group", or
            "time" with a column of times). It becomes a feature only if `keep` or `kind` names it.
        edge_time: A column of edges with their times, for a split by time. Models are trained and validated without the
            edges of the test period, `Graph.later_edges`.
        edge_type: A column of edges with their types, of which models that can use them describe neighbours by type. At
            most 20 types are told apart.
        directed: Whether the direction of edges has a meaning.
        unknown_nodes: The treatment of edges to ids without a row: an error, drop the edge, or add the node.
        name: The name of the graph; by default that of the file.
        drop: Columns of nodes that are left out.
        keep: The only columns of nodes that become features; by default all of them.
        kind: The kinds of some columns: number, category, date, text, list or ignore. Kinds of other columns are found
            from their values.
        drop_leaks: Whether columns that nearly determine the label are left out.
        standardise: Scale numbers to mean 0 and standard deviation 1.
        encoder: A fitted encoder for new nodes. Its columns must be there, and split columns are not searched for.
        class_names: The classes of a trained model. Other labels are then an error.

    Returns:
        The graph with its encoder, notes and warnings.

    Raises:
        DataError: If a table cannot be used. The error names file, line and column.
        OptionError: If arguments contradict each other.

    Example:
        >>> pages = pl.DataFrame({"id": ["a", "b", "c"], "size": [1, 2, 4], "topic": ["x", "y", None]})
        >>> links = pl.DataFrame({"source": ["a", "b"], "target": ["b", "c"]})
        >>> read_graph(pages, links, label="topic").graph
        Graph('graph': 3 nodes, 2 edges, 1 features, 2 classes)
    """
    if nodes is None and edges is None:
        raise OptionError("Neither nodes nor edges were given.", "Give a table of nodes, of edges, or both.")
    if unknown_nodes not in get_args(UnknownNodes):
        how = nearest(str(unknown_nodes), list(get_args(UnknownNodes)))
        raise OptionError(f"unknown_nodes={unknown_nodes!r} is unknown.", how)
    choice = ColumnChoice.of(drop, keep, kind, drop_leaks)
    if nodes is None and ((label, id, split, time, group) != (None,) * 5 or choice):
        raise OptionError(
            "A column of labels, ids, splits, times, groups or features is named, but there is no table of nodes.",
            "Give one, with at least the columns of ids and labels.",
        )
    if split is not None and (time, group) != (None, None):
        raise OptionError(
            f"The splits follow both the column {split!r} and {time or group!r}.",
            "Name a column of splits or of times.",
        )
    if edge_time is not None and time is None:
        raise OptionError("Edges have times, but nodes have none.", "Name a column of times of nodes (--time-column).")
    if edges is None and (source, target, weight, edge_time, edge_type) != (None,) * 5:
        raise OptionError("A column of edges is named, but there is no table of edges.", "Give a table of edges.")
    ids, where = None, ""
    if nodes is not None:
        table = read_table(nodes, "the table of nodes")
        roles = node_roles(table, id, label, split, encoder is None, choice, time, group)
        ids, where = node_ids(table, roles.id), f"{table.source} ({'its rows' if roles.id is None else repr(roles.id)})"
    edge_table, no_edges = None, "No edges were given"
    if edges is not None:
        try:
            edge_table = read_table(edges, "the table of edges")
        except NoRowsError as error:
            if nodes is None:
                raise
            no_edges = f"{error.what.removesuffix('.')}, so that there are no edges"
    if edge_table is not None:
        columns = edge_roles(edge_table, source, target, weight, edge_time if encoder is None else None, edge_type)
        found = read_edges(edge_table, columns, ids, where, unknown_nodes)
    elif ids is not None:
        found = Edges(ids, np.zeros((2, 0), np.int64), None, ())
    if nodes is None:  # the ids in the edges are the only column
        table, roles = table_of_ids(found.ids), NodeRoles(id="id")
    table = replace(table, added_rows=len(found.ids) - table.num_rows)
    labels = read_labels(table, roles.label, class_names)
    own = OwnSplits({}) if encoder is not None else column_splits(table, roles, labels.y)
    splits, split_notes = ((), []) if own.splits else read_splits(table, roles.splits, labels.y)
    graph = Graph(
        np.zeros((len(found.ids), 0), np.float32),
        found.edge_index,
        labels.y,
        directed=directed,
        name=name or default_name(nodes, edges),
        class_names=labels.class_names,
        node_names=found.ids.cast(pl.String).to_list(),
        splits={"column": splits} if splits else own.splits,
        edge_weight=found.weight,
        edge_type=found.type,
        edge_types=found.types,
    )
    graph, time_note = with_later_edges(graph, found.time, own, edge_time)
    made = make_features(graph, table, roles, encoder, standardise, drop_leaks)
    without_edges = [] if edge_table is not None else [f"{no_edges}: only features can help."]
    return replace(
        made,
        notes=(
            *(*table.notes, *roles.notes, *found.notes, *labels.notes, *split_notes, *own.notes),
            *((time_note,) if time_note else ()),
            *made.notes,
        ),
        warnings=(*without_edges, *labels.warnings, *made.warnings),
        columns=in_table_order((*role_rows(roles), *made.columns), table),
    )


def role_rows(roles: NodeRoles) -> list[Row]:
    """Return rows for the columns that are no features."""
    names = {roles.id: "ids", roles.label: "labels"} | dict.fromkeys(roles.splits, "splits")
    names |= {roles.time: "times", roles.group: "groups"}
    rows = [(name, kind) for name, kind in names.items() if name is not None and name not in roles.features]
    return [{"column": name, "kind": kind, "slots": 0, "missing": 0, "remark": ""} for name, kind in rows]


def in_table_order(rows: Iterable[Row], table: Table) -> tuple[Row, ...]:
    """Return rows about columns in the order of the table; those that it lacks come last."""
    places = {name: place for place, name in enumerate(table.columns)}
    return tuple(sorted(rows, key=lambda row: places.get(str(row["column"]), len(places))))


def table_of_ids(ids: pl.Series) -> Table:
    """Return the table of nodes of which only the ids are known."""
    return Table.from_frame(pl.DataFrame({"id": ids}), "the list of nodes")


def default_name(nodes: object, edges: object) -> str:
    """Return the name of the first file, but never that of a named graph, whose published settings do not apply."""
    from nlgnn.datasets.catalog import CATALOG

    paths = [Path(source) for source in (nodes, edges) if isinstance(source, (str, Path))]
    stem = paths[0].name.partition(".")[0] if paths else ""
    return f"own-{stem}" if stem in CATALOG else stem or "graph"


def make_features(
    graph: Graph,
    table: Table,
    roles: NodeRoles,
    encoder: FeatureEncoder | None,
    standardise: bool,
    drop_leaks: bool = False,
) -> TableGraph:
    """Return the graph with features of its nodes.

    Args:
        graph: The graph. Its features are ignored. Its labels only serve to find columns that reveal them, without
            those of nodes that its splits only test.
        table: The table of nodes.
        roles: The columns that may become features, and their kinds.
        encoder: A fitted encoder; None to fit one.
        standardise: Whether a new encoder standardises numbers.
        drop_leaks: Whether columns that reveal the label are left out.
    """
    notes: list[str] = []
    warnings: list[str] = []
    if encoder is None and roles.features:
        fitted = FeatureEncoder.fit(table, roles.features, kinds=roles.kinds, standardise=standardise)
        splits = [split for fixed in graph.splits.values() for split in fixed]
        leaks = likely_leaks(table, fitted.columns, labels_in_use(graph.y, splits))
        if drop_leaks:
            fitted = fitted.without(leaks, "leak")
        else:
            warnings += [leak_warning(name, share) for name, share in leaks.items()]
        notes.append(encoder_note(fitted))
        encoder = fitted
    elif encoder is not None:
        used = set() if encoder.structural else {column.name for column in (*encoder.columns, *encoder.left_out)}
        extra = [repr(column) for column in roles.features if column not in used]
        if extra:
            notes.append(f"{table.source}: not used, because the model was trained without: {listed(extra)}.")
    columns = () if encoder is None or encoder.structural else tuple(encoder.describe())
    if encoder is not None and encoder.columns and not encoder.structural:
        x = encoder.transform(table)
    else:
        frame, sentence = structural_table(graph.past)
        notes.append(sentence)
        if encoder is None or not encoder.structural:
            encoder = FeatureEncoder.fit(frame, structural=True)
        x = encoder.transform(frame)
        if not encoder.columns:
            notes.append("All nodes have the same features, because all have the same links.")
            x = np.ones((graph.num_nodes, 1), np.float32)
    return TableGraph(replace(graph, x=x, row_norm=encoder.row_norm), encoder, tuple(notes), tuple(warnings), columns)


def leak_warning(name: str, share: float) -> str:
    """Return the warning about a column that reveals the label, with the flag that leaves it out."""
    return (
        f"The column {name!r} alone tells {share:.1%} of the labels. If it is not known before the label is, leave it "
        f"out by {dropping(name)} (--drop-leaks leaves out all such columns)."
    )


def encoder_note(encoder: FeatureEncoder) -> str:
    """Return the sentence about the features that the columns became."""
    kinds = Counter(column.kind for column in encoder.columns)
    made = ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items())
    form = "sparse" if encoder.is_sparse else "dense"
    columns, features = len(encoder.columns), encoder.num_slots
    became = f"{columns} column{'s' * (columns != 1)} became {features} feature{'s' * (features != 1)}"
    return f"{became} ({made or 'none'}; {form})."
