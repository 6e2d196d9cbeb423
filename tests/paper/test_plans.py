"""The plan: how many cells there are, and that every result in the repository belongs to one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_cells import write_framework

from nlgnn.cli.reproduce import ON_REQUEST
from nlgnn.models.registry import get_system
from nlgnn.paper import plans
from nlgnn.paper.cell import HUGE_DATASETS, Cell, cell_path
from nlgnn.paper.pages import TABLES
from nlgnn.paper.plans import NON_LOCAL, SAMPLED, SMALL, WEBKB, chosen_model, framework_candidates, framework_cell

RESULTS = Path(__file__).parents[2] / "results"


def every_cell(results: Path) -> list[Cell]:
    return [cell for table in TABLES.values() for cell in table.cells(results)]


def test_about_150_cells_belong_to_the_paper(tmp_path: Path) -> None:
    cells = [*plans.result_cells(tmp_path), *plans.compared_cells(), *plans.cpgcn_cells(tmp_path)]
    small = [cell for cell in cells if cell.dataset not in HUGE_DATASETS]
    assert len({cell_path(cell, tmp_path) for cell in small}) == len(small) == 54 + 12 + 18 + 24 + 39 + 4
    assert len(plans.all_result_cells(tmp_path)) == 93  # cells of the paper's table 5


def test_the_tables_without_a_name_have_all_cells_of_the_paper(tmp_path: Path) -> None:
    shown = {cell.name for name in TABLES if name not in ON_REQUEST for cell in TABLES[name].cells(tmp_path)}
    assert {cell.name for cell in (*plans.result_cells(tmp_path), *plans.compared_cells())} <= shown


def test_tables_3_and_4_compare_on_the_same_splits(tmp_path: Path) -> None:
    """Each graph has the compared systems, a non-local model and its local part on the public splits."""
    cells = [*plans.first_category_cells(tmp_path), *plans.second_category_cells(tmp_path)]
    for dataset in {cell.dataset for cell in cells} - set(HUGE_DATASETS):
        public = {cell.system for cell in cells if (cell.dataset, cell.protocol) == (dataset, "geom-gcn")}
        (model,) = public & set(NON_LOCAL)
        assert get_system(model).local in public
        assert {"geom-gcn", "h2gcn"} < public


def test_order_of_measuring(tmp_path: Path) -> None:
    cells = [cell for name in TABLES if name not in ON_REQUEST for cell in TABLES[name].cells(tmp_path)]
    ranked = sorted(cells, key=plans.measuring_rank)
    attention = [cell for cell in cells if cell.system in ("gat", "nlgat") and cell.dataset in SMALL[:-1]]
    assert {cell.name for cell in ranked[: len(attention)]} == {cell.name for cell in attention}
    assert {cell.kind for cell in ranked[-3:]} == {"step times"}
    assert SMALL[-1] == "pubmed"
    first = next(number for number, cell in enumerate(ranked) if cell.dataset == "pubmed")
    assert {cell.dataset for cell in ranked[first:] if cell.kind != "step times"} == {"pubmed", *HUGE_DATASETS}


def test_a_file_belongs_to_one_cell_only(tmp_path: Path) -> None:
    by_path: dict[Path, Cell] = {}
    for cell in every_cell(tmp_path):
        assert by_path.setdefault(cell_path(cell, tmp_path), cell) == cell


def test_every_result_is_shown_somewhere() -> None:
    known = {cell_path(cell, RESULTS) for cell in every_cell(RESULTS)}
    assert {path.name for path in RESULTS.glob("*/*.json") if path not in known} == set()


def test_candidates() -> None:
    assert framework_candidates("nlmlp", "texas") == framework_candidates("nlgcn", "chameleon") == ({},)
    for system in ("mlp", "nlgcn", "nlgat"):
        found = framework_candidates(system, "texas")
        assert found == framework_candidates(system, "cora")
        assert len({json.dumps(one) for one in found}) == len(found) == SAMPLED
        space = get_system(system).search_space
        assert all(one.keys() == space.keys() for one in found)
        assert all(value in space[key] for one in found for key, value in one.items())
    assert framework_candidates("cpgcn", "chameleon")[0].keys() >= {"prior", "hops"}


@pytest.mark.parametrize("system", ["gat", "nlgat"])
def test_searches_of_attention_are_shorter(system: str) -> None:
    cell = framework_cell("texas", system)
    assert len(cell.candidates) == 12
    assert cell.shortened == {
        "options": {"stopping": "patience", "patience": 500},
        "splits": 10,
        "search_splits": 2,
        "search_epochs": 200,
    }
    assert framework_cell("pubmed", system).schedule.search_splits == 1


def test_trainings_end_earlier_where_no_settings_were_published() -> None:
    searched, published = framework_cell("cora", "nlgcn"), framework_cell("texas", "nlmlp")
    assert searched.schedule.options == {"stopping": "patience", "patience": 500}
    assert published.shortened is None
    assert framework_cell("texas", "nlmlp", control="kernel 1").shortened is None
    assert "patience" not in framework_cell("chameleon", "cpgcn", "random-10").schedule.options


def test_huge_graphs_have_five_runs_on_their_own_splits() -> None:
    cells = [framework_cell(dataset, "nlgcn") for dataset in HUGE_DATASETS]
    assert [(cell.protocol, cell.schedule.splits) for cell in cells] == [("ogb", 5), ("linkx", 5)]


def test_controls_belong_to_the_model_that_validation_chose(tmp_path: Path) -> None:
    assert chosen_model("cora", tmp_path) == "nlgat"  # the paper's best, until something is measured
    write_framework(tmp_path, "cora-nlgcn", [80.0, 81.0])
    assert chosen_model("cora", tmp_path) == "nlgcn"
    write_framework(tmp_path, "cora-nlmlp", [70.0, 71.0], [90.0, 91.0])
    assert chosen_model("cora", tmp_path) == "nlmlp"
    controls = [cell for cell in plans.control_cells(tmp_path) if cell.dataset == "cora"]
    assert [cell.name for cell in controls] == ["cora-nlmlp-kernel-1-random-60", "cora-nlmlp-random-order-random-60"]


def test_further_seeds_of_the_smallest_graphs(tmp_path: Path) -> None:
    again = [cell for cell in plans.control_cells(tmp_path) if "seed" in cell.changes]
    assert {cell.dataset for cell in again} == set(WEBKB)
    assert {cell.changes["seed"] for cell in again} == {10, 20}
    assert len(again) == len(WEBKB) * 2 * 4


def test_published_systems_have_a_sequence(tmp_path: Path) -> None:
    cells = plans.sequence_cells(tmp_path)
    assert {cell.system for cell in cells} <= set(NON_LOCAL)
    assert {cell.schedule.splits for cell in cells} == {1}
