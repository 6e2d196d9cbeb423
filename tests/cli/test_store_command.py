"""`nlgnn store`, as users run it."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli_samples import Command, everything, refused
from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.graph.store import GraphStore
from nlgnn.tables import read_graph
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import node_names, read_plan


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


def test_training_prediction_and_statistics(command: Command, tables: list[str]) -> None:
    """Predictions have the original ids."""
    assert command("store", *tables, "--renumber", "s").code == 0
    assert command("train", "s", "--model", "mlp", "--runs", "1", "--epochs", "5", "--out", "of-store").code == 0
    assert command("predict", "of-store", "--out", "labels.parquet").code == 0
    nodes, labels = pl.read_csv("n.csv"), pl.read_parquet("labels.parquet")
    assert sorted(labels["id"]) == sorted(nodes.filter(pl.col("y").is_null())["id"])
    ids = GraphStore.open("s").ids()
    assert ids is not None
    assert labels["id"].to_list() == [name for name in ids if name in set(labels["id"])]
    of_training = pl.read_parquet("of-store/predictions.parquet")
    assert of_training["node"].to_list() == ids.to_list()
    plan = read_plan(RunFolder.open(Path("of-store")))
    part = GraphStore.open("s").to_graph(named=False)  # as one of several processes has it
    assert node_names(plan, part) == ids.to_list()
    refused(command("predict", "of-store", "--nodes", "n.csv", "--out", "x.csv"), "no tables to add")
    described = json.loads(command("diagnose", "s", "--json").out)
    assert described["profile"]["nodes"] == 60
    assert "Homophily" in command("diagnose", "--graph-file", "s").out
    assert not Path("runs").exists()
    search = (
        "--model",
        "mlp",
        "--settings",
        "1",
        "--search-splits",
        "1",
        "--search-epochs",
        "2",
        "--study",
        "study.db",
    )
    assert "nlgnn train --graph-file" in command("tune", "s", *search).out


@each_of(
    ("arguments", "what", "how"),
    [
        (["s", "--label", "y"], "--label does not apply to s", "Leave --label out"),
        (["s", "--directed-edges"], "which states the direction", ""),
        (["s", "--nodes", "n.csv", "--label", "y"], "does not apply to s", ""),
        (["s", "--splits", "geom-gcn"], "no splits 'geom-gcn'", "random-60"),
        (["empty"], "empty is a folder, but no graph store", "nlgnn store"),
        (["short"], r"x\.npy has .* bytes instead of", "copy it again"),
        (["short", "--model", "mlp"], r"x\.npy has .* bytes instead of", "copy it again"),
        (["changed"], r"the checksum of y\.npy is wrong", "Write the store again"),
        (["--graph-file", "absent"], "absent does not exist", ""),
    ],
)
def test_stores_that_cannot_be_trained_on(
    command: Command, tables: list[str], arguments: list[str], what: str, how: str
) -> None:
    if not Path("s").exists():
        assert command("store", *tables, "s").code == 0
        for name in ("short", "changed"):
            shutil.copytree("s", name)
        os.truncate("short/x.npy", 200)
        content = bytearray(Path("changed/y.npy").read_bytes())
        content[-8] ^= 1
        Path("changed/y.npy").write_bytes(content)
        Path("empty").mkdir()
    refused(command("train", *arguments), what, how, after_notes=True)
    assert not Path("runs").exists()


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
