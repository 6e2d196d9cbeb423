"""The cells and the page of the learned order, from results written by hand; the page in the repository is it."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from experiment_samples import write_result

from nlgnn.experiments.cells import read_cells, run_cell
from nlgnn.experiments.learned_order import (
    CONDITIONS,
    CONV,
    CONV_FROZEN,
    CONV_RANDOM,
    FROZEN,
    KERNEL_1,
    LABEL_SHARES,
    LOCAL,
    LOUD,
    MANY,
    NUISANCES,
    PLANTED_SEEDS,
    RANDOM,
    SEEDS,
    VOTE,
    OrderCell,
    PlantedCell,
    order_cells,
)
from nlgnn.experiments.order_page import ORDER_TABLE, order_sections
from nlgnn.experiments.searched import SearchedCell
from nlgnn.experiments.section import Section
from nlgnn.report.degradation_picture import LABELS, NOISE, degradation_rows, draw_degradation
from nlgnn.report.formats import latex_page, markdown_page
from nlgnn.report.sequence_pictures import draw_learned_orders

ROOT = Path(__file__).parents[2]


def write(cell: SearchedCell, folder: Path, tests: list[float], **further: object) -> None:
    runs = [{"test": test, "val": test, "chosen_epoch": 3} for test in tests]
    shape = {"candidates": [dict(one) for one in cell.candidates], "options": dict(cell.candidates[0])}
    settings = {"protocol": cell.protocol, "shortened": cell.shortened, "search": [], "search_epochs": None}
    write_result(cell, folder, runs=runs, **shape, **settings, **further)


def section(sections: list[Section], title: str) -> Section:
    return next(one for one in sections if one.title == title)


def test_every_condition_is_measured_on_every_graph() -> None:
    cells = order_cells("random-60")
    names = [(cell.store, cell.name) for cell in cells]
    assert len(set(names)) == len(names)
    planted = [cell for cell in cells if isinstance(cell, PlantedCell)]
    harder = len(PLANTED_SEEDS) * (2 * len(NUISANCES) + len(LABEL_SHARES))
    assert len(planted) == len(PLANTED_SEEDS) * len(CONDITIONS) + harder
    wanted = "texas wisconsin cornell cornell-pre2022 actor chameleon squirrel cora citeseer pubmed chameleon-filtered"
    wanted += " squirrel-filtered mushroom-body-left minesweeper tolokers twitch-de"
    assert {cell.dataset for cell in cells if isinstance(cell, OrderCell)} == set(wanted.split())


def test_the_protocols_do_not_share_files() -> None:
    one, other = ({cell.name for cell in order_cells(name)} for name in ("random-60", "geom-gcn"))
    planted = {cell.name for cell in order_cells("random-60") if isinstance(cell, PlantedCell)}
    without_public_splits = {name for name in one if name.startswith("mushroom")}
    assert one & other == planted | without_public_splits


def test_training_labels_are_taken_away_and_no_others() -> None:
    whole, few = (
        next(cell for cell in order_cells("random-60") if isinstance(cell, PlantedCell) and cell.label_share == share)
        for share in (1.0, 0.25)
    )
    graph = few._graph()
    (split,), (full,) = few._splits(graph), whole._splits(graph)
    assert not (split.train & ~full.train).any()
    assert 0.2 < split.train.sum() / full.train.sum() < 0.3
    np.testing.assert_array_equal(split.val, full.val)
    np.testing.assert_array_equal(split.test, full.test)


def test_a_cell_is_measured_and_read_again(tmp_path: Path) -> None:
    cells = [cell.quick() for cell in order_cells("random-60") if cell.dataset == "mushroom-body-left"][:2]
    for cell in cells:
        first = run_cell(cell, tmp_path, progress=False)
        assert first is not None
        assert len(first["runs"]) == 2 * SEEDS
        assert run_cell(cell, tmp_path, progress=False) == first
    texts = [one.title for one in order_sections(cells, tmp_path, "random-60")]
    assert "Real graphs" in texts


def test_the_planted_table_and_its_words(tmp_path: Path) -> None:
    cells = [cell for cell in order_cells("random-60") if isinstance(cell, PlantedCell)]
    for cell in cells:
        if not cell.nuisance and cell.label_share == 1:
            high = {VOTE: 97.0, CONV: 90.0}.get(cell.condition, 70.0)
            write(cell, tmp_path, [60.0 if cell.graph_seed == PLANTED_SEEDS[0] else high])
    sections = order_sections(cells, tmp_path, "random-60")
    rows = {row["model"]: row for row in section(sections, "A planted order").rows}
    assert list(rows[VOTE].values())[1:] == ["60.0", "97.0", "97.0", "84.7"]
    words = section(sections, "In plain words").text
    assert "above 85 % on 2 of 3 graphs" in words
    assert "above 80 % on 2 of 3" in words
    assert "of 21 trainings without a learned order 0 reach 80 %" in words
    harder = section(sections, "How it degrades").rows
    assert harder[0][VOTE] == "60.0 / 97.0 / 97.0"
    assert harder[1][VOTE] == "… / … / …"


def test_differences_are_paired_over_splits_and_seeds(tmp_path: Path) -> None:
    cells = [cell for cell in order_cells("random-60") if cell.dataset == "texas"]
    splits = np.arange(10.0)
    by_condition = {cell.condition: cell for cell in cells}
    # Seeds differ by nothing, splits by much; the difference is 2 and 4 in turn.
    local = np.tile(50 + splits, SEEDS)
    write(by_condition[LOCAL], tmp_path, local.tolist())
    write(by_condition[VOTE], tmp_path, (local + np.tile([2.0, 4.0], 15)).tolist())
    sections = order_sections(cells, tmp_path, "random-60")
    (row,) = section(sections, "Minus the local part").rows
    assert row[VOTE].startswith("+3.0 [+2.2, +3.8]")
    assert row[CONV] == "…"
    words = section(sections, "In plain words").text
    assert "clearly ahead of their local part on 1 (texas)" in words
    assert "beside a frozen metric and random orders, is clear on 0." in words  # which are not measured
    for control in (FROZEN, RANDOM):
        write(by_condition[control], tmp_path, local.tolist())
    words = section(order_sections(cells, tmp_path, "random-60"), "In plain words").text
    assert "random orders, is clear on 1 (texas)." in words
    write(by_condition[CONV], tmp_path, (local + np.tile([2.0, 4.0], 15)).tolist())
    for number, control in enumerate((CONV_FROZEN, CONV_RANDOM, KERNEL_1)):
        words = section(order_sections(cells, tmp_path, "random-60"), "In plain words").text
        assert "a random order and kernel 1, is clear on 0." in words, number  # not before all are measured
        write(by_condition[control], tmp_path, local.tolist())
    words = section(order_sections(cells, tmp_path, "random-60"), "In plain words").text
    assert "a random order and kernel 1, is clear on 1 (texas)." in words


def test_louder_votes_stand_beside_the_usual_ones(tmp_path: Path) -> None:
    cells = [cell for cell in order_cells("random-60") if cell.dataset in ("texas", "actor")]
    for cell in cells:
        if cell.dataset == "texas" and cell.condition in (LOCAL, LOUD.name):
            write(cell, tmp_path, [50.0, 60.0] * 15 if cell.condition == LOCAL else [51.0, 63.0] * 15)
    (row,) = section(order_sections(cells, tmp_path, "random-60"), "Louder votes").rows
    assert row["dataset"] == "texas"  # not measured on actor
    assert row[VOTE] == row[f"{VOTE}, minus local"] == "…"
    assert row[f"{LOUD.name}, minus local"].startswith("+2.0 [+1.2, +2.8]")


@pytest.mark.parametrize("missing", [False, True])
def test_the_picture_shows_both_orders_before_and_after(missing: bool, tmp_path: Path) -> None:
    planted = [cell for cell in order_cells("random-60") if isinstance(cell, PlantedCell)]
    easy = [cell for cell in planted if not cell.nuisance and cell.label_share == 1]
    for cell in easy:
        if cell.graph_seed == PLANTED_SEEDS[1] and not (missing and cell.condition == VOTE):
            labels = {"before": "0101", "after": "0011"}
            write(cell, tmp_path, [80.0], **{"labels": labels, "class names": ["a", "b"]})
    paths = draw_learned_orders(planted, tmp_path, tmp_path)
    assert len(paths) == (0 if missing else 1)
    for path in paths:
        text = path.read_text()
        assert "learned, at first" in text
        assert "by score, epoch 3" in text
        assert "sorted by score (test 80.0 %)" in text


def test_the_picture_of_how_it_degrades(tmp_path: Path) -> None:
    planted = [cell for cell in order_cells("random-60") if isinstance(cell, PlantedCell)]
    easy = [cell for cell in planted if not cell.nuisance and cell.label_share == 1]
    for number, cell in enumerate(easy):
        write(cell, tmp_path, [70.0 + number])
    assert draw_degradation(planted, tmp_path, tmp_path) == []  # nothing harder was measured
    noisy = next(cell for cell in planted if cell.nuisance == 4 and cell.condition == MANY.name)
    few = next(cell for cell in planted if cell.label_share == 0.125)
    for cell in (noisy, few):
        write(cell, tmp_path, [61.0])
    assert draw_degradation(planted, tmp_path, tmp_path) == [tmp_path / "order-degrades.svg"]
    local = fmean(70.0 + number for number, cell in enumerate(easy) if cell.condition == LOCAL)
    assert f"the local part on the graph as it is, {local:.1f}" in (tmp_path / "order-degrades.svg").read_text()
    rows = degradation_rows(planted, read_cells(planted, tmp_path))
    harder = [tuple(row.values()) for row in rows if row["test"] == 61]
    assert harder == [(NOISE, "4", MANY.name, 61.0), (LABELS, "12.5 %", VOTE, 61.0)]
    assert sum(row["level"] in ("0", "100 %") for row in rows) == 2 * len(PLANTED_SEEDS)  # once in each panel


def test_the_page_in_the_repository_is_made_of_its_cells() -> None:
    sections = order_sections(ORDER_TABLE.cells("random-60"), ROOT / "results", "random-60")
    page = (ROOT / "docs" / "order.md").read_text()
    table = markdown_page("", sections)
    assert f"<!-- nlgnn reproduce order --table -->\n{table}<!-- end of table -->" in page
    assert latex_page("", sections).isascii()  # LaTeX knows all its signs


def test_the_picture_in_the_repository_is_of_its_cells() -> None:
    planted = [cell for cell in order_cells("random-60") if isinstance(cell, PlantedCell)]
    rows = degradation_rows(planted, read_cells(planted, ROOT / "results"))
    picture = (ROOT / "docs" / "order-degrades.svg").read_text()
    for row in rows:
        assert f"{row['panel']}: {row['level']}; test accuracy %: {str(row['test'])[:6].removesuffix('.0')}" in picture
