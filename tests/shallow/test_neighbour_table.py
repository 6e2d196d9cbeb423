from __future__ import annotations

import gc
import tracemalloc
import warnings
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import table_reference as reference
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from nlgnn import load_graph
from nlgnn.errors import DataError, NlgnnWarning
from nlgnn.graph import features
from nlgnn.graph.descriptions import has_direction
from nlgnn.graph.graph import Graph
from nlgnn.shallow import neighbour_statistics, neighbour_table
from nlgnn.shallow.base import Column
from nlgnn.shallow.neighbour_statistics import neighbour_means, neighbour_spreads
from nlgnn.shallow.neighbour_table import Blocks
from nlgnn.shallow.neighbour_table import neighbour_table as make_table
from nlgnn.tables import structural
from nlgnn.tables.structural import clustering, edge_chunks

table_graphs = reference.table_graphs


@given(table_graphs(), st.sampled_from(["none", "undirected", "all"]), st.booleans())
def test_table_equals_the_literal_one(parts: dict[str, Any], neighbours: Any, with_structure: bool) -> None:
    graph = Graph(**parts)
    table = make_table(graph, Blocks(neighbours, with_structure))
    directed = graph.directed and neighbours == "all" and has_direction(graph)
    lists = reference.neighbour_lists(graph, directed)
    expected = [graph.x.astype(float)]
    if neighbours != "none":
        for near in lists.values():
            expected += reference.neighbour_block(near, expected[0], spreads=True)
        expected += reference.structure_block(lists) if with_structure else []
    literal = np.concatenate(expected, axis=1)
    assert table.values.dtype == np.float32
    assert len(table.columns) == literal.shape[1]
    np.testing.assert_allclose(table.values, literal, rtol=1e-5, atol=2e-4)
    assert len({column.name() for column in table.columns}) == len(table.columns)


@given(table_graphs(missing=True))
def test_statistics_leave_missing_values_out(parts: dict[str, Any]) -> None:
    x = parts.pop("x")
    graph = Graph(np.zeros((len(x), 1)), **parts)
    near = reference.neighbour_lists(graph, by_direction=False)["all"]
    expected = reference.neighbour_block(near, x.astype(float), spreads=True)[:4]
    means = neighbour_means(graph.undirected_adjacency, x)
    found = np.zeros((3, *x.shape))
    for nodes, spreads in neighbour_spreads(graph.undirected_adjacency, x, means):
        found[:, nodes] = spreads
    np.testing.assert_allclose([means, *found], expected, rtol=1e-5, atol=2e-4)


@given(table_graphs(), st.integers(1, 5))
def test_chunks_change_nothing(parts: dict[str, Any], size: int) -> None:
    graph, again = Graph(**parts), Graph(**parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbour_statistics, "VALUES_AT_ONCE", size)
        patch.setattr(structural, "PATHS_AT_ONCE", size)
        chunked = make_table(graph, Blocks()).values
    np.testing.assert_array_equal(chunked, make_table(again, Blocks()).values)


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 6))
def test_chunks_of_rows(counts: list[int], at_once: int) -> None:
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    chunks = list(edge_chunks(indptr, at_once))
    assert [node for start, stop in chunks for node in range(start, stop)] == list(range(len(counts)))
    assert all(indptr[stop] - indptr[start] <= at_once or stop == start + 1 for start, stop in chunks)


@given(table_graphs(), st.randoms(use_true_random=False))
def test_another_order_of_nodes(parts: dict[str, Any], random: Any) -> None:
    order = np.array(random.sample(range(len(parts["y"])), len(parts["y"])))
    place = np.argsort(order)
    moved = {**parts, "x": parts["x"][order], "y": parts["y"][order], "edge_index": place[parts["edge_index"]]}
    graph, other = Graph(**parts), Graph(**moved)
    first, second = make_table(graph, Blocks()), make_table(other, Blocks())
    np.testing.assert_allclose(first.values[order], second.values, rtol=1e-5, atol=2e-4)
    shares = [table.label_shares(of.y, 3) for table, of in ((first, graph), (second, other))]
    np.testing.assert_allclose(shares[0][order], shares[1], rtol=1e-6)


@given(table_graphs())
def test_label_shares_equal_the_literal_ones(parts: dict[str, Any]) -> None:
    graph = Graph(**parts)
    table = make_table(graph, Blocks())
    lists = reference.neighbour_lists(graph, table.plan.by_direction)
    shares = table.label_shares(graph.y, 3)
    np.testing.assert_allclose(shares, reference.label_block(lists, graph.y, 3), rtol=1e-6)
    assert len(table.label_columns(graph.class_names)) == shares.shape[1]


