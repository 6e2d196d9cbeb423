"""OwnTables: where a user's own graph comes from. Run folders keep it, so that a training can be taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nlgnn.datasets.tables import (
    FeatureEncoder,
    Table,
    TableGraph,
    read_graph,
    read_graph_file,
    read_table,
    stack_tables,
)
from nlgnn.datasets.tables.files import open_content
from nlgnn.datasets.tables.graph_files import has_columns, read_graphml
from nlgnn.datasets.tables.read import default_name
from nlgnn.datasets.tables.roles import edge_roles, node_roles
from nlgnn.errors import DataError


@dataclass(frozen=True)
class OwnTables:
    """Paths, and which columns mean what; see `read_graph`. In place of tables, `graph_file`: see `read_graph_file`."""

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
        """With whole paths, so that they can be found from anywhere."""
        whole = [None if path is None else str(Path(path).absolute()) for path in (nodes, edges, graph_file)]
        return cls(nodes=whole[0], edges=whole[1], graph_file=whole[2], **roles)

    @property
    def name(self) -> str:
        return default_name(self.graph_file or self.nodes, self.edges)

    @property
    def flags(self) -> list[str]:
        """As `nlgnn train` takes them."""
        named = {"graph-file": self.graph_file, "nodes": self.nodes, "edges": self.edges, "label": self.label}
        named |= {"id-column": self.id, "source-column": self.source, "target-column": self.target}
        named |= {"split-column": self.split, "weight-column": self.weight}
        named |= {"unknown-nodes": None if self.unknown_nodes == "error" else self.unknown_nodes}
        words = [word for flag, value in named.items() if value is not None for word in (f"--{flag}", value)]
        return words + ["--directed-edges"] * self.directed

    @property
    def has_columns(self) -> bool:
        """Whether there is something to name."""
        return self.graph_file is None or has_columns(self.graph_file)

    def read(self) -> TableGraph:
        if self.graph_file is None:
            return read_graph(**self._roles(), name=self.name)
        return read_graph_file(
            self.graph_file,
            label=self.label,
            split=self.split,
            weight=self.weight,
            directed=self.directed or None,  # what the file says
            name=self.name,
        )

    def read_again(self, folder: Path) -> TableGraph:
        """For a run folder that was made of it."""
        for path in (self.nodes, self.edges, self.graph_file):
            if path is not None and not Path(path).exists():
                raise DataError(
                    f"{folder} was trained on {path}, which is not there any more.",
                    f"Put the file back, or, if it was moved, write its new place into {folder / 'config.json'}, under "
                    '"tables": what it holds is compared with what was trained on.',
                )
        return self.read()

    def _roles(self) -> dict[str, Any]:
        roles = asdict(self)
        del roles["graph_file"]
        return roles

    def node_table(self) -> Table | None:
        """The rows of nodes as they were given; None where there are links or arrays only."""
        if self.nodes is not None:
            return read_table(self.nodes)
        if self.graph_file is None or not self.has_columns:
            return None
        return read_table(read_graphml(open_content(Path(self.graph_file)))[0])

    @property
    def id_column(self) -> str | None:
        """As it was found, or named; None where nodes are called by their numbers, or by edges alone."""
        if self.nodes is None:
            return None
        return node_roles(read_table(self.nodes), self.id, self.label, self.split, find_splits=True).id

    def read_with(
        self, nodes: str | Path | None, edges: str | Path | None, encoder: FeatureEncoder, class_names: Sequence[str]
    ) -> TableGraph:
        """The graph with further nodes and edges."""
        roles = self._roles()
        further = {"nodes": nodes, "edges": edges}
        added = {name: read_table(path) for name, path in further.items() if path is not None}
        for name in added:
            if roles[name] is None:
                how = f"Train it with one, or leave --{name} out."
                raise DataError(f"the graph was trained without a table of {name}.", how)
        # Which columns mean what was decided on the files of training alone.
        roles["id"] = self.id_column
        if self.edges is not None:
            of_edges = edge_roles(read_table(self.edges), self.source, self.target, self.weight)
            roles |= {"source": of_edges.source, "target": of_edges.target, "weight": of_edges.weight}
        # A column that is absent from one of two tables would pass for missing values in it.
        for name, needed in {"nodes": ("id",), "edges": ("source", "target", "weight")}.items():
            for role in needed if name in added else ():
                _require(added[name], roles[role], role)
        if "nodes" in added and not encoder.structural:
            encoder.require(added["nodes"])
        for name, table in added.items():
            roles[name] = stack_tables(read_table(roles[name]), table)
        return read_graph(**roles, name=self.name, encoder=encoder, class_names=class_names)


def _require(table: Table, column: str | None, role: str) -> None:
    if column is not None and column not in table.columns:
        raise DataError(
            f"{table.source} has no column {column!r}, which the table of training has for the {role} of a row.",
            f"Name its columns as they were named then; it has {', '.join(map(repr, table.columns[:5]))}.",
        )
