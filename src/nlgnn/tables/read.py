"""read_graph: a graph from a table of nodes and a table of edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl

from nlgnn.errors import OptionError, nearest
from nlgnn.graph.audit import listed
from nlgnn.graph.graph import Graph
from nlgnn.tables.edges import Edges, UnknownNodes, node_ids, read_edges
from nlgnn.tables.encoder import REASONS, FeatureEncoder
from nlgnn.tables.labels import likely_leaks, read_labels, read_splits
from nlgnn.tables.roles import NodeRoles, edge_roles, node_roles
from nlgnn.tables.structural import structural_table
from nlgnn.tables.table_files import read_table
from nlgnn.tables.values import Table


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph from a user's tables.

    Args:
        graph: The graph, whose nodes are named by their ids. Split columns become the protocol "column".
        encoder: The encoder of the features; None if the file holds features as numbers.
        notes: Sentences about what was found and decided.
        warnings: Sentences about what may be wrong.
    """

    graph: Graph
    encoder: FeatureEncoder | None
    notes: tuple[str, ...]
    warnings: tuple[str, ...]


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
    directed: bool = False,
    unknown_nodes: UnknownNodes = "error",
    name: str | None = None,
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
        directed: Whether the direction of edges has a meaning.
        unknown_nodes: The treatment of edges to ids without a row: an error, drop the edge, or add the node.
        name: The name of the graph; by default that of the file.
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
    if nodes is None and (label, id, split) != (None, None, None):
        raise OptionError(
            "A column of labels, ids or splits is named, but there is no table of nodes.",
            "Give one, with at least the columns of ids and labels.",
        )
    if edges is None and (source, target, weight) != (None, None, None):
        raise OptionError("A column of edges is named, but there is no table of edges.", "Give a table of edges.")
    ids, where = None, ""
    if nodes is not None:
        table = read_table(nodes, "the table of nodes")
        roles = node_roles(table, id, label, split, find_splits=encoder is None)
        ids, where = node_ids(table, roles.id), f"{table.source} ({'its rows' if roles.id is None else repr(roles.id)})"
    if edges is not None:
        edge_table = read_table(edges, "the table of edges")
        columns = edge_roles(edge_table, source, target, weight)
        found = read_edges(edge_table, columns, ids, where, unknown_nodes)
    elif ids is not None:
        found = Edges(ids, np.zeros((2, 0), np.int64), None, ())
    if nodes is None:  # the ids in the edges are the only column
        table, roles = table_of_ids(found.ids), NodeRoles(id="id")
    table = replace(table, added_rows=len(found.ids) - table.num_rows)
    labels = read_labels(table, roles.label, class_names)
    splits, split_notes = read_splits(table, roles.splits, labels.y)
    graph = Graph(
        np.zeros((len(found.ids), 0), np.float32),
        found.edge_index,
        labels.y,
        directed=directed,
        name=name or default_name(nodes, edges),
        class_names=labels.class_names,
        node_names=found.ids.cast(pl.String).to_list(),
        splits={"column": splits} if splits else {},
        edge_weight=found.weight,
    )
    made = make_features(graph, table, roles.features, encoder, standardise)
    no_edges = () if edges is not None else ("No edges were given: only features can help.",)
    return replace(
        made,
        notes=(*table.notes, *roles.notes, *found.notes, *labels.notes, *split_notes, *made.notes),
        warnings=(*no_edges, *labels.warnings, *made.warnings),
    )


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
    graph: Graph, table: Table, columns: tuple[str, ...], encoder: FeatureEncoder | None, standardise: bool
) -> TableGraph:
    """Return the graph with features of its nodes.

    Args:
        graph: The graph. Its features are ignored, and its labels only serve to warn of columns that reveal them.
        table: The table of nodes.
        columns: The columns that may become features.
        encoder: A fitted encoder; None to fit one.
        standardise: Whether a new encoder standardises numbers.
    """
    notes: list[str] = []
    leaks: list[str] = []
    if encoder is None and columns:
        fitted = FeatureEncoder.fit(table, columns, standardise=standardise)
        leaks = likely_leaks(table, fitted.columns, graph.y)
        notes += encoder_notes(fitted)
        encoder = fitted if fitted.columns else None
    elif encoder is not None:
        used = set() if encoder.structural else {column.name for column in (*encoder.columns, *encoder.left_out)}
        extra = [repr(column) for column in columns if column not in used]
        if extra:
            notes.append(f"{table.source}: not used, because the model was trained without: {listed(extra)}.")
    if encoder is not None and not encoder.structural:
        x = encoder.transform(table)
    else:
        frame, sentence = structural_table(graph)
        notes.append(sentence)
        encoder = encoder or FeatureEncoder.fit(frame, structural=True)
        x = encoder.transform(frame)
        if not encoder.columns:
            notes.append("All nodes have the same features, because all have the same links.")
            x = np.ones((graph.num_nodes, 1), np.float32)
    return TableGraph(replace(graph, x=x), encoder, tuple(notes), tuple(leaks))


def encoder_notes(encoder: FeatureEncoder) -> list[str]:
    """Return sentences about the features that the columns became."""
    kinds = Counter(column.kind for column in encoder.columns)
    made = ", ".join(f"{count} of kind {kind}" for kind, count in kinds.items())
    form = "sparse" if encoder.is_sparse else "dense"
    notes = [f"{len(encoder.columns)} columns became {encoder.num_slots} features ({made or 'none'}; {form})."]
    missing = [f"{column.name!r} ({column.missing})" for column in encoder.columns if column.missing]
    if missing:
        notes.append(f"Missing values, which are marked or averaged: {listed(missing)}.")
    hashed = [repr(column.name) for column in encoder.columns if column.kind == "text"]
    if hashed:
        notes.append(f"Read as text, words hashed: {listed(hashed)}.")
    for reason, words in REASONS.items():
        names = [repr(column.name) for column in encoder.left_out if column.reason == reason]
        if names:
            notes.append(f"Left out, {words}: {listed(names)}.")
    return notes