@given(table_graphs(), st.data())
def test_own_label_is_not_in_own_row(parts: dict[str, Any], data: st.DataObject) -> None:
    graph = Graph(**parts)
    table = make_table(graph, Blocks())
    known = graph.y.copy()
    node = data.draw(st.integers(0, graph.num_nodes - 1))
    before = table.label_shares(known, 3)[node]
    known[node] = data.draw(st.integers(-1, 2))
    assert table.label_shares(known, 3)[node].tolist() == before.tolist()  # equal to the last bit


def test_many_classes() -> None:
    rng = np.random.default_rng(0)
    graph = Graph(np.zeros((60, 1)), rng.integers(60, size=(2, 300)), rng.integers(40, size=60), directed=True)
    table = make_table(graph, Blocks())
    lists = reference.neighbour_lists(graph, by_direction=True)
    np.testing.assert_allclose(table.label_shares(graph.y, 40), reference.label_block(lists, graph.y, 40), rtol=1e-6)


def test_names_say_what_a_column_is() -> None:
    graph = Graph(np.zeros((3, 2)), [[0, 1], [1, 2]], [0, 1, 0], directed=True)
    table = make_table(graph, Blocks())
    names = [column.name(["age", "amount"]) for column in table.columns]
    assert names[1] == "`amount`"
    assert "mean of `amount` over out-neighbours" in names
    assert "maximum of `age` over in-neighbours" in names
    assert "mean of `age` over neighbours of neighbours" in names
    assert Column("log degree", "structure") in table.columns
    assert "share of class 1 among training in-neighbours" in [one.name() for one in table.label_columns(["0", "1"])]


def test_a_bag_of_words_becomes_components() -> None:
    rng = np.random.default_rng(0)
    words = sparse.random_array((200, 300), density=0.05, rng=rng, format="csr")
    edges = rng.integers(200, size=(2, 500))
    graph = Graph(words, edges, np.zeros(200, int))
    table = make_table(graph, Blocks(structure=False))
    assert table.values.shape == (200, 3 * 64)
    # Distances of all columns are those of the best approximation of rank 64.
    unit = graph.scale_features("unit-l2").x.toarray().astype(float)
    left, values, _ = np.linalg.svd(unit, full_matrices=False)
    best = left[:, :64] * values[:64]
    own = table.values[:, :64]
    assert np.linalg.norm(own) >= 0.99 * np.linalg.norm(best)
    # The same words in a dense array, and of new nodes.
    dense = make_table(Graph(words.toarray(), edges, np.zeros(200, int)), Blocks(structure=False))
    np.testing.assert_allclose(dense.values, table.values, atol=1e-4)
    larger = Graph(sparse.vstack([words, words[:1]]), edges, np.zeros(201, int))
    np.testing.assert_allclose(
        make_table(larger, Blocks(structure=False), table.plan).values[200, :64], own[0], atol=1e-6
    )


def test_features_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(features, "CHUNK_BYTES", 100)  # several chunks
    rng = np.random.default_rng(0)
    for name, x in {
        "narrow": rng.random((50, 3)),
        "wide": rng.random((50, 100)) * (rng.random((50, 100)) < 0.05),
    }.items():
        path = tmp_path / f"{name}.npy"
        np.save(path, x.astype(np.float32))
        edges = rng.integers(50, size=(2, 100))
        graphs = [Graph(values, edges, np.zeros(50, int)) for values in (x, np.load(path, mmap_mode="r"))]
        in_memory, on_disk = (make_table(graph, Blocks()).values for graph in graphs)
        np.testing.assert_allclose(on_disk, in_memory, atol=1e-5)


