"""Folders that earlier versions wrote stay readable, and say the same. make_old_folder.py made them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from nlgnn import cli
from nlgnn.datasets.tables import read_graph
from nlgnn.errors import RunFolderError
from nlgnn.estimator import NodeClassifier
from nlgnn.training import model_folder, run
from run_folders import files_in

OLD_FOLDERS = sorted((Path(__file__).parent / "old_folders").iterdir())
pytestmark = [
    pytest.mark.parametrize("old", OLD_FOLDERS, ids=[folder.name for folder in OLD_FOLDERS]),
    pytest.mark.usefixtures("as_users_run_it"),
]


@pytest.fixture
def folder(old: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy, whose run folder knows where its tables are now."""
    copy = shutil.copytree(old, tmp_path / "old")
    path = copy / "run" / "config.json"
    config = json.loads(path.read_text())
    config["tables"] |= {"nodes": str(copy / "nodes.csv"), "edges": str(copy / "edges.csv")}
    path.write_text(json.dumps(config))
    monkeypatch.chdir(copy)
    return copy


def run_command(line: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(line.split())
    return int(ended.value.code or 0)


def assert_same_table(path: Path, kept: Path) -> None:
    """But for the names of columns, and for what other versions of PyTorch make of the last digits."""
    now, then = pl.read_csv(path), pl.read_csv(kept)
    now.columns = then.columns
    assert_frame_equal(now, then, abs_tol=1e-4)


def test_every_format_has_a_folder(old: Path) -> None:
    for number in range(1, max(run.FORMAT_VERSION, model_folder.FORMAT_VERSION) + 1):
        assert (old.parent / f"format-{number}").is_dir()


def test_a_run_folder_predicts_what_it_did(folder: Path) -> None:
    assert run_command("predict run --all --out now.csv") == 0
    assert_same_table(Path("now.csv"), folder / "labels.csv")


def test_a_run_folder_predicts_new_nodes_as_it_did(folder: Path) -> None:
    assert run_command("predict run --nodes new-nodes.csv --edges new-edges.csv --out now.csv") == 0
    assert_same_table(Path("now.csv"), folder / "new-labels.csv")


def test_a_finished_training_is_not_trained_again(folder: Path) -> None:
    before = files_in(folder / "run")
    assert run_command("train --resume run") == 0
    after = files_in(folder / "run")
    written = {"report.html", "predictions.parquet"}  # the former was not kept, the latter is written anew
    assert after.keys() - written == before.keys() - written
    assert all(after[name] == before[name] for name in before.keys() - written)


def test_a_model_folder_predicts_what_it_did(folder: Path) -> None:
    graph = read_graph(folder / "nodes.csv", folder / "edges.csv", label="topic").graph
    loaded = NodeClassifier.load(folder / "model", graph)
    kept = np.loadtxt(folder / "model-probabilities.csv", delimiter=",")
    np.testing.assert_allclose(loaded.predict_proba(), kept, atol=1e-4)


@pytest.mark.parametrize(
    ("file", "read"),
    [("run/config.json", run.RunFolder.open), ("model/model.json", model_folder.ModelFolder.read)],
    ids=["run", "model"],
)
def test_a_newer_format_is_refused(folder: Path, file: str, read: Callable[[Path], object]) -> None:
    content = json.loads((folder / file).read_text())
    newer = max(run.FORMAT_VERSION, model_folder.FORMAT_VERSION) + 1
    (folder / file).write_text(json.dumps(content | {"format_version": newer}))
    with pytest.raises(RunFolderError, match=rf"was written by a newer version \(format {newer}\)") as caught:
        read((folder / file).parent)
    assert "Update" in caught.value.how
