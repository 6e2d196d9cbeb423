"""Thresholds and costs on the command line, from training to labels, in files and pipes."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from cli_samples import Command, refused
from each_of import each_of

TRAIN = ("train", "--nodes", "nodes.csv", "--edges", "edges.csv", "--label", "fraud", "--runs", 3)
LOGISTIC = ("--model", "logistic")


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_portfolio: None) -> None:
    """Two hundred nodes, a tenth of them of class yes, of which a number tells something; twenty have no label."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    fraud = np.arange(200) % 10 == 0
    amount = np.round(rng.standard_normal(200) + 2.0 * fraud, 3)
    labels = np.where(np.arange(200) < 180, np.where(fraud, "yes", "no"), "")
    pl.DataFrame({"id": [f"n{node}" for node in range(200)], "amount": amount, "fraud": labels}).write_csv("nodes.csv")
    ends = rng.integers(200, size=(400, 2))
    pl.DataFrame({"source": [f"n{one}" for one in ends[:, 0]], "target": [f"n{one}" for one in ends[:, 1]]}).write_csv(
        "edges.csv"
    )


def decision_in(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "decision.json").read_text())
    return found


def labels_in(text: str) -> tuple[list[str], np.ndarray]:
    rows = list(csv.DictReader(io.StringIO(text)))
    return [row["fraud"] for row in rows], np.array([float(row["probability of yes"]) for row in rows])


def test_from_training_to_labels(command: Command) -> None:
    done = command(*TRAIN, *LOGISTIC, "--out", "X")
    assert done.code == 0, done.err
    assert "--metric selects another" in done.err
    assert json.loads(Path("X/config.json").read_text())["options"]["metric"] == "average-precision"
    stored = decision_in("X")
    assert (stored["rule"], stored["positive_class"]) == ("best-f1", "yes")
    assert f"from a probability of {stored['threshold']:.3f} (best F1, median of the runs)" in done.out
    assert command("predict", "X", "--all").code == 0
    labels, probabilities = labels_in(Path("labels.csv").read_text())
    assert labels == np.where(probabilities >= stored["threshold"], "yes", "no").tolist()
    again = command("predict", "X", "--all", "--threshold", "0.01", "--force")
    assert again.out.endswith("labels.csv (replaced)\n")
    low, same = labels_in(Path("labels.csv").read_text())
    assert same.tolist() == probabilities.tolist()
    assert low == np.where(probabilities >= 0.01, "yes", "no").tolist()
    assert low.count("yes") > labels.count("yes")
    assert decision_in("X") == stored  # what is given to predict is not kept


@each_of(
    ("given", "rule", "words"),
    [
        (("--threshold", "recall=0.9"), "recall=0.9", "(recall=0.9, median of the runs)"),
        (("--threshold", "0.25"), "0.25", "0.250 (as given)"),
        (("--cost", "yes:19"), "least cost", "0.050 (least expected cost)"),
        (("--cost", "yes:19", "--threshold", "0.25"), "0.25", "cost per node"),
    ],
)
def test_rules_are_kept_with_the_run(
    given: tuple[str, ...], rule: str, words: str, tmp_path_factory: pytest.TempPathFactory, command: Command
) -> None:
    folder = tmp_path_factory.mktemp("runs") / "X"
    done = command(*TRAIN, *LOGISTIC, *given, "--out", folder)
    assert done.code == 0, done.err
    assert words in done.out
    assert decision_in(str(folder))["rule"] == rule
    page = (folder / "report.html").read_text()
    assert "Labels by threshold or cost" in page
    assert f"{given[0]} {given[1]}" in page  # of the command that repeats it


def test_the_automatic_choice_keeps_the_rule(command: Command) -> None:
    done = command(*TRAIN, "--epochs", 5, "--cost", "yes:19", "--out", "X")
    assert done.code == 0, done.err
    assert "0.050 (least expected cost)" in done.out
    for folder in Path("X/models").iterdir():
        assert decision_in(str(folder))["rule"] == "least cost"
    assert command("predict", "X", "--out", "l.jsonl").code == 0
    rows = [json.loads(line) for line in Path("l.jsonl").read_text().splitlines()]
    assert len(rows) == 20
    assert all((row["probability of yes"] >= 0.05) == (row["fraud"] == "yes") for row in rows)


@each_of(
    ("arguments", "what", "how"),
    [
        ((*TRAIN, "--threshold", "f1"), "threshold='f1' is not a threshold", "best-f1"),
        ((*TRAIN, "--cost", "yes"), "cost='yes'", "CLASS:COST"),
        (("train", "texas", "--threshold", "best-f1", "--resume", "X"), "There is no folder X", ""),
        (("predict", "nosuch", "--threshold", "2"), "There is no folder nosuch", ""),
    ],
)
def test_texts_are_checked_before_tables_are_read(
    arguments: tuple[Any, ...], what: str, how: str, command: Command
) -> None:
    refused(command(*arguments), what, how)


def test_rules_that_do_not_apply(command: Command) -> None:
    for model in ("auto", "logistic"):
        refused(command(*TRAIN, "--model", model, "--cost", "maybe:3"), "neither a class", "Classes: no, yes", True)
    nodes = pl.read_csv("nodes.csv").with_columns(fraud=pl.Series(["a", "b", "c", "d"] * 50))
    nodes.write_csv("nodes.csv")
    for model in ("auto", "logistic"):
        refused(command(*TRAIN, "--model", model, "--threshold", "best-f1"), "needs two classes", "--cost", True)
    assert not Path("runs").exists()


def test_predict_writes_nothing_over_another_file(command: Command) -> None:
    assert command(*TRAIN, *LOGISTIC, "--out", "X").code == 0
    Path("labels.csv").write_text("mine")
    refused(command("predict", "X"), "labels.csv exists already", "--force")
    refused(command("predict", "X", "--out", "labels.csv"), "labels.csv exists already", "--force")
    refused(command("predict", "X", "--out", "l.csv", "--format", "xls"), "format='xls'", "csv, parquet, jsonl")
    assert Path("labels.csv").read_text() == "mine"
    assert command("predict", "X", "--out", "l.txt", "--format", "csv").code == 0
    assert command("predict", "X", "--force").code == 0
    assert Path("labels.csv").read_bytes() == Path("l.txt").read_bytes()


def test_a_pipe_gets_the_table_alone(command: Command) -> None:
    assert command(*TRAIN, *LOGISTIC, "--out", "X").code == 0
    assert command("predict", "X", "--all", "--out", "l.csv").code == 0
    program = [sys.executable, "-m", "nlgnn", "predict", "X", "--all", "--out", "-"]
    done = subprocess.run(program, capture_output=True)
    assert (done.returncode, done.stdout) == (0, Path("l.csv").read_bytes())
    assert done.stderr.decode().endswith("calibrated: standard output\n")


def test_a_reader_that_has_seen_enough(command: Command) -> None:
    assert command(*TRAIN, *LOGISTIC, "--out", "X").code == 0
    program = [sys.executable, "-m", "nlgnn", "predict", "X", "--all", "--out", "-"]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        said = process.stderr.read().decode()
    assert process.returncode == 0
    assert "Error" not in said
    assert "error" not in said
