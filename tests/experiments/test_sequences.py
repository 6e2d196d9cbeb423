"""The sorted sequence: what is kept of a training, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiment_samples import small_graph, write_result

from nlgnn.experiments import measured, searched
from nlgnn.experiments.cells import run_cell
from nlgnn.experiments.framework import framework_cell
from nlgnn.experiments.searched import Schedule
from nlgnn.experiments.sequences import SEQUENCE_TABLE, SequenceCell, sequence_cells, sequence_sections
from nlgnn.graph.homophily import reconnected_homophily
from nlgnn.training.systems import PUBLISHED

SCHEDULE = Schedule({"epochs": 20}, splits=1)
TEXAS = SequenceCell("texas", "nlmlp", ({},), SCHEDULE, "geom-gcn")


@pytest.fixture(autouse=True)
def small_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "load_graph", lambda name, **_: small_graph())


def result_of(cell: Any, folder: Path) -> dict[str, Any]:
    result = run_cell(cell, folder, progress=False)
    assert result is not None
    return result


def test_cells() -> None:
    """Datasets with published settings, one training each."""
    cells = SEQUENCE_TABLE.cells("random-60")
    assert {cell.dataset: cell.system for cell in cells} == {name: one.system for name, one in PUBLISHED.items()}
    assert {(cell.protocol, cell.schedule.splits) for cell in cells} == {("random-60", 1)}
    assert {cell.protocol for cell in sequence_cells("geom-gcn")} == {"geom-gcn"}
    assert sequence_sections([], Path(), "") == []


def test_what_is_kept(tmp_path: Path) -> None:
    result = result_of(TEXAS, tmp_path)
    graph, kernel = small_graph(), result["model"]["kernel_size"]
    assert result["class names"] == ["0", "1"]
    for when, text in result["labels"].items():
        labels = np.array([int(digit) for digit in text])
        assert sorted(labels) == sorted(graph.y)
        agreement = reconnected_homophily(np.arange(len(labels)), labels, [kernel, kernel])
        assert result["homophily"][when] == [pytest.approx(agreement, abs=1e-5)]
    assert result["labels"]["before"] != result["labels"]["after"]


def test_it_is_the_first_training_of_the_main_cell(tmp_path: Path) -> None:
    main = replace(framework_cell("texas", "nlmlp", "geom-gcn"), schedule=replace(SCHEDULE, splits=2))
    of_main = result_of(main, tmp_path)
    result = result_of(TEXAS, tmp_path)
    assert result["homophily"]["after"] == of_main["homophily"]["after"][:1]
    assert result["runs"][0]["test"] == of_main["runs"][0]["test"]


def test_test_labels_choose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = result_of(TEXAS, tmp_path / "one")
    monkeypatch.setattr(searched, "load_graph", lambda name, **_: small_graph(test_labels=1))
    other = result_of(TEXAS, tmp_path / "other")
    assert [run["chosen_epoch"] for run in one["runs"]] == [run["chosen_epoch"] for run in other["runs"]]
    assert one["labels"] != other["labels"]


def test_sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "files_are_here", lambda dataset: dataset != "actor")
    cells = {cell.dataset: cell for cell in sequence_cells("random-60")}
    chosen = [cells[dataset] for dataset in ("texas", "chameleon", "actor", "squirrel")]
    for cell, graph, before, after in ((chosen[0], 0.06, 0.4, 0.3), (chosen[1], 0.25, 0.15, 0.45)):
        write_result(
            cell,
            tmp_path,
            options={},
            homophily={"graph": graph, "chance": 0.2, "before": [before], "after": [after]},
            runs=[{"chosen_epoch": 7, "test": 81.25}],
        )
    (section,) = sequence_sections(chosen, tmp_path, "random-60")
    assert [list(row.values()) for row in section.rows] == [
        ["texas", "nlmlp", "0.400", "0.300", "0.200", "0.060", "7", "81.2"],
        ["chameleon", "nlgcn", "0.150", "0.450", "0.200", "0.250", "7", "81.2"],
        ["actor", "nlmlp", "…", *["–"] * 5],
        ["squirrel", "nlgcn", "…", *["–"] * 5],
    ]
    assert "Of 2 orders at the chosen epoch, 2 have a higher H than their graph" in section.text
    assert "but on 1 of these datasets a random order" in section.text
    assert section.text.endswith("2 are above chance, and 1 above the order before training.")
    assert "protocol random-60, published settings" in section.caption
    assert sequence_sections(chosen[3:], tmp_path, "random-60")[0].text == ""
