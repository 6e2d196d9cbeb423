"""The automatic choice: the decision by hand, and whole choices on a small graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from each_of import each_of
from experiment_samples import small_graph
from nlgnn.errors import NlgnnError, OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.selection import auto
from nlgnn.selection import evidence as evidence_module
from nlgnn.selection.auto import Decision, begin_choice, check_options, choose_model, decide, decide_tuned, end_choice
from nlgnn.selection.diagnosis import diagnose
from nlgnn.selection.evidence import SHORT
from nlgnn.training.fit import fit
from nlgnn.training.replica import Run
from nlgnn.training.train import read_choice
from nlgnn.tuning.space import check_space
from nlgnn.tuning.tune import tune


def runs(*validation: float | None, test: float = 50.0) -> list[Run]:
    """None is a run that failed."""
    return [
        Run(index, index, "random-60", index, failure="it failed")
        if figure is None
        else Run(index, index, "random-60", index, val={"accuracy": figure}, test={"accuracy": test})
        for index, figure in enumerate(validation)
    ]


@each_of(
    ("non_local", "local", "taken"),
    [
        (runs(60, 63, test=10), runs(60, 62, test=90), "nlgcn"),  # whatever the test figures
        (runs(60, 61, test=90), runs(60, 62, test=10), "gcn"),
        (runs(61, 61), runs(60, 62), "gcn"),  # level is not ahead
        (runs(60, 90, None), runs(61, None, 80), "gcn"),  # only the first split was finished by both
    ],
)
def test_decision(non_local: list[Run], local: list[Run], taken: str) -> None:
    decided = decide({"nlgcn": non_local, "gcn": local}, "accuracy")
    assert decided.chosen == taken
    assert decided.reason.startswith(f"Chose {taken}: ")
    assert ("not below" in decided.reason) is (taken == "gcn")


@pytest.mark.parametrize(
    ("non_local", "local", "taken", "failed"),
    [
        (runs(None, None), runs(60, None), "gcn", "nlgcn"),
        (runs(60, None), runs(None, None), "nlgcn", "gcn"),
        ([], runs(60), "gcn", "nlgcn"),
    ],
)
def test_one_that_failed_wholly_is_not_taken(non_local: list[Run], local: list[Run], taken: str, failed: str) -> None:
    decided = decide({"nlgcn": non_local, "gcn": local}, "accuracy")
    assert decided.chosen == taken
    assert decided.reason == f"Chose {taken}: the training of {failed} failed."


def test_the_reason_has_both_figures() -> None:
    ahead = decide({"nlgcn": runs(60, 63), "gcn": runs(60, 62)}, "accuracy").reason
    assert ahead == "Chose nlgcn: its validation accuracy (61.50 %) is above that of gcn (61.00 %)."
    level = decide({"nlgcn": runs(60, 62), "gcn": runs(60, 62)}, "accuracy").reason
    assert level == "Chose gcn: its validation accuracy (61.00 %) is not below that of nlgcn (61.00 %)."


def test_nothing_to_compare() -> None:
    with pytest.raises(NlgnnError, match="no split was finished by both nlgcn and gcn"):
        decide({"nlgcn": runs(None, 60), "gcn": runs(60, None)}, "accuracy")
    with pytest.raises(NlgnnError, match="no split was finished"):
        decide({"nlgcn": runs(None), "gcn": runs(None)}, "accuracy")


def test_options_must_suit_every_model_that_may_be_chosen() -> None:
    check_options("graph", None, {"kernel_size": 3, "epochs": 5})
    with pytest.raises(OptionError, match=r"nlmlp has no option 'heads'\. The model auto may choose nlmlp"):
        check_options("graph", None, {"heads": 2})
    with pytest.raises(OptionError, match="no preset"):
        check_options("graph", "papr", {})
    with pytest.raises(OptionError, match=r"(?s)kernel_size=2.* The model auto may choose nlmlp"):
        check_options("graph", None, {"kernel_size": [3, 2]}, check_space)
    check_options("graph", None, {"order": "learned", "space_dim": 4})
    with pytest.raises(OptionError, match="space_dim=4 changes nothing"):
        check_options("graph", None, {"space_dim": 4})


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, as_users_run_it: None) -> None:
    monkeypatch.setitem(SHORT, "epochs", 3)
    monkeypatch.setattr(evidence_module, "HEADS", 1)
    monkeypatch.setattr(evidence_module, "is_clear", lambda difference: True)  # five runs are enough here


@pytest.mark.parametrize("metric", ["accuracy", "macro-f1", "roc-auc"])
def test_choice_by_validation_alone(metric: str, quick: None) -> None:
    """On the metric that was asked for, from the diagnosis on."""
    options = {"kernel_size": 3, "hidden": 4, "epochs": 4, "metric": metric}
    one, other = (
        choose_model(small_graph(test_labels=turned), "geom-gcn", runs=2, progress=False, **options)
        for turned in (0, 1)
    )
    assert one.model == one.decision.chosen
    assert one.decision == other.decision
    assert one.verdict == other.verdict
    assert [run.val for run in one.runs] == [run.val for run in other.runs]
    assert one.decision.metric == metric
    diagnosis = diagnose(small_graph(), "geom-gcn", metric=metric, progress=False)
    assert (diagnosis.evidence.metric, diagnosis.verdict) == (metric, one.verdict)
    assert [run.test for run in one.runs] != [run.test for run in other.runs]
    assert {one.decision.non_local, one.decision.local} == {one.verdict.non_local, one.verdict.local}
    assert len(one.runs) == 2


@pytest.mark.parametrize("ahead", [True, False, None])
def test_what_is_taken_comes_with_its_runs_and_options(
    ahead: bool | None, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The non-local one comes first; None: all of its runs fail."""
    figures = {True: (70, 60), False: (60, 70), None: (None, 70)}[ahead]
    monkeypatch.setattr(auto, "fit_settings", lambda *_, **__: [runs(figure) for figure in figures])
    graph: Graph = small_graph()
    found = choose_model(graph, runs=1, progress=False, kernel_size=3, hidden=4)
    assert found.model.startswith("nl") is bool(ahead)
    assert found.runs[0].val == {"accuracy": 70}
    assert found.options == ({"kernel_size": 3, "hidden": 4} if ahead else {"hidden": 4})


