"""The automatic choice: the gate by hand, and a whole choice on a small graph."""

from __future__ import annotations

import pytest
from experiment_samples import small_graph

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.experiments import auto
from nlgnn.experiments import evidence as evidence_module
from nlgnn.experiments.auto import check_options, choose_model, gate
from nlgnn.experiments.evidence import SHORT
from nlgnn.graph.graph import Graph
from nlgnn.training.run import Run


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


def test_gate_words_have_both_figures() -> None:
    words = gate({"nlgcn": runs(60, 63), "gcn": runs(60, 62)}, "accuracy").words
    assert "validation accuracy" in words
    assert "nlgcn (61.50 %)" in words
    assert "gcn (61.00 %)" in words


def test_nothing_to_compare() -> None:
    with pytest.raises(NlgnnError, match="no split was finished by both nlgcn and gcn"):
        gate({"nlgcn": runs(None, 60), "gcn": runs(60, None)}, "accuracy")


def test_options_must_suit_every_model_that_may_be_chosen() -> None:
    check_options("graph", None, {"kernel_size": 3, "epochs": 5})
    with pytest.raises(OptionError, match=r"nlmlp has no option 'heads'\. The model auto may choose nlmlp"):
        check_options("graph", None, {"heads": 2})
    with pytest.raises(OptionError, match="no preset"):
        check_options("graph", "papr", {})


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


@pytest.mark.parametrize("ahead", [True, False])
def test_what_is_taken_comes_with_its_runs_and_options(
    ahead: bool, quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained: list[int] = []

    def fake_fit(*_: object, **__: object) -> list[Run]:
        """The non-local one is trained first."""
        trained.append(len(trained))
        return runs(70 if (len(trained) == 1) is ahead else 60)

    monkeypatch.setattr(auto, "fit", fake_fit)
    graph: Graph = small_graph()
    found = choose_model(graph, runs=1, progress=False, kernel_size=3, hidden=4)
    assert trained == [0, 1]
    assert found.model.startswith("nl") is ahead
    assert found.runs[0].val == {"accuracy": 70}
    assert found.options == ({"kernel_size": 3, "hidden": 4} if ahead else {"hidden": 4})


def test_a_bad_option_speaks_before_the_diagnosis(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(auto, "diagnose")
    with pytest.raises(OptionError, match="no option 'heads'"):
        choose_model(small_graph(), heads=2)
    with pytest.raises(OptionError, match="no splits 'linkx'"):
        choose_model(small_graph(), "linkx")
