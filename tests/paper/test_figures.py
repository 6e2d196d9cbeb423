"""Figures of the reproduction, from results written by hand and from those in the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sample_cells import LEVELS, write, write_framework

from chart_checks import check
from nlgnn.paper import plans
from nlgnn.paper.cell import Cell, read_cells
from nlgnn.paper.figures import (
    draw_planted_orders,
    draw_roles,
    draw_sequences,
    page_parts,
    role_rows,
)
from nlgnn.paper.order_cells import PLANTED_ORDER, VOTES, order_cells
from nlgnn.paper.pages import TABLES
from nlgnn.paper.plans import framework_cell
from nlgnn.report.page import Figure, Headline

ROOT = Path(__file__).parents[2]
OLD = {"versions": {"nlgnn": "0.1.0"}}


def figures(parts: list[Any]) -> dict[str, Figure]:
    return {part.title: part for part in parts if isinstance(part, Figure)}


def columns(figure: Figure) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in figure.tables["rows"].items()}


def planted_cells() -> list[Cell]:
    return [cell for cell in order_cells() if cell.planted]


def test_ours_and_the_papers(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [80.0, 84.0, None])
    write_framework(tmp_path, "texas-mlp", [70.0, 72.0, 74.0])
    write_framework(tmp_path, "cornell-nlmlp", [70.0, 72.0])  # the paper prints nothing for it
    cells = plans.main_cells(("texas", "cornell"))
    parts = page_parts(cells, tmp_path)
    headline = parts[0]
    assert isinstance(headline, Headline)
    assert headline.figure == "1 of 2"
    assert "0 are above and 1 below" in headline.sentences[0]
    assert "1 of 1 agree" in headline.sentences[0]
    drawn = figures(parts)
    rows = columns(drawn["nlmlp: ours and the paper's"])
    assert rows["graph"] == ["texas, ours", "texas, paper"]
    np.testing.assert_allclose(rows["mean"], [82.0, 85.4])
    np.testing.assert_allclose(rows["high"], [82.0 + 8**0.5, 85.4 + 3.8])
    assert "Non-local model minus its local part" in drawn
    assert "Non-local model minus kernel 1" not in drawn  # nothing is measured
    for figure in drawn.values():
        check(figure)


def test_nothing_is_drawn_of_nothing(tmp_path: Path) -> None:
    assert page_parts(plans.result_cells(tmp_path), tmp_path) == []


def test_sequences(tmp_path: Path) -> None:
    cell = plans.sequence_cells(tmp_path)[0]
    labels = {"before": "0101", "after": "0011"}
    further = {"labels": labels, "class names": ["a", "b"], "homophily": {**LEVELS, "before": [0.3], "after": [0.6]}}
    write(cell, tmp_path, [80.0], **further)
    figure = figures(page_parts([cell], tmp_path))["The sorted sequence of texas"]
    check(figure)
    assert set(columns(figure)["order"]) == {"before training: H 0.30", "epoch 3: H 0.60"}
    assert "H of a random order 0.40, of the graph 0.10" in figure.caption
    draw_sequences(read_cells([cell], tmp_path), tmp_path)
    assert "epoch 3: H 0.60" in (tmp_path / "sequence-texas.svg").read_text()


@pytest.mark.parametrize("missing", [False, True])
def test_the_picture_of_both_orders(missing: bool, tmp_path: Path) -> None:
    cells = planted_cells()
    for cell in cells:
        if cell.dataset == PLANTED_ORDER and not (missing and cell.condition == VOTES):
            labels = {"before": "0101", "after": "0011"}
            write(cell, tmp_path, [80.0], **{"labels": labels, "class names": ["a", "b"]}, **OLD)
    draw_planted_orders(read_cells(cells, tmp_path), tmp_path)
    assert (tmp_path / "order.svg").exists() is not missing
    if not missing:
        text = (tmp_path / "order.svg").read_text()
        assert "learned, before training" in text
        assert "by score, epoch 3" in text
        assert "sorted by score (test 80.0 %)" in text


def test_the_picture_of_noise(tmp_path: Path) -> None:
    cells = [cell for cell in planted_cells() if cell.dataset != PLANTED_ORDER]
    draw_roles(read_cells(cells, tmp_path), tmp_path)
    assert not (tmp_path / "order-noise.svg").exists()  # nothing was measured
    noisy = next(cell for cell in cells if cell.planted and cell.planted.noise == 24 and cell.condition == VOTES)
    for cell, test in ((cells[0], 97.25), (noisy, 61.5)):
        write(cell, tmp_path, [test])
    found = read_cells(cells, tmp_path)
    rows = [(row["model"], row["links"], row["test"]) for row in role_rows(list(found.values()))]
    assert rows == [(cells[0].condition, 6, 97.25), (VOTES, 24, 61.5)]
    draw_roles(found, tmp_path)
    picture = (tmp_path / "order-noise.svg").read_text()
    assert "test accuracy %: 97.25" in picture
    assert "test accuracy %: 61.5" in picture


def test_the_picture_in_the_repository_shows_its_cells() -> None:
    rows = role_rows(list(read_cells(planted_cells(), ROOT / "results").values()))
    picture = (ROOT / "docs" / "results" / "order-noise.svg").read_text()
    for row in rows:
        test = f"{row['test']:.12g}"[:6]
        assert f"random links per node: {row['links']}; test accuracy %: {test}" in picture


def test_figures_of_the_repository_can_be_drawn() -> None:
    results = ROOT / "results"
    cells = [cell for name in ("results", "sequence") for cell in TABLES[name].cells(results)]
    drawn = figures(page_parts(cells, results))
    assert "The sorted sequence of squirrel" in drawn
    for figure in drawn.values():
        check(figure)
    assert framework_cell("texas", "nlmlp").name == "texas-nlmlp-random-60"
