"""For the tests of the benchmark: its command, run in this process, in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as program
from cli_samples import Command, Outcome


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_users_run_it: None
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(program.console, "width", 120)  # so that no line of a table is wrapped

    def run(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as stopped:
            program.main([str(argument) for argument in arguments])
        return Outcome(int(stopped.value.code or 0), *capsys.readouterr())

    return run
