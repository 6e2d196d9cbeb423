"""The race: clock, portfolio, time limits and leaderboard."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from race_samples import board, labelled, row, runs

from each_of import each_of
from experiment_samples import Countdown, small_graph
from nlgnn.errors import DataError, OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import configure, default_metric
from nlgnn.selection.auto import choose_model, default_runs, headline, is_symmetric, race_metric
from nlgnn.selection.clock import Clock, parse_budget, show_seconds
from nlgnn.selection.leaderboard import Row, csv_text, read_leaderboard
from nlgnn.selection.portfolio import PRESET, Entry
from nlgnn.selection.race import outcome, run_race, seconds_of_report
from nlgnn.selection.race_verdict import findings
from nlgnn.selection.time_limit import OutOfTimeError, TimeLimit
from nlgnn.training.fit import fit
from nlgnn.training.replica import OUT_OF_TIME
from nlgnn.training.trained import Member


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


def test_headline_compares_on_the_runs_that_there_are() -> None:
    best = replace(row("a", 70), validation=[{"accuracy": 90.0}, {}], test=[{"accuracy": 90.0}, {}], postponed=1)
    graph, found = small_graph(), board(best, row("b", 80, 40))
    words = headline(found, best, graph, make_splits(graph, "random-60", 2), runs(90, None))
    assert "90.0 % in 1 of 2 runs, next b with 80.0 %." in words
    short = replace(row("b", 0), validation=[{"accuracy": 80.0}, {}], test=[{"accuracy": 80.0}, {}], postponed=1)
    found = board(row("a", 90, 40), short)
    words = headline(found, found.rows[0], graph, make_splits(graph, "random-60", 2), [])
    assert "65.0 %, next b with 80.0 % in 1 of 2 runs, in which a has 90.0 %." in words


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
    assert found.section().text == "Failed: b, c (no luck)."
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
    lucky = replace(row("mlp, again", 53, without_edges=True), validation=[{"accuracy": 53.0}, {}, {}], postponed=2)
    found = {finding.subject: finding for finding in findings(board(lucky, *rows))}
    assert found["Neighbours"].other == "mlp"  # two runs in common are needed for an interval


def trainer(graph: Graph, splits: list[Split]) -> Any:
    def train(entry: Entry, watch: Any) -> Any:
        factory, recipe = configure(entry.model, graph, PRESET, **entry.options)
        return factory, recipe, fit(factory, graph, splits, recipe, progress=False, watch=watch)

    return train


QUICK = Entry("mlp", "mlp", {"epochs": 20, "stopping": "never", "hidden": 4}, without_edges=True)
SHALLOW = Entry("logistic", "logistic", without_edges=True)


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
    like = outcome(replace(entry, like="a", times=90), graph, 3, board(before), Countdown(10), train)
    assert (like.status, like.reason) == ("not started", "a run would take about 30 s, 10 s left")
    trial = outcome(entry, graph, 3, board(before), Countdown(5, 5, 5, 5, 5, 1e-9), train)
    if entry is QUICK:
        assert trial.status == "stopped"
        assert "would take about" in trial.reason
        ended = outcome(entry, graph, 3, board(before), Countdown(*[9] * 12, -1), train)
        assert ended.status == "finished"
        assert ended.reason.startswith("out of time at epoch ")


def test_runs_that_have_no_time_are_trained_later() -> None:
    """An entry keeps the runs that it has, and gives the same as one that had time for all."""
    graph = small_graph()
    splits = make_splits(graph, "geom-gcn", 3)
    trained = dict[str, Any]()
    allowed = {"logistic": 1, "mlp": 2}

    def train(entry: Entry, watch: Any) -> Any:
        factory, recipe = configure(entry.model, graph, PRESET, **entry.options)
        done, most = trained.get(entry.name, ()), allowed.get(entry.name, 3)

        def limited(replicas: Any) -> None:
            watch(replicas)
            if not replicas and not done and watch.calls == most:
                raise OutOfTimeError("no time is left")
            for replica in replicas[most:] if not done else ():
                replica.run.failure = OUT_OF_TIME

        trained[entry.name] = fit(factory, graph, splits, recipe, progress=False, watch=limited, finished=done)
        return Member(factory, recipe, trained[entry.name])

    shown, found = list[tuple[str, int]](), board()
    run_race(
        *([QUICK, SHALLOW], graph, 3, found, Clock(None), train, {}),
        show=lambda row: shown.append((row.entry.name, row.postponed)),
    )
    assert shown[:2] == [("mlp", 1), ("logistic", 2)]
    assert {("mlp", 0), ("logistic", 0)} < set(shown)
    whole = board()
    run_race([QUICK, SHALLOW], graph, 3, whole, Clock(None), trainer(graph, splits), {})
    for name in ("mlp", "logistic"):
        assert found.row(name).figures("accuracy") == whole.row(name).figures("accuracy")  # type: ignore[union-attr]


def test_rank_of_an_entry_without_all_runs() -> None:
    """It is compared with others on the runs that it has: the first split is an easy one."""
    better, worse = row("b", 92), row("w", 88)
    partial = [
        replace(one, validation=[*one.validation, {}, {}], test=[*one.test, {}, {}], postponed=2)
        for one in (better, worse)
    ]
    found = board(row("a", 90, 70, 71), *partial, row("f", 95, None, 71))
    assert [one.entry.name for one in found.ranked()] == ["b", "a", "w", "f"]
    assert found.score(partial[0]) == pytest.approx(79)
    assert found.score(found.rows[0]) == 77


def test_an_entry_that_is_always_trained_ends_with_what_it_has() -> None:
    graph = small_graph()
    splits = make_splits(graph, "geom-gcn")
    for entry in (QUICK, SHALLOW):
        clock = Clock(1000.0, used_before=1000.1)
        assert clock.left < 0
        short = outcome(
            replace(entry, always=True), graph, 3, board(row("a", 60, 60, 60)), clock, trainer(graph, splits)
        )
        assert short.status == "finished"
        assert len(short.validation) == 3
    limit = TimeLimit(Countdown(-1), runs=3, enforced=True, until=0.0)
    assert limit.within_run(0.1)
    assert limit.remark


def test_other_seeds_of_the_best() -> None:
    graph = small_graph()
    seen: dict[str, Any] = {}

    def train(entry: Entry, watch: Any) -> Any:
        seen[entry.name] = entry.options.get("seed", 0)
        return trainer(graph, make_splits(graph, "geom-gcn"))(entry, watch)

    found = board()
    run_race([QUICK, SHALLOW], graph, 3, found, Clock(None), train, {}, seeds=True)
    assert seen["mlp"] == 0
    assert (seen["mlp, seed 3"], seen["mlp, seed 6"]) == (3, 6)
    assert not any(name.startswith("logistic, seed") for name in seen)  # it has no random numbers
    repeated = [one for one in found.rows if one.entry.repeats]
    assert {one.entry.repeats for one in repeated} <= {"mlp", "mlp, non-local"}
    assert found.best is not None
    assert found.best.entry.is_single
    assert not [words for words in map(str, findings(found)) if "seed" in words]
    before = len(found.rows)
    run_race([QUICK, SHALLOW], graph, 3, found, Clock(None), train, {}, seeds=True)
    assert len(found.rows) == before


def test_rows_that_are_there_are_not_trained_again() -> None:
    graph = small_graph()
    found = board(row("mlp", 60, 60, 60, model="mlp"), row("mlp, non-local", 61, 61, 61, model="nlmlp"))
    seen = []

    def train(entry: Entry, watch: Any) -> Any:
        seen.append(entry.name)
        return trainer(graph, make_splits(graph, "geom-gcn"))(entry, watch)

    run_race([QUICK, SHALLOW], graph, 3, found, Clock(None), train, {})
    assert seen == ["logistic", "mlp, non-local, kernel 1"]


def test_time_left_at_the_end_goes_to_entries_that_had_none() -> None:
    class Kept(Clock):
        """A clock with 10 s left, all of which are kept for what comes later."""

        @property
        def left(self) -> float:
            return -1.0 if self.later else 10.0

    graph, shown = small_graph(), list[tuple[str, str]]()
    entries = [
        replace(QUICK, always=True),
        SHALLOW,
        replace(SHALLOW, name="slow", like="mlp", times=1e9),
        replace(SHALLOW, name="slower", like="slow", times=2),
        replace(SHALLOW, name="directed", directed=True),
    ]
    found = board()
    train = trainer(graph, make_splits(graph, "geom-gcn"))
    run_race(
        entries, graph, 3, found, Kept(1e3), train, {}, show=lambda row: shown.append((row.entry.name, row.status))
    )
    assert [status for name, status in shown if name == "logistic"] == ["not started", "finished"]
    assert [status for name, status in shown if name not in ("logistic", "mlp")][:3] == ["not started"] * 3
    assert len(found.rows) == len({row.entry.name for row in found.rows})
    needed = {row.entry.name: row.needed_seconds for row in found.rows}
    assert needed["slower"] == 2 * (needed["slow"] or 0) > 1e6
    assert len([name for name, _ in shown if name in ("slow", "slower", "directed")]) == 3  # not tried again


@pytest.mark.parametrize("metric", ["accuracy", "macro-f1", "roc-auc", "average-precision", "log-loss"])
def test_choice_by_validation_alone(metric: str, short_portfolio: None) -> None:
    options = {"hidden": 4, "epochs": 4, "metric": metric, "time_budget": "none", "progress": False}
    (one, found), (other, other_found) = (
        choose_model(small_graph(test_labels=turned), "geom-gcn", **options) for turned in (0, 1)
    )
    assert (one.entry, one.words) == (other.entry, other.words)
    assert one.board.metric == metric
    runs, other_runs = found[one.entry.name].runs, other_found[one.entry.name].runs
    assert [run.val for run in runs] == [run.val for run in other_runs]
    assert [run.test for run in runs] != [run.test for run in other_runs]
    means = [found.mean(metric) for found in one.board.ranked(lambda row: not row.entry.control)]
    assert means[0] == max(means)


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


def test_time_for_the_predictions_of_members_is_kept() -> None:
    rows = [replace(row("a", 90), predict_seconds=2.0), replace(row("b", 80), predict_seconds=1.0)]
    assert seconds_of_report(rows[:1], 10) == 2 * 10 * 2.0  # of the report
    assert seconds_of_report(rows, 10) == 3 * 10 * 3.0  # and of the figures of the ensemble


def test_no_time_is_kept_for_the_predictions_of_controls() -> None:
    graph, clock = small_graph(), Clock(None)
    control = replace(row("slow", 99, 99, 99, control=True), predict_seconds=1e6)
    train = trainer(graph, make_splits(graph, "geom-gcn"))
    run_race([QUICK], graph, 3, board(control), clock, train, {}, ensemble=True)
    assert 0 < clock.report < 1e6


def test_number_of_runs() -> None:
    small = labelled(10)
    assert default_runs(small, "random-60") == 10
    assert default_runs(labelled(10, 6000), "random-60") == 5
    assert default_runs(small, "column") is None
    assert default_runs(small, "random-60", 60.0) == 4
    assert default_runs(small, "random-60", 1.0) == 3
    assert default_runs(small, "random-60", 3600.0) == 10


def test_symmetric_edges() -> None:
    assert not is_symmetric(labelled(10))
    both = replace(labelled(10), edge_index=np.array([[0, 1], [1, 0]]))
    assert is_symmetric(both)
