"""Tables of edges with weights: used or said not to be, told by a diagnosis, carried along to new nodes."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from cli_samples import Command
from nlgnn.selection import evidence

TABLES = ("--nodes", "pages.csv", "--edges", "links.csv", "--label", "topic")
TRAIN = ("train", *TABLES, "--runs", 2, "--epochs", 5)
IGNORED = "does not look at the weights of edges: all edges of graph 'pages' count alike."


def write(path: str, rows: Sequence[Sequence[object]]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> None:
    """Sixty pages of two topics, links that weigh more inside a topic, and a page that training does not see."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(evidence.SHORT, "epochs", 2)
    rng = np.random.default_rng(0)
    pages = [
        [f"page {number}", *np.round(rng.normal(size=2) + number % 2, 3), "ab"[number % 2]] for number in range(60)
    ]
    links = [
        [f"page {one}", f"page {other}", 1 if (one - other) % 2 == 0 else 0.01, rng.integers(1, 90)]
        for one, other in rng.integers(60, size=(150, 2))
    ]
    write("pages.csv", [["url", "size", "age", "topic"], *pages])
    write("links.csv", [["source", "target", "weight", "visits"], *links])
    write("new.csv", [["url", "size", "age"], ["new", 0.5, 0.5]])
    # Strong links to even pages and weak ones to odd pages, or the other way round.
    ends = [(f"page {number}", number % 2) for number in range(20)]
    for name, heavy in (("even", 0), ("odd", 1)):
        links = [["new", page, 1 if parity == heavy else 0.01, 1] for page, parity in ends]
        write(f"new-{name}.csv", [["source", "target", "weight", "visits"], *links])
    write("new-without.csv", [["source", "target"], ["new", "page 1"]])


@pytest.mark.usefixtures("tables")
def test_weights_are_used_and_carried_to_new_nodes(command: Command) -> None:
    done = command(*TRAIN, "--model", "gcn", "--epochs", 60, "--out", "X")
    assert done.code == 0, done.err
    assert "'weight' holds the weights of the edges" in done.err
    assert "does not look" not in done.err
    chances = []
    for name in ("even", "odd"):
        done = command("predict", "X", "--nodes", "new.csv", "--edges", f"new-{name}.csv", "--out", f"{name}.csv")
        assert done.code == 0, done.err
        with open(f"{name}.csv", newline="") as file:
            chances.append(float(next(csv.DictReader(file))["probability of a"]))
    assert chances[0] > chances[1] + 0.1
    done = command("predict", "X", "--nodes", "new.csv", "--edges", "new-without.csv", "--out", "y.csv")
    assert done.code == 2
    assert "new-without.csv has no column 'weight'" in done.err
    assert not Path("y.csv").exists()


@pytest.mark.usefixtures("tables")
def test_a_column_by_name(command: Command) -> None:
    fingerprints = []
    for flags in ((), ("--weight-column", "visits")):
        folder = f"X{len(flags)}"
        done = command(*TRAIN, *flags, "--model", "gcn", "--out", folder)
        assert done.code == 0, done.err
        fingerprints.append(json.loads(Path(folder, "config.json").read_text())["fingerprint"])
    assert "'visits' holds the weights of the edges" in done.err
    assert fingerprints[0] != fingerprints[1]
    done = command("predict", "X2", "--nodes", "new.csv", "--edges", "new-even.csv", "--out", "y.csv")
    assert done.code == 0, done.err
    assert "'visits' holds the weights of the edges" in done.err
    done = command(*TRAIN, "--weight-column", "hits", "--out", "Y")
    assert (done.code, Path("Y").exists()) == (2, False)
    assert "links.csv has no column 'hits' for the weights." in done.err


@pytest.mark.usefixtures("tables")
def test_a_model_that_ignores_weights_is_named_once(command: Command) -> None:
    done = command(*TRAIN, "--model", "nlgat", "--controls", "--out", "X")
    assert done.code == 0, done.err
    said = [line for line in done.err.splitlines() if "does not look" in line]
    assert said == [f"warning: NLGAT {IGNORED}", f"warning: GAT {IGNORED}"]  # of three variants of the first, one


@pytest.mark.usefixtures("tables")
def test_a_diagnosis_tells_of_weights(command: Command) -> None:
    done = command("diagnose", *TABLES, "--out", "X")
    assert done.code == 0, done.err
    assert "weights of edges" in done.out
    assert done.err.count(f"warning: GAT {IGNORED}") == 1
    assert "weights of edges" in Path("X/report.html").read_text()
