"""A store built from tables holds the graph that the ordinary reader makes of them."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from each_of import each_of
from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph import Graph, edge_sort
from nlgnn.graph.store import GraphStore
from nlgnn.tables import large_table, read_graph, store_builder
from nlgnn.tables.store_builder import TableColumns, build_store

GIB = 1 << 30


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks, chunks and buckets so small that a table of some hundred rows has several of each."""
    monkeypatch.setattr(large_table, "SMALLEST_BLOCK", 512)
    monkeypatch.setattr(large_table, "IN_MEMORY_SHARE", 1e-9)
    monkeypatch.setattr(edge_sort, "FEWEST_ENTRIES", 64)
    monkeypatch.setattr(edge_sort, "BYTES_PER_ENTRY", GIB // 100)
    monkeypatch.setattr(store_builder, "BYTES_PER_EDGE_ROW", GIB)
    monkeypatch.setattr(store_builder, "FEWEST_EDGE_ROWS", 50)
    monkeypatch.setattr(store_builder, "FEATURE_SHARE", 2e-6)


def write_tables(folder: Path, form: str, numbered: bool = False, weights: bool = False) -> tuple[Path, Path]:
    """Write messy tables: gaps, lists, dates, prose, a key, blank lines, loops and repeated edges."""
    rng = np.random.default_rng(0)
    n, m = 150, 700
    ids = [str(7 * i) for i in range(n)] if numbered else [f"n {i}é" for i in range(n)]
    words = ["red fox", "blue", "green tea, hot", 'say "hi"', "x\ny", None]
    rows = {
        "id": ids,
        "size": [None if i % 11 == 0 else f"{rng.normal():.3f}" for i in range(n)],
        "colour": [words[i] for i in rng.integers(6, size=n)],
        "tags": [";".join(f"t{j}" for j in rng.choice(9, 2)) for _ in range(n)],
        "day": [f"2024-{1 + i % 12:02d}-{1 + i % 28:02d}" for i in range(n)],
        "serial": [f"S-{i:05d}" for i in range(n)],
        "flag": [("yes", "no", "")[i] for i in rng.integers(3, size=n)],
        "topic": [("a", "b", "c", " ")[i] for i in rng.choice(4, n, p=[0.5, 0.3, 0.1, 0.1])],
        "split": [("train", "val", "test")[i % 3] for i in range(n)],
        "group": [f"g{i % 17}" for i in range(n)],
    }
    nodes = pl.DataFrame(rows)
    edges = pl.DataFrame(
        {"source": [ids[i] for i in rng.integers(n, size=m)], "target": [ids[i] for i in rng.integers(n, size=m)]}
    )
    edges = pl.concat([edges, edges[:20], pl.DataFrame({"source": ids[:3], "target": ids[:3]})])
    if weights:
        edges = edges.with_columns(pl.Series("weight", rng.integers(4, size=len(edges)) / 2))
    if form == "parquet" and numbered:
        nodes, edges = (
            nodes.with_columns(pl.col("id").cast(pl.Int64)),
            edges.with_columns(pl.col("source", "target").cast(pl.Int32)),
        )
    paths = folder / f"nodes.{form}", folder / f"edges.{form}"
    for frame, path in zip((nodes, edges), paths, strict=True):
        if form == "parquet":
            frame.write_parquet(path, row_group_size=37)
        elif form == "jsonl":
            frame.write_ndjson(path)
        else:
            text = frame.write_csv(separator=";" if form == "tsv" else ",")
            path.write_bytes(gzip.compress(text.encode()) if form.endswith("gz") else text.encode())
    return paths


def dense(graph: Graph) -> np.ndarray:
    return graph.x.toarray() if isinstance(graph.x, sparse.csr_array) else np.asarray(graph.x)


def check_equal(found: Graph, wanted: Graph) -> None:
    """Compare two graphs whose nodes may be in another order."""
    assert found.node_names is not None
    assert wanted.node_names is not None
    place = {name: number for number, name in enumerate(found.node_names)}
    rows = np.array([place[name] for name in wanted.node_names])
    assert sorted(rows) == list(range(wanted.num_nodes))
    assert np.array_equal(dense(found)[rows], dense(wanted))
    assert np.array_equal(found.y[rows], wanted.y)
    names = ["undirected_weights", *(["directed_weights"] if wanted.directed else [])]
    for name in names:
        assert (getattr(found, name)[rows][:, rows] != getattr(wanted, name)).nnz == 0
    assert (found.class_names, found.row_norm, found.directed, found.name) == (
        wanted.class_names,
        wanted.row_norm,
        wanted.directed,
        wanted.name,
    )
    assert found.splits.keys() == wanted.splits.keys()
    for protocol, splits in wanted.splits.items():
        for a, b in zip(found.splits[protocol], splits, strict=True):
            assert all(np.array_equal(getattr(a, part)[rows], getattr(b, part)) for part in ("train", "val", "test"))


@each_of(
    ("form", "made", "roles", "renumber"),
    [
        ("csv", {}, {}, False),
        ("csv", {}, {}, True),
        ("csv.gz", {"numbered": True, "weights": True}, {"directed": True}, False),
        ("tsv", {"weights": True}, {"group": "group"}, True),
        ("parquet", {"numbered": True, "weights": True}, {}, True),
        ("parquet", {}, {"directed": True, "time": "day", "kind": {"colour": "text"}}, False),
        ("jsonl", {"numbered": True}, {"drop": ("tags",), "kind": {"serial": "category"}}, False),
        ("csv", {}, {"keep": ("colour", "size"), "drop_leaks": True}, True),
    ],
)
def test_equal_to_the_ordinary_reader(
    tmp_path: Path, form: str, made: dict[str, Any], roles: dict[str, Any], renumber: bool
) -> None:
    nodes, edges = write_tables(tmp_path, form, **made)
    wanted = read_graph(nodes, edges, label="topic", **roles)
    steps: list[str] = []
    built = build_store(
        *(nodes, edges, tmp_path / "store", TableColumns(label="topic", **roles)),
        memory=GIB,
        renumber=renumber,
        tell=lambda words, share: steps.append(words),
    )
    check_equal(built.store.to_graph(), wanted.graph)
    if not renumber:
        assert built.store.to_graph().node_names == wanted.graph.node_names
    assert built.columns == wanted.columns
    assert set(built.warnings) == set(wanted.warnings)
    assert min(steps.count(step) for step in ("reading edges", "writing features")) > 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([nodes.name, edges.name, "store"])
    names = {path.name for path in (tmp_path / "store").iterdir()}
    assert names == {"store.json", *built.store.header.sha256}


@each_of("unknown_nodes", ["drop", "add"])
def test_unknown_nodes(tmp_path: Path, unknown_nodes: Any) -> None:
    nodes, edges = write_tables(tmp_path, "csv")
    with edges.open("a") as file:
        file.write("new,n 1é\nn 2é,newer\n" + "n 1é,n 3é\n" * 200 + "newest,new\n")
    wanted = read_graph(nodes, edges, label="topic", unknown_nodes=unknown_nodes)
    built = build_store(
        *(nodes, edges, tmp_path / "store", TableColumns(label="topic", unknown_nodes=unknown_nodes)), memory=GIB
    )
    check_equal(built.store.to_graph(), wanted.graph)
    assert built.store.nodes == (153 if unknown_nodes == "add" else 150)
    with pytest.raises(DataError, match=r"edges.csv, line"):
        build_store(nodes, edges, tmp_path / "other", TableColumns(label="topic"), memory=GIB)
    assert not (tmp_path / "other").exists()


def test_no_edges(tmp_path: Path) -> None:
    nodes, edges = write_tables(tmp_path, "csv")
    edges.write_text("source,target\n")
    for number, given in enumerate((None, edges)):
        built = build_store(nodes, given, tmp_path / str(number), TableColumns(label="topic"), memory=GIB)
        assert built.store.edges == 0
        assert built.store.to_graph().num_nodes == 150


@each_of(
    ("change", "columns", "words"),
    [
        (lambda text: text.replace("n 7é", "n 8é"), {}, "has already"),
        (lambda text: text, {"label": "tpic"}, "'topic'"),
        (lambda text: text, {"keep": ("serial",)}, "becomes a feature"),
        (lambda text: text, {"label": "id"}, "ids, not labels"),
        (lambda text: text + "a,b\n", {}, "line 1"),
        (lambda text: "", {}, "is empty"),
    ],
)
def test_mistakes(tmp_path: Path, change: Any, columns: dict[str, Any], words: str) -> None:
    nodes, edges = write_tables(tmp_path, "csv")
    nodes.write_text(change(nodes.read_text()))
    with pytest.raises(NlgnnError, match=words):
        build_store(nodes, edges, tmp_path / "store", TableColumns(**{"label": "topic"} | columns), memory=GIB)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "nodes.csv"]


