"""Tables of compared systems, from results written by hand."""

from __future__ import annotations

from pathlib import Path

from sample_cells import write

from nlgnn.paper import plans
from nlgnn.paper.cell import Cell, read_cells
from nlgnn.paper.system_tables import system_sections
from nlgnn.report.table import Section


def section(sections: list[Section], title: str) -> Section:
    return next(one for one in sections if one.title == title)


def systems(results: Path, *names: str) -> dict[str, Cell]:
    return {cell.name: cell for cell in plans.compared_cells() if not names or cell.system in names}


def test_all_systems_in_one_matrix(tmp_path: Path) -> None:
    cells = systems(tmp_path, "simp-gcn", "h2gcn")
    write(cells["texas-simp-gcn"], tmp_path, [62.0, 64.0])
    write(cells["texas-h2gcn"], tmp_path, [84.0, 85.0])
    matrix = system_sections(read_cells(cells.values(), tmp_path))[0]
    rows = {row["system"]: row for row in matrix.rows}
    assert list(rows) == ["h2gcn", "simp-gcn"]
    assert rows["simp-gcn"]["texas"] == "63.0 ± 1.4"
    assert rows["simp-gcn"]["squirrel"] == "–"  # not planned
    assert rows["h2gcn"]["squirrel"] == "…"
    assert "1 of 2 compared cells agree with a printed figure" in matrix.caption


def test_a_system_with_printed_figures(tmp_path: Path) -> None:
    cells = systems(tmp_path, "geom-gcn")
    write(cells["texas-geom-gcn"], tmp_path, [66.0, 68.0], options={"space": "poincare"})
    own = section(system_sections(read_cells(cells.values(), tmp_path)), "geom-gcn")
    row = next(row for row in own.rows if row["dataset"] == "texas")
    assert row["settings"] == "published; space=poincare (of 3)"
    assert row["printed"] == "67.57 (space=poincare)"
    assert (row["agrees"], row["split"], row["source"], row["seconds"]) == ("✓", "G48", "Pei et al. 2020", "30")
    still_open = next(row for row in own.rows if row["dataset"] == "cora")
    assert (still_open["ours"], still_open["agrees"], still_open["seconds"]) == ("…", "–", "…")


def test_ranges_of_third_parties(tmp_path: Path) -> None:
    cells = systems(tmp_path, "fagcn")
    own = section(system_sections(read_cells(cells.values(), tmp_path)), "fagcn")
    assert [row["dataset"] for row in own.rows] == ["chameleon", "squirrel"]
    assert all(" to " in row["printed"] for row in own.rows)


def test_origins_are_explained(tmp_path: Path) -> None:
    cells = systems(tmp_path, "h2gcn")
    rows = section(system_sections(read_cells(cells.values(), tmp_path)), "Origin of printed figures").rows
    assert {"G48", "Zhu et al. 2020"} <= {row["name"] for row in rows}
    assert "Bo et al. 2021" not in {row["name"] for row in rows}
