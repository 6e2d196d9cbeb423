"""The graphs that ship with the package."""

from __future__ import annotations

import numpy as np
import pytest

from nlgnn.datasets import CATALOG, load_graph, mushroom_body
from nlgnn.graph.homophily import node_homophily
from nlgnn.graph.splits import make_splits


@pytest.mark.parametrize(
    ("side", "nodes", "edges", "homophily", "sizes"),
    [("left", 209, 5559, 0.341282, [101, 58, 29, 21]), ("right", 213, 5625, 0.350315, [100, 63, 29, 21])],
)
def test_mushroom_body(side: str, nodes: int, edges: int, homophily: float, sizes: list[int]) -> None:
    graph = load_graph(f"mushroom-body-{side}")
    assert (graph.num_nodes, graph.num_edges, graph.directed) == (nodes, edges, False)
    assert graph.class_names == ("Kenyon", "Projection", "Output", "Input")
    assert np.bincount(graph.y).tolist() == sizes
    assert node_homophily(graph) == pytest.approx(homophily, abs=5e-7)
    assert (graph.x.toarray() == np.eye(nodes)).all()
    known = CATALOG[graph.name].statistics
    assert (known.nodes, known.edges, known.features, known.classes) == (nodes, edges, nodes, 4)
    assert known.homophily == round(homophily, 3)
    assert len(make_splits(graph, CATALOG[graph.name].default_protocol)) == 10


def test_the_direction_would_give_projection_neurons_away() -> None:
    """Why the graph counts as undirected."""
    graph = mushroom_body("left")
    receiving = np.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    projection = graph.y == graph.class_names.index("Projection")
    assert np.median(receiving[projection]) == 0
    assert np.median(receiving[~projection]) > 5


def test_alias() -> None:
    assert load_graph("mushroom-body").fingerprint == mushroom_body("left").fingerprint
