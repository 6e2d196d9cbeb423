"""Run folders that are damaged, incomplete or of something else: the error says which file, and how to go on."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from nlgnn.errors import RunFolderError
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder, load_weights, read_tensors
from nlgnn.training.train import Trained
from training_samples import (
    Linear,
    easy_graph,
    quiet_resume,
    quiet_train,
    signal_at,
    small_plan,
    without_seconds,
)


@pytest.fixture
def copied(expected: Trained, tmp_path: Path) -> Path:
    """A finished folder to damage."""
    path: Path = shutil.copytree(expected.folder.path, tmp_path / "run")
    return path


def test_a_folder_of_a_newer_version(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    (copied / "config.json").write_text(json.dumps(config | {"format_version": 2}))
    with pytest.raises(RunFolderError, match="newer version") as caught:
        RunFolder.open(copied)
    assert "Update" in caught.value.how


def test_no_config(copied: Path) -> None:
    (copied / "config.json").unlink()
    with pytest.raises(RunFolderError, match=r"is not a run folder: it has no config\.json"):
        RunFolder.open(copied)
    with pytest.raises(RunFolderError, match=r"there is no folder .*nowhere"):
        RunFolder.open(copied / "nowhere")


@pytest.mark.parametrize("file", ["config.json", "summary.json", "curves.jsonl"])
@pytest.mark.parametrize("content", [b'{"runs": [', b"[1, 2]", b"\xff\xfe", b'{"runs": [{}], "format_version": 1}'])
def test_damaged_json(copied: Path, file: str, content: bytes) -> None:
    (copied / file).write_bytes(content)
    with pytest.raises(RunFolderError) as caught:
        quiet_resume(copied)
    assert str(copied) in caught.value.what
    assert (copied / file).read_bytes() == content


@pytest.mark.parametrize("size", [0, 5, 100])
def test_damaged_weights(copied: Path, size: int) -> None:
    file = copied / "models" / "01.safetensors"
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(RunFolderError, match=r"01\.safetensors is damaged"):
        quiet_resume(copied)


def test_missing_weights(copied: Path) -> None:
    (copied / "models" / "00.safetensors").unlink()
    with pytest.raises(RunFolderError, match=r"00\.safetensors is missing"):
        quiet_resume(copied)


@pytest.mark.parametrize("kind", ["cut", "weights alone"])
def test_damaged_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with monkeypatch.context() as patch:
        signal_at(2, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(small_plan(), tmp_path / "run")
    file = tmp_path / "run" / "checkpoint.safetensors"
    if kind == "cut":
        file.write_bytes(file.read_bytes()[:300])
    else:
        save_file({"a": torch.zeros(3)}, file)
    with pytest.raises(RunFolderError, match=r"checkpoint\.safetensors is damaged"):
        quiet_resume(tmp_path / "run")


def test_a_checkpoint_of_another_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for hidden in (4, 5):
        with monkeypatch.context() as patch:
            signal_at(2, signal.SIGINT, patch)
            with pytest.raises(KeyboardInterrupt):
                quiet_train(small_plan(hidden=hidden), tmp_path / str(hidden))
    shutil.copy(tmp_path / "5" / "checkpoint.safetensors", tmp_path / "4")
    with pytest.raises(RunFolderError, match=r"another model: local\.layers\.0\.bias is \(5,\) there, \(4,\) in NLMLP"):
        quiet_resume(tmp_path / "4")


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"map.bias": torch.zeros(3), "map.weight": torch.zeros(2, 4)}, r"map\.bias is \(3,\) there, \(2,\) in Linear"),
        ({"map.bias": torch.zeros(2)}, r"map\.weight is missing there, \(2, 4\) in Linear"),
        (
            {"map.bias": torch.zeros(2), "map.weight": torch.zeros(2, 4), "more": torch.zeros(1)},
            r"more is \(1,\) there, missing in Linear",
        ),
    ],
)
def test_weights_of_another_model(state: dict[str, torch.Tensor], message: str) -> None:
    model = Linear()
    before = model.map.bias.clone()
    with pytest.raises(RunFolderError, match=message):
        load_weights(model, state, "there")
    assert model.map.bias.equal(before)


def test_another_version_of_the_graph(copied: Path) -> None:
    with pytest.raises(RunFolderError, match="another version of 'easy'"):
        quiet_resume(copied, easy_graph(seed=1))


def test_a_config_that_lacks_something(copied: Path) -> None:
    config = json.loads((copied / "config.json").read_text())
    for key in ("model", "options", "fingerprint"):
        rest = {name: value for name, value in config.items() if name != key}
        (copied / "config.json").write_text(json.dumps(rest))
        with pytest.raises(RunFolderError, match=f"config.json: it lacks '{key}'"):
            quiet_resume(copied)


def test_weights_are_plain_safetensors(expected: Trained) -> None:
    """Anybody can read them, and nothing in them is executed."""
    file = expected.folder.path / "models" / "00.safetensors"
    assert read_tensors(file).keys() == load_file(file).keys() == expected.runs[0].state.keys()


def test_ms_per_epoch() -> None:
    assert Run(0, 0, "column", 0, epochs=4, seconds=2.0).ms_per_epoch == 500
    assert Run(0, 0, "column", 0).ms_per_epoch == 0


def test_seconds_add_up_over_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        signal_at(2, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(small_plan(runs=1), tmp_path / "run")
    saved = RunFolder.open(tmp_path / "run").checkpoints()[0]
    run = quiet_resume(tmp_path / "run").runs[0]
    assert run.seconds > saved.seconds > 0
    assert without_seconds(run)["epochs"] == 3
