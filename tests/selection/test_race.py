"""The race: clock, portfolio, time limits and leaderboard."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from each_of import each_of
from experiment_samples import small_graph
from nlgnn.errors import DataError, OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import check_given, configure, default_metric
from nlgnn.paper.benchmark import DATA as BENCHMARK
from nlgnn.selection.auto import choose_model, default_runs, is_symmetric, race_metric
from nlgnn.selection.clock import Clock, parse_budget, show_seconds
from nlgnn.selection.leaderboard import Leaderboard, Row, csv_text, read_leaderboard
from nlgnn.selection.portfolio import DATA, PRESET, Entry, check_options, non_local_entries, read_portfolio
from nlgnn.selection.race import OutOfTimeError, TimeLimit, expected_epochs, outcome, run_race
from nlgnn.selection.race_verdict import constant_figure, findings, not_better_than_constant
from nlgnn.training.fit import fit
from nlgnn.training.recipe import Recipe
from nlgnn.training.run_folder import Run


@each_of(("text", "seconds"), [("90s", 90), ("5m", 300), ("1.5h", 5400), (" 2 M ", 120), ("none", None)])
def test_budget(text: str, seconds: float | None) -> None:
    assert parse_budget(text) == seconds


@each_of("text", ["0", "0s", "five", "5", "-1m", "", "5 minutes", "1d", "inf"])
def test_bad_budget(text: str) -> None:
    with pytest.raises(OptionError, match="is not a time budget"):
        parse_budget(text)


def test_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("nlgnn.selection.clock.time.monotonic", lambda: now)
    clock, unlimited = Clock(100.0, used_before=10.0, started=100.0), Clock(None, started=100.0)
    now = 130.0
    assert clock.used == 40.0
    assert clock.left == 100 - 8 - 40
    assert unlimited.left == float("inf")
    clock.later = True
    assert clock.left == 80 - 8 - 40
    assert show_seconds(150) == "2 min"


def test_portfolio() -> None:
    """Every entry can be configured, has its own name, and refers to entries before it."""
    entries = read_portfolio()
    graph = replace(small_graph(), name="other")
    names = [entry.name for entry in entries]
    assert len(set(names)) == len({entry.folder for entry in entries}) == len(entries) >= 20
    for number, entry in enumerate(entries):
        check_given(entry.model, "other", PRESET, entry.options)
        configure(entry.model, graph, PRESET, **entry.options)
        assert entry.like in ("", *names[:number])
        assert entry.compared_with in ("", *names)
        for version in non_local_entries(entry, {}, controls=True):
            configure(version.model, graph, PRESET, **version.options)
    assert sum(entry.without_edges for entry in entries[:3]) == 3  # the cheapest, which always have time


def test_settings_are_those_of_the_benchmark() -> None:
    assert DATA["non_local"] == BENCHMARK["non_local"]
    measured = {entry["name"]: entry for entry in BENCHMARK["entry"]}
    for entry in DATA["entry"]:
        if entry["name"] in measured and entry["name"] != "trees":
            other = measured[entry["name"]]
            assert entry["model"] == other["model"]
            assert entry.get("options", {}).items() >= other.get("options", {}).items(), entry["name"]


def test_options_that_were_given() -> None:
    entries = {entry.name: entry for entry in read_portfolio({"epochs": 7, "kernel_size": 5, "metric": "macro-f1"})}
    assert entries["gcn"].options["epochs"] == 7
    assert "kernel_size" not in entries["gcn"].options
    assert "epochs" not in entries["kernel"].options
    assert entries["kernel"].options["metric"] == "macro-f1"
    (own, control) = non_local_entries(entries["gcn"], {"kernel_size": 5})
    assert (own.options["kernel_size"], control.options["kernel_size"]) == (5, 1)
    assert (own.control, control.control) == (False, True)
    check_options("graph", None, {"kernel_size": 3, "epochs": 5})
    with pytest.raises(OptionError, match="no model of auto has the option 'nonsense'"):
        check_options("graph", None, {"nonsense": 2})
    with pytest.raises(OptionError, match="kernel_size=2"):
        check_options("graph", None, {"kernel_size": 2})


def test_when_an_entry_applies() -> None:
    graph = small_graph()
    assert Entry("a", "gcn").why_not(graph) is None
    assert Entry("a", "gcn", directed=True).why_not(graph) == "edges have no direction"
    assert Entry("a", "gcn", directed=True).why_not(replace(graph, directed=True)) is None
    assert Entry("a", "gcn", max_nodes=29).why_not(graph) == "it is meant for at most 29 nodes"
    bare = replace(graph, edge_index=np.zeros((2, 0), np.int64))
    assert Entry("a", "gcn").why_not(bare) == "the graph has no edges"
    assert Entry("a", "mlp", without_edges=True).why_not(bare) is None


def runs(*validation: float | None, test: float = 50.0) -> list[Run]:
    """None is a run that failed."""
    return [
        Run(index, index, "random-60", index, failure="it failed")
        if figure is None
        else Run(index, index, "random-60", index, val={"accuracy": figure}, test={"accuracy": test})
        for index, figure in enumerate(validation)
    ]


def row(name: str, *validation: float | None, **fields: Any) -> Row:
    found = runs(*validation)
    entry = Entry(name, fields.pop("model", "gcn"), **fields)
    return Row(entry, "finished", "", [run.val for run in found], [run.test for run in found], 1.0, 0.1)


def board(*rows: Row, folder: Path | None = None) -> Leaderboard:
    return Leaderboard("graph", "random-60", "accuracy", list(rows), folder=folder)


def test_rank_by_validation() -> None:
    found = board(
        row("a", 60, 62), row("b", 61, 61), row("c", 90, None), row("d", 70, 70, control=True), row("e", 50, 80)
    )
    assert [one.entry.name for one in found.ranked()] == ["d", "e", "a", "b", "c"]
    assert found.best is not None
    assert found.best.entry.name == "e"
    assert found.row("x") is None
    assert board().best is None


def test_files(tmp_path: Path) -> None:
    found = board(row("a", 60, 62), folder=tmp_path)
    found.add(Row(Entry("b, c", "mlp", {"lr": 0.1}), "failed", "no luck"), 12.5)
    again = read_leaderboard(tmp_path)
    assert again is not None
    assert again.to_dicts() == found.to_dicts()
    assert again.rows[0] == found.rows[0]
    assert (tmp_path / "leaderboard.csv").read_text() == csv_text(found.to_dicts())
    document = json.loads((tmp_path / "leaderboard.json").read_text())
    assert document["seconds"] == 12.5
    assert [one["name"] for one in document["ranked"]] == ["a", "b, c"]
    assert found.section().text == "Failed, no luck: b, c."
    assert read_leaderboard(tmp_path / "nowhere") is None
    for text in ("{", "[]", '{"rows": [{}]}', '{"rows": []}'):
        (tmp_path / "leaderboard.json").write_text(text)
        with pytest.raises(RunFolderError, match=r"leaderboard\.json cannot be read"):
            read_leaderboard(tmp_path)


def test_findings() -> None:
    rows = [
        row("mlp", 50, 51, 52, without_edges=True, model="mlp"),
        row("gcn", 60, 62, 61),
        row("dirgcn", 50, 49, 51, question="direction", compared_with="gcn"),
        row("gcn, labels", 60, 61, 62.5, question="labels", compared_with="gcn"),
        row("gcn, non-local", 59, 60, 61, question="non-local", compared_with="gone"),
        row("trees", 40, 41, 45, model="trees"),
    ]
    found = {finding.subject: str(finding) for finding in findings(board(*rows))}
    assert found["Neighbours"].startswith("Neighbours help: 'gcn, labels' minus 'mlp' is +10.2 points")
    assert found["The direction of edges"].startswith("The direction of edges does harm: 'dirgcn' minus 'gcn'")
    assert found["Training labels as input"].startswith("Training labels as input do not clearly help: ")
    assert found["Trees"].startswith("Trees do not suffice")
    assert len(found) == 4  # the control of the non-local model is missing
    alone = [str(one) for one in findings(board(*(replace(one, validation=one.validation[:1]) for one in rows)))]
    assert "Neighbours cannot be judged on one run" in alone[0]


def trainer(graph: Graph, splits: list[Split]) -> Any:
    def train(entry: Entry, watch: Any) -> Any:
        factory, recipe = configure(entry.model, graph, PRESET, **entry.options)
        return factory, recipe, fit(factory, graph, splits, recipe, progress=False, watch=watch)

    return train


QUICK = Entry("mlp", "mlp", {"epochs": 20, "stopping": "never", "hidden": 4}, without_edges=True)
SHALLOW = Entry("logistic", "logistic", without_edges=True)


class Countdown(Clock):
    """A clock with some seconds left at the beginning, and none after a number of looks."""

    looks = 0

    def __init__(self, *left: float) -> None:
        super().__init__(1e9)
        self.values = list(left)

    @property
    def left(self) -> float:
        return self.values.pop(0) if len(self.values) > 1 else self.values[0]


@pytest.mark.parametrize("entry", [QUICK, SHALLOW], ids=["epochs", "runs"])
def test_not_enough_time(entry: Entry) -> None:
    """Judged before it begins, after a trial, and while it trains; the first model is always trained."""
    graph = small_graph()
    splits = make_splits(graph, "geom-gcn")
    train, before = trainer(graph, splits), row("a", 60, 60, 60)
    first = outcome(entry, graph, 3, board(), Countdown(-1), train)
    assert (first.status, len(first.validation)) == ("finished", 3)
    late = outcome(entry, graph, 3, board(before), Countdown(-1), train)
    assert (late.status, late.reason) == ("not started", "no time is left")
    like = outcome(replace(entry, like="a", times=30), graph, 3, board(before), Countdown(10), train)
    assert (like.status, like.reason) == ("not started", "would take about 30 s, 10 s left")
    trial = outcome(entry, graph, 3, board(before), Countdown(5, 5, 5, 5, 5, 1e-9), train)
    if entry is QUICK:
        assert trial.status == "stopped"
        assert "would take about" in trial.reason
        ended = outcome(entry, graph, 3, board(before), Countdown(*[9] * 12, -1), train)
        assert ended.status == "finished"
        assert ended.reason.startswith("out of time at epoch ")


def test_runs_one_after_another_out_of_time() -> None:
    limit = TimeLimit(Countdown(9, -1), runs=3, enforced=True)
    limit([])
    with pytest.raises(OutOfTimeError, match="out of time"):
        limit([])


def test_expected_epochs() -> None:
    assert expected_epochs(Recipe(epochs=100, stopping="never")) == 100
    assert expected_epochs(Recipe(epochs=1000, stopping="patience", patience=60)) == 120
    assert expected_epochs(Recipe(epochs=100, stopping="patience", patience=60)) == 100


def test_rows_that_are_there_are_not_trained_again() -> None:
    graph = small_graph()
    found = board(row("mlp", 60, 60, 60, model="mlp"), row("mlp, non-local", 61, 61, 61, model="nlmlp"))
    seen = []

    def train(entry: Entry, watch: Any) -> Any:
        seen.append(entry.name)
        return trainer(graph, make_splits(graph, "geom-gcn"))(entry, watch)

    run_race([QUICK, SHALLOW], graph, 3, found, Clock(None), train, {})
    assert seen == ["logistic", "mlp, non-local, kernel 1"]


@pytest.mark.parametrize("metric", ["accuracy", "macro-f1", "roc-auc", "average-precision", "log-loss"])
def test_choice_by_validation_alone(metric: str, short_portfolio: None) -> None:
    options = {"hidden": 4, "epochs": 4, "metric": metric, "time_budget": "none", "progress": False}
    (one, trial), (other, other_trial) = (
        choose_model(small_graph(test_labels=turned), "geom-gcn", **options) for turned in (0, 1)
    )
    assert (one.entry, one.words) == (other.entry, other.words)
    assert one.board.metric == metric
    assert [run.val for run in trial[2]] == [run.val for run in other_trial[2]]
    assert [run.test for run in trial[2]] != [run.test for run in other_trial[2]]
    means = [found.mean(metric) for found in one.board.ranked(lambda row: not row.entry.control)]
    assert means[0] == max(means)


def labelled(rare: int, nodes: int = 100) -> Graph:
    y = np.zeros(nodes, np.int64)
    y[:rare] = 1
    return Graph(np.ones((nodes, 1)), np.array([[0], [1]]), y, name="own")


def test_default_metric() -> None:
    assert default_metric(labelled(14)) == "average-precision"
    assert default_metric(labelled(15)) == "accuracy"
    assert default_metric(labelled(86)) == "roc-auc"  # the first class is the rare one
    assert default_metric(small_graph()) == "accuracy"  # of a named graph
    graph = labelled(10)
    metric, words = race_metric(graph, make_splits(graph, "random-60", 2), None)
    assert metric == "average-precision"
    assert "class 1 has fewer than 15%" in words
    assert race_metric(graph, make_splits(graph, "random-60", 2), "f1")[0] == "f1"


def test_validation_without_positives() -> None:
    graph = labelled(10)
    split = Split.from_indices(100, range(50), range(50, 70), range(70, 100))
    metric, words = race_metric(graph, [split], None)
    assert metric == "log-loss"
    assert "validation nodes of split 0 are all of one class" in words
    with pytest.raises(DataError, match="average-precision says nothing"):
        race_metric(graph, [split], "average-precision")
    with pytest.raises(DataError, match="all labelled nodes are of one class"):
        race_metric(labelled(0), [split], None)


def test_constant_answer() -> None:
    graph = labelled(10)
    split = make_splits(graph, "random-60", 1)[0]
    wanted = {"accuracy": 90.0, "roc-auc": 50.0, "average-precision": 10.0, "balanced-accuracy": 50.0, "f1": 0.0}
    assert {metric: constant_figure(graph, split, metric) for metric in wanted} == pytest.approx(wanted)
    splits = make_splits(graph, "random-60", 3)
    level, ahead = row("a", 90, 90, 95), row("b", 95, 96, 97)
    words = not_better_than_constant(board(level), level, graph, splits)
    assert words.startswith("No model is clearly better than the majority class: validation accuracy 91.7")
    assert not_better_than_constant(board(ahead), ahead, graph, splits) == ""


def test_number_of_runs() -> None:
    small = labelled(10)
    assert default_runs(small, "random-60") == 10
    assert default_runs(labelled(10, 6000), "random-60") == 5
    assert default_runs(small, "column") is None


def test_symmetric_edges() -> None:
    assert not is_symmetric(labelled(10))
    both = replace(labelled(10), edge_index=np.array([[0, 1], [1, 0]]))
    assert is_symmetric(both)
