"""Cells of the automatic choice: their order, and what the command leaves in them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.paper.auto_cells import GENERATED, HELD_OUT, SIZES, auto_cell, auto_cells, make_accounts, make_planted_order
from nlgnn.paper.benchmark import GRAPHS
from nlgnn.paper.cell import cell_path
from nlgnn.paper.measure import run_cell
from nlgnn.tables import read_graph
from nlgnn.tables.graph_files import read_graph_file


def test_small_budgets_and_small_graphs_come_first() -> None:
    cells = auto_cells(Path())
    assert [cell.budget for cell in cells] == ["1m"] * 19 + ["10m"] * 19
    sizes = [SIZES[cell.dataset] for cell in cells]
    assert sizes[:19] == sizes[19:] == sorted(sizes[:19])
    assert {cell.dataset for cell in cells} == {*GRAPHS, *HELD_OUT}
    assert {cell.dataset: cell.protocol for cell in cells}["tolokers"] == "heterophilous"  # public splits


def test_quick_keeps_the_name() -> None:
    cell = auto_cell("texas", "10m")
    quick = cell.quick()
    assert (quick.name, quick.condition) == (cell.name, cell.condition) == ("texas-10m", "10m")
    assert quick.budget == "4s"
    assert quick.settings({}) != cell.settings({})


def test_generated_graphs_are_as_large_as_stated(tmp_path: Path) -> None:
    graphs: dict[str, Graph] = {}
    nodes, edges, label = make_accounts(tmp_path)[1::2]
    graphs["accounts"] = read_graph(nodes, edges, label=label, directed=True).graph
    graphs["planted-order"] = read_graph_file(make_planted_order(tmp_path)[1]).graph
    assert {name: graph.num_nodes for name, graph in graphs.items()} == {name: SIZES[name] for name in GENERATED}
    assert not graphs["planted-order"].directed
    share = (graphs["accounts"].y == 1).sum() / graphs["accounts"].labelled.sum()
    assert share == pytest.approx(0.04, abs=0.003)


def test_the_command_is_run_as_users_run_it(tmp_path: Path) -> None:
    cell = auto_cell("mushroom-body-right", "1m").quick()
    result = run_cell(cell, tmp_path, progress=False)
    assert result is not None
    assert result["command"] == "nlgnn train mushroom-body-right --splits random-60 --runs 2 --time-budget 4s"
    assert result["leaderboard"][0]["name"] == result["chosen"] == result["choice"]["name"]
    assert len(result["leaderboard"][0]["test runs"]) == 2
    assert {one["status"] for one in result["leaderboard"]} >= {"finished", "not started"}
    assert "Chose " in result["choice"]["headline"]
    assert result["seconds"] > sum(one["fit_seconds"] or 0 for one in result["leaderboard"])  # imports and report
    assert len(result["load"]) == 2
    assert [path.name for path in (tmp_path / "auto").iterdir()] == ["mushroom-body-right-1m.json"]
    before = cell_path(cell, tmp_path).stat().st_mtime_ns
    assert run_cell(cell, tmp_path) == json.loads(cell_path(cell, tmp_path).read_text())
    assert cell_path(cell, tmp_path).stat().st_mtime_ns == before


def test_a_command_that_fails(tmp_path: Path) -> None:
    cell = replace(auto_cell("mushroom-body-right", "1m"), budget="five")
    with pytest.raises(NlgnnError, match=r"--time-budget five failed: 'five' is not a time budget\."):
        run_cell(cell, tmp_path, progress=False)
    assert not cell_path(cell, tmp_path).exists()
