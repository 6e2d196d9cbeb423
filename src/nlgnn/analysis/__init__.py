"""Analysis of trained models: sorted order, contributions of nodes, columns, quality and embedding."""

from nlgnn.analysis.contributions import Explanations, explain_nodes
from nlgnn.analysis.explain import Explanation, NodeFacts, Voter, WindowNode, explain_node
from nlgnn.analysis.sequence import SortedSequence, kernel_sizes, order_before_and_after, sorted_sequence
from nlgnn.graph.homophily import reconnected_homophily

__all__ = [
    "Explanation",
    "Explanations",
    "NodeFacts",
    "SortedSequence",
    "Voter",
    "WindowNode",
    "explain_node",
    "explain_nodes",
    "kernel_sizes",
    "order_before_and_after",
    "reconnected_homophily",
    "sorted_sequence",
]
