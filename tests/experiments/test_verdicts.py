"""The verdicts beside the paper's categories."""

from __future__ import annotations

from pathlib import Path

import pytest
from experiment_samples import small_graph, write_result

from nlgnn.errors import DataError
from nlgnn.experiments import verdicts
from nlgnn.experiments.cells import run_cell
from nlgnn.experiments.evidence import SHORT
from nlgnn.experiments.verdicts import VERDICT_TABLE, VerdictCell, paper_category, verdict_sections


def test_categories_of_the_paper() -> None:
    names = {cell.dataset: paper_category(cell.dataset) for cell in VERDICT_TABLE.cells("random-60")}
    assert {name for name, category in names.items() if category == "assortative"} == {"cora", "citeseer", "pubmed"}
    assert {name for name, category in names.items() if category == "second"} == {"chameleon", "squirrel"}
    assert list(names.values()).count("first") == 5
    assert paper_category("minesweeper") is None


def test_a_verdict_is_measured_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdicts, "load_graph", lambda name, **_: small_graph(5))
    monkeypatch.setitem(SHORT, "epochs", 3)
    cell = VerdictCell("texas")
    result = run_cell(cell, tmp_path, progress=False)
    assert result is not None
    (section,) = verdict_sections([cell, VerdictCell("cora")], tmp_path, "random-60")
    texas, cora = section.rows
    assert (texas["dataset"], texas["paper"], texas["ours"]) == ("texas", "first", result["category"])
    assert texas["mlp"] == f"{result['validation']['mlp']:.1f}"
    assert texas["splits"] == f"{result['splits']} of geom-gcn"
    assert (cora["paper"], cora["ours"], cora["seconds"]) == ("assortative", "…", "…")
    assert f"{int(result['category'] == 'first')} of 1 verdicts" in section.caption


def test_a_verdict_of_other_trainings(tmp_path: Path) -> None:
    cell = VerdictCell("texas")
    write_result(cell, tmp_path, recipe={**SHORT, "epochs": 7})
    with pytest.raises(DataError, match="was measured with epochs=7"):
        verdict_sections([cell], tmp_path, "random-60")
