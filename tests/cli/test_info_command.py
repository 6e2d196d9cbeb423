"""`nlgnn info`: what it shows, and that it shows nothing private."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
import torch

from cli_samples import Command
from nlgnn import __version__
from nlgnn.cli import info


def test_versions_and_machine(command: Command) -> None:
    done = command("info")
    assert done.code == 0, done.err
    for name, value in (("nlgnn", __version__), ("torch", torch.__version__)):
        assert any(line.split() == [name, value] for line in done.out.splitlines())


def test_nothing_private(command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NLGNN_DATA", str(tmp_path))
    facts = json.loads(command("info", "--json").out)
    assert facts["NLGNN_DATA"] == "set"
    values = " ".join(facts.values())
    assert str(tmp_path) not in values
    assert str(Path.home()) not in values
    assert getpass.getuser() not in values.split()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(info, "EXTRAS", ("no-such-package",))
    assert info.environment_facts()["no-such-package"] == "not installed"
