"""`nlgnn leaderboard`, as users run it."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from cli_samples import Command, refused

SHARED = ("--runs", 2, "--epochs", 3)


def test_merged_and_sorted_by_validation(command: Command, short_portfolio: None) -> None:
    assert command("train", "mushroom-body", "--time-budget", "1h", "--out", "X", *SHARED).code == 0
    assert command("train", "mushroom-body", "--model", "gcn", "--out", "Y", *SHARED).code == 0
    one = json.loads(command("leaderboard", "X", "--json").out)
    assert one == json.loads(Path("X/leaderboard.json").read_text())["ranked"]
    merged = json.loads(command("leaderboard", "X", "Y", "--json").out)
    assert len(merged) == len(one) + 1
    assert "Y: gcn" in [row["name"] for row in merged]
    scores = [row["validation accuracy"] for row in merged if row["status"] == "finished"]
    assert scores == sorted(scores, reverse=True)
    rows = list(csv.DictReader(command("leaderboard", "X", "Y", "--csv").out.splitlines()))
    assert [row["name"] for row in rows] == [row["name"] for row in merged]
    shown = command("leaderboard", "Y").out
    assert shown.startswith("Leaderboard by accuracy %")
    assert "gcn" in shown


def test_bad_input(command: Command) -> None:
    refused(command("leaderboard", "nowhere"), "There is no folder nowhere")
    assert command("train", "mushroom-body", "--model", "mlp", "--out", "X", *SHARED).code == 0
    assert command("train", "mushroom-body", "--model", "mlp", "--metric", "macro-f1", "--out", "Y", *SHARED).code == 0
    refused(command("leaderboard", "X", "Y"), "Y has the metric macro-f1, X accuracy", "one graph, protocol and metric")
