"""Answers in the mean over the orders of tied nodes."""

from __future__ import annotations

import numpy as np
import torch

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import random_split
from nlgnn.nn import NLGCN, NLMLP
from nlgnn.nn.base import prepare
from nlgnn.paper.ties import mean_over_ties, measure_ties, renumbered, tied_nodes
from nlgnn.training.replica import Run


def graph_of(x: np.ndarray) -> Graph:
    return Graph(
        x, [[0, 1, 2, 3], [3, 2, 4, 1]], [0, 1] * (len(x) // 2), edge_weight=[1.0, 2.0, 3.0, 4.0], name="small"
    )


def model_of(kind: type = NLMLP) -> torch.nn.Module:
    torch.manual_seed(0)
    return kind(3, 64, 2, kernel_size=3)


def test_a_renumbered_graph_has_the_same_edges_features_and_labels() -> None:
    graph = graph_of(np.random.default_rng(0).normal(size=(6, 3)))
    nodes = np.array([3, 1, 5, 0, 2, 4])
    other = renumbered(graph, nodes)
    assert np.array_equal(other.x, graph.x[nodes])
    assert np.array_equal(other.y, graph.y[nodes])
    dense = graph.directed_weights.toarray()
    assert np.array_equal(other.directed_weights.toarray(), dense[np.ix_(nodes, nodes)])


def test_without_ties_nothing_changes() -> None:
    graph = graph_of(np.random.default_rng(0).normal(size=(6, 3)))
    model = model_of(NLGCN)
    expected = model.eval()(*prepare(model, graph)).log_softmax(1)
    torch.testing.assert_close(mean_over_ties(model, graph), expected)
    assert tied_nodes(model, graph) == 0


def test_tied_nodes_get_the_same_answer() -> None:
    """By number, nodes with the same features get different ones."""
    x = np.random.default_rng(0).normal(size=(6, 3))
    x[1:4] = x[1]
    graph, model = graph_of(x), model_of()
    by_number = model.eval()(*prepare(model, graph)).softmax(1)
    mean = mean_over_ties(model, graph, orders=2000).exp()
    assert tied_nodes(model, graph) == 3
    assert (by_number[1:4] - by_number[1]).abs().max() > 1e-3
    torch.testing.assert_close(mean[1:4], mean[1].expand(3, -1), rtol=0, atol=0.02)


def test_runs_that_failed_are_left_out() -> None:
    graph = graph_of(np.random.default_rng(0).normal(size=(6, 3)))
    splits = [random_split(graph.y, "random-60", index) for index in range(2)]
    model = model_of()
    runs = [Run(0, 0, "random-60", 0, failure="the loss became inf"), Run(1, 1, "random-60", 1)]
    runs[1].state = model.state_dict()
    found = measure_ties(graph, splits, lambda: model_of(), "accuracy", runs)
    right = model.eval()(*prepare(model, graph)).argmax(1).numpy() == graph.y
    assert found == {"nodes": [None, 0], "test": [None, 100 * right[splits[1].test].mean()]}
