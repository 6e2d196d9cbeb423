"""`nlgnn store`, as users run it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli_samples import Command, everything, refused
from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.graph.store import GraphStore
from nlgnn.tables import read_graph


@pytest.fixture
def tables(tmp_path: Path) -> list[str]:
    """Two small tables; returns the flags that name them."""
    rng = np.random.default_rng(0)
    n = 60
    nodes = {
        "id": [f"v{i}" for i in range(n)],
        "size": rng.normal(size=n),
        "kind": [("a", "b")[i % 2] for i in range(n)],
    }
    ends = {name: [f"v{i}" for i in rng.integers(n, size=200)] for name in ("source", "target")}
    pl.DataFrame(nodes | {"y": [("yes", "no", "no", None)[i % 4] for i in range(n)]}).write_csv(tmp_path / "n.csv")
    pl.DataFrame(ends).write_parquet(tmp_path / "e.parquet")
    return ["--nodes", "n.csv", "--edges", "e.parquet", "--label", "y"]


def test_tables(command: Command, tables: list[str]) -> None:
    done = command("store", *tables, "--renumber", "--memory", "2GiB", "out/store")
    assert done.code == 0
    assert "60 nodes" in done.out
    assert "'y' holds the labels" in done.err
    found = GraphStore.open("out/store").to_graph()
    wanted = read_graph("n.csv", "e.parquet", label="y").graph
    assert found.node_names != wanted.node_names
    assert sorted(found.node_names or ()) == sorted(wanted.node_names or ())
    assert found.undirected_adjacency.nnz == wanted.undirected_adjacency.nnz


def test_a_named_graph(command: Command) -> None:
    assert command("store", "mushroom-body", "brain").code == 0
    graph = load_graph("mushroom-body")
    assert (GraphStore.open("brain").to_graph().undirected_adjacency != graph.undirected_adjacency).nnz == 0


@each_of(
    ("arguments", "what", "how"),
    [
        ([], "0 names", "Give tables"),
        (["texas"], "1 names", "nlgnn store texas"),
        (["texsa", "out"], "texsa", "Did you mean 'texas'"),
        (["--nodes", "n.csv", "--label", "y", "a", "b"], "2 names", "Give tables"),
        (["--nodes", "n.csv", "--edges", "e.parquet", "out"], "No label column", "--label"),
        (["--edges", "e.parquet", "--label", "y", "out"], "no table of nodes", "--nodes"),
        (["--nodes", "m.csv", "--label", "y", "out"], "m.csv does not exist", "n.csv"),
        (["--nodes", "n.csv", "--label", "y", "n.csv"], "exists", "Name a new folder"),
        (["--nodes", "n.csv", "--label", "y", "out", "--memory", "8"], "memory=8", "4GiB"),
        (["--nodes", "n.csv", "--label", "y", "out", "--memory", "1MiB"], "too little", "512 MiB"),
        (["--nodes", "n.csv", "--label", "y", "n.csv/out"], "cannot be", ""),
        (["texas", "out", "--renumber"], "--renumber is for tables", ""),
    ],
)
def test_mistakes(command: Command, tables: list[str], arguments: list[str], what: str, how: str) -> None:
    before = everything()
    refused(command("store", *arguments), what, how)
    assert everything() == before


def test_interrupted(command: Command, tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nlgnn.tables.store_builder.write_ids", interrupt)
    before = everything()
    assert command("store", *tables, "out").code == 130
    assert everything() == before