@pytest.mark.parametrize(
    ("largest", "columns"), [(10**9, 10 * 16), (4 * 100 * 70, 10 * 7), (4 * 100 * 40, 5 * 7), (1, 7)]
)
def test_a_large_table_is_reduced(largest: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_table, "LARGEST_TABLE", largest)
    rng = np.random.default_rng(0)
    graph = Graph(rng.random((100, 10)), rng.integers(100, size=(2, 300)), np.zeros(100, int), directed=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = make_table(graph, Blocks(structure=False))
    assert table.values.shape == (100, columns)
    assert bool(caught) == (largest < 10**9)
    assert all(issubclass(one.category, NlgnnWarning) for one in caught)


def test_a_table_is_made_once_and_freed_with_its_graph() -> None:
    graph = Graph([[1.0], [2.0]], [[0], [1]], [0, 1])
    table = make_table(graph, Blocks())
    assert make_table(graph, Blocks()) is table
    assert make_table(graph, Blocks(), table.plan) is table
    assert make_table(graph, Blocks(structure=False)) is not table
    gone = weakref.ref(graph)
    del graph
    gc.collect()
    assert gone() is None


def test_a_table_of_another_graph_has_the_same_columns() -> None:
    directed = Graph([[1.0], [2.0], [3.0]], [[0, 1], [1, 2]], [0, 1, 0], directed=True)
    symmetric = Graph([[1.0], [2.0]], [[0, 1], [1, 0]], [0, 1], directed=True)
    for first, second in ((directed, symmetric), (symmetric, directed)):
        table = make_table(first, Blocks())
        other = make_table(second, Blocks(), table.plan)
        assert other.columns == table.columns
        assert other.values.shape == (second.num_nodes, len(table.columns))


def test_a_graph_that_does_not_fit() -> None:
    graph = Graph([[1.0], [2.0], [0.0]], [[0], [1]], [0, 1, 1])
    plan = make_table(graph, Blocks(spectral=True)).plan
    with pytest.raises(DataError, match="2 feature columns"):
        make_table(Graph([[1.0, 2.0]], [[0], [0]], [0]), Blocks(spectral=True), plan)
    with pytest.raises(DataError, match="by their number"):
        make_table(Graph([[1.0]], [[0], [0]], [0]), Blocks(spectral=True), plan)


@pytest.mark.parametrize("n", [1, 2, 40])
@pytest.mark.parametrize("num_edges", [0, 1, 200])
def test_spectral_coordinates_of_small_graphs(n: int, num_edges: int) -> None:
    edges = np.random.default_rng(0).integers(n, size=(2, num_edges))
    graph = Graph(np.ones((n, 1)), edges, np.zeros(n, int))
    table = make_table(graph, Blocks(structure=False, spectral=True))
    coordinates = table.values[:, 6:]
    assert coordinates.shape == (n, min(n, 32))
    assert np.isfinite(coordinates).all()
    if n <= 32:  # all singular vectors, so that products of rows are kept
        matrix = graph.undirected_adjacency.toarray()
        matrix = matrix / np.sqrt(np.maximum(matrix.sum(0), 1))
        matrix = matrix / np.maximum(np.linalg.norm(matrix, axis=1, keepdims=True), 1e-9)
        np.testing.assert_allclose(coordinates @ coordinates.T, matrix @ matrix.T, atol=1e-5)


def test_no_edge_is_read_without_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph([[1.0], [2.0]], [[0], [1]], [0, 1])
    monkeypatch.setattr(neighbour_table, "directions_of", None)
    table = make_table(graph, Blocks("none", structure=True, spectral=True))
    assert table.values.tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize("name", ["chameleon-filtered", "chameleon"])
def test_real_graphs(name: str, data_root: Path) -> None:
    graph = load_graph(name)
    table = make_table(graph, Blocks(spectral=True))
    assert np.isfinite(table.values).all()
    assert table.plan.by_direction == (name == "chameleon")
    links = graph.undirected_adjacency
    degree, closed = np.diff(links.indptr), (links @ links).multiply(links).sum(axis=1)
    np.testing.assert_allclose(clustering(links), closed / np.maximum(degree * (degree - 1), 1))
    near = reference.neighbour_lists(graph, table.plan.by_direction)["all"]
    place = [column.name() for column in table.columns].index("mean of component 0 of the features over neighbours")
    expected = reference.over_neighbours(np.mean, near, table.values[:, :1].astype(float))
    np.testing.assert_allclose(table.values[:, place], expected[:, 0], atol=1e-5)
    split = graph.splits[next(iter(graph.splits))][0]
    known = np.where(split.train, graph.y, -1)
    shares = table.label_shares(known, graph.num_classes)
    node = int(np.flatnonzero(split.train)[0])
    known[node] = (known[node] + 1) % graph.num_classes
    assert (table.label_shares(known, graph.num_classes)[node] == shares[node]).all()


def test_memory_beyond_the_table_does_not_grow_with_columns_times_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbour_statistics, "VALUES_AT_ONCE", 1 << 15)
    monkeypatch.setattr(structural, "PATHS_AT_ONCE", 1 << 15)
    rng = np.random.default_rng(0)
    nodes, edges, columns = 2_000, 60_000, 16
    x = rng.random((nodes, columns)).astype(np.float32)
    graph = Graph(x, rng.integers(nodes, size=(2, edges)), np.zeros(nodes, int), directed=True)
    _ = graph.directed_adjacency, graph.undirected_adjacency
    tracemalloc.start()
    table = make_table(graph, Blocks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * table.values.nbytes + 60 * edges  # all values of one direction are 64 bytes per edge, and more
