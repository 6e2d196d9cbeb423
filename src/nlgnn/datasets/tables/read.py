"""read_graph: from a table of nodes and a table of edges to a graph, and what was understood on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, get_args

import numpy as np
import polars as pl

from nlgnn.datasets.tables.edges import Edges, UnknownNodes, node_ids, read_edges
from nlgnn.datasets.tables.encoder import FeatureEncoder
from nlgnn.datasets.tables.features import make_features
from nlgnn.datasets.tables.labels import no_labels, read_labels
from nlgnn.datasets.tables.roles import NodeRoles, edge_roles, node_roles
from nlgnn.datasets.tables.split_columns import read_splits
from nlgnn.datasets.tables.table import Table, read_table, table_of_ids
from nlgnn.errors import OptionError, nearest
from nlgnn.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class TableGraph:
    """A graph from a user's tables.

    Args:
        graph: nodes are called by their ids; a split column becomes the protocol "column".
        encoder: what made the features; None where they came as numbers and were taken as they are.
        notes: what was found and decided, in plain sentences.
        warnings: what may be wrong.
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
    """A graph from tables: paths (CSV, TSV, Parquet, JSON lines) or data frames.

    Columns that are not named are found by name or position; `notes` says which. All columns of nodes but id, label
    and splits are features. Without any, features are made from the links.

    Args:
        nodes: one row a node; None = the nodes are those that the edges name.
        edges: one row an edge; None = no edges.
        label: the column of labels; blank = unknown.
        id: the column by which edges name nodes.
        source: the column of edges with the node that an edge comes from.
        target: the column with the node that it goes to.
        split: a column of train, val, test; `split` also finds split_0, split_1, …
        weight: a column of numbers from 0 on: how much an edge counts. Weights of edges that are given again add up; of
            a pair's two directions, where direction does not count, the larger one is taken.
        directed: whether the direction of edges means something.
        unknown_nodes: what to do with edges whose ends are no rows: an error, drop the edge, or add the node.
        name: of the graph; by default that of the file.
        standardise: bring numbers to mean 0 and deviation 1; without, they are taken as they are.
        encoder: one that was fitted before, for nodes never seen: features are made as they were then, its columns
            must be there, and split columns are not looked for.
        class_names: the classes of a trained model: a label that is none of them is an error.
    """
    if nodes is None and edges is None:
        raise OptionError("neither nodes nor edges were given.", "Give a table of nodes, of edges, or both.")
    if unknown_nodes not in get_args(UnknownNodes):
        how = nearest(str(unknown_nodes), list(get_args(UnknownNodes)))
        raise OptionError(f"unknown_nodes={unknown_nodes!r} is unknown.", how)
    if nodes is None and (label, id, split) != (None, None, None):
        raise OptionError(
            "a column of labels, ids or splits is named, but there is no table of nodes.",
            "Give one, with at least the columns of ids and labels.",
        )
    given = None if nodes is None else _read_nodes(nodes, id, label, split, find_splits=encoder is None)
    found = _read_edges(edges, source, target, weight, given, unknown_nodes)
    # Without a table of nodes, the ids that edges name are one.
    table, roles, _ = given or Nodes(table_of_ids(found.ids), NodeRoles(id="id"), found.ids)
    table = table.with_added_rows(len(found.ids) - table.num_rows)
    if roles.label is None:
        labels = no_labels(len(found.ids), class_names)
    else:
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
    features = make_features(graph, table, roles.features, encoder, standardise)
    no_edges = () if edges is not None else ("No edges were given: only features can help.",)
    return TableGraph(
        graph=replace(graph, x=features.x),
        encoder=features.encoder,
        notes=(*table.notes, *roles.notes, *found.notes, *labels.notes, *split_notes, *features.notes),
        warnings=(*no_edges, *labels.warnings, *features.warnings),
    )


class Nodes(NamedTuple):
    """A table of nodes, what its columns are, and the ids of its rows."""

    table: Table
    roles: NodeRoles
    ids: pl.Series


def _read_nodes(nodes: object, id: str | None, label: str | None, split: str | None, find_splits: bool) -> Nodes:
    table = read_table(nodes, "the table of nodes")
    roles = node_roles(table, id, label, split, find_splits)
    return Nodes(table, roles, node_ids(table, roles.id))


def _read_edges(
    edges: object,
    source: str | None,
    target: str | None,
    weight: str | None,
    nodes: Nodes | None,
    unknown_nodes: UnknownNodes,
) -> Edges:
    if edges is None:
        if (source, target, weight) != (None, None, None):
            raise OptionError("a column of edges is named, but there is no table of edges.", "Give one.")
        assert nodes is not None  # one of the tables is there
        return Edges(nodes.ids, np.zeros((2, 0), np.int64), None, ())
    table = read_table(edges, "the table of edges")
    roles = edge_roles(table, source, target, weight)
    if nodes is None:
        found = read_edges(table, roles, None, "", unknown_nodes)
    else:
        where = f"{nodes.table.source} ({'its rows' if nodes.roles.id is None else repr(nodes.roles.id)})"
        found = read_edges(table, roles, nodes.ids, where, unknown_nodes)
    return replace(found, notes=(*table.notes, *roles.notes, *found.notes))


def default_name(nodes: object, edges: object) -> str:
    """That of the first file; never that of a named graph, whose published settings are not for this one."""
    from nlgnn.datasets.catalog import CATALOG

    paths = [Path(source) for source in (nodes, edges) if isinstance(source, (str, Path))]
    stem = paths[0].name.partition(".")[0] if paths else ""
    return f"own-{stem}" if stem in CATALOG else stem or "graph"
