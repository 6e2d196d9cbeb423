"""What a trained model did: the order it sorted the nodes into, how far neighbours there agree, and why a node came out
as it did."""

from nlgnn.analysis.contributions import Explanations, explain_nodes
from nlgnn.analysis.explanation import Explanation, NodeFacts, Voter, WindowNode, explain_node
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
