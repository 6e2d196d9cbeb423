"""`--model package.module:Class`: a user's own class is trained, kept and used as any other model."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli_samples import Command, refused
from nlgnn.models import registry

SOURCE = '''
from pathlib import Path

from torch import nn

Path("imported").touch()


class Net(nn.Module):
    """A plain module without annotations."""

    def __init__(self, in_channels, hidden_channels, out_channels, depth=1):
        super().__init__()
        self.first = nn.Linear(in_channels, hidden_channels)
        self.last = nn.Linear(hidden_channels, out_channels)

    def forward(self, x, edge_index):
        return self.last(self.first(x).relu())


class Few(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.linear = nn.Linear(in_channels, out_channels)

    def forward(self, x, edge_index):
        return self.linear(x)


class Greedy(nn.Module):
    def __init__(self, in_channels, out_channels, rank):
        super().__init__()
'''
MODEL = "own_model_of_a_user:Net"
SHORT = ("--runs", 1, "--epochs", 2)
TRAIN = ("train", "mushroom-body", "--model", MODEL, "--hidden", 8, "--depth", 2, *SHORT, "--out", "X")


def forget() -> None:
    """Begin as a new process does: nothing imported, nothing registered."""
    for name in [name for name in registry.SYSTEMS if ":" in name]:
        del registry.SYSTEMS[name]
    sys.modules.pop(MODEL.partition(":")[0], None)
    Path("imported").unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def own_file(command: Command, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    Path("own_model_of_a_user.py").write_text(SOURCE)
    yield
    forget()


def test_options_are_those_of_the_class(command: Command) -> None:
    assert command(*TRAIN).code == 0
    config = json.loads(Path("X/config.json").read_text())
    assert config["model"] == MODEL
    assert config["model_arguments"] == {"in_channels": 209, "hidden_channels": 8, "out_channels": 4, "depth": 2}
    shown = command("models", MODEL).out
    assert "--hidden" in shown
    assert "--depth" in shown


def test_a_class_with_fewer_arguments(command: Command) -> None:
    few = MODEL.replace("Net", "Few")
    done = command("train", "mushroom-body", "--model", few, *SHORT)
    assert done.code == 0
    assert few in done.out
    assert list(Path("runs").glob("*-own_model_of_a_user.Few"))


@pytest.mark.parametrize("line", ["predict X --all", "report X", "explain X 3", "train --resume X"])
def test_a_folder_imports_nothing(command: Command, line: str) -> None:
    assert command(*TRAIN).code == 0
    forget()
    refused(command(*line.split()), MODEL, f"--model {MODEL}")
    assert not Path("imported").exists()
    assert command(*line.split(), "--model", MODEL).code == 0


def test_a_search(command: Command) -> None:
    fixed = ("--lr", 0.01, "--weight-decay", 0, "--dropout", 0.5)
    search = ("--hidden", "4,8", "--settings", 2, "--search-splits", 1, "--search-epochs", 2)
    refused(command("tune", "mushroom-body", "--model", MODEL, *search, *fixed), "has no option 'dropout'")
    done = command("tune", "mushroom-body", "--model", MODEL, *search, *fixed[:-2])
    assert done.code == 0
    assert f"--model {MODEL}" in done.out


def test_a_configuration_file(command: Command) -> None:
    Path("c.toml").write_text(
        f'graph = "mushroom-body"\nmodel = "{MODEL}"\nhidden = 8\ndepth = 3\nruns = 1\nepochs = 2\nout = "X"'
    )
    assert command("train", "--config", "c.toml").code == 0
    assert json.loads(Path("X/config.json").read_text())["model_arguments"]["depth"] == 3


@pytest.mark.parametrize(
    ("model", "what", "how"),
    [
        ("own_model_of_a_user:Nett", "no torch.nn.Module 'Nett'", "mean 'Net'"),
        ("own_model_of_a_user:Path", "no torch.nn.Module 'Path'", "Known names|mean"),
        ("own_model_of_a_user:Greedy", "needs the argument 'rank'", "--rank"),
        ("no_module_of_a_user:Net", "no_module_of_a_user cannot be imported", "package.module:Class"),
        ("broken_module_of_a_user:Net", "broken_module_of_a_user cannot be imported: SyntaxError", "--debug"),
    ],
)
def test_mistakes(command: Command, model: str, what: str, how: str) -> None:
    Path("broken_module_of_a_user.py").write_text("class Net(:")
    refused(command("train", "mushroom-body", "--model", model, *SHORT), what, how)
    assert not Path("runs").exists()
