"""The benchmark page, from results written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_cells import write

from nlgnn.models.registry import get_system
from nlgnn.paper.benchmark import (
    CONDITIONS,
    DATA,
    ENTRIES,
    GRAPHS,
    Answer,
    benchmark_cells,
    benchmark_sections,
    entry_cells,
    non_local_cells,
)
from nlgnn.paper.cell import Cell, read_cells
from nlgnn.report.table import Section


def entries_of(graph: str) -> dict[str, Cell]:
    return {cell.condition: cell for cell in entry_cells() if cell.dataset == graph}


def write_graph(graph: str, results: Path, figures: dict[str, tuple[float, float]]) -> list[Cell]:
    """Write all cells of a graph: validation and test of some models, 50 and 50 for all others."""
    cells = entries_of(graph)
    for name, cell in cells.items():
        validation, test = figures.get(name, (50.0, 50.0))
        runs = 10 * cell.seeds
        write(cell, results, [test] * runs, [validation] * runs, seeds=cell.seeds)
    return [cell for cell in benchmark_cells(results) if cell.dataset == graph]


def sections(cells: list[Cell], results: Path) -> list[Section]:
    return benchmark_sections(read_cells(cells, results))


def test_validation_chooses_the_model(tmp_path: Path) -> None:
    cells = write_graph("cora", tmp_path, {"gcn": (90.0, 60.0), "kernel": (80.0, 95.0)})
    row = sections(cells, tmp_path)[0].rows[0]
    assert row["chosen model"] == "gcn"
    assert row["test"].startswith("60.0")


def test_label_input_is_shown_apart(tmp_path: Path) -> None:
    cells = write_graph("cora", tmp_path, {"forest, label input": (90.0, 89.0), "forest": (80.0, 79.0)})
    row = sections(cells, tmp_path)[0].rows[0]
    assert row["chosen model"] == "forest, label input"
    assert row["chosen model, without label input"] == "forest"
    assert row["test, without label input"].startswith("79.0")


def test_a_comparison_trains_the_same_splits_and_seeds() -> None:
    for graph in DATA["comparisons"]:
        cells = [cell for cell in non_local_cells() if cell.dataset == graph]
        assert [cell.condition for cell in cells] == ["local", *CONDITIONS]
        assert all(cell.main == cells[0].main for cell in cells)
        assert len({(cell.seeds, cell.schedule.splits, cell.protocol) for cell in cells}) == 1
        assert {get_system(cell.system).local for cell in cells[1:]} == {get_system(cells[0].system).name}
        assert len({str(cell.changes) for cell in cells}) == 4


def test_graphs_that_are_left_out_are_named(tmp_path: Path) -> None:
    rows = {row["graph"]: row for row in sections(write_graph("texas", tmp_path, {}), tmp_path)[-2].rows}
    assert rows["squirrel"]["answer"] == Answer.UNPLANNED
    assert set(DATA["comparisons"]) | {"squirrel"} == set(GRAPHS)


@pytest.mark.parametrize(
    ("figures", "expected"),
    [
        ({"local": 80.0, "non-local": 82.0, "kernel 1": 81.0, "random order": 79.0}, Answer.YES),
        ({"local": 80.0, "non-local": 82.0, "kernel 1": 83.0, "random order": 79.0}, Answer.PARTLY),
        ({"local": 80.0, "non-local": 82.0, "kernel 1": 81.0}, Answer.OPEN),
        ({"local": 80.0, "non-local": 78.0}, Answer.WORSE),
        ({"local": 80.0, "non-local": 80.0}, Answer.SAME),
        ({"local": 80.0}, Answer.OPEN),
    ],
)
def test_the_answer_follows_from_the_differences(figures: dict[str, float], expected: Answer, tmp_path: Path) -> None:
    # Differences that do not vary are never clear.
    write_graph("texas", tmp_path, {})
    cells = [cell for cell in benchmark_cells(tmp_path) if cell.dataset == "texas"]
    for cell in cells:
        if cell.main is not None and cell.condition in figures:
            varied = 0.1 if cell.condition == "non-local" else 0.0
            tests = [figures[cell.condition] + varied * (-1) ** run for run in range(30)]
            write(cell, tmp_path, tests, seeds=3)
    answers = sections(cells, tmp_path)[-2]
    assert answers.rows[0]["graph"] == "texas"
    assert answers.rows[0]["answer"] == expected
    if expected is Answer.YES:
        assert answers.rows[0]["non-local − local"].startswith("+2.0")
        assert answers.rows[0]["splits"] == "10 of 10"


def test_some_models_only(tmp_path: Path) -> None:
    cells = write_graph("texas", tmp_path, {"bank": (90.0, 80.0)})
    found = [cell for cell in cells if cell.system == "bank"]  # without nl-bank
    assert sections(found, tmp_path)[0].rows[0]["chosen model"] == "bank"


def test_open_cells_do_not_win(tmp_path: Path) -> None:
    cells = entries_of("texas")
    write(cells["mlp"], tmp_path, [70.0] * 30, seeds=3)
    found = sections(list(cells.values()), tmp_path)
    assert found[0].rows[0]["chosen model"] == "mlp"
    assert {row["model"] for row in found[1].rows} == {name for name in ENTRIES if name in cells}


def test_an_entry_with_fewer_splits_is_marked(tmp_path: Path) -> None:
    cell = entries_of("minesweeper")["deep gcn"]
    assert cell.schedule.splits == 3
    write(cell, tmp_path, [97.0, 97.5, 98.0])
    row = sections([cell], tmp_path)[0].rows[0]
    assert row["test"] == "97.5 ± 0.5*"


def test_every_model_has_a_quick_cell() -> None:
    for cell in (*entries_of("texas").values(), *entries_of("tolokers").values()):
        quick = cell.quick()
        settings = quick.training_settings(quick.candidates[0])
        assert settings.get("epochs", 3) == 3 or get_system(cell.system).kind == "shallow"
        assert quick.schedule.splits == 2
