"""Atomic writes, what killed processes leave, and locks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from each_of import each_of
from nlgnn import files
from nlgnn.files import (
    claim,
    part_path,
    remove_stale_parts,
    remove_stale_parts_in,
    sha256_of,
    write_whole,
    write_whole_folder,
)
from training_samples import NO_PROCESS, half_written_by


def test_whose_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "labels.csv"
    own, dead, running = (half_written_by(number, target) for number in (os.getpid(), NO_PROCESS, os.getppid()))
    others = [running, half_written_by(NO_PROCESS, tmp_path / "other.csv"), tmp_path / ".labels.csv.swp"]
    with monkeypatch.context() as patch:
        patch.setattr(files, "HOST", "elsewhere")
        others += [half_written_by(number, target) for number in (os.getpid(), NO_PROCESS)]
    for path in (own, dead, *others):
        path.write_text("half")
    remove_stale_parts(target)
    assert sorted(tmp_path.iterdir()) == sorted(others)


@each_of("name", ["labels.csv", "a*b[c]", ".hidden", "1.2.3"])
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
    for path in (*kept, part_path(tmp_path / "kept" / "summary.json")):
        path.write_text("")
    remove_stale_parts_in(tmp_path)
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
    remove_stale_parts(tmp_path / "x")
    assert found.exists() == (refusal is PermissionError)


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    def fail(part: Path) -> None:
        (part / "file").write_text("half")
        raise OSError("disk full")

    target = tmp_path / "a" / "b"
    with pytest.raises(OSError, match="disk full"):
        write_whole_folder(target, fail)
    assert list(tmp_path.iterdir()) == []
    write_whole_folder(target, lambda part: (part / "file").write_text("whole"))
    assert [path.name for path in target.parent.iterdir()] == ["b"]
    assert (target / "file").read_text() == "whole"


def test_checksum(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert sha256_of(tmp_path / "empty").startswith("e3b0c44298fc1c14")


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with claim(lock) as ours:
        assert ours
        with claim(lock) as again:
            assert not again
        assert lock.exists()
    assert list(tmp_path.iterdir()) == []
    with claim(lock) as ours:
        assert ours


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = """
import sys, time
from pathlib import Path
from nlgnn.files import claim
with claim(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        with claim(lock) as ours:
            assert not ours
        other.kill()
    assert lock.exists()
    with claim(lock) as ours:
        assert ours
    assert not lock.exists()
