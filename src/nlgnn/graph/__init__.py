"""What a graph is: its arrays, its splits, how far its neighbours agree, and what is odd about it."""

from nlgnn.graph.audit import Audit, audit, twin_groups
from nlgnn.graph.convert import from_igraph, from_networkx, from_pyg, from_scipy, to_networkx, to_pyg, to_scipy
from nlgnn.graph.graph import FeatureScaling, Graph
from nlgnn.graph.homophily import (
    Agreement,
    adjusted_homophily,
    adjusted_homophily_among,
    chance_homophily,
    chance_table,
    class_insensitive_homophily,
    compatibility_matrix,
    edge_homophily,
    edge_label_informativeness,
    homophily_by_class,
    homophily_by_degree,
    homophily_table,
    node_homophily,
    node_label_informativeness,
    reconnected_homophily,
)
from nlgnn.graph.splits import FIXED_PROTOCOLS, RANDOM_PROTOCOLS, Split, make_splits, random_split

__all__ = [
    "FIXED_PROTOCOLS",
    "RANDOM_PROTOCOLS",
    "Agreement",
    "Audit",
    "FeatureScaling",
    "Graph",
    "Split",
    "adjusted_homophily",
    "adjusted_homophily_among",
    "audit",
    "chance_homophily",
    "chance_table",
    "class_insensitive_homophily",
    "compatibility_matrix",
    "edge_homophily",
    "edge_label_informativeness",
    "from_igraph",
    "from_networkx",
    "from_pyg",
    "from_scipy",
    "homophily_by_class",
    "homophily_by_degree",
    "homophily_table",
    "make_splits",
    "node_homophily",
    "node_label_informativeness",
    "random_split",
    "reconnected_homophily",
    "to_networkx",
    "to_pyg",
    "to_scipy",
    "twin_groups",
]
