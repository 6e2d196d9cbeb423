"""Tables of compared systems and of the learned order, from results written by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sample_cells import write

from nlgnn.paper import plans
from nlgnn.paper.cell import Cell, read_cells
from nlgnn.paper.extra_tables import order_sections, system_sections
from nlgnn.paper.plans import (
    CONV,
    CONV_FROZEN,
    CONV_RANDOM,
    FROZEN,
    KERNEL_1,
    LOCAL_PART,
    PLANTED_SEEDS,
    RANDOM,
    SEEDS,
    SHRUNK,
    VOTE,
)
from nlgnn.report.table import Section


def section(sections: list[Section], title: str) -> Section:
    return next(one for one in sections if one.title == title)


def systems(results: Path, *names: str) -> dict[str, Cell]:
    return {cell.name: cell for cell in plans.compared_cells() if not names or cell.system in names}


def write_order(cell: Cell, folder: Path, tests: list[float]) -> None:
    """Write a result as an older version would have, since options have other names in this one."""
    write(cell, folder, tests, seeds=cell.seeds, versions={"nlgnn": "0.1.0"})


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


def test_the_planted_table_and_its_summary(tmp_path: Path) -> None:
    cells = [cell for cell in plans.order_cells(tmp_path) if cell.planted]
    for cell in cells:
        if cell.planted is not None and cell.planted[1:] == (0, 1.0):
            high = {VOTE: 97.0, CONV: 90.0}.get(cell.condition, 70.0)
            write_order(cell, tmp_path, [60.0 if cell.planted.seed == PLANTED_SEEDS[0] else high])
    sections = order_sections(read_cells(cells, tmp_path))
    rows = {row["model"]: row for row in section(sections, "A planted order").rows}
    assert list(rows[VOTE].values())[1:] == ["60.0†", "97.0†", "97.0†", "84.7†"]
    words = section(sections, "Summary").text
    assert "reach 85 % on 2 of 3 graphs" in words
    assert "reach 80 % on 2 of 3" in words
    assert "of 21 trainings without a learned order, 0 reach 80 %" in words
    harder = section(sections, "Harder planted graphs").rows
    assert harder[0][VOTE] == "60.0† / 97.0† / 97.0†"
    assert harder[1][VOTE] == "… / … / …"


def test_differences_are_paired_over_splits_and_seeds(tmp_path: Path) -> None:
    cells = [cell for cell in plans.order_cells(tmp_path) if cell.dataset == "texas"]
    by_condition = {cell.condition: cell for cell in cells}
    # Seeds do not differ, splits do; the difference is 2 and 4 in turn.
    local = np.tile(50 + np.arange(10.0), SEEDS)
    better = (local + np.tile([2.0, 4.0], 15)).tolist()
    write_order(by_condition[LOCAL_PART], tmp_path, local.tolist())
    write_order(by_condition[VOTE], tmp_path, better)
    sections = order_sections(read_cells(cells, tmp_path))
    (row,) = section(sections, "Differences from the local part").rows
    assert row[f"{VOTE} − local"].startswith("+3.0 [+2.2, +3.8]")
    assert row[f"{CONV} − local"] == "…"
    words = section(sections, "Summary").text
    assert "clearly better than the local part on 1 (texas)" in words
    assert "than a frozen space and random orders on 0." in words  # which are not measured
    for control in (FROZEN, RANDOM):
        write_order(by_condition[control], tmp_path, local.tolist())
    assert "random orders on 1 (texas)." in section(order_sections(read_cells(cells, tmp_path)), "Summary").text
    write_order(by_condition[CONV], tmp_path, better)
    for control in (CONV_FROZEN, CONV_RANDOM, KERNEL_1):
        words = section(order_sections(read_cells(cells, tmp_path)), "Summary").text
        assert "a random order and kernel 1 on 0." in words, control  # not before all are measured
        write_order(by_condition[control], tmp_path, local.tolist())
    assert "and kernel 1 on 1 (texas)." in section(order_sections(read_cells(cells, tmp_path)), "Summary").text


def test_a_smaller_shrinkage(tmp_path: Path) -> None:
    cells = [cell for cell in plans.order_cells(tmp_path) if cell.dataset in ("texas", "actor")]
    for cell in cells:
        if cell.dataset == "texas" and cell.condition in (LOCAL_PART, SHRUNK.name):
            write_order(cell, tmp_path, [50.0, 60.0] * 15 if cell.condition == LOCAL_PART else [51.0, 63.0] * 15)
    (row,) = section(order_sections(read_cells(cells, tmp_path)), "Smaller shrinkage").rows
    assert row["dataset"] == "texas"  # not measured on actor
    assert row[VOTE] == row[f"{VOTE} − local"] == "…"
    assert row[f"{SHRUNK.name} − local"].startswith("+2.0 [+1.2, +2.8]")
