"""GraphStore: what is written is read again, slice by slice and whole, and damaged folders are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from random_graphs import graph_parts
from scipy import sparse

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.graph import Graph, Split
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.store import GraphStore
from nlgnn.graph.store_files import is_store
from nlgnn.limits import memory_limit


def small_graph(directed: bool = False) -> Graph:
    """Six nodes: a loop, a repeated edge, both directions of a pair, an isolated node and an unknown label."""
    edges = [[0, 1], [1, 0], [1, 2], [1, 2], [3, 3], [4, 2], [0, 4], [0, 2]]
    return Graph(
        x=np.arange(12, dtype=np.float32).reshape(6, 2),
        edge_index=np.array(edges).T,
        y=[0, 1, 0, 1, -1, 0],
        directed=directed,
        name="small",
        class_names=("no", "yes"),
        node_names=["a", "b", "c", "d", "e", "ü"],
        splits={"column": [Split.from_indices(6, [0, 1], [2], [3, 5], index=i) for i in range(2)]},
        edge_weight=[1, 3, 2, 2, 1, 0.5, 0, 1],
        row_norm=2.0,
    )


def same_matrices(first: Graph, second: Graph) -> bool:
    """Return whether two graphs have the same undirected, and if directed the same directed weights."""
    pairs = [(first.undirected_weights, second.undirected_weights)]
    if first.directed:
        pairs.append((first.directed_weights, second.directed_weights))
    return all(a.shape == b.shape and (a != b).nnz == 0 for a, b in pairs)


@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_is_read_as_it_was_written(tmp_path: Path, directed: bool) -> None:
    graph = small_graph(directed)
    store = GraphStore.write(graph, tmp_path / "store")
    found = GraphStore.open(tmp_path / "store").to_graph()
    assert is_store(tmp_path / "store")
    assert (store.nodes, store.features, store.classes, store.directed) == (6, 2, ("no", "yes"), directed)
    assert same_matrices(graph, found)
    assert (found.edge_index[0] == found.edge_index[1]).sum() == 1  # the loop
    for name in ("name", "class_names", "node_names", "row_norm", "directed"):
        assert getattr(found, name) == getattr(graph, name)
    assert np.array_equal(found.x, graph.x)
    assert np.array_equal(found.y, graph.y)
    for before, after in zip(graph.splits["column"], found.splits["column"], strict=True):
        assert after.index == before.index
        assert all(np.array_equal(getattr(before, part), getattr(after, part)) for part in ("train", "val", "test"))


def test_rows_hold_the_sources_of_edges(tmp_path: Path) -> None:
    store = GraphStore.write(small_graph(directed=True), tmp_path / "store")
    rows = store.rows(1, 4)
    assert rows.start == 1
    assert [rows.indices[a:b].tolist() for a, b in zip(rows.indptr, rows.indptr[1:], strict=False)] == [
        [0],
        [0, 1, 4],
        [3],
    ]
    assert rows.weights is not None
    assert rows.weights.tolist() == [1, 1, 4, 0.5, 1]
    assert np.array_equal(rows.x, np.arange(2, 8, dtype=np.float32).reshape(3, 2))
    assert rows.y.tolist() == [1, 0, 1]
    assert rows.split.tolist() == [[0, 1, 2]] * 2
    nothing = store.rows(6, 6)
    assert nothing.x.shape == (0, 2)
    assert nothing.indptr.tolist() == [0]
    with pytest.raises(DataError, match="has no nodes 3 to 6"):
        store.rows(3, 7)


@given(graph_parts())
@settings(max_examples=30, deadline=None)
def test_slices_make_up_the_whole(tmp_path_factory: pytest.TempPathFactory, parts: dict[str, object]) -> None:
    graph = Graph(**parts)  # type: ignore[arg-type]
    store = GraphStore.write(graph, tmp_path_factory.mktemp("stores") / "store")
    middle = graph.num_nodes // 2
    slices = [store.rows(0, middle), store.rows(middle, graph.num_nodes)]
    assert np.array_equal(np.concatenate([rows.indices for rows in slices]), store.rows(0, graph.num_nodes).indices)
    assert np.array_equal(np.concatenate([rows.x for rows in slices]), graph.x)
    assert same_matrices(graph, store.to_graph())


def test_sparse_features_become_dense_and_stay_on_disk_on_request(tmp_path: Path) -> None:
    graph = replace(small_graph(), x=sparse.csr_array(np.eye(6, 3, dtype=np.float32)), row_norm=None)
    store = GraphStore.write(graph, tmp_path / "store")
    assert np.array_equal(store.to_graph().x, np.eye(6, 3))
    assert isinstance(store.to_graph(on_disk=True).x, FeaturesOnDisk)
    assert store.to_graph(named=False).node_names is None


def test_types_of_edges_are_refused(tmp_path: Path) -> None:
    graph = replace(small_graph(), edge_type=np.zeros(8, np.int64), edge_types=("one",))
    with pytest.raises(DataError, match="types of edges"):
        GraphStore.write(graph, tmp_path / "store")
    assert not any(tmp_path.iterdir())


def test_stores_of_one_graph_have_one_fingerprint(tmp_path: Path) -> None:
    stores = [GraphStore.write(small_graph(), tmp_path / name) for name in ("a", "b")]
    other = GraphStore.write(replace(small_graph(), y=[1, 1, 0, 1, -1, 0]), tmp_path / "c")
    assert stores[0].fingerprint == stores[1].fingerprint != other.fingerprint


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"0")


def replace_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def other_type(path: Path) -> None:
    np.save(path, np.load(path).astype(np.float64))


def by_column(path: Path) -> None:
    np.save(path, np.asfortranarray(np.load(path)))


@each_of(
    ("file", "damage", "words"),
    [
        ("store.json", Path.unlink, "lacks store.json"),
        ("x.npy", Path.unlink, "lacks x.npy"),
        ("ids.parquet", Path.unlink, "lacks ids.parquet"),
        ("x.npy", shorten, "bytes instead of"),
        ("indices.npy", lengthen, "bytes instead of"),
        ("x.npy", other_type, "holds float64"),
        ("x.npy", by_column, "column by column"),
        ("y.npy", replace_by_pipe, "not a regular file"),
        ("store.json", replace_by_pipe, "not a regular file"),
        ("indptr.npy", lambda path: path.write_bytes(b"not an array"), "not an array"),
        ("indptr.npy", lambda path: path.write_bytes(b""), "not an array"),
        ("split.npy", lambda path: np.save(path, np.zeros((1, 6), np.int8)), "states int8 of shape"),
        ("store.json", lambda path: path.write_text("[]"), "not that of a store"),
        ("store.json", lambda path: path.write_text("{"), "not that of a store"),
    ],
)
def test_damaged_folders(tmp_path: Path, file: str, damage: Callable[[Path], None], words: str) -> None:
    GraphStore.write(small_graph(), tmp_path / "store")
    damage(tmp_path / "store" / file)
    with pytest.raises(DataError, match=words):
        GraphStore.open(tmp_path / "store")


@each_of(
    ("key", "value", "words"),
    [
        ("version", 2, "another version"),
        ("nodes", 5, "of shape"),
        ("nodes", -1, "nodes"),
        ("nodes", 10**30, "nodes"),
        ("nodes", "6", "nodes"),
        ("splits", 1, "names 2 of 1 splits"),
        ("extra", 1, "extra"),
        ("sha256", {}, "no checksum"),
        ("sha256", {"../x": "0" * 64}, "unknown file"),
    ],
)
def test_wrong_headers(tmp_path: Path, key: str, value: object, words: str) -> None:
    GraphStore.write(small_graph(), tmp_path / "store")
    path = tmp_path / "store" / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(DataError, match=words):
        GraphStore.open(tmp_path / "store")


@each_of("file", ["x.npy", "y.npy", "indptr.npy", "indices.npy", "weights.npy", "split.npy", "ids.parquet"])
def test_a_changed_byte_is_noticed(tmp_path: Path, file: str) -> None:
    store = GraphStore.write(small_graph(), tmp_path / "store")
    content = bytearray((tmp_path / "store" / file).read_bytes())
    content[-1] ^= 1
    (tmp_path / "store" / file).write_bytes(content)
    with pytest.raises(DataError, match=f"the checksum of {file} is wrong"):
        store.to_graph()


@each_of(
    ("file", "values"),
    [
        ("indices.npy", np.full(9, 6, np.int32)),
        ("y.npy", np.full(6, 2)),
        ("indptr.npy", np.array([0, 3, 2, 5, 6, 8, 9])),
        ("split.npy", np.full((2, 6), 3, np.int8)),
    ],
)
def test_slices_of_wrong_numbers_are_refused(tmp_path: Path, file: str, values: np.ndarray) -> None:
    store = GraphStore.write(small_graph(), tmp_path / "store")
    assert store.arrays[file].read().shape == values.shape
    np.save(tmp_path / "store" / file, values)
    with pytest.raises(DataError, match=file):
        GraphStore.open(tmp_path / "store").rows(0, 6)


def test_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name in ("file", "absent"):
        assert not is_store(tmp_path / name)
        with pytest.raises(DataError, match="not a folder"):
            GraphStore.open(tmp_path / name)


def test_a_graph_that_does_not_fit_into_memory(tmp_path: Path) -> None:
    store = GraphStore.write(small_graph(), tmp_path / "store")
    with memory_limit("1MiB"), pytest.raises(DataError, match="store would take about"):
        store.to_graph()