def test_weights_must_be_plain_numbers(tmp_path: Path) -> None:
    nodes, edges = write_tables(tmp_path, "csv", weights=True)
    edges.write_text(edges.read_text() + 'n 1é,n 2é,"1,234"\n')
    with pytest.raises(DataError, match="line 725, column 'weight' is '1,234'"):
        build_store(nodes, edges, tmp_path / "store", TableColumns(label="topic"), memory=GIB)


def test_memory_that_does_not_suffice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, edges = write_tables(tmp_path, "parquet")
    columns = TableColumns(label="topic")
    with pytest.raises(DataError, match="too little"):
        build_store(nodes, edges, tmp_path / "store", columns, memory=1 << 20)
    monkeypatch.setattr(store_builder, "BYTES_PER_NODE", GIB)
    with pytest.raises(DataError, match="150 nodes may take"):
        build_store(nodes, edges, tmp_path / "store", columns, memory=GIB)
    monkeypatch.setattr(store_builder, "BYTES_PER_NODE", 1)
    monkeypatch.setattr(store_builder, "COLUMN_COPIES", GIB)
    with pytest.raises(DataError, match=r"the column '.*' may take"):
        build_store(nodes, edges, tmp_path / "store", columns, memory=GIB)


def test_a_full_disk_is_noticed_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, edges = write_tables(tmp_path, "parquet")
    monkeypatch.setattr(store_builder, "DISK_RESERVE", 1 << 62)
    with pytest.raises(DataError, match="disk space"):
        build_store(nodes, edges, tmp_path / "store", TableColumns(label="topic"), memory=GIB)
    assert not (tmp_path / "store").exists()


def test_a_killed_process_leaves_no_store(tmp_path: Path) -> None:
    nodes, edges = write_tables(tmp_path, "csv")
    code = """
import os, signal, sys
from nlgnn.tables.store_builder import TableColumns, build_store
def tell(words, share):
    if words == "encoding columns" and share > 0:
        os.kill(os.getpid(), signal.SIGKILL)
build_store(sys.argv[1], sys.argv[2], sys.argv[3], TableColumns(label="topic"), memory=1 << 30, tell=tell)
"""
    command = [sys.executable, "-c", code, str(nodes), str(edges), str(tmp_path / "store")]
    assert subprocess.run(command, env={**os.environ}).returncode == -signal.SIGKILL
    assert not (tmp_path / "store").exists()
    assert len(list(tmp_path.iterdir())) == 3  # the tables and a half-made folder
    built = build_store(nodes, edges, tmp_path / "store", TableColumns(label="topic"), memory=GIB)
    assert len(list(tmp_path.iterdir())) == 3
    assert GraphStore.open(tmp_path / "store").fingerprint == built.store.fingerprint
