"""The benchmark's command, on the packaged graph: no time is looked at."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import cases
from benchmarks.cases import Case
from cli_samples import Command
from nlgnn.errors import NlgnnError


def test_quick(command: Command, tmp_path: Path) -> None:
    done = command("--quick", "step", "scale-nlgcn-1000")
    assert done.code == 0, done.err
    assert "NLGCN, one training step (1 thread)" in done.out
    assert "case 1 of 2: step-mushroom-body" in done.err
    folder = tmp_path / "runs" / "bench"
    names = ["README.md", "scale-nlgcn-1000.json", "scaling.svg", "step-mushroom-body.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert json.loads((folder / "step-mushroom-body.json").read_text())["threads"] == 1
    assert "mushroom-body" in (folder / "README.md").read_text()
    again = command("--quick", "--table")
    assert (again.code, again.out, again.err) == (0, done.out, "")


def measured(case: Case, folder: Path) -> None:
    about = {
        "threads": 1,
        "rounds": 1,
        "protocol": "",
        "date": "2026",
        "processor": "",
        "cores": 1,
        "versions": {},
        "load": None,
    }
    quartiles = {"low": 1.0, "median": 1.0, "high": 1.0}
    result = {**about, "seconds": {"ours": quartiles, "PyG": quartiles}, "ratios": {"PyG": quartiles}}
    (folder / f"{case.name}.json").write_text(json.dumps(result))


def test_what_was_measured_before_ctrl_c_is_kept(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_case(case: Case, folder: Path) -> None:
        if case.name != "step-texas":
            raise KeyboardInterrupt
        measured(case, folder)

    monkeypatch.setattr(cases, "run_case", run_case)
    done = command("step", "--out", tmp_path)
    assert done.code == 130
    assert "texas" in done.out
    assert "texas" in (tmp_path / "README.md").read_text()


def test_a_case_that_fails_does_not_stop_the_others(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_case(case: Case, folder: Path) -> None:
        if case.name == "step-actor":
            raise NlgnnError("the sides [differ].", "Mend it.")
        measured(case, folder)

    monkeypatch.setattr(cases, "run_case", run_case)
    done = command("step", "--out", tmp_path)
    assert done.code == 2
    assert "error: the sides [differ].\nMend it.\n" in done.err
    assert "error: not measured: step-actor." in done.err
    assert (tmp_path / "step-pubmed.json").exists()


@pytest.mark.parametrize("arguments", [["--table", "--out", "nowhere"], ["stepp"]])
def test_bad_input(command: Command, arguments: list[str], tmp_path: Path) -> None:
    done = command(*arguments)
    assert done.code == 2
    assert done.out == ""
    assert len(done.err.splitlines()) == 2
    assert not list(tmp_path.iterdir())
