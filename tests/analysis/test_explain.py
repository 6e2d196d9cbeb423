"""The explanation of one node, against what stands in the graph and in the split of many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from torch import Tensor, nn

from each_of import each_of
from nlgnn.analysis import explain_node, explain_nodes
from nlgnn.analysis.explain import node_number
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn import NLMLP
from nlgnn.nn.local import GCN
from nlgnn.nn.mixing import GlobalAttention, Mixer, SortedConv
from nlgnn.nn.non_local import NonLocal

NODES, CLASSES = 15, ("red", "green", "blue")


@pytest.fixture
def graph() -> Graph:
    """Node 0 has the neighbours 3 and 9: some edges are loops or come twice. The label of node 3 is unknown."""
    edges = [[0, 9, 0, 0, 3, 5], [9, 0, 0, 3, 0, 6]]
    y = np.arange(NODES) % 3
    y[3] = -1
    x = np.random.default_rng(0).normal(size=(NODES, 4))
    return Graph(x, edges, y, directed=True, class_names=CLASSES)


@pytest.fixture
def model() -> NLMLP:
    torch.manual_seed(0)
    return NLMLP(4, 6, 3, dropout=0.5, kernel_size=3)


def logits_of(model: nn.Module, graph: Graph) -> np.ndarray[Any, np.dtype[np.float32]]:
    model.eval()
    with torch.no_grad():
        logits: Tensor = model(*model.prepare(graph))  # type: ignore[operator]
    return logits.numpy()


def test_what_is_said_of_a_node(model: NLMLP, graph: Graph) -> None:
    logits = logits_of(model, graph)
    predictions = [CLASSES[number] for number in logits.argmax(1)]
    split = explain_nodes(model, graph, [0])
    one = explain_node(model, graph, 0)
    assert (one.node, one.name, one.label, one.prediction) == (0, "0", "red", predictions[0])
    assert (one.position, one.num_nodes, one.class_names) == (split.position[0], NODES, CLASSES)
    assert one.score == pytest.approx(split.score[0])
    np.testing.assert_allclose(one.probabilities, softmax(logits[0]), rtol=1e-6)
    assert one.probability == pytest.approx(softmax(logits[0]).max())
    for name in ("logits", "own", "bias", "silenced"):
        np.testing.assert_array_equal(getattr(one, name), getattr(split, name)[0])
    assert one.silenced_probabilities == pytest.approx(softmax(split.silenced[0]))
    found = [(other.node, other.name, other.label, other.prediction) for other in one.neighbours]
    assert found == [(3, "3", None, predictions[3]), (9, "9", "red", predictions[9])]
    assert one.why_no_window is None


def test_window(model: NLMLP, graph: Graph) -> None:
    split = explain_nodes(model, graph, np.arange(NODES))
    logits = logits_of(model, graph)
    for position, offsets in ((0, [0, 1, 2]), (7, [-2, -1, 0, 1, 2]), (NODES - 1, [-2, -1, 0])):
        (node,) = np.flatnonzero(split.position == position)
        one = explain_node(model, graph, node)  # numbers of NumPy too
        assert [other.offset for other in one.window] == offsets
        for other in one.window:
            assert split.position[other.node] == position + other.offset
            assert other.prediction == CLASSES[logits[other.node].argmax()]
            assert other.label == (CLASSES[graph.y[other.node]] if other.node != 3 else None)
            np.testing.assert_array_equal(other.contributions, split.contributions[node, other.offset + 2])
        total = one.own + one.bias + sum(other.contributions for other in one.window)
        np.testing.assert_allclose(total, logits[node], rtol=0, atol=1e-5)


def test_the_other_class_is_the_label_or_the_runner_up(model: NLMLP, graph: Graph) -> None:
    ranks = np.argsort(-logits_of(model, graph)[0])
    for label, other in ((ranks[0], ranks[1]), (ranks[1], ranks[1]), (ranks[2], ranks[2]), (-1, ranks[1])):
        y = graph.y.copy()
        y[0] = label
        assert explain_node(model, replace(graph, y=y), 0).other_class == other


def test_one_class_has_no_other() -> None:
    graph = Graph(np.ones((3, 4)), np.zeros((2, 0), int), [0, 0, 0])
    one = explain_node(NLMLP(4, 6, 1), graph, 1)
    assert (one.other_class, one.probability, one.neighbours) == (None, 1.0, ())


@pytest.mark.parametrize(
    ("mixer", "why"),
    [
        (None, "GCN sorts nothing: it is a local model."),
        (GlobalAttention(), "This model sorts nothing: it attends to all nodes."),
        (
            SortedConv(3, convs=nn.Conv1d(3, 3, 3, padding=1)),
            "The convolutions of this model are the user's own modules",
        ),
    ],
    ids=["local", "attention", "foreign convolutions"],
)
def test_models_without_a_window(graph: Graph, mixer: Mixer | None, why: str) -> None:
    local = GCN(4, 6, 3, dropout=0.5)
    model = local if mixer is None else NonLocal(local, 3, 3, mixer=mixer)
    model.train()
    one = explain_node(model, graph, 0)
    assert model.training
    assert one.why_no_window is not None
    assert one.why_no_window.startswith(why)
    assert one.window == ()
    assert (one.position, one.score, one.own, one.bias, one.silenced, one.silenced_probabilities) == (None,) * 6
    assert [other.node for other in one.neighbours] == [3, 9]
    np.testing.assert_array_equal(one.logits, logits_of(model, graph)[0])


def test_nodes_by_name(model: NLMLP, graph: Graph) -> None:
    named = replace(graph, node_names=(*(f"n{number}" for number in range(NODES - 1)), "2"))
    assert explain_node(model, named, "n4").node == 4
    one = explain_node(model, named, 0)
    assert one.name == "n0"
    assert [other.name for other in one.neighbours] == ["n3", "n9"]
    assert (node_number(named, "2"), node_number(named, 2), node_number(named, "7")) == (14, 2, 7)


@each_of(
    ("node", "what", "how"),
    [
        (15, "no node '15'", "numbered 0 to 14"),
        (-1, "no node '-1'", "numbered 0 to 14"),
        ("-1", "no node '-1'", "numbered 0 to 14"),
        (1.0, "no node '1.0'", "numbered 0 to 14"),
        ("bob", "no node 'bob'", "mean 'Bob'"),
        ("", "no node ''", "or named, such as 'Ann'"),
        ("Eve", "2 nodes 'Eve'", "its number"),
    ],
)
def test_wrong_nodes(as_users_run_it: None, graph: Graph, node: Any, what: str, how: str) -> None:
    named = replace(graph, node_names=("Ann", "Bob", "Eve", "Eve", *(f"n {number}" for number in range(NODES - 4))))
    with pytest.raises(DataError, match=what) as refused:
        node_number(named, node)
    assert how in refused.value.how


def test_wrong_node_of_a_graph_without_names(graph: Graph) -> None:
    with pytest.raises(DataError, match="no node 'Ann'") as refused:
        node_number(graph, "Ann")
    assert refused.value.how == "Nodes are numbered 0 to 14."
