"""Features made from the links, against their definitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from table_samples import write

from nlgnn.datasets import load_graph
from nlgnn.graph.graph import Graph
from nlgnn.tables import read_graph, structural
from nlgnn.tables.structural import structural_table


def random_graph(n: int, edges: int, directed: bool = False) -> Graph:
    ends = np.random.default_rng(0).integers(n, size=(2, edges))
    return Graph(np.zeros((n, 0)), ends, np.full(n, -1), directed=directed)


def test_definitions() -> None:
    graph = random_graph(30, 60)
    table, sentence = structural_table(graph)
    adjacency = graph.undirected_adjacency.toarray().astype(float)
    degree = adjacency.sum(axis=1)
    walk = adjacency / np.maximum(degree, 1)[:, None]
    np.testing.assert_allclose(table["log degree"], np.log1p(degree))
    triangles = np.diag(adjacency @ adjacency @ adjacency)
    np.testing.assert_allclose(table["clustering"], triangles / np.maximum(degree * (degree - 1), 1))
    for steps in range(2, 9):
        power = np.linalg.matrix_power(walk, steps)
        np.testing.assert_allclose(table[f"return after {steps} steps"], np.diag(power), atol=1e-12)
    assert "exactly" in sentence


def test_many_parts_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(30, 60)
    whole, _ = structural_table(graph)
    monkeypatch.setattr(structural, "ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(structural_table(graph)[0].to_numpy(), whole.to_numpy(), atol=1e-12)


def test_estimates_of_large_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = random_graph(300, 450)
    exact, _ = structural_table(graph)
    monkeypatch.setattr(structural, "EXACT_NODES", 10)
    monkeypatch.setattr(structural, "SAMPLED_PAIRS", 400)
    monkeypatch.setattr(structural, "WALKS", (1000, 1000))
    estimated, sentence = structural_table(graph)
    assert "estimated" in sentence
    assert structural_table(graph)[0].equals(estimated)  # the draws are the same every time
    for name in exact.columns:
        np.testing.assert_allclose(estimated[name], exact[name], atol=0.05, err_msg=name)
        if name != "log degree":
            assert np.corrcoef(estimated[name], exact[name])[0, 1] > 0.9, name


def test_isolated_nodes_and_no_edges() -> None:
    graph = Graph(np.zeros((3, 0)), np.zeros((2, 0), int), [-1, -1, -1])
    assert (structural_table(graph)[0].to_numpy() == 0).all()


def test_directions_count_for_degrees() -> None:
    table, _ = structural_table(random_graph(30, 60, directed=True))
    assert table.columns[:3] == ["log out-degree", "log in-degree", "clustering"]


def test_an_edge_list_alone(tmp_path: Path) -> None:
    path = write(tmp_path, {"links.tsv": "from\tto\nc\ta\nb\tc\na\td\nd\tc\n"}) / "links.tsv"
    found = read_graph(edges=path)
    assert found.graph.node_names == ("c", "a", "b", "d")  # the order in which they appear
    assert found.graph.edge_index.tolist() == [[0, 2, 1, 3], [1, 0, 3, 0]]
    assert found.encoder.structural
    assert found.graph.name == "links"
    assert any(note.startswith("Features were made from the links") for note in found.notes)
    np.testing.assert_allclose(found.graph.x.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(found.graph.x.std(axis=0), 1, atol=1e-5)


def test_a_table_of_labels_and_an_edge_list() -> None:
    nodes = pl.DataFrame({"id": [1, 2, 3, 4], "label": ["a", "b", "b", "a"]})
    edges = pl.DataFrame({"u": [1, 2, 1, 5], "v": [2, 3, 3, 1]})
    found = read_graph(nodes, edges, label="label", unknown_nodes="add")
    assert found.encoder.structural
    assert found.graph.y.tolist() == [0, 1, 1, 0, -1]
    assert found.graph.num_features > 0
    constant = nodes.with_columns(pl.lit(1).alias("constant"))  # which is left out: nothing remains
    assert read_graph(constant, edges, label="label", unknown_nodes="drop").encoder.structural


def test_where_every_node_is_linked_alike() -> None:
    found = read_graph(edges=pl.DataFrame({"u": [1, 2, 3], "v": [2, 3, 1]}))
    assert found.graph.x.tolist() == [[1]] * 3
    assert any("All nodes have the same features" in note for note in found.notes)


def test_they_tell_something_of_a_real_graph(data_root: Path) -> None:
    graph = load_graph("texas")
    table, _ = structural_table(graph)
    assert np.isfinite(table.to_numpy()).all()
    assert (np.std(table.to_numpy(), axis=0) > 0).all()
