"""OwnTables: the files of a user's own graph, which run folders store so that training can be resumed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nlgnn.errors import DataError
from nlgnn.graph.store_files import is_store
from nlgnn.tables import FeatureEncoder, Table, TableGraph, read_graph, read_graph_file, read_table, stack_tables
from nlgnn.tables.column_choice import ColumnChoice
from nlgnn.tables.graph_files import has_columns, read_graphml
from nlgnn.tables.read import default_name
from nlgnn.tables.roles import edge_roles, node_roles
from nlgnn.tables.table_files import open_content
from nlgnn.tables.time_columns import Times, read_times


@dataclass(frozen=True)
class OwnTables:
    """The paths of tables and the roles of their columns.

    Args:
        nodes: The table of nodes.
        edges: The table of edges.
        label: The column of labels.
        id: The column of node ids.
        source: The column of sources of edges.
        target: The column of targets of edges.
        split: The column of splits.
        weight: The column of edge weights.
        directed: Whether the direction of edges has a meaning.
        unknown_nodes: The treatment of edges to unknown ids: error, drop or add.
        graph_file: A graph file instead of tables.
        drop: The columns of nodes that are left out.
        keep: The only columns of nodes that become features; all of them if it is empty.
        kind: The kinds of some columns of nodes.
        drop_leaks: Whether columns that give away the label are left out.
        time: The column of times of nodes, for a split by time.
        group: The column of groups, each of which is in one part of a split.
        edge_time: The column of times of edges.
        edge_type: The column of types of edges.
    """

    nodes: str | None = None
    edges: str | None = None
    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    split: str | None = None
    weight: str | None = None
    directed: bool = False
    unknown_nodes: str = "error"
    graph_file: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    kind: dict[str, str] = field(default_factory=dict)
    drop_leaks: bool = False
    time: str | None = None
    group: str | None = None
    edge_time: str | None = None
    edge_type: str | None = None

    @classmethod
    def at(
        cls,
        nodes: str | Path | None = None,
        edges: str | Path | None = None,
        graph_file: str | Path | None = None,
        **roles: Any,
    ) -> OwnTables:
        """Return the tables with absolute paths, which are valid in every folder."""
        whole = [None if path is None else str(Path(path).absolute()) for path in (nodes, edges, graph_file)]
        return cls(nodes=whole[0], edges=whole[1], graph_file=whole[2], **roles)

    @property
    def name(self) -> str:
        """The name of the graph."""
        return default_name(self.graph_file or self.nodes, self.edges)

    @property
    def flags(self) -> list[str]:
        """The options of `nlgnn train`."""
        named = {"graph-file": self.graph_file, "nodes": self.nodes, "edges": self.edges, "label": self.label}
        named |= {"id-column": self.id, "source-column": self.source, "target-column": self.target}
        named |= {"split-column": self.split, "weight-column": self.weight, "time-column": self.time}
        named |= {"group-column": self.group, "edge-time-column": self.edge_time}
        named |= {"edge-type-column": self.edge_type}
        named |= {"unknown-nodes": None if self.unknown_nodes == "error" else self.unknown_nodes}
        words = [word for flag, value in named.items() if value is not None for word in (f"--{flag}", value)]
        chosen = [("drop", name) for name in self.drop] + [("keep", name) for name in self.keep]
        chosen += [("kind", f"{name}={kind}") for name, kind in self.kind.items()]
        words += [f"--{flag}={value}" for flag, value in chosen]  # names may begin with a hyphen
        return words + ["--drop-leaks"] * self.drop_leaks + ["--directed-edges"] * self.directed

    @property
    def split_columns(self) -> tuple[str | None, ...]:
        """The columns that decide how models are split and trained."""
        return self.split, self.time, self.group, self.edge_time

    @property
    def choice(self) -> ColumnChoice:
        """The user's choice of columns."""
        return ColumnChoice(tuple(self.drop), tuple(self.keep), self.kind, self.drop_leaks)

    @property
    def is_store(self) -> bool:
        """True if the graph is in a graph store."""
        return self.graph_file is not None and is_store(self.graph_file)

    @property
    def has_columns(self) -> bool:
        """True if there are columns that can be named."""
        return self.graph_file is None or has_columns(self.graph_file)

    def read(self) -> TableGraph:
        """Read the graph."""
        if self.graph_file is None:
            return read_graph(**self._roles(), name=self.name)
        return read_graph_file(
            self.graph_file,
            label=self.label,
            split=self.split,
            weight=self.weight,
            time=self.time,
            group=self.group,
            edge_time=self.edge_time,
            edge_type=self.edge_type,
            directed=self.directed or None,  # None: as the file says
            name=self.name,
            drop=self.drop,
            keep=self.keep,
            kind=self.kind,
            drop_leaks=self.drop_leaks,
        )

    def read_again(self, folder: Path, encoder: dict[str, Any] | None = None) -> TableGraph:
        """Read the graph for a run folder that was trained on it.

        Args:
            folder: The run folder.
            encoder: The encoder of the training as JSON; one of another version of this package is refused.
        """
        if encoder is not None:
            FeatureEncoder.from_json(json.dumps(encoder))
        for path in (self.nodes, self.edges, self.graph_file):
            if path is not None and not Path(path).exists():
                raise DataError(
                    f"{folder} was trained on {path}, which is not there any more.",
                    f"Restore the file, or, if it was moved, write its new place into {folder / 'config.json'}, under "
                    '"tables". Its content is compared with the data of training.',
                )
        return self.read()

    def _roles(self) -> dict[str, Any]:
        roles = asdict(self)
        del roles["graph_file"]
        return roles

    def node_table(self) -> Table | None:
        """Return the table of nodes; None if there are only edges or arrays."""
        if self.nodes is not None:
            return read_table(self.nodes)
        if self.graph_file is None or not self.has_columns:
            return None
        return read_table(read_graphml(open_content(Path(self.graph_file)))[0])

    def node_times(self) -> Times | None:
        """Return the times of the rows of the table of nodes; None without a column of times."""
        table = None if self.time is None else self.node_table()
        return None if table is None or self.time is None else read_times(table, self.time)

    @property
    def id_column(self) -> str | None:
        """The column of ids, named or found; None if nodes are named by row numbers or by edges alone."""
        if self.nodes is None:
            return None
        table = read_table(self.nodes)
        return node_roles(table, self.id, self.label, self.split, True, self.choice, self.time, self.group).id

    def read_with(
        self, nodes: str | Path | None, edges: str | Path | None, encoder: FeatureEncoder, class_names: Sequence[str]
    ) -> TableGraph:
        """Read the graph with further nodes and edges.

        Args:
            nodes: A table of further nodes.
            edges: A table of further edges.
            encoder: The encoder of the trained model.
            class_names: The classes of the trained model.

        Returns:
            The graph, whose further nodes follow those of training.
        """
        roles = self._roles()
        further = {"nodes": nodes, "edges": edges}
        added = {name: read_table(path) for name, path in further.items() if path is not None}
        for name in added:
            if roles[name] is None:
                how = f"Train it with one, or leave --{name} out."
                raise DataError(f"The graph was trained without a table of {name}.", how)
        # The roles of columns are those that the files of training had.
        roles["id"] = self.id_column
        if self.edges is not None:
            of_edges = edge_roles(
                read_table(self.edges), self.source, self.target, self.weight, self.edge_time, self.edge_type
            )
            roles |= {"source": of_edges.source, "target": of_edges.target, "weight": of_edges.weight}
        # Stacking would fill an absent column with missing values.
        for name, needed in {"nodes": ("id",), "edges": ("source", "target", "weight", "edge_type")}.items():
            for role in needed if name in added else ():
                if roles[role] is not None:
                    added[name].require(roles[role], f"the {role}, as in training")
        if "nodes" in added and not encoder.structural:
            encoder.require(added["nodes"])
        for name, table in added.items():
            roles[name] = stack_tables(read_table(roles[name]), table)
        return read_graph(**roles, name=self.name, encoder=encoder, class_names=class_names)
