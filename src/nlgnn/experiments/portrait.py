"""Portrait: what can be told of a graph before anything is trained. It looks at all labels, and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nlgnn.experiments.section import Rows, Section
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

MOST_CLASSES = 10  # that a matrix of them is shown for
MEASURES = {
    "node_homophily": "node homophily, H(G)",
    "edge_homophily": "edge homophily",
    "class_insensitive_homophily": "class-insensitive homophily",
    "adjusted_homophily": "adjusted homophily",
    "edge_label_informativeness": "label informativeness, edges",
    "node_label_informativeness": "label informativeness, nodes",
}


@dataclass(frozen=True, eq=False)
class Portrait:
    """`homophily` and `chance` by the name of the measure; `compatibility` by class, rows sum to 1.

    `weights`: the smallest and the largest of an edge; None where edges have none.
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
        """`matrix`: whether the compatibility matrix is among them, where it is not too wide."""
        agreement = [
            {"measure": words, "value": f"{self.homophily[name]:.3f}", "chance": f"{self.chance[name]:.3f}"}
            for name, words in MEASURES.items()
        ]
        joined = [
            {"of class": own, **{other: f"{share:.2f}" for other, share in zip(self.class_names, shares, strict=True)}}
            for own, shares in zip(self.class_names, self.compatibility.tolist(), strict=True)
        ]
        ignored = "direction" if self.weights is None else "direction and, in all measures of agreement, weights"
        warnings = [{"worth knowing": sentence} for sentence in self.audit.warnings()]
        sections = [
            Section(f"Graph {self.name}", self._statistics(), f"Edges are distinct, without loops; {ignored} ignored."),
            Section("", warnings, f"Splits looked at: {self.audit.num_splits} of protocol {self.protocol}."),
            Section(
                "Do neighbours agree?",
                agreement,
                "Over all labelled nodes. Chance: the same with labels shuffled, mean of 10 shuffles.",
            ),
            Section(
                "Which classes are joined to which?",
                joined,
                "The share of the edges that leave the row's class and arrive in the column's.",
            ),
            Section(
                "Agreement by number of labelled neighbours",
                _rows("labelled neighbours", self.by_degree),
                "The mean share of a node's labelled neighbours that have its label; nodes without any are left out.",
            ),
            Section(
                "Agreement by class",
                _rows("class", self.by_class),
                "The mean share of a node's labelled neighbours that have its label; nodes without any are left out.",
            ),
        ]
        with_matrix = matrix and len(self.class_names) <= MOST_CLASSES
        return [section for section in sections if section.rows and (with_matrix or section.rows is not joined)]

    def _statistics(self) -> Rows:
        direction = "none" if self.one_way_edges is None else f"{self.one_way_edges:,} edges go one way only"
        values = {
            "nodes": f"{self.nodes:,}",
            "with a label": f"{self.labelled:,}",
            "edges": f"{self.edges:,}",
            "direction": direction,
            **({} if self.weights is None else {"weights of edges": "{:.4g} to {:.4g}".format(*self.weights)}),
            "neighbours a node": f"{2 * self.edges / self.nodes:.1f}",
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


def _weight_range(graph: Graph) -> tuple[float, float] | None:
    weights = graph.undirected_weights.data
    if graph.edge_weight is None or not len(weights):
        return None
    return float(weights.min()), float(weights.max())


def portray(graph: Graph, splits: Sequence[Split]) -> Portrait:
    one_way = 2 * graph.num_edges - int(graph.directed_adjacency.nnz) if graph.directed else None
    return Portrait(
        name=graph.name,
        nodes=graph.num_nodes,
        edges=graph.num_edges,
        one_way_edges=one_way,
        weights=_weight_range(graph),
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
