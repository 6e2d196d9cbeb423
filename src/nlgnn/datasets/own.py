"""OwnTables: where a user's own graph comes from. Run folders keep it, so that a training can be taken up again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nlgnn.datasets.tables import FeatureEncoder, Table, TableGraph, read_graph, read_table, stack_tables
from nlgnn.datasets.tables.read import default_name
from nlgnn.datasets.tables.roles import edge_roles, node_roles
from nlgnn.errors import DataError


@dataclass(frozen=True)
class OwnTables:
    """Paths, and which columns mean what; see `read_graph`."""

    nodes: str | None = None
    edges: str | None = None
    label: str | None = None
    id: str | None = None
    source: str | None = None
    target: str | None = None
    split: str | None = None
    directed: bool = False
    unknown_nodes: str = "error"

    @classmethod
    def at(cls, nodes: str | Path | None, edges: str | Path | None, **roles: Any) -> OwnTables:
        """With whole paths, so that they can be found from anywhere."""
        whole = [None if path is None else str(Path(path).absolute()) for path in (nodes, edges)]
        return cls(nodes=whole[0], edges=whole[1], **roles)

    @property
    def name(self) -> str:
        return default_name(self.nodes, self.edges)

    @property
    def flags(self) -> list[str]:
        """As `nlgnn train` takes them."""
        named = {"nodes": self.nodes, "edges": self.edges, "label": self.label, "id-column": self.id}
        named |= {"source-column": self.source, "target-column": self.target, "split-column": self.split}
        named |= {"unknown-nodes": None if self.unknown_nodes == "error" else self.unknown_nodes}
        words = [word for flag, value in named.items() if value is not None for word in (f"--{flag}", value)]
        return words + ["--directed-edges"] * self.directed

    def read(self) -> TableGraph:
        return read_graph(**asdict(self), name=self.name)

    def read_with(
        self, nodes: str | Path | None, edges: str | Path | None, encoder: FeatureEncoder, class_names: Sequence[str]
    ) -> TableGraph:
        """The graph with further nodes and edges."""
        roles = asdict(self)
        if nodes is not None and not encoder.structural:
            encoder.require(read_table(nodes))  # absent from the stack of both, they would pass for missing values
        # Which columns mean what was decided on the files of training alone.
        if self.nodes is not None:
            roles["id"] = node_roles(read_table(self.nodes), self.id, self.label, self.split, find_splits=True).id
        if self.edges is not None:
            of_edges = edge_roles(read_table(self.edges), self.source, self.target, None)
            roles |= {"source": of_edges.source, "target": of_edges.target}
        for name, further in (("nodes", nodes), ("edges", edges)):
            if further is not None:
                roles[name] = _stacked(roles[name], str(further), name)
        return read_graph(**roles, name=self.name, encoder=encoder, class_names=class_names)


def _stacked(first: str | None, further: str, what: str) -> Table:
    """Two tables as one."""
    if first is None:
        how = f"Train it with one, or leave --{what} out."
        raise DataError(f"the graph was trained without a table of {what}.", how)
    return stack_tables(read_table(first), read_table(further))
