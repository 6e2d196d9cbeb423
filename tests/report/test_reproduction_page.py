"""The figures of a reproduction, of cells that nobody measured, and of those in the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chart_checks import check, figures_of

from nlgnn.experiments.ablation import ablation_cells
from nlgnn.experiments.beside import Beside
from nlgnn.experiments.cells import Cell, cell_path
from nlgnn.experiments.compare import Spread
from nlgnn.experiments.framework import framework_cell
from nlgnn.experiments.measured import Measured
from nlgnn.experiments.paper import Printed, printed_accuracy, printed_cpgcn, printed_validation
from nlgnn.experiments.reproduce import TABLES
from nlgnn.experiments.sequences import sequence_cells
from nlgnn.experiments.systems import system_cells
from nlgnn.report.page import Figure, Headline
from nlgnn.report.reproduction_page import (
    Pair,
    headlines,
    main_results,
    order_figures,
    paper_rows,
    reproduction_parts,
)

RESULTS = Path(__file__).parents[2] / "results"
TEXAS = framework_cell("texas", "nlmlp", "random-60")


def write(cell: Cell, folder: Path, tests: list[float | None], **more: Any) -> None:
    runs = [{"test": test, "val": None if test is None else test + 1, "chosen_epoch": 12} for test in tests]
    path = cell_path(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"seconds": 1.0, "model": {}, "recipe": {}, "options": {}, "runs": runs, **more}))


def columns(figure: Figure) -> dict[str, list[Any]]:
    return {name: list(column) for name, column in figure.tables["rows"].items()}


def test_ours_beside_the_papers(tmp_path: Path) -> None:
    local = framework_cell("texas", "mlp", "random-60")
    corrected = framework_cell("cornell", "nlmlp", "random-60")  # which the paper prints nothing of
    write(TEXAS, tmp_path, [80.0, 84.0, None])
    write(local, tmp_path, [70.0, 72.0, 74.0])
    write(corrected, tmp_path, [70.0, 72.0])
    figures = figures_of(reproduction_parts([TEXAS, local, corrected], tmp_path, validation=True))
    printed = printed_accuracy("nlmlp", "texas")
    assert printed is not None
    assert printed.std is not None
    shown = columns(figures["nlmlp beside the paper, random-60"])
    assert shown["dataset"] == ["texas", "texas"]
    assert shown["whose"] == ["ours", "the paper's"]
    assert shown["mean"] == [82, printed.mean]
    assert np.allclose(shown["low"], [82 - 8**0.5, printed.mean - printed.std])
    assert np.allclose(shown["high"], [82 + 8**0.5, printed.mean + printed.std])
    by_validation = printed_validation("mlp", "texas")
    assert by_validation is not None
    shown = columns(figures["mlp beside the paper, random-60, by validation"])
    assert shown["mean"] == [73, by_validation.mean]
    without = figures_of(reproduction_parts([TEXAS, local], tmp_path, validation=False))
    assert [title for title in without if "validation" in title] == []
    assert "Non-local model minus its local part, random-60" in without


def test_splits_of_cpgnn_have_figures_of_their_own(tmp_path: Path) -> None:
    cell = framework_cell("chameleon", "nlgcn", "random-10")
    write(cell, tmp_path, [60.0, 61.0])
    (figure,) = figures_of(reproduction_parts([cell], tmp_path, validation=False)).values()
    printed = printed_cpgcn("nlgcn", "chameleon")
    assert printed is not None
    assert columns(figure)["mean"] == [60.5, printed.mean]


def test_controls_seeds_ablations_and_conditions_are_not_beside_the_paper(tmp_path: Path) -> None:
    others: list[Cell] = [
        framework_cell("texas", "nlmlp", "random-60", control="kernel 1"),
        framework_cell("texas", "nlmlp", "random-60", again=1),
        next(cell for cell in ablation_cells("random-60") if cell.dataset == "texas" and cell.condition),
        next(cell for cell in system_cells() if cell.condition),
        sequence_cells("random-60")[0],
    ]
    compared = next(cell for cell in system_cells() if cell.system == "h2gcn")
    for cell in (*others, TEXAS, compared):
        write(cell, tmp_path, [80.0])
    assert [one.cell for one in main_results([*others, TEXAS, compared], tmp_path)] == [TEXAS, compared]


def test_a_figure_without_a_spread() -> None:
    rows = paper_rows([Pair(TEXAS, Spread(80.0, None), Printed(81.0, None))])
    assert [(row["low"], row["high"]) for row in rows] == [(80, 80), (81, 81)]


def test_how_many_agree() -> None:
    local = framework_cell("texas", "mlp", "random-60")
    pairs = [
        Pair(TEXAS, Spread(80.0, 1.0), Printed(81.0, 2.0)),
        Pair(TEXAS, Spread(80.0, 1.0), Printed(90.0, 2.0)),
        Pair(local, Spread(80.0, 1.0), Printed(70.0, 2.0)),
        Pair(local, Spread(80.0, None), Printed(70.0, None)),  # which nothing can be said of
    ]
    (headline,) = headlines(pairs)
    assert headline.figure == "1 of 3"
    assert headline.sentences[0] == "1 are above, 1 below. Of nlmlp, nlgcn, nlgat alone: 1 of 2."
    assert headlines(pairs[-1:]) == []


def test_differences_with_their_intervals() -> None:
    main: list[list[float | None] | None] = [[80.0, 82.0, 84.0], None, None]
    tests = {
        "main": main,
        "local": [[79.0, 80.9, 83.1], None, None],
        "kernel 1": [None, None, None],
        "random order": [[80.0, 83.0, 83.0], None, None],
    }
    figures = order_figures([Beside(Measured(TEXAS, None), tests)])
    assert [figure.title for figure in figures] == [
        "Non-local model minus its local part, random-60",
        "Non-local model minus random order, random-60",
    ]
    assert columns(figures[0])["difference"] == ["texas, nlmlp"]
    assert columns(figures[0])["mean"] == pytest.approx([1.0])
    assert [columns(figure)["standing"] for figure in figures] == [["ahead"], ["unclear"]]


def test_sorted_sequences(tmp_path: Path) -> None:
    texas, *others = sequence_cells("random-60")
    homophily = {"graph": 0.1, "chance": 0.4, "before": [0.35], "after": [0.62]}
    more = {"class names": ["dog", "cat"], "labels": {"before": "0101", "after": "0011"}, "homophily": homophily}
    write(texas, tmp_path, [80.0], **more)
    (figure,) = figures_of(reproduction_parts([texas, *others], tmp_path, validation=False)).values()
    check(figure)
    assert "by chance H 0.40, in the graph 0.10" in figure.caption
    shown = columns(figure)
    assert shown["order"] == ["before training: H 0.35"] * 4 + ["epoch 12: H 0.62"] * 2
    assert shown["class"] == ["dog", "cat", "dog", "cat", "dog", "cat"]
    assert shown["position"][-2:] == [0, 2]
    assert shown["end"][-2:] == [2, 4]


@pytest.mark.usefixtures("as_users_run_it")
def test_every_figure_of_what_was_measured_can_be_drawn() -> None:
    cells = {(cell.store, cell.name): cell for table in TABLES.values() for cell in table.cells("random-60")}
    parts = reproduction_parts(list(cells.values()), RESULTS, validation=True)
    assert isinstance(parts[0], Headline)
    figures = figures_of(parts)
    for figure in figures.values():
        check(figure)
    assert len(figures) > 10
    assert "The sorted sequence of texas" in figures
    assert "Non-local model minus random order, random-60" in figures


def test_nothing_measured(tmp_path: Path) -> None:
    assert reproduction_parts([TEXAS, *sequence_cells("random-60")], tmp_path, validation=True) == []
