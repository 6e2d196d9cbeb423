"""Cells of the learned order with structure as its input."""

from __future__ import annotations

from pathlib import Path

from nlgnn.paper.cell import read_cells
from nlgnn.paper.extra_tables import order_sections
from nlgnn.paper.pages import TABLES
from nlgnn.paper.structure_cells import PLAN, ROLE_SEEDS, structure_cells, structure_sections


def test_every_condition_is_measured_on_every_graph() -> None:
    cells = structure_cells()
    assert len({cell.name for cell in cells}) == len(cells)
    planted = [cell for cell in cells if cell.planted]
    assert len(planted) == len(PLAN["planted"]) * len(PLAN["noise_links"]) * len(ROLE_SEEDS)
    assert len(cells) - len(planted) == len(PLAN["condition"]) * len(PLAN["datasets"])
    for cell in cells:
        cell.training_settings(cell.candidates[0])  # all options are known


def test_a_condition_differs_from_the_learned_order_in_what_its_name_says() -> None:
    of = {cell.condition: cell for cell in structure_cells() if cell.dataset == "chameleon"}
    learned = of["learned order, votes"].candidates[0]
    assert of["votes, frozen space"].candidates[0] == {**learned, "frozen": True}
    assert of["votes, random orders"].candidates[0] == {**learned, "order": "random"}
    assert of["local part"].candidates[0].items() <= learned.items()


def test_sections_of_open_cells(tmp_path: Path) -> None:
    found = read_cells(TABLES["order"].cells(tmp_path), tmp_path)
    roles, real, differences = structure_sections(found)
    assert [row["model"] for row in roles.rows] == [condition["name"] for condition in PLAN["planted"]]
    assert [row["dataset"] for row in real.rows] == [row["dataset"] for row in differences.rows] == PLAN["datasets"]
    assert all("planted-roles" not in row.values() for one in order_sections(found) for row in one.rows)
