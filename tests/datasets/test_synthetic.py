"""The planted graph: what its order reveals, whichever model looks at it."""

from __future__ import annotations

import numpy as np
import pytest

from nlgnn.datasets import planted_order_graph
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import node_homophily


def window_accuracy(graph: Graph, score: np.ndarray, width: int = 9) -> float:
    """Sort by the score, average the values in a window, take the sign."""
    order = np.argsort(score, kind="stable")
    means = np.convolve(graph.x[order, 1], np.ones(width) / width, mode="same")
    return float(((means > 0) == graph.y[order]).mean())


@pytest.mark.parametrize("seed", range(3))
def test_only_the_order_of_the_keys_helps(seed: int) -> None:
    graph = planted_order_graph(seed=seed)
    key = graph.x[:, 0]
    assert graph.num_nodes == 3008
    assert np.bincount(graph.y).tolist() == [1504, 1504]
    assert window_accuracy(graph, key, width=1) == pytest.approx(0.70, abs=0.025)
    assert window_accuracy(graph, key) > 0.87
    random_order = np.random.default_rng(seed).random(graph.num_nodes)
    assert window_accuracy(graph, random_order) == pytest.approx(0.55, abs=0.05)
    assert window_accuracy(graph, np.arange(graph.num_nodes)) < 0.6  # the numbering tells nothing
    assert node_homophily(graph) == pytest.approx(0.5, abs=0.03)  # nor do the edges
    assert abs(np.corrcoef(key, graph.y)[0, 1]) < 0.25  # nor does the key itself, in a straight line


def test_without_noise_the_value_is_the_label() -> None:
    graph = planted_order_graph(num_groups=6, group_size=4, noise=0)
    assert window_accuracy(graph, graph.x[:, 0], width=1) == 1
    assert {len(np.unique(graph.y[graph.x[:, 0] == key])) for key in graph.x[:, 0]} == {1}


def test_seed_decides() -> None:
    assert planted_order_graph(seed=1).fingerprint == planted_order_graph(seed=1).fingerprint
    assert planted_order_graph(seed=1).fingerprint != planted_order_graph(seed=2).fingerprint


def test_impossible_sizes() -> None:
    with pytest.raises(OptionError, match="num_groups=1"):
        planted_order_graph(num_groups=1)
