"""The table of running times: who takes part, who sits out, and what stands beside the paper's. No time is asserted."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from experiment_samples import small_graph, write_result

from nlgnn.errors import DataError
from nlgnn.experiments import efficiency, measured
from nlgnn.experiments.bench.steps import Problem
from nlgnn.experiments.cells import run_cell
from nlgnn.experiments.efficiency import EfficiencyCell, efficiency_cells, efficiency_sections, time_steps

CHAMELEON, SNAP_PATENTS = EfficiencyCell("chameleon"), EfficiencyCell("snap-patents")


def test_systems() -> None:
    """Where the paper has no time for a system, none is waited for."""
    assert [cell.dataset for cell in efficiency_cells("random-60")] == ["chameleon", "squirrel", "snap-patents"]
    assert CHAMELEON.systems == ("gcn", "gat", "geom-gcn", "nlgcn", "mlp", "nlmlp", "nlgat")
    assert SNAP_PATENTS.systems == ("gcn", "nlgcn")
    assert efficiency_sections([], Path(), "") == []


def test_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "ALSO_TIMED", ("mlp",))
    monkeypatch.setattr(Problem, "named", classmethod(lambda cls, name: cls.of(small_graph())))
    cell = CHAMELEON.quick()
    result = run_cell(cell, tmp_path)
    assert result is not None
    assert list(result["steps"]) == ["gcn", "gat", "geom-gcn", "nlgcn", "mlp"]
    assert all(0 < steps["epochs"] <= cell.epochs for steps in result["steps"].values())  # on a busy machine fewer
    assert all(steps["median ms"] > 0 and steps["mean ms"] > 0 for steps in result["steps"].values())
    assert result["steps"]["gcn"]["ratio"] == 1
    assert result["threads"] == 1
    assert result["versions"]["torch"]
    shown = efficiency_sections([cell], tmp_path, "")[0].rows[0]["epochs"]
    assert shown == str(result["steps"]["gcn"]["epochs"])
    with pytest.raises(DataError, match="measured with epochs=20; now it is 500"):
        run_cell(CHAMELEON, tmp_path)


def test_a_slow_system_sits_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of GAT take four seconds each, those of others a tenth."""
    lengths = {"GAT": 4.0, "GCN": 0.1}
    monkeypatch.setattr(efficiency, "our_step", lambda problem, model, inputs: lambda: type(model).__name__)
    monkeypatch.setattr(efficiency, "stopwatch", lambda step: lambda: lengths[step()])
    found = time_steps(Problem.of(small_graph()), ("gcn", "gat"), epochs=200)
    assert found["gcn"] == {"epochs": 200, "median ms": 100, "mean ms": 100, "ratio": 1}
    assert found["gat"] == {"epochs": 7, "median ms": 4000, "mean ms": 4000, "ratio": 40}


def test_ratios_are_of_rounds_that_both_took_part_in() -> None:
    assert efficiency._ratio([2.0, 6.0, 8.0, math.nan], [1.0, 2.0, math.nan, 5.0]) == 2.5


def test_ours_beside_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "files_are_here", lambda dataset: dataset != "snap-patents")
    steps = {"epochs": 500, "median ms": 2.04, "mean ms": 2.5, "ratio": 1.0}
    write_result(
        CHAMELEON,
        tmp_path,
        **CHAMELEON.settings({}),
        dataset="chameleon",
        steps={"gcn": steps, "nlgcn": {**steps, "ratio": 1.76}},
        processor="abacus",
        threads=1,
        load=0.5,
        versions={"torch": "9.9"},
    )
    (section,) = efficiency_sections([CHAMELEON, EfficiencyCell("squirrel"), SNAP_PATENTS], tmp_path, "")
    rows = {(row["dataset"], row["model"]): list(row.values())[2:] for row in section.rows}
    assert rows["chameleon", "gcn"] == ["2.0", "2.5", "1.00", "500", "22.2", "1.0"]
    assert rows["chameleon", "nlgcn"] == ["2.0", "2.5", "1.76", "500", "26.3", "1.2"]
    assert rows["squirrel", "gcn"] == ["…", "–", "–", "–", "14.3", "1.0"]
    assert rows["squirrel", "nlmlp"][-2:] == ["–", "–"]
    assert rows["snap-patents", "gcn"] == ["files not here", "–", "–", "–", "2193.0", "1.0"]
    assert rows["snap-patents", "gat"] == ["–", "–", "–", "–", "out of memory", "–"]
    assert ("snap-patents", "nlgat") not in rows
    assert section.text == "On chameleon NLGCN takes 1.8 times as long as GCN (the paper: 1.2)."
    assert "abacus, 1 thread, torch 9.9, load 0.5 in the minute before (chameleon)" in section.caption
