"""Random graphs for the property tests: loops, repeated edges, isolated and unlabelled nodes all occur."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from nlgnn.graph import Graph


@st.composite
def graph_parts(draw: st.DrawFn, some_label: bool = True) -> dict[str, Any]:
    """The arguments of a Graph; not the Graph, since run-time type checks use `random`, which strategies must not."""
    n = draw(st.integers(1, 10))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=25))
    y = draw(st.lists(st.integers(-1, 3), min_size=n, max_size=n))
    if some_label:
        y[draw(node)] = draw(st.integers(0, 3))
    return {
        "x": np.array(draw(st.lists(st.integers(-1, 1), min_size=n, max_size=n)), np.float32)[:, None],
        "edge_index": np.array(edges, np.int64).reshape(-1, 2).T,
        "y": np.array(y),
        "class_names": ("a", "b", "c", "d"),
    }


def neighbour_sets(graph: Graph) -> list[set[int]]:
    """Distinct neighbours, direction ignored, without the node itself: the plain loop that the fast code must equal."""
    neighbours: list[set[int]] = [set() for _ in range(graph.num_nodes)]
    for source, target in graph.edge_index.T.tolist():
        if source != target:
            neighbours[source].add(target)
            neighbours[target].add(source)
    return neighbours
