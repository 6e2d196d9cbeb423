"""Run folders that somebody changed: bounds of all that they state, checksums of checkpoints, special files."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path

import pytest
import torch

from nlgnn.errors import NlgnnError, OptionError, RunFolderError
from nlgnn.json_files import parse_json, parse_toml
from nlgnn.models.build import configure
from nlgnn.training.preflight import check_weights_fit
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Checkpoint
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Trained
from training_samples import GRAPH, quiet_resume, quiet_train, signal_at, small_plan


@pytest.fixture
def copied(expected: Trained, tmp_path: Path) -> Path:
    """A finished folder to change."""
    path: Path = shutil.copytree(expected.folder.path, tmp_path / "run")
    return path


def checkpoint() -> Checkpoint:
    tensors = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(3)}
    return Checkpoint(1, 2.5, {"val_loss": [0.5, 0.25], "val_metric": [50.0, 75.0]}, tensors, tensors, tensors)


def same(one: dict[int, Checkpoint], other: dict[int, Checkpoint]) -> bool:
    def plain(all_of: dict[int, Checkpoint]) -> str:
        return repr([(index, vars(found)) for index, found in all_of.items()])

    return plain(one) == plain(other)


def test_no_changed_bit_of_a_checkpoint_is_believed(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.save_checkpoints([checkpoint()])
    wanted, file = folder.checkpoints(), tmp_path / "run" / "checkpoint.safetensors"
    assert same(wanted, {1: checkpoint()})
    content, draw = file.read_bytes(), random.Random(0)
    refused = 0
    for _ in range(200):
        changed = bytearray(content)
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        try:
            assert same(folder.checkpoints(), wanted)  # a bit that says nothing, such as a blank
        except RunFolderError:
            refused += 1
    assert refused > 150


def test_a_checkpoint_without_its_checksum(tmp_path: Path) -> None:
    from nlgnn.training.tensor_files import save_tensors

    folder = RunFolder.create(tmp_path / "run", {})
    states = json.dumps({1: [1.0, {"val_loss": [0.1]}]})
    save_tensors({"1/model/a": torch.ones(2)}, tmp_path / "run" / "checkpoint.safetensors", {"states": states})
    with pytest.raises(RunFolderError, match="it lacks 'sha256'") as caught:
        folder.checkpoints()
    assert "unfinished ones start again" in caught.value.how


ABSURD = [  # file, place, and the JSON text that is put there
    ("config.json", ("runs",), "1000000000"),
    ("config.json", ("model_arguments", "hidden_channels"), "1000000000"),
    ("config.json", ("model_arguments", "hidden_channels"), "90000000"),
    ("config.json", ("model_arguments", "num_convs"), "10000000"),
    ("config.json", ("model_arguments", "hidden_channels"), "-1"),
    ("config.json", ("recipe", "lr"), "1e400"),
    ("config.json", ("recipe", "lr"), "NaN"),
    ("config.json", ("recipe", "epochs"), "1" + "0" * 30),
    ("config.json", ("recipe", "threads"), "1000000000"),
    ("config.json", ("recipe", "window"), "9" * 5000),
    ("config.json", ("format_version",), "9" * 4000),
    ("summary.json", ("runs", 0, "index"), "1000000000000"),
    ("summary.json", ("runs", 0, "index"), "true"),
    ("summary.json", ("runs", 0, "val", "accuracy"), "-Infinity"),
    ("summary.json", ("runs", 0, "val"), "[1, 2]"),
    ("summary.json", ("runs", 0, "seconds"), '"long"'),
    ("summary.json", ("runs", 0, "more"), "1"),
    ("summary.json", ("weights",), '{"00.safetensors": 3}'),
]


@pytest.mark.parametrize(("file", "keys", "text"), ABSURD)
def test_absurd_values(
    copied: Path, file: str, keys: tuple[str | int, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = place = json.loads((copied / file).read_text())
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = "REPLACED"
    (copied / file).write_text(json.dumps(content).replace('"REPLACED"', text))
    monkeypatch.setattr("nlgnn.limits.free_bytes", lambda: 2**27)
    built: list[str] = []
    monkeypatch.setattr(torch.nn.Linear, "reset_parameters", lambda self: built.append(self.weight.device.type))
    with pytest.raises(NlgnnError) as caught:
        quiet_resume(copied)
    assert str(copied) in caught.value.what
    assert set(built) <= {"meta"}  # nothing was built


@pytest.mark.parametrize("file", ["config.json", "summary.json", "curves.jsonl"])
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"format_version": 1, "a": ' + "9" * 5000 + "}"])
def test_deep_and_long_json(copied: Path, file: str, text: str) -> None:
    (copied / file).write_text(text)
    with pytest.raises(RunFolderError) as caught:
        quiet_resume(copied)
    assert str(copied) in caught.value.what


@pytest.mark.parametrize("text", ["a = " + "[" * 100_000, "a = " + "9" * 5000, "a = inf", "a = 1e999"])
def test_deep_and_long_toml(text: str) -> None:
    with pytest.raises(ValueError, match=r"deep|digits|finite|Exceeds"):
        parse_toml(text)


def test_ordinary_json() -> None:
    text = '{"a": [1, -2.5e3, "\\u00e9", null, true], "b": {"c": 999999999999999999}}'
    assert parse_json(text) == json.loads(text)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("file", ["config.json", "summary.json", "curves.jsonl", "models/00.safetensors"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_special_files(copied: Path, file: str, kind: str) -> None:
    (copied / file).unlink()
    if kind == "pipe":
        os.mkfifo(copied / file)
    else:
        (copied / file).symlink_to("/dev/zero")
    with pytest.raises(RunFolderError, match="not a regular file"):
        quiet_resume(copied)


def test_a_checkpoint_that_is_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        signal_at(2, signal.SIGHUP, patch)  # also answered like Ctrl-C
        with pytest.raises(KeyboardInterrupt):
            quiet_train(small_plan(), tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(RunFolderError, match="not a regular file"):
        quiet_resume(tmp_path / "run")


@pytest.mark.parametrize(
    "options",
    [{"lr": float("inf")}, {"epochs": 10**20}, {"patience": 10**12}, {"threads": 10**6}, {"replicas": 10**9}],
)
def test_bounds_of_the_recipe(options: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        Recipe(**options)


@pytest.mark.parametrize("options", [{"hidden": 10**20}, {"num_layers": 10**7}, {"kernel_size": 10**9 + 1}])
def test_bounds_of_models(options: dict[str, int]) -> None:
    with pytest.raises(OptionError, match="less than or equal"):
        configure("nlmlp", GRAPH, **options)


def test_weights_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    factory, _ = configure("nlmlp", GRAPH, hidden=1000)
    check_weights_fit(factory)
    monkeypatch.setattr("nlgnn.limits.free_bytes", lambda: 2**14)
    with pytest.raises(OptionError, match=r"the weights of NLMLP would take about .* in training, but 11\.2 KiB"):
        check_weights_fit(factory)


def test_what_it_ran_with_is_in_the_folder(expected: Trained) -> None:
    summary = json.loads((expected.folder.path / "summary.json").read_text())
    assert summary["execution"] == [{"replicas": 2, "threads": 1}]
