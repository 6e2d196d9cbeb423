"""OwnTables: the files of a user's own graph, which run folders store so that training can be resumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nlgnn.errors import DataError
from nlgnn.tables import FeatureEncoder, Table, TableGraph, read_graph, read_graph_file, read_table, stack_tables
from nlgnn.tables.graph_files import has_columns, read_graphml
from nlgnn.tables.read import default_name
from nlgnn.tables.roles import edge_roles, node_roles
from nlgnn.tables.table_files import open_content


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
        named |= {"split-column": self.split, "weight-column": self.weight}
        named |= {"unknown-nodes": None if self.unknown_nodes == "error" else self.unknown_nodes}
        words = [word for flag, value in named.items() if value is not None for word in (f"--{flag}", value)]
        return words + ["--directed-edges"] * self.directed

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
            directed=self.directed or None,  # None: as the file says
            name=self.name,
        )

    def read_again(self, folder: Path) -> TableGraph:
        """Read the graph for a run folder that was trained on it."""
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

    @property
    def id_column(self) -> str | None:
        """The column of ids, named or found; None if nodes are named by row numbers or by edges alone."""
        if self.nodes is None:
            return None
        return node_roles(read_table(self.nodes), self.id, self.label, self.split, find_splits=True).id

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
            of_edges = edge_roles(read_table(self.edges), self.source, self.target, self.weight)
            roles |= {"source": of_edges.source, "target": of_edges.target, "weight": of_edges.weight}
        # Stacking would fill an absent column with missing values.
        for name, needed in {"nodes": ("id",), "edges": ("source", "target", "weight")}.items():
            for role in needed if name in added else ():
                if roles[role] is not None:
                    added[name].require(roles[role], f"the {role}, as in training")
        if "nodes" in added and not encoder.structural:
            encoder.require(added["nodes"])
        for name, table in added.items():
            roles[name] = stack_tables(read_table(roles[name]), table)
        return read_graph(**roles, name=self.name, encoder=encoder, class_names=class_names)
