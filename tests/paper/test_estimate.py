"""Estimates of seconds, from results written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_cells import OLD, write_framework

from nlgnn.paper import plans
from nlgnn.paper.cell import Measured, read_cells
from nlgnn.paper.estimate import estimated_seconds
from nlgnn.paper.order_cells import order_cells
from nlgnn.paper.pages import counts
from nlgnn.paper.plans import framework_cell


def measured(results: Path) -> list[Measured]:
    return [one for one in read_cells(plans.result_cells(results), results).values() if one.result]


def test_a_cell_takes_as_long_as_before(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-gcn", [70.0], seconds=500.0, search_seconds=100.0, **OLD)
    assert estimated_seconds(framework_cell("texas", "gcn"), measured(tmp_path)) == 600


def test_the_same_model_on_the_nearest_graph_counts(tmp_path: Path) -> None:
    assert estimated_seconds(framework_cell("texas", "gcn"), []) is None
    write_framework(tmp_path, "wisconsin-gcn", [70.0], seconds=90.0)  # and 10 seconds of search
    write_framework(tmp_path, "pubmed-gcn", [70.0], seconds=5000.0)
    write_framework(tmp_path, "texas-mlp", [70.0], seconds=1.0)
    ratio = (183 + 2 * 279) / (251 + 2 * 450)
    assert estimated_seconds(framework_cell("texas", "gcn"), measured(tmp_path)) == pytest.approx(100 * ratio**0.5)


def test_graphs_that_the_paper_does_not_use_have_sizes(tmp_path: Path) -> None:
    cells = {cell.name: cell for cell in order_cells()}
    known = [Measured(cells["texas-local-part"], {"seconds": 10.0})]
    seconds = [estimated_seconds(cells[f"{name}-local-part"], known) for name in ("minesweeper", "tolokers")]
    assert all(one is not None and one > 10 for one in seconds)


def test_estimates_do_not_depend_on_the_tables_that_are_shown(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-gcn", [70.0], seconds=500.0, **OLD)
    alone, _ = counts(["cpgcn"], tmp_path).rows
    _, among, _ = counts(["results", "cpgcn"], tmp_path).rows
    assert alone == among
    assert alone["core-hours left"] != "…"


def test_what_is_left_is_counted_by_table(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0], seconds=3590.0, **OLD)
    (row, *_) = counts(["homophily"], tmp_path).rows
    assert float(row["core-hours left"]) > 1
    write_framework(tmp_path, "texas-nlmlp", [70.0], seconds=7190.0)
    assert float(counts(["homophily"], tmp_path).rows[0]["core-hours left"]) > float(row["core-hours left"])
