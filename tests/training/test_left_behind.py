"""What killed processes had begun to write is removed; what others may still be writing is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from training_samples import NO_PROCESS, half_written_by

from nlgnn.training import left_behind
from nlgnn.training.left_behind import half_written, remove_left_behind, remove_left_behind_in
from nlgnn.training.run import write_whole


def test_whose_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "labels.csv"
    own, dead, running = (half_written_by(number, target) for number in (os.getpid(), NO_PROCESS, os.getppid()))
    others = [running, half_written_by(NO_PROCESS, tmp_path / "other.csv"), tmp_path / ".labels.csv.swp"]
    with monkeypatch.context() as patch:
        patch.setattr(left_behind, "HOST", "elsewhere")
        others += [half_written_by(number, target) for number in (os.getpid(), NO_PROCESS)]
    for path in (own, dead, *others):
        path.write_text("half")
    remove_left_behind(target)
    assert sorted(tmp_path.iterdir()) == sorted(others)


@pytest.mark.parametrize("name", ["labels.csv", "a*b[c]", ".hidden", "1.2.3"])
def test_names(tmp_path: Path, name: str) -> None:
    target = tmp_path / name
    half_written_by(NO_PROCESS, target).write_text("half")
    write_whole(target, lambda path: path.write_text("whole"))
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "whole")]


def test_folders(tmp_path: Path) -> None:
    """Half-made ones are removed with all that is in them; others are searched."""
    (half_written_by(NO_PROCESS, tmp_path / "run") / "models").mkdir(parents=True)
    (tmp_path / "kept").mkdir()
    kept = [
        tmp_path / "kept" / name
        for name in (".hidden.12", f".env.{NO_PROCESS}.local", f".x.elsewhere.{NO_PROCESS}.part")
    ]
    kept.append(half_written_by(os.getppid(), tmp_path / "kept" / "summary.json"))
    for path in (*kept, half_written(tmp_path / "kept" / "summary.json")):
        path.write_text("")
    remove_left_behind_in(tmp_path)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(kept)
    assert list(tmp_path.iterdir()) == [tmp_path / "kept"]


@pytest.mark.parametrize("refusal", [PermissionError, ProcessLookupError])
def test_a_process_of_another_user_counts_as_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: type[OSError]
) -> None:
    def refuse(*_: object) -> None:
        raise refusal

    monkeypatch.setattr(os, "kill", refuse)
    found = half_written_by(12345678, tmp_path / "x")
    found.write_text("")
    remove_left_behind(tmp_path / "x")
    assert found.exists() == (refusal is PermissionError)
