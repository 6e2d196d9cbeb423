"""A split by time and a split by group on the command line, from training to predictions and report."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from cli_samples import Command

TABLES = ("--nodes", "accounts.csv", "--edges", "payments.csv", "--label", "fraud")
BY_TIME = ("--time-column", "opened", "--edge-time-column", "paid")
GCN = ("--model", "gcn", "--epochs", 3)


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty accounts, opened one per day, with payments from then on; the last three have no label."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    day = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 2, 29), eager=True)
    label = np.where(np.arange(60) < 57, np.where(np.arange(60) % 3 == 0, "yes", "no"), "")
    balance = rng.normal(size=60) + (np.arange(60) % 3 == 0)
    nodes = {"account": [f"A{i}" for i in range(60)], "opened": day, "home": np.arange(60) // 2, "balance": balance}
    pl.DataFrame({**nodes, "fraud": label}).write_csv("accounts.csv")
    ends = rng.integers(60, size=(2, 150))
    ids = {name: [f"A{i}" for i in row] for name, row in zip(("source", "target"), ends, strict=True)}
    purpose = np.array(["rent", "gift"])[ends.sum(0) % 2]
    paid = {"paid": day.gather(ends.max(0)), "euros": rng.integers(1, 9, 150), "purpose": purpose}
    pl.DataFrame({**ids, **paid}).write_csv("payments.csv")


def test_from_training_by_time_to_predictions(command: Command) -> None:
    done = command("train", *TABLES, *BY_TIME, *GCN, "--out", "X")
    assert done.code == 0, done.err
    assert "test 2024-02-" in done.err
    config = json.loads(Path("X/config.json").read_text())
    assert config["protocol"] == "time"
    assert (config["tables"]["time"], config["tables"]["edge_time"]) == ("opened", "paid")
    figures = json.loads(Path("X/summary.json").read_text())["runs"][0]["test"]
    assert "Over time" in Path("X/report.html").read_text()
    assert command("predict", "X", "--out", "labels.csv").code == 0
    assert pl.read_csv("labels.csv")["account"].to_list() == ["A57", "A58", "A59"]
    assert command("explain", "X", "A50").code == 0
    assert command("report", "X").code == 0
    assert command("train", "--resume", "X").code == 0
    Path("plan.toml").write_text(
        'nodes = "accounts.csv"\nedges = "payments.csv"\nlabel = "fraud"\ntime-column = "opened"\n'
        'edge-time-column = "paid"\nmodel = "gcn"\nepochs = 3\n'
    )
    assert command("train", "--config", "plan.toml", "--splits", "time", "--out", "Y").code == 0
    assert json.loads(Path("Y/summary.json").read_text())["runs"][0]["test"] == figures


def test_predictions_of_new_nodes_after_training_by_time(command: Command) -> None:
    assert command("train", *TABLES, *BY_TIME, *GCN, "--out", "X").code == 0
    Path("new.csv").write_text("account,balance,home\nN1,0.5,99\n")
    Path("new-edges.csv").write_text("source,target\nN1,A3\n")
    done = command("predict", "X", "--nodes", "new.csv", "--edges", "new-edges.csv", "--out", "new-labels.csv")
    assert done.code == 0, done.err
    assert pl.read_csv("new-labels.csv")["account"].to_list() == ["N1"]


def test_training_by_group(command: Command) -> None:
    done = command("train", *TABLES, "--group-column", "home", *GCN, "--out", "X")
    assert done.code == 0, done.err
    table = pl.read_parquet("X/predictions.parquet")
    assert set(table["tested in runs"].head(57)) == {1}


def test_two_ways_to_split_are_refused(command: Command) -> None:
    done = command("train", *TABLES, *BY_TIME, *GCN, "--splits", "random-60")
    assert (done.code, done.err.count("\n")) == (2, 2)


def test_types_of_edges_from_training_to_new_nodes(command: Command) -> None:
    done = command("train", *TABLES, "--edge-type-column", "purpose", "--model", "trees", "--out", "X")
    assert done.code == 0, done.err
    assert json.loads(Path("X/config.json").read_text())["tables"]["edge_type"] == "purpose"
    assert command("explain", "X", "A50").code == 0
    assert command("report", "X").code == 0
    done = command("train", *TABLES, "--edge-type-column", "purpose", "--model", "bank", "--epochs", 2, "--out", "Y")
    assert done.code == 0, done.err
    Path("new.csv").write_text("account,opened,balance,home\nN1,2024-03-01,0.5,99\n")
    Path("new-edges.csv").write_text("source,target,purpose\nN1,A3,gift\nN1,A5,theft\n")
    done = command("predict", "Y", "--nodes", "new.csv", "--edges", "new-edges.csv", "--out", "new-labels.csv")
    assert done.code == 0, done.err
    assert pl.read_csv("new-labels.csv")["account"].to_list() == ["N1"]
