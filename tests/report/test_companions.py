"""Models that a report compares a training with: those in folders next to it, and simple baselines."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_samples import easy_graph

from nlgnn.graph.splits import make_splits
from nlgnn.report import companions
from nlgnn.report.companions import (
    OWN_COLUMNS,
    best_words,
    missing_models,
    read_companions,
    why_not_comparable,
    with_baselines,
)
from nlgnn.report.page import Command
from nlgnn.training.train import Trained, read_trained

GRAPH = easy_graph()


def read(*paths: Path) -> list[Trained]:
    return [read_trained(path)[0] for path in paths]


def test_companions_are_what_was_trained_beside_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the same splits and metric; not the model once more, nor folders of other names."""
    (trained,) = read(folder / "run")
    found = read_companions(folder / "run", trained)
    assert {label: one.folder.path.name for label, one in found.items()} == {
        "gcn": "run-gcn",
        "nlgcn, kernel 1": "run-nlgcn-kernel-1",
    }
    monkeypatch.chdir(folder / "run")
    assert list(read_companions(Path(), trained)) == list(found)


def test_companions_of_a_name_that_looks_like_a_pattern(folder: Path, tmp_path: Path) -> None:
    for name in ("run", "run-gcn"):
        shutil.copytree(folder / name, tmp_path / name.replace("run", "[ab]*"))
    (trained,) = read(tmp_path / "[ab]*")
    assert list(read_companions(tmp_path / "[ab]*", trained)) == ["gcn"]


def test_the_first_companion_of_a_label_is_taken(folder: Path, tmp_path: Path) -> None:
    for name in ("run", "run-gcn"):
        shutil.copytree(folder / name, tmp_path / name)
    shutil.copytree(folder / "else", tmp_path / "run-gcn-again")
    found = read_companions(tmp_path / "run", read(tmp_path / "run")[0])
    assert found["gcn"].folder.path.name == "run-gcn"


@pytest.mark.parametrize(
    ("other", "why"),
    [("run-gcn-f1", "for another metric"), ("run-mlp-tenth", "under another protocol"), ("else", None)],
)
def test_companions_have_the_same_splits_and_metric(folder: Path, other: str, why: str | None) -> None:
    assert why_not_comparable(*read(folder / "run", folder / other)) == why


def test_another_graph_is_no_companion(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = read(folder / "run", folder / "else")
    monkeypatch.setitem(other.folder.config, "fingerprint", "of another")
    assert why_not_comparable(one, other) == "on another graph"


def test_baselines_are_compared_on_the_same_splits(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = make_splits(GRAPH, trained.plan.protocol, trained.plan.runs)
    found = with_baselines(trained, GRAPH, splits, {})
    assert list(found) == [OWN_COLUMNS, "logistic"]
    runs = found[OWN_COLUMNS].runs
    assert [(run.split, run.seed) for run in runs] == [(run.split, run.seed) for run in trained.runs]
    without_edges = replace(GRAPH, edge_index=GRAPH.edge_index[:, :0])
    again = with_baselines(trained, without_edges, splits, {})
    assert list(again) == [OWN_COLUMNS]
    again = again[OWN_COLUMNS]
    assert [run.test for run in again.runs] == [run.test for run in runs]
    assert with_baselines(replace(trained, reason="Chose it."), GRAPH, splits, {}) == {}
    itself = replace(trained, plan=replace(trained.plan, model="logistic", options={"neighbours": "none"}))
    assert list(with_baselines(itself, GRAPH, splits, {})) == ["logistic"]
    local = replace(trained, plan=replace(trained.plan, model="logistic", options={}))
    assert list(with_baselines(local, GRAPH, splits, {})) == [OWN_COLUMNS]
    missing = np.array(GRAPH.x)
    missing[0, 0] = np.nan
    assert with_baselines(trained, replace(GRAPH, x=missing), splits, {}) == {}
    monkeypatch.setattr(companions, "MOST_SECONDS", -1.0)
    assert with_baselines(trained, GRAPH, splits, {}) == {}


def test_the_best_baselines_by_validation_are_named(folder: Path) -> None:
    (trained,) = read(folder / "run")
    splits = make_splits(GRAPH, trained.plan.protocol, trained.plan.runs)
    others = with_baselines(trained, GRAPH, splits, read_companions(folder / "run", trained))

    def mean(label: str) -> float:
        return float(np.mean([run.val["accuracy"] for run in others[label].runs]))

    best = max(("gcn", OWN_COLUMNS, "logistic"), key=mean)  # not the model itself nor kernel 1, which are non-local
    assert best_words(trained, others) == (
        f"Best by validation, own columns only: {OWN_COLUMNS}; any local model: {best}."
    )
    local = replace(trained, plan=replace(trained.plan, model="gcn"))
    better = [replace(run, val={"accuracy": 101.0}) for run in trained.runs]
    others.pop("gcn")
    assert best_words(replace(local, runs=better), others).endswith("any local model: gcn.")


def test_missing_models_are_named(trained: Trained) -> None:
    (command,) = missing_models(trained, {})  # The graph has no name that the command line knows.
    folder = shlex.quote(str(trained.folder.path))
    assert isinstance(command, Command)
    assert command.words == f"nlgnn train --resume {folder} --controls"
    assert missing_models(trained, {"gcn": trained}) == []
    assert missing_models(replace(trained, plan=replace(trained.plan, model="gcn")), {}) == []
    (other,) = missing_models(replace(trained, plan=replace(trained.plan, model="gcn", graph="texas")), {})
    assert isinstance(other, Command)
    train, report = other.words.split(" && ")
    assert train.startswith("nlgnn train texas --model auto --splits random-60 --metric accuracy")
    assert report.split()[:2] == ["nlgnn", "report"]
