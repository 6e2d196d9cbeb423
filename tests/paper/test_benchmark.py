"""The benchmark page, from results written by hand."""

from __future__ import annotations

from pathlib import Path

from sample_cells import write

from nlgnn.paper.benchmark import CONDITIONS, ENTRIES, benchmark_cells, benchmark_sections, entry_cells
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


def test_non_local_versions_are_those_of_the_best_local_model(tmp_path: Path) -> None:
    cells = write_graph("texas", tmp_path, {"kernel": (95.0, 95.0), "bank": (90.0, 80.0)})
    versions = {cell.condition: cell for cell in cells if cell.main is not None}
    assert list(versions) == ["local", *CONDITIONS]  # kernel has no non-local version
    assert versions["local"].system == "bank"
    assert versions["non-local"].system == "nl-bank"
    for name, figure in {"local": 80.0, "non-local": 82.0, "kernel 1": 81.0, "random order": 79.0}.items():
        write(versions[name], tmp_path, [figure + 0.1 * run for run in range(30)], seeds=3)
    row = sections(cells, tmp_path)[-1].rows[0]
    assert row["non-local − local"].startswith("+2.0")
    assert row["non-local − kernel 1"].startswith("+1.0")
    assert row["non-local − random order"].startswith("+3.0")


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
    assert not [cell for cell in benchmark_cells(tmp_path) if cell.main is not None]  # not before all are measured
