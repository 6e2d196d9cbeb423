"""The reproduction: its cells, how they are kept and taken up again, and the table that is made of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nlgnn.errors import DataError
from nlgnn.experiments import reproduce
from nlgnn.experiments.paper import printed_accuracy
from nlgnn.experiments.reproduce import Cell, markdown, published_cells, published_table, run_cells
from nlgnn.graph.graph import Graph
from nlgnn.training.run import Run, RunFolder
from nlgnn.training.systems import PUBLISHED


@pytest.mark.parametrize(
    ("system", "dataset", "printed"),
    [
        ("nlmlp", "texas", (85.4, 3.8)),
        ("gcn", "chameleon", (67.6, 2.4)),
        ("nlmlp", "cornell-pre2022", (84.9, 5.7)),
        ("nlmlp", "cornell", None),  # corrected after the paper
        ("nlmlp", "tolokers", None),
        ("h2gcn", "texas", None),
    ],
)
def test_what_the_paper_prints(system: str, dataset: str, printed: tuple[float, float] | None) -> None:
    assert printed_accuracy(system, dataset) == printed


def test_cells() -> None:
    cells = published_cells()
    assert len(cells) == 28
    assert len({cell.file_name for cell in cells}) == 28
    assert {cell.dataset for cell in cells} == set(PUBLISHED)
    assert [cell.variant.system for cell in cells[:7]] == [reproduce.PUBLISHED_SYSTEMS[c.dataset] for c in cells[:7]]
    assert {cell.variant.system for cell in cells[7:14]} == {"mlp", "gcn"}
    assert [cell.variant.control for cell in cells] == [None] * 14 + ["kernel 1"] * 7 + ["random order"] * 7
    assert cells[14].file_name == "texas-nlmlp-kernel-1.json"


def fake(*tests: float | None) -> dict[str, Any]:
    return {"seconds": 1.0, "model": {}, "recipe": {}, "runs": [{"test": test} for test in tests]}


def test_cells_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[Cell] = []

    def measure(cell: Cell, unfinished: Path, progress: bool = True) -> dict[str, Any]:
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(cell)
        return fake(len(measured))

    monkeypatch.setattr(reproduce, "measure_cell", measure)
    cells, folder = published_cells()[:3], tmp_path / "a" / "b"
    with pytest.raises(KeyboardInterrupt):
        list(run_cells(cells, folder))
    assert sorted(path.name for path in folder.iterdir()) == sorted(cell.file_name for cell in cells[:2])
    monkeypatch.setattr(reproduce, "measure_cell", lambda cell, unfinished, progress: fake(9.0))
    assert [result["runs"][0]["test"] for _, result in run_cells(cells, folder)] == [1, 2, 9]
    assert [cell for cell, _ in run_cells(cells, folder)] == cells


def test_a_cell_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def power_cut(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reproduce, "measure_cell", lambda cell, unfinished, progress: fake(1.0))
    cell = published_cells()[0]
    with monkeypatch.context() as unlucky:
        unlucky.setattr(Path, "replace", power_cut)
        with pytest.raises(DataError, match=r"texas-nlmlp\.json cannot be written: No space left"):
            list(run_cells([cell], tmp_path))
    assert not (tmp_path / cell.file_name).exists()
    assert [result for _, result in run_cells([cell], tmp_path)] == [fake(1.0)]


def test_folder_is_tried_before_a_cell_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "measure_cell", lambda cell, unfinished, progress: pytest.fail("measured in vain"))
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        list(run_cells(published_cells(), tmp_path / "file"))


def test_damaged_cell(tmp_path: Path) -> None:
    cell = published_cells()[0]
    (tmp_path / cell.file_name).write_text("{")
    with pytest.raises(DataError, match=r"texas-nlmlp\.json cannot be read.*\nRemove it"):
        list(run_cells([cell], tmp_path))


def test_a_cell_of_other_settings(tmp_path: Path) -> None:
    cell = published_cells()[0]
    (tmp_path / cell.file_name).write_text(json.dumps({**fake(1.0), "recipe": {"lr": 0.01}}))
    with pytest.raises(DataError, match=r"was measured with lr=0\.01; now it is 0\.05\.\nRemove it"):
        list(run_cells([cell], tmp_path))


def test_an_interrupted_cell_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that were finished before an interruption are not trained again, and leave nothing behind in the end."""
    small = Graph([[1, 0], [0, 1]] * 10, [[0, 1], [1, 2]], [0, 1] * 10, name="texas")
    monkeypatch.setattr(reproduce, "load_graph", lambda name: small)
    monkeypatch.setattr(reproduce, "RUNS", 2)
    cell = published_cells()[0]
    cell = cell._replace(variant=cell.variant._replace(options={"epochs": 3}))
    save_run, saved = RunFolder.save_run, []

    def interrupted_after(folder: RunFolder, run: Run) -> None:
        save_run(folder, run)
        saved.append(run.index)
        if saved == [0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "save_run", interrupted_after)
    with pytest.raises(KeyboardInterrupt):
        list(run_cells([cell], tmp_path, progress=False))
    list(run_cells([cell], tmp_path, progress=False))
    assert saved == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == [cell.file_name]


def test_table(tmp_path: Path) -> None:
    texas = [cell for cell in published_cells() if cell.dataset == "texas"]
    for cell, tests in zip(texas, [(80.0, 90.0), (70.0, 84.0), (80.0, None)], strict=False):
        (tmp_path / cell.file_name).write_text(json.dumps(fake(*tests)))
    rows = published_table(tmp_path)
    assert [row["dataset"] for row in rows] == list(reproduce.PUBLISHED_SYSTEMS)
    assert rows[0] == {
        "dataset": "texas",
        "model": "nlmlp",
        "ours": "85.0 ± 7.1",
        "paper": "85.4 ± 3.8",
        "its local part": "77.0 ± 9.9",
        "paper's": "81.3 ± 7.1",
        "kernel 1": "80.0",
        "random order": "…",
        "ours − local": "+8.0 (2.0)",
        "ours − kernel 1": "–",  # one pair has no spread
        "ours − random": "…",
    }
    corrected = next(row for row in rows if row["dataset"] == "cornell")
    assert (corrected["ours"], corrected["paper"], corrected["paper's"]) == ("…", "–", "–")
    text = markdown(rows)
    assert text.count("\n") == 9
    assert {line.count("|") for line in text.splitlines()} == {12}


def test_measuring_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a small graph of that name, two runs, a few epochs; the settings are the published ones."""
    small = Graph([[1, 0], [0, 1]] * 10, [[0, 1], [1, 2]], [0, 1] * 10, name="texas")
    monkeypatch.setattr(reproduce, "load_graph", lambda name: small)
    monkeypatch.setattr(reproduce, "RUNS", 2)
    cell = published_cells()[14]
    cell = cell._replace(variant=cell.variant._replace(options={**cell.variant.options, "epochs": 3}))
    result = json.loads(json.dumps(reproduce.measure_cell(cell, tmp_path / ".cell", progress=False)))
    kept = {key: result[key] for key in ("dataset", "system", "control", "protocol", "preset")}
    assert list(kept.values()) == ["texas", "nlmlp", "kernel 1", "random-60", "released"]
    assert result["model"]["kernel_size"] == 1
    assert (result["recipe"]["lr"], result["recipe"]["stopping"]) == (0.05, "window")
    assert [(run["seed"], run["failure"]) for run in result["runs"]] == [(0, None), (1, None)]
    assert all(0 <= run["test"] <= 100 for run in result["runs"])
