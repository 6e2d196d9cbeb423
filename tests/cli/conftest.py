"""For the tests of the command line: a command run in this process, in an empty folder, as users run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli_samples import Command, Outcome
from nlgnn.cli import main as cli


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_users_run_it: None
) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.console, "width", 120)  # so that no line of a table is wrapped

    def run(*arguments: object) -> Outcome:
        with pytest.raises(SystemExit) as stopped:
            cli.main([str(argument) for argument in arguments])
        return Outcome(int(stopped.value.code or 0), *capsys.readouterr())

    return run
