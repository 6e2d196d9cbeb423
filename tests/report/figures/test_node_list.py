"""The nodes of a page: whom it carries reasons of, and that they are those of `explain_nodes`."""

from __future__ import annotations

from base64 import b64decode
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from report_samples import easy_graph, trained_on

from nlgnn.analysis import Explanations, explain_nodes, order_before_and_after
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.report.figures import order as order_module
from nlgnn.report.figures import strips
from nlgnn.report.figures.order import NEIGHBOURS_SHOWN, explained_nodes, node_list, shown_neighbours
from nlgnn.report.page import NodeList
from nlgnn.training.fit import predict
from nlgnn.training.train import Trained

GRAPH = easy_graph()


def test_misclassified_test_nodes_come_first() -> None:
    predictions = np.where(np.arange(60) % 4 == 0, (GRAPH.y + 1) % 3, GRAPH.y)
    test = np.arange(60) < 20
    split = Split(~test, np.zeros(60), test)
    nodes = explained_nodes(GRAPH, predictions, split, 60)
    assert sorted(nodes[:5]) == [0, 4, 8, 12, 16]
    assert sorted(nodes) == list(range(60))
    assert nodes[5:].tolist() != sorted(nodes[5:])  # by lot
    assert explained_nodes(GRAPH, predictions, split, 7).tolist() == nodes[:7].tolist()


def test_neighbours_are_those_of_the_graph() -> None:
    hub = np.array([np.zeros(40), np.arange(1, 41)], int)  # node 0 has 40; 41 is joined to 42; 43 has none
    graph = Graph(np.zeros((44, 1)), np.concatenate([hub, [[41], [42]]], axis=1), [0] * 44)
    starts, neighbours, degrees = shown_neighbours(graph, np.array([41, 0, 43, 7]))
    assert degrees.tolist() == [1, 40, 0, 1]
    lists = [neighbours[start:end].tolist() for start, end in pairwise(starts)]
    assert lists == [[42], list(range(1, NEIGHBOURS_SHOWN + 1)), [], [0]]


def listed(trained: Trained, graph: Graph) -> NodeList:
    run = trained.runs[0]
    probabilities = predict(trained.factory, graph, [run], trained.recipe).numpy()[0]
    orders = order_before_and_after(trained.factory, graph.scale_features(trained.recipe.features), run)
    return node_list(trained, graph, run, make_splits(graph, "random-60", 2)[0], probabilities, orders)


def decoded(part: dict[str, str]) -> NDArray[Any]:
    return np.frombuffer(b64decode(part["bytes"]), f"<{part['type']}")


def expected_reasons(trained: Trained, graph: Graph, nodes: NDArray[np.int64]) -> Explanations:
    model = trained.factory()
    model.load_state_dict(trained.runs[0].state)
    return explain_nodes(model, graph.scale_features(trained.recipe.features), nodes)


def check(found: NodeList, trained: Trained, graph: Graph) -> NDArray[np.int64]:
    """That a page says of its nodes what `explain_nodes` says; the nodes that it explains."""
    parts = {name: decoded(part) for name, part in found.data["parts"].items()}
    table: Any = found.strips.tables["nodes"]
    numbers = np.array(table["node"])  # of the node in each row
    nodes = numbers[parts["explained"]]
    reasons = expected_reasons(trained, graph, nodes)
    for name in ("logits", "own", "bias", "silenced", "contributions"):
        np.testing.assert_array_equal(parts[name], getattr(reasons, name).ravel().astype(np.float32), err_msg=name)
    windows = np.append(numbers, -1)[parts["windows"]]  # -1, nobody, is the last
    np.testing.assert_array_equal(windows, reasons.window_nodes.ravel())
    assert found.data["window"] == reasons.window_nodes.shape[1]
    np.testing.assert_array_equal(np.array(table["position"])[parts["explained"]], reasons.position)
    np.testing.assert_array_equal(np.array(table["score"])[parts["explained"]], reasons.score)
    whole = parts["logits"].reshape(len(nodes), -1)
    sums = parts["contributions"].reshape(*reasons.contributions.shape).sum(1)
    sums += parts["own"].reshape(whole.shape) + parts["bias"].reshape(whole.shape)
    np.testing.assert_allclose(sums, whole, atol=1e-5)
    adjacency = graph.undirected_adjacency
    for place, node in enumerate(nodes.tolist()):
        beside = numbers[parts["neighbours"][parts["starts"][place] : parts["starts"][place + 1]]]
        assert sorted(beside) == sorted(adjacency[[node]].indices)[:NEIGHBOURS_SHOWN]
        assert parts["degrees"][place] == adjacency[[node]].nnz
    assert nodes[0] == numbers[found.data["first"]]
    return nodes


def test_small_graphs_are_explained_whole(trained: Trained) -> None:
    found = listed(trained, GRAPH)
    assert found.data["complete"]
    assert list(found.strips.tables) == ["nodes", "bins", "mark"]
    assert sorted(check(found, trained, GRAPH)) == list(range(60))
    assert len(set(found.strips.tables["nodes"]["score"])) == 60  # else any order would do
    assert found.caption.endswith("Run 0, all nodes.")
    assert found.data["command"] == f"nlgnn explain {trained.folder.path} --run 0"
    assert found.data["classes"] == ["class 0", "class 1", "class 2"]


def test_with_little_room_some_are_explained(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "BYTES_OF_REASONS", 3000)
    found = listed(trained, GRAPH)
    assert found.data["complete"]  # all are in the strips
    assert len(found.strips.tables["nodes"]["node"]) == 60
    nodes = check(found, trained, GRAPH)
    assert len(nodes) == 3000 // (4 * 3 * (9 + 4) + (9 + NEIGHBOURS_SHOWN) * (4 + order_module.BYTES_OF_NODE))
    assert f"{len(nodes)} of 60 nodes." in found.caption


def test_names_take_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "BYTES_OF_REASONS", 20_000)
    explained = []
    for length in (1, 100, 1000):
        graph = easy_graph(node_names=["ä" * length] * 60)
        found = listed(trained_on(graph, tmp_path / str(length), runs=1), graph)
        explained.append(len(decoded(found.data["parts"]["explained"])))
    assert explained[0] > explained[1] > explained[2] > 0


def test_large_graphs_list_only_those_that_are_mentioned(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_module, "NODES_LISTED", 59)
    for module in (order_module, strips):
        monkeypatch.setattr(module, "BINS", 59)
    monkeypatch.setattr(order_module, "BYTES_OF_REASONS", 5000)
    found = listed(trained, GRAPH)
    assert not found.data["complete"]
    assert list(found.strips.tables) == ["bins", "nodes", "mark"]  # the table under the figure is of what is drawn
    nodes = check(found, trained, GRAPH)
    assert 0 < len(nodes) < 10
    reasons = expected_reasons(trained, GRAPH, nodes)
    neighbours = GRAPH.undirected_adjacency[nodes].indices
    mentioned = {*nodes.tolist(), *reasons.window_nodes.ravel().tolist(), *neighbours.tolist()} - {-1}
    assert sorted(found.strips.tables["nodes"]["node"]) == sorted(mentioned)
    assert len(mentioned) < 60
    chart = found.strips.chart.to_dict()
    assert [layer["data"]["name"] for layer in chart["layer"]] == ["bins", "mark"]
