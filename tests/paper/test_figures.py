"""Figures of the reproduction, from results written by hand and from those in the repository."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from sample_cells import LEVELS, write, write_framework

from chart_checks import check
from nlgnn.paper import plans
from nlgnn.paper.cell import Cell, read_cells
from nlgnn.paper.figures import (
    LABELS,
    NOISE,
    degradation_rows,
    draw_degradation,
    draw_planted_orders,
    draw_sequences,
    page_parts,
)
from nlgnn.paper.pages import TABLES
from nlgnn.paper.plans import LOCAL_PART, MANY, PLANTED_SEEDS, VOTE, framework_cell
from nlgnn.report.page import Figure, Headline

ROOT = Path(__file__).parents[2]
OLD = {"versions": {"nlgnn": "0.1.0"}}


def figures(parts: list[Any]) -> dict[str, Figure]:
    return {part.title: part for part in parts if isinstance(part, Figure)}


def columns(figure: Figure) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in figure.tables["rows"].items()}


def planted_cells(results: Path) -> list[Cell]:
    return [cell for cell in plans.order_cells(results) if cell.planted]


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
    cells = planted_cells(tmp_path)
    for cell in cells:
        if cell.planted == (PLANTED_SEEDS[0], 0, 1.0) and not (missing and cell.condition == VOTE):
            labels = {"before": "0101", "after": "0011"}
            write(cell, tmp_path, [80.0], **{"labels": labels, "class names": ["a", "b"]}, **OLD)
    draw_planted_orders(read_cells(cells, tmp_path), tmp_path)
    assert (tmp_path / "order.svg").exists() is not missing
    if not missing:
        text = (tmp_path / "order.svg").read_text()
        assert "learned, before training" in text
        assert "by score, epoch 3" in text
        assert "sorted by score (test 80.0 %)" in text


def test_the_picture_of_harder_graphs(tmp_path: Path) -> None:
    cells = planted_cells(tmp_path)
    easy = [cell for cell in cells if cell.planted is not None and cell.planted[1:] == (0, 1.0)]
    for number, cell in enumerate(easy):
        write(cell, tmp_path, [70.0 + number], **OLD)
    draw_degradation(read_cells(cells, tmp_path), tmp_path)
    assert not (tmp_path / "order-degrades.svg").exists()  # nothing harder was measured
    noisy = next(cell for cell in cells if cell.planted and cell.planted.nuisance == 4 and cell.condition == MANY.name)
    few = next(cell for cell in cells if cell.planted and cell.planted.label_share == 0.125)
    for cell in (noisy, few):
        write(cell, tmp_path, [61.0], **OLD)
    draw_degradation(read_cells(cells, tmp_path), tmp_path)
    local = fmean(70.0 + number for number, cell in enumerate(easy) if cell.condition == LOCAL_PART)
    assert f"the local part on the unchanged graph, {local:.1f}" in (tmp_path / "order-degrades.svg").read_text()
    rows = degradation_rows(list(read_cells(cells, tmp_path).values()))
    harder = [(row["panel"], row["level"], row["model"]) for row in rows if row["test"] == 61]
    assert harder == [(NOISE, "4", MANY.name), (LABELS, "12.5 %", VOTE)]
    assert sum(row["level"] in ("0", "100 %") for row in rows) == 2 * len(PLANTED_SEEDS)  # once in each panel


def test_the_picture_in_the_repository_shows_its_cells() -> None:
    rows = degradation_rows(list(read_cells(planted_cells(ROOT / "results"), ROOT / "results").values()))
    picture = (ROOT / "docs" / "results" / "order-degrades.svg").read_text()
    for row in rows:
        assert f"{row['panel']}: {row['level']}; test accuracy %: {str(row['test'])[:6].removesuffix('.0')}" in picture


def test_figures_of_the_repository_can_be_drawn() -> None:
    results = ROOT / "results"
    cells = [cell for name in ("results", "sequence") for cell in TABLES[name].cells(results)]
    drawn = figures(page_parts(cells, results))
    assert "The sorted sequence of squirrel" in drawn
    for figure in drawn.values():
        check(figure)
    assert framework_cell("texas", "nlmlp").name == "texas-nlmlp-random-60"
