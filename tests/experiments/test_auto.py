"""The automatic choice: the gate by hand, and a whole choice on a small graph."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from experiment_samples import small_graph

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.experiments import auto
from nlgnn.experiments import evidence as evidence_module
from nlgnn.experiments.auto import Gate, check_options, choose_model, gate, gate_tuned
from nlgnn.experiments.evidence import SHORT
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.fit import fit
from nlgnn.training.run import Run
from nlgnn.training.search import tune
from nlgnn.training.space import check_space
from nlgnn.training.systems import configure


def runs(*validation: float | None, test: float = 50.0) -> list[Run]:
    """None is a run that failed."""
    return [
        Run(index, index, "random-60", index, failure="it failed")
        if figure is None
        else Run(index, index, "random-60", index, val={"accuracy": figure}, test={"accuracy": test})
        for index, figure in enumerate(validation)
    ]


@pytest.mark.parametrize(
    ("non_local", "local", "taken"),
    [
        (runs(60, 63, test=10), runs(60, 62, test=90), "nlgcn"),  # whatever the test figures
        (runs(60, 61, test=90), runs(60, 62, test=10), "gcn"),
        (runs(61, 61), runs(60, 62), "gcn"),  # level is not ahead
        (runs(60, 90, None), runs(61, None, 80), "gcn"),  # only the first split was finished by both
    ],
)
def test_gate(non_local: list[Run], local: list[Run], taken: str) -> None:
    decided = gate({"nlgcn": non_local, "gcn": local}, "accuracy")
    assert decided.taken == taken
    assert f"takes {taken}" in decided.words
    assert ("not ahead" in decided.words) is (taken == "gcn")


@pytest.mark.parametrize(
    ("non_local", "local", "taken", "failed"),
    [
        (runs(None, None), runs(60, None), "gcn", "nlgcn"),
        (runs(60, None), runs(None, None), "nlgcn", "gcn"),
        ([], runs(60), "gcn", "nlgcn"),
    ],
)
def test_one_that_failed_wholly_is_not_taken(non_local: list[Run], local: list[Run], taken: str, failed: str) -> None:
    decided = gate({"nlgcn": non_local, "gcn": local}, "accuracy")
    assert decided.taken == taken
    assert decided.words == f"The gate takes {taken}: the training of {failed} failed."


def test_gate_words_have_both_figures() -> None:
    words = gate({"nlgcn": runs(60, 63), "gcn": runs(60, 62)}, "accuracy").words
    assert "validation accuracy" in words
    assert "nlgcn (61.50 %)" in words
    assert "gcn (61.00 %)" in words


def test_nothing_to_compare() -> None:
    with pytest.raises(NlgnnError, match="no split was finished by both nlgcn and gcn"):
        gate({"nlgcn": runs(None, 60), "gcn": runs(60, None)}, "accuracy")
    with pytest.raises(NlgnnError, match="no split was finished"):
        gate({"nlgcn": runs(None), "gcn": runs(None)}, "accuracy")


def test_options_must_suit_every_model_that_may_be_chosen() -> None:
    check_options("graph", None, {"kernel_size": 3, "epochs": 5})
    with pytest.raises(OptionError, match=r"nlmlp has no option 'heads'\. The model auto may choose nlmlp"):
        check_options("graph", None, {"heads": 2})
    with pytest.raises(OptionError, match="no preset"):
        check_options("graph", "papr", {})
    with pytest.raises(OptionError, match=r"kernel_size=2.* The model auto may choose nlmlp"):
        check_options("graph", None, {"kernel_size": [3, 2]}, check_space)
    with pytest.raises(OptionError, match="metric_dim=4 changes nothing"):
        check_options("graph", None, {"metric_dim": 4})


@pytest.mark.parametrize("order", ["metric", ["metric"], ("metric",), " metric,"])
def test_the_gate_judges_no_votes(order: object) -> None:
    """On labels that nothing tells they were ahead in validation, having five tries, and not in test."""
    with pytest.raises(OptionError, match="the gate of the model auto cannot judge votes"):
        check_options("graph", None, {"order": order}, check_space)
    check_options("graph", None, {"order": order, "readout": "conv"}, check_space)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch, as_users_run_it: None) -> None:
    monkeypatch.setitem(SHORT, "epochs", 3)
    monkeypatch.setattr(evidence_module, "HEADS", 1)
    monkeypatch.setattr(evidence_module, "_is_clear", lambda difference: True)  # five runs are enough here


def test_choice_by_validation_alone(quick: None) -> None:
    options = {"kernel_size": 3, "hidden": 4, "epochs": 4}
    one, other = (
        choose_model(small_graph(test_labels=turned), "geom-gcn", runs=2, progress=False, **options)
        for turned in (0, 1)
    )
    assert one.model == one.gate.taken
    assert one.gate == other.gate
    assert one.diagnosis.verdict == other.diagnosis.verdict
    assert [run.test for run in one.runs] != [run.test for run in other.runs]
    assert {one.gate.non_local, one.gate.local} == {one.diagnosis.verdict.non_local, one.diagnosis.verdict.local}
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


def test_gate_after_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The local part is trained with the options of the best setting, as the search trained that."""
    graph = small_graph()
    options: dict[str, Any] = {"hidden": 4, "lr": 0.05, "dropout": 0.5, "weight_decay": 0.0}
    searched = {**options, "search_epochs": 4, "search_splits": 2, "study": tmp_path / "study.db", "progress": False}
    tuned = tune(graph, "nlmlp", "geom-gcn", kernel_size=[3, 5], **searched)
    factory, recipe = configure("mlp", graph, epochs=4, **options)
    alone = fit(factory, graph, make_splits(graph, "geom-gcn", 2), recipe, progress=False)
    mean = fmean(run.val["accuracy"] for run in alone)
    assert gate_tuned(graph, tuned, progress=False)[0] == Gate("nlmlp", "mlp", tuned.best.mean, mean, "accuracy")
    ahead, behind = (replace(tuned, rows=(replace(tuned.best, mean=figure),)) for figure in (101.0, 0.0))
    assert gate_tuned(graph, ahead, progress=False)[1] == tuned.command
    command = gate_tuned(graph, behind, progress=False)[1]
    assert "--model mlp --splits geom-gcn" in command
    assert "--hidden 4" in command
    assert "--kernel-size" not in command
    monkeypatch.setattr(auto, "fit_settings", lambda *_, **__: [runs(99, None)])
    assert gate_tuned(graph, behind)[0].taken == "nlmlp"  # one failed run is a failed setting, as in the search


def test_a_bad_option_speaks_before_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(auto, "diagnose")
    with pytest.raises(OptionError, match="no option 'heads'"):
        choose_model(small_graph(), heads=2)
    with pytest.raises(OptionError, match="no splits 'linkx'"):
        choose_model(small_graph(), "linkx")
