"""Tables of the learned order, from results written by hand."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from sample_cells import write

from nlgnn.paper.cell import Cell, read_cells, words
from nlgnn.paper.order_cells import CONTROLS, DATA, LOCAL_PART, ROLES, TRIED, VOTES, conditions, order_cells
from nlgnn.paper.order_tables import order_sections
from nlgnn.report.table import Section

LOCAL = np.tile(70 + np.arange(10.0), 3)  # ten splits, three seeds
BETTER = LOCAL + np.tile([2.0, 4.0], 15)


def shown(folder: Path, cells: list[Cell] | None = None) -> dict[str, Section]:
    return {one.title: one for one in order_sections(read_cells(cells or order_cells(), folder))}


def write_chameleon(folder: Path, condition: str, tests: np.ndarray, rest: float = 0.0) -> None:
    (cell,) = (one for one in order_cells() if one.dataset == "chameleon" and one.tags == (condition,))
    twins = {"shares": [0.6] * len(tests), "test": (tests - rest).tolist()}
    write(cell, folder, tests.tolist(), seeds=cell.seeds, twins=twins)


def test_open_cells_have_rows(tmp_path: Path) -> None:
    sections = shown(tmp_path)
    assert "Summary" not in sections
    assert len(sections["Other graphs"].rows) == 11
    assert len(sections["Settings that were tried"].rows) == len(DATA["tried"]["changes"])
    assert {row["chameleon, 10 splits × 3 seeds"] for row in sections["Chameleon and Squirrel"].rows} == {"…"}


def test_differences_are_paired_over_splits_and_seeds(tmp_path: Path) -> None:
    write_chameleon(tmp_path, LOCAL_PART, LOCAL)
    write_chameleon(tmp_path, VOTES, BETTER)
    rows = shown(tmp_path)["Votes, differences"].rows
    row = next(row for row in rows if LOCAL_PART in row.values())
    assert row["chameleon"] == "+3.0 [+2.2, +3.8]"
    assert row["squirrel"] == "…"


NAMES = words()["summary"]["names"]


def test_the_summary_names_the_controls_and_the_goal(tmp_path: Path) -> None:
    write_chameleon(tmp_path, VOTES, BETTER)
    local, frozen, random, kernel_1 = CONTROLS[VOTES]
    write_chameleon(tmp_path, local, LOCAL)
    write_chameleon(tmp_path, frozen, LOCAL)
    text = shown(tmp_path)["Summary"].text
    assert f"clearly better than {NAMES[local]} and {NAMES[frozen]}; not yet compared with" in text
    write_chameleon(tmp_path, random, LOCAL + 15)
    write_chameleon(tmp_path, kernel_1, BETTER[:10])  # one seed: means over seeds are compared
    text = shown(tmp_path)["Summary"].text
    assert f"clearly worse than {NAMES[random]}; not clearly different from {NAMES[kernel_1]}." in text
    assert "not yet compared" not in text
    assert "The goal of 79.5 is missed by 2.0." in text
    assert "both measured: 1. Votes are clearly better on 1 (chameleon), and clearly worse on none." in text


def test_the_summary_of_controls_that_are_all_clearly_worse(tmp_path: Path) -> None:
    write_chameleon(tmp_path, VOTES, BETTER + 10)
    for control in CONTROLS[VOTES]:
        write_chameleon(tmp_path, control, LOCAL if control != CONTROLS[VOTES][-1] else LOCAL[:10])
    text = shown(tmp_path)["Summary"].text
    *first, last = (NAMES[control] for control in CONTROLS[VOTES])
    assert f"clearly better than {', '.join(first)} and {last}. The goal of 79.5 is reached." in text
    assert "clearly different" not in text


def test_every_condition_has_a_name_in_sentences() -> None:
    wanted = {*CONTROLS, *chain.from_iterable(CONTROLS.values()), *(one.name for one in conditions("roles"))}
    assert wanted <= set(NAMES)


def test_figures_without_twins(tmp_path: Path) -> None:
    write_chameleon(tmp_path, VOTES, BETTER, rest=5.0)
    write_chameleon(tmp_path, LOCAL_PART, LOCAL, rest=4.0)
    row = shown(tmp_path)["Without twins"].rows[0]
    assert row["with a twin"] == "60 %"
    assert row[VOTES].startswith("72.5")
    assert row[LOCAL_PART].startswith("70.5")
    assert row["votes − local"] == "+2.0 [+1.2, +2.8]"


def test_planted_roles(tmp_path: Path) -> None:
    for cell in order_cells():
        if cell.dataset == ROLES and cell.planted and cell.planted.noise == 6:
            write(cell, tmp_path, [{VOTES: 97.0, "votes, frozen space": 75.0}.get(cell.condition, 70.0)])
    sections = shown(tmp_path)
    row = next(row for row in sections["Planted roles"].rows if row["model"] == VOTES)
    assert row["6 random links"] == "97.0 / 97.0 / 97.0"
    assert row["24 random links"] == "… / … / …"
    assert "(3 of 3 graphs), votes along the learned order reach 97.0 in the mean, " in sections["Summary"].text
    assert f"the best measured control, {NAMES['votes, frozen space']}, 75.0." in sections["Summary"].text


def test_planted_roles_are_compared_on_the_same_graphs(tmp_path: Path) -> None:
    for cell in order_cells():
        if cell.dataset == ROLES and cell.planted and cell.planted.noise == 6:
            if cell.condition == LOCAL_PART:
                write(cell, tmp_path, [60.0 + cell.planted.seed - 401])
            elif cell.condition == VOTES and cell.planted.seed == 403:
                write(cell, tmp_path, [97.0])
    text = shown(tmp_path)["Summary"].text
    assert "(1 of 3 graphs), votes along the learned order reach 97.0 in the mean, " in text
    assert f"the best measured control, {NAMES[LOCAL_PART]}, 62.0." in text


@pytest.mark.parametrize("change", ["as chosen", "features only"])
def test_settings_are_compared_by_validation(change: str, tmp_path: Path) -> None:
    cell = next(one for one in order_cells() if one.tags[0] == TRIED and one.condition == change)
    write(cell, tmp_path, [50.0, 50.0, 50.0], [80.0, 81.0, 82.0])
    rows = {row["setting"]: row for row in shown(tmp_path)["Settings that were tried"].rows}
    assert rows[change]["chameleon"] == "81.0"
    assert rows[change]["mushroom-body-left"] == "…"
