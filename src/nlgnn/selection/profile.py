"""Profile of a graph: size, homophily and warnings, before anything is trained.

The profile looks at all labels and decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.graph.audit import Audit, audit
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import (
    Agreement,
    chance_table,
    compatibility_matrix,
    homophily_by_class,
    homophily_by_degree,
    homophily_table,
)
from nlgnn.graph.splits import Split
from nlgnn.report.table import Rows, Section

MOST_CLASSES = 10  # A compatibility matrix of more classes is not shown.
MEASURES = {
    "node_homophily": "node homophily, H(G)",
    "edge_homophily": "edge homophily",
    "class_insensitive_homophily": "class-insensitive homophily",
    "adjusted_homophily": "adjusted homophily",
    "edge_label_informativeness": "label informativeness, edges",
    "node_label_informativeness": "label informativeness, nodes",
}
AGREEMENT = "Mean share of a node's labelled neighbours that have its label; nodes without any are left out."


@dataclass(frozen=True, eq=False)
class Profile:
    """Profile of a graph.

    Attributes:
        one_way_edges: Number of edges that go one way only; None for an undirected graph.
        weights: The smallest and the largest edge weight; None without weights.
        homophily: Value of each measure, by name.
        chance: Value of each measure with shuffled labels, by name.
        compatibility: Share of edges from each class to each class; rows sum to 1.
        by_degree: Agreement of neighbours by number of labelled neighbours.
        by_class: Agreement of neighbours by class.
    """

    name: str
    nodes: int
    edges: int
    one_way_edges: int | None
    weights: tuple[float, float] | None
    features: int
    class_names: tuple[str, ...]
    labelled: int
    protocol: str
    audit: Audit
    homophily: dict[str, float]
    chance: dict[str, float]
    compatibility: NDArray[np.float64]
    by_degree: tuple[Agreement, ...]
    by_class: tuple[Agreement, ...]

    def sections(self, matrix: bool = True) -> list[Section]:
        """Return the profile as tables; `matrix` says whether the compatibility matrix is one of them."""
        names = self.class_names
        measures = [
            {"measure": words, "value": f"{self.homophily[name]:.3f}", "chance": f"{self.chance[name]:.3f}"}
            for name, words in MEASURES.items()
        ]
        joined = [
            {"of class": own, **{other: f"{share:.2f}" for other, share in zip(names, shares, strict=True)}}
            for own, shares in zip(names, self.compatibility.tolist(), strict=True)
        ]
        shown_joined = joined if matrix and len(names) <= MOST_CLASSES else []
        ignored = "direction" if self.weights is None else "direction and, in all measures of agreement, weights"
        warnings = [{"warning": sentence} for sentence in self.audit.warnings()]
        by_chance = "Over all labelled nodes. Chance: the same with labels shuffled, mean of 10 shuffles."
        shares = "Share of the edges of the row's class that lead to the column's class."
        tables: list[tuple[str, Rows, str]] = [
            (f"Graph {self.name}", self._statistics(), f"Edges are distinct, without loops; {ignored} ignored."),
            ("", warnings, f"Splits looked at: {self.audit.num_splits} of protocol {self.protocol}."),
            ("Homophily", measures, by_chance),
            ("Edges between classes", shown_joined, shares),
            ("Homophily by number of labelled neighbours", _rows("labelled neighbours", self.by_degree), AGREEMENT),
            ("Homophily by class", _rows("class", self.by_class), AGREEMENT),
        ]
        return [Section(*table) for table in tables if table[1]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        values = {**vars(self), "compatibility": self.compatibility.tolist()}
        values["audit"] = {**asdict(self.audit), "warnings": self.audit.warnings()}
        for groups in ("by_degree", "by_class"):
            values[groups] = [group._asdict() for group in values[groups]]
        return values

    def _statistics(self) -> Rows:
        direction = "none" if self.one_way_edges is None else f"{self.one_way_edges:,} edges go one way only"
        values = {
            "nodes": f"{self.nodes:,}",
            "with a label": f"{self.labelled:,}",
            "edges": f"{self.edges:,}",
            "direction": direction,
            **({} if self.weights is None else {"weights of edges": "{:.4g} to {:.4g}".format(*self.weights)}),
            "neighbours per node": f"{2 * self.edges / self.nodes:.1f}",
            "features": f"{self.features:,}",
            "classes": str(len(self.class_names)),
        }
        return [{"statistic": name, "value": value} for name, value in values.items()]


def _rows(what: str, groups: Sequence[Agreement]) -> Rows:
    return [
        {
            what: group.group,
            "nodes": f"{group.nodes:,}",
            "same label": f"{group.homophily:.3f}",
            "chance": f"{group.chance:.3f}",
        }
        for group in groups
    ]


def profile_of(graph: Graph, splits: Sequence[Split]) -> Profile:
    """Return the profile of a graph; the splits are audited as well."""
    weights = graph.undirected_weights.data if graph.edge_weight is not None else np.empty(0)
    one_way = 2 * graph.num_edges - int(graph.directed_adjacency.nnz) if graph.directed else None
    return Profile(
        name=graph.name,
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        one_way_edges=one_way,
        weights=(float(weights.min()), float(weights.max())) if len(weights) else None,
        features=graph.num_features,
        class_names=graph.class_names,
        labelled=int(graph.labelled.sum()),
        protocol=splits[0].protocol,
        audit=audit(graph, splits),
        homophily=homophily_table(graph),
        chance=chance_table(graph),
        compatibility=compatibility_matrix(graph),
        by_degree=tuple(homophily_by_degree(graph)),
        by_class=tuple(homophily_by_class(graph)),
    )
