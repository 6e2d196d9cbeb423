"""Cells: how they are chosen, kept, shared between processes, and refused once their settings changed."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest
from experiment_samples import FakeCell, write_result

from nlgnn.errors import DataError, OptionError
from nlgnn.experiments.cells import choose_cells, read_cells, require_some, run_cell


def test_a_cell_is_measured_once(tmp_path: Path) -> None:
    cell, folder = FakeCell(), tmp_path / "a" / "b"
    assert [run_cell(cell, folder), run_cell(cell, folder)] == [cell.measure(tmp_path, False)] * 2
    assert cell.measured == [0.1, 0.1]  # once by the line above
    assert [path.name for path in folder.iterdir()] == ["texas-gcn.json"]


def test_a_cell_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def power_cut(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as unlucky:
        unlucky.setattr(Path, "replace", power_cut)
        with pytest.raises(DataError, match=r"texas-gcn\.json cannot be written: No space left"):
            run_cell(FakeCell(), tmp_path)
    assert not (tmp_path / "texas-gcn.json").exists()
    assert run_cell(FakeCell(), tmp_path) is not None
    assert [path.name for path in tmp_path.iterdir()] == ["texas-gcn.json"]


def test_folder_is_tried_before_a_cell_is_measured(tmp_path: Path) -> None:
    cell = FakeCell()
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="cannot be written"):
        run_cell(cell, tmp_path / "file")
    assert not cell.measured


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"model": {}, "recipe": 1}'])
def test_damaged_cell(tmp_path: Path, text: str) -> None:
    (tmp_path / "texas-gcn.json").write_text(text)
    with pytest.raises(DataError, match=r"texas-gcn\.json cannot be read.*\nRemove it"):
        run_cell(FakeCell(), tmp_path)


def test_a_cell_of_other_settings(tmp_path: Path) -> None:
    write_result(FakeCell(), tmp_path, recipe={"lr": 0.2})
    with pytest.raises(DataError, match=r"texas-gcn\.json was measured with lr=0\.2; now it is 0\.1\.\nRemove it"):
        run_cell(FakeCell(), tmp_path)


def test_reading_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there are no measured cells in"):
        require_some([FakeCell()], tmp_path)
    write_result(FakeCell(), tmp_path, seconds=7.0)
    found = read_cells([FakeCell(), FakeCell("cora")], tmp_path)
    assert {name: result["seconds"] for name, result in found.items()} == {"texas-gcn": 7.0}
    require_some([FakeCell("cora"), FakeCell()], tmp_path)


def test_a_cell_that_another_process_measures(tmp_path: Path) -> None:
    cell = FakeCell()
    with (tmp_path / ".texas-gcn.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run_cell(cell, tmp_path) is None
        assert run_cell(FakeCell("cora"), tmp_path) is not None
    assert not cell.measured
    assert run_cell(cell, tmp_path) is not None


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    lock = tmp_path / ".texas-gcn.lock"
    code = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        assert run_cell(FakeCell(), tmp_path) is None
        other.kill()
    assert lock.exists()
    assert run_cell(FakeCell(), tmp_path) is not None
    assert not lock.exists()


def test_a_cell_that_another_process_finished_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between our look for the file and the lock."""
    cell = FakeCell()

    def lock_after_the_other(file: object, operation: int) -> None:
        write_result(cell, tmp_path, seconds=7.0)

    monkeypatch.setattr(fcntl, "flock", lock_after_the_other)
    result = run_cell(cell, tmp_path)
    assert result is not None
    assert result["seconds"] == 7.0
    assert not cell.measured


def test_a_lock_that_its_owner_removed_just_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We hold a file that is gone from the folder: somebody else may lock the next one of that name."""
    lock = tmp_path / ".texas-gcn.lock"
    monkeypatch.setattr(fcntl, "flock", lambda file, operation: lock.unlink())
    assert run_cell(FakeCell(), tmp_path) is None


def test_choosing_cells() -> None:
    cells = [FakeCell(dataset, system) for system in ("gcn", "h2gcn") for dataset in ("texas", "cora")]
    assert choose_cells(cells, [], []) == cells
    assert choose_cells(cells, ["h2gcn"], []) == cells[2:]
    assert choose_cells(cells, ["gcn", "h2gcn"], ["cora"]) == [cells[1], cells[3]]
    with pytest.raises(OptionError, match=r"no model 'h2gnc'.*\nDid you mean 'h2gcn'\?"):
        choose_cells(cells, ["gcn", "h2gnc"], [])
    with pytest.raises(OptionError, match=r"no dataset 'texsa'.*\nDid you mean 'texas'\?"):
        choose_cells(cells, [], ["texsa"])


def test_what_a_cell_records_is_json(tmp_path: Path) -> None:
    run_cell(FakeCell(), tmp_path)
    assert json.loads((tmp_path / "texas-gcn.json").read_text())["recipe"] == {"lr": 0.1}