def test_training_that_fails_wholly(quick: None) -> None:
    with pytest.raises(NlgnnError, match="no split was finished by both"):
        choose_model(small_graph(), runs=1, progress=False, hidden=4, lr=1e30, epochs=4)


def test_choice_after_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local part is trained with the options of the best setting, as the search trained that."""
    graph = small_graph()
    options: dict[str, Any] = {"hidden": 4, "lr": 0.05, "dropout": 0.5, "weight_decay": 0.0}
    searched = {**options, "search_epochs": 4, "search_splits": 2, "study": tmp_path / "study.db", "progress": False}
    tuned = tune(graph, "nlmlp", "geom-gcn", kernel_size=[3, 5], **searched)
    factory, recipe = configure("mlp", graph, epochs=4, **options)
    alone = fit(factory, graph, make_splits(graph, "geom-gcn", 2), recipe, progress=False)
    mean = fmean(run.val["accuracy"] for run in alone)
    assert decide_tuned(graph, tuned, progress=False)[0] == Decision("nlmlp", "mlp", tuned.best.mean, mean, "accuracy")
    ahead, behind = (replace(tuned, rows=(replace(tuned.best, mean=figure),)) for figure in (101.0, 0.0))
    assert decide_tuned(graph, ahead, progress=False)[1] == tuned.command
    command = decide_tuned(graph, behind, progress=False)[1]
    assert "--model mlp --splits geom-gcn" in command
    assert "--hidden 4" in command
    assert "--kernel-size" not in command
    monkeypatch.setattr(auto, "fit_settings", lambda *_, **__: [runs(99, None)])
    assert decide_tuned(graph, behind)[0].chosen == "nlmlp"  # one failed run is a failed setting, as in the search


def test_a_bad_option_speaks_before_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(auto, "diagnose")
    with pytest.raises(OptionError, match="no option 'heads'"):
        choose_model(small_graph(), heads=2)
    with pytest.raises(OptionError, match="no splits 'linkx'"):
        choose_model(small_graph(), "linkx")


def test_verdict_and_decision_are_recorded_before_they_are_used(
    quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, options = small_graph(), {"hidden": 4}
    verdict = begin_choice(graph, "geom-gcn", options, tmp_path, progress=False)
    assert read_choice(tmp_path) == {"verdict": verdict._asdict()}
    monkeypatch.delattr(auto, "diagnose")  # The verdict is read, not found again.
    assert begin_choice(graph, "geom-gcn", options, tmp_path) == verdict
    found = end_choice(graph, verdict, options, [runs(60), runs(70)], tmp_path)
    recorded = read_choice(tmp_path)
    assert (recorded["model"], recorded["folder"], recorded["reason"]) == (
        found.model,
        found.model,
        found.decision.reason,
    )
    assert recorded["decision"] == found.decision._asdict()


@each_of("text", ["{", "[]", '{"verdict": {"category": "first"}}', '{"reason": ""}'])
def test_a_damaged_record_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "choice.json").write_text(text)
    with pytest.raises(RunFolderError, match=r"choice\.json"):
        begin_choice(small_graph(), "geom-gcn", {}, tmp_path, progress=False)
