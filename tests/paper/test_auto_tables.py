"""Tables of the automatic choice, from cells that nobody measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nlgnn import __version__
from nlgnn.errors import DataError
from nlgnn.paper.auto_cells import auto_cell, auto_cells
from nlgnn.paper.auto_tables import auto_sections
from nlgnn.paper.cell import cell_path, read_cells
from nlgnn.report.table import Rows

OWN, BEST = "trees, own columns", "bank"


def row(name: str, tests: Sequence[float | None], **changed: Any) -> dict[str, Any]:
    return {"name": name, "status": "finished", "control": False, "test runs": tests, "options": {}, **changed}


def write(
    folder: Path, graph: str, budget: str, chosen: str, rows: Sequence[Mapping[str, Any]], seconds: float, **more: Any
) -> None:
    cell = auto_cell(graph, budget)
    result = {
        "protocol": cell.protocol,
        "shortened": None,
        "budget": budget,
        "metric": "accuracy",
        "chosen": chosen,
        "category": None,
        "leaderboard": list(rows),
        "seconds": seconds,
        "load": [0.5, 1.5],
        "processor": "P",
        "cores": 2,
        "threads": "auto",
        "model": {},
        "recipe": {},
        "versions": {"nlgnn": __version__},
        **more,
    }
    path = cell_path(cell, folder)
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result))


def tables(folder: Path) -> dict[str, Rows]:
    return {section.title: section.rows for section in auto_sections(read_cells(auto_cells(folder), folder))}


def first(rows: Rows, **wanted: str) -> dict[str, str]:
    return next(one for one in rows if wanted.items() <= one.items())


@pytest.fixture
def measured(tmp_path: Path) -> dict[str, Rows]:
    """Return tables of texas (best published figure 88.4), actor (38.0), pubmed (90.2) and a held-out graph."""
    texas = [row("mlp", [88.0, 89.0]), row(BEST, [89.0, 90.0]), row(OWN, [70.0, 72.0])]
    texas += [row("sage, non-local, kernel 1", [99.0, 99.0], control=True)]
    texas += [row("gat", [], status="not started"), row("gcn", [99.0, None], postponed=0)]
    write(tmp_path, "texas", "10m", "mlp", texas, 630.0, category="first")
    write(tmp_path, "texas", "1m", OWN, texas[2:], 45.0)
    weights = {"weights": {"mlp": 0.75, OWN: 0.25}}
    actor = [row("ensemble", [37.5, 37.5], options=weights), row("mlp", [36.5, 36.5]), row(OWN, [37.0, 37.0])]
    write(tmp_path, "actor", "10m", "ensemble", actor, 300.0, category="second")
    write(tmp_path, "pubmed", "10m", BEST, [row(BEST, [80.0, 80.0])], 500.0)
    write(tmp_path, "accounts", "10m", BEST, [row(BEST, [40.0, 42.0])], 400.0, metric="average-precision")
    return tables(tmp_path)


def test_goals(measured: dict[str, Rows]) -> None:
    large = first(measured["Goals"], budget="10m")
    assert list(large.values())[1:] == ["3 of 15", "1 of 3", "2 of 3", "0.17", "105 %"]  # regrets 1, -0.5 and 0
    small = first(measured["Goals"], budget="1m")
    assert list(small.values())[1:] == ["1 of 15", "0 of 1", "0 of 1", "18.50", "75 %"]
    assert list(first(measured["Goals"], budget="reached").values())[2:] == ["…"] * 4


def test_goals_that_are_reached_or_missed(tmp_path: Path) -> None:
    for graph in ("texas", "actor", "cora", "citeseer", "wisconsin"):
        rows = [row(BEST, [99.0, None], postponed=1) if graph == "cora" else row(BEST, [99.0, 99.0])]
        write(tmp_path, graph, "10m", BEST, rows, 700.0)
    goals = tables(tmp_path)["Goals"]
    assert list(first(goals, budget="reached").values())[2:] == ["yes", "…", "…", "no"]
    assert first(goals, budget="10m")["at or above the published best"] == "5 of 5 (4 with all runs)"


def test_a_model_without_time_for_all_runs(tmp_path: Path) -> None:
    """It is compared on the runs that it has: the first split is an easy one."""
    rows = [row("mlp", [90.0, 70.0]), row(BEST, [91.0, None], postponed=1), row("gat", [85.0, None], postponed=1)]
    write(tmp_path, "texas", "10m", "mlp", rows, 30.0)
    write(tmp_path, "texas", "1m", "gat", rows[2:], 3.0)
    texas = first(tables(tmp_path)["Test figures: graphs of the benchmark"], graph="texas")
    assert texas["auto, 1m"] == "85.0 (1 of 2 runs)"
    assert texas["best entry in hindsight"] == "91.0 (1 of 2 runs)"
    assert (texas["regret, 10m"], texas["regret, 1m"]) == ("+1.0", "+6.0")


def test_figures_of_a_graph(measured: dict[str, Rows]) -> None:
    texas = first(measured["Test figures: graphs of the benchmark"], graph="texas")
    assert (texas["auto, 10m"], texas["auto, 1m"]) == ("88.5 ± 0.7", "71.0 ± 1.4")
    assert texas["best entry in hindsight"] == "89.5 ± 0.7"  # neither a control nor an entry with a failed run
    assert (texas["regret, 10m"], texas["regret, 1m"]) == ("+1.0", "+18.5")
    assert texas["boosting on own columns"] == "71.0 ± 1.4"
    assert (texas["published best"], texas["source"]) == ("88.4", "ACMII-GCN++ (Luan et al., 2022)")
    cora = first(measured["Test figures: graphs of the benchmark"], graph="cora")
    assert (cora["auto, 10m"], cora["regret, 10m"], cora["published best"]) == ("…", "…", "88.4")


def test_an_ensemble_is_an_answer_but_not_an_entry(measured: dict[str, Rows]) -> None:
    actor = first(measured["Test figures: graphs of the benchmark"], graph="actor")
    assert (actor["auto, 10m"], actor["best entry in hindsight"], actor["regret, 10m"]) == (
        "37.5 ± 0.0",
        "37.0 ± 0.0",
        "-0.5",
    )
    assert first(measured["Choices and seconds: graphs of the benchmark"], graph="actor")["chosen, 10m"] == "ensemble"
    entries = measured["Entries of the portfolio"]
    assert "ensemble" not in {one["entry"] for one in entries}
    own = first(entries, entry=OWN)
    assert [own[f"{what}, 10m"] for what in ("finished", "chosen", "chosen or in the ensemble")] == ["2", "0", "1"]
    assert own["best in hindsight"] == "1"
    assert first(entries, entry="mlp")["chosen or in the ensemble, 10m"] == "2"


def test_held_out_graphs_stand_apart(measured: dict[str, Rows]) -> None:
    held_out = measured["Test figures: held-out graphs"]
    assert [one["graph"] for one in held_out] == ["cornell5", "mushroom-body-right", "accounts", "planted-order"]
    assert "published best" not in held_out[0]
    assert first(held_out, graph="accounts")["metric"] == "average-precision"
    choices = measured["Choices and seconds: graphs of the benchmark"]
    assert [one["graph"] for one in choices if one["held out"] == "yes"] == ["pubmed"]
    assert first(choices, graph="texas")["seconds, 10m"] == "630 (105 %)"


def test_categories(measured: dict[str, Rows]) -> None:
    rows = measured["Categories found by the race"]
    assert len(rows) == 9
    assert first(rows, graph="texas") == {"graph": "texas", "paper": "first", "race": "first"}
    assert first(rows, graph="actor") == {"graph": "actor", "paper": "first", "race": "second"}
    assert first(rows, graph="pubmed")["race"] == "mlp, gcn or gat not finished"
    assert first(rows, graph="cora")["race"] == "…"


def test_nothing_measured(tmp_path: Path) -> None:
    found = tables(tmp_path)
    assert first(found["Goals"], budget="10m")["mean regret"] == "…"
    assert {one["auto, 10m"] for one in found["Test figures: held-out graphs"]} == {"…"}
    assert auto_sections({}) == []


def test_the_machine_is_named(tmp_path: Path) -> None:
    write(tmp_path, "texas", "10m", BEST, [row(BEST, [80.0])], 5.0)
    sections = {section.title: section for section in auto_sections(read_cells(auto_cells(tmp_path), tmp_path))}
    own, held_out = (sections[f"Choices and seconds: {graphs}"].caption
                     for graphs in ("graphs of the benchmark", "held-out graphs"))  # fmt: skip
    assert "P, cores 2, threads auto; load average before and after a command 0.5 to 1.5." in own
    assert "Measured on" not in held_out


def test_a_cell_of_another_budget_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "texas", "10m", BEST, [row(BEST, [80.0])], 5.0)
    path = cell_path(auto_cell("texas", "10m"), tmp_path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"budget": "4s"}))
    with pytest.raises(DataError, match="was measured with budget=4s; now it is 10m"):
        tables(tmp_path)
