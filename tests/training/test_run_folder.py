"""Run folders: what they hold, and what happens when there is no room for them."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from torch import Tensor, nn

from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.models.build import configure
from nlgnn.nn.base import prepare
from nlgnn.training import replica
from nlgnn.training.fit import fit, predict
from nlgnn.training.loop import evaluate
from nlgnn.training.predict import temperature
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Adam, Replica, Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, Trained, read_plan
from run_folders import assert_same_folder, files_in
from training_samples import (
    GRAPH,
    Linear,
    assert_same_runs,
    easy_graph,
    quiet_resume,
    quiet_train,
    recipe,
    small_plan,
    splits_of,
)


def test_what_a_folder_holds(expected: Trained) -> None:
    path = expected.folder.path
    assert sorted(files_in(path)) == [
        "config.json",
        "curves.jsonl",
        "decision.json",
        "models/00-validation.safetensors",
        "models/00.safetensors",
        "models/01-validation.safetensors",
        "models/01.safetensors",
        "predictions.parquet",
        "summary.json",
    ]
    config = json.loads((path / "config.json").read_text())
    assert config["recipe"] == expected.recipe.model_dump()
    assert config["fingerprint"] == GRAPH.fingerprint
    assert config["model_arguments"]["hidden_channels"] == 4
    assert config["versions"]["torch"] == torch.__version__
    lines = [json.loads(line) for line in (path / "curves.jsonl").read_text().splitlines()]
    assert [(line["run"], line["epoch"]) for line in lines] == [(run, epoch) for run in (0, 1) for epoch in range(1, 4)]
    assert [line["val_loss"] for line in lines[3:]] == expected.runs[1].curves["val_loss"]
    runs = json.loads((path / "summary.json").read_text())["runs"]
    assert runs == [run.summary() for run in expected.runs]


def test_a_folder_gives_back_its_runs(expected: Trained) -> None:
    folder = RunFolder.open(expected.folder.path)
    assert_same_runs([folder.finished_run(0), folder.finished_run(1)], expected.runs)
    assert folder.finished_run(2) is None
    assert read_plan(folder) == expected.plan


def calibrated_by_hand(logits: Tensor, run: int) -> np.ndarray:
    val = splits_of(GRAPH, 2)[run].val
    return (logits / temperature(logits.softmax(1).numpy()[val], GRAPH.y[val])).softmax(1).numpy()


def test_predictions_are_the_calibrated_mean_of_the_runs(expected: Trained) -> None:
    table = pq.read_table(expected.folder.path / "predictions.parquet").to_pydict()
    probabilities = []
    for run in expected.runs:
        model = expected.factory()
        model.load_state_dict(run.state)
        logits = evaluate(model, prepare(model, GRAPH.scale_features("unit-sum")))
        probabilities.append(calibrated_by_hand(logits, run.index))
    mean = (probabilities[0] + probabilities[1]) / 2
    assert not np.allclose(*probabilities)
    np.testing.assert_allclose(table["probability of class 0"], mean[:, 0], atol=1e-5)
    np.testing.assert_allclose(table["probability of class 1"], mean[:, 1], atol=1e-5)
    assert table["prediction"] == [f"class {label}" for label in mean.argmax(1)]
    assert table["node"] == list(range(30))
    assert table["label"] == [f"class {label}" for label in GRAPH.y]


def test_what_runs_say_that_held_a_node_back(expected: Trained) -> None:
    table = pq.read_table(expected.folder.path / "predictions.parquet").to_pydict()
    splits = splits_of(GRAPH, 2)
    tested = np.sum([split.test for split in splits], axis=0)
    assert table["tested in runs"] == tested.tolist()
    probabilities = predict(expected.factory, GRAPH, expected.runs, expected.recipe).numpy()
    for node, said in enumerate(table["prediction where tested"]):
        held_back = [run for run, split in enumerate(splits) if split.test[node]]
        best = probabilities[held_back, node].mean(0).argmax() if held_back else None
        assert said == (None if best is None else GRAPH.class_names[best])


def test_predictions_name_nodes_and_leave_unknown_labels_out(tmp_path: Path) -> None:
    y = GRAPH.y.copy()
    y[3] = -1
    names = [f"node {number}" for number in range(30)]
    graph = Graph(GRAPH.x, GRAPH.edge_index, y, class_names=("no", "yes"), node_names=names)
    quiet_train(small_plan(runs=1), tmp_path / "run", graph)
    table = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pydict()
    assert table["node"] == names
    assert table["label"][2:5] == ["no", None, "no"]
    assert table["prediction"][3] in ("no", "yes")


def test_failed_runs_are_kept_as_such_and_left_out_of_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run gets a learning rate that overflows."""
    plan = small_plan(runs=2)
    calls: list[nn.Module] = []

    def second_overflows(model: nn.Module, of: Recipe) -> Adam:
        calls.append(model)
        return Adam(model, of if len(calls) != 2 else of.model_copy(update={"lr": 1e38}))

    monkeypatch.setattr(replica, "Adam", second_overflows)
    trained = quiet_train(plan, tmp_path / "run")
    assert [bool(run.failure) for run in trained.runs] == [False, True]
    kept = RunFolder.open(tmp_path / "run").finished_run(1)
    assert kept is not None
    assert kept.summary() == trained.runs[1].summary()
    model = trained.factory()
    model.load_state_dict(trained.runs[0].state)
    alone = calibrated_by_hand(evaluate(model, prepare(model, GRAPH.scale_features("unit-sum"))), 0)[:, 0]
    table = pq.read_table(tmp_path / "run" / "predictions.parquet").to_pydict()
    np.testing.assert_allclose(table["probability of class 0"], alone, atol=1e-5)
    assert_same_runs(quiet_resume(tmp_path / "run").runs, trained.runs)  # a failed run is not trained again


def test_going_on_with_a_finished_folder_changes_nothing(expected: Trained, tmp_path: Path) -> None:
    shutil.copytree(expected.folder.path, tmp_path / "run")
    assert_same_runs(quiet_resume(tmp_path / "run").runs, expected.runs)
    assert files_in(tmp_path / "run") == files_in(expected.folder.path)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Writing more fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def a_run(index: int = 0) -> Run:
    curves = {"train_loss": [0.5] * 200, "val_loss": [0.25] * 200, "val_metric": [50.0] * 200}
    return Run(index, 0, "column", 0, epochs=200, chosen_epoch=1, curves=curves, state={"a": torch.ones(3000)})


@pytest.mark.parametrize(
    ("room", "file"),
    [(2_000, "models/01.safetensors"), (20_000, "curves.jsonl"), (400, "checkpoint.safetensors")],
)
def test_a_full_disk_loses_nothing(tmp_path: Path, room: int, file: str) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.save_run(a_run(0))
    nodes = torch.arange(2)
    checkpoints = [Replica.new(a_run(index), Recipe(), Linear, (nodes,) * 3).checkpoint() for index in (1, 2)]
    folder.save_checkpoints(checkpoints[:1])
    before = files_in(folder.path)
    with files_of_at_most(room), pytest.raises(RunFolderError, match="File too large") as caught:
        folder.save_checkpoints(checkpoints) if file == "checkpoint.safetensors" else folder.save_run(a_run(1))
    assert caught.value.what.startswith(f"{folder.path / file} cannot be written")
    assert f"--resume {folder.path}" in caught.value.how
    found = files_in(folder.path)
    assert not [name for name in found if Path(name).name.startswith(".")]
    assert {name: found[name] for name in before} == before
    reopened = RunFolder.open(folder.path)
    assert_same_runs([reopened.finished_run(0)], [a_run(0)])
    assert reopened.finished_run(1) is None
    folder.save_run(a_run(1))  # with room again
    assert_same_runs([RunFolder.open(folder.path).finished_run(1)], [a_run(1)])


@pytest.mark.usefixtures("checkpoint_every_epoch")
def test_a_disk_that_fills_up_while_training(
    tmp_path: Path, expected: Trained, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each write in turn; afterwards it goes on to the same figures."""

    def full(_: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    for writes in (0, 2, 3, 4, 5, 7, 10):
        left, path = writes, tmp_path / str(writes)
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(RunFolderError, match="cannot be written: No space left on device"):
                quiet_train(small_plan(), path)
        assert not [name for name in files_in(path) if Path(name).name.startswith(".")]
        assert_same_runs(quiet_resume(path).runs, expected.runs)
        assert_same_folder(path, expected.folder.path)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    with files_of_at_most(10), pytest.raises(RunFolderError, match="cannot be made: File too large"):
        RunFolder.create(tmp_path / "run", {"some": "settings"})
    (tmp_path / "file").write_text("")
    with pytest.raises(RunFolderError, match="cannot be made: Not a directory"):
        RunFolder.create(tmp_path / "file" / "run", {})
    assert list(files_in(tmp_path)) == ["file"]


def test_weights_can_be_read_by_whoever_can_read_other_files(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    mask = os.umask(0o027)
    try:
        folder.save_run(a_run(0))
        (tmp_path / "any").write_text("")
    finally:
        os.umask(mask)
    modes = {(folder.path / name).stat().st_mode for name in ("models/00.safetensors", "summary.json")}
    assert modes == {(tmp_path / "any").stat().st_mode} == {0o100640}


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"
    path.mkdir()
    (path / "precious").write_text("data")
    with pytest.raises(RunFolderError, match="exists already") as caught:
        quiet_train(small_plan(), path)
    assert "--resume" not in caught.value.how  # it is no run folder
    assert files_in(tmp_path) == {"run/precious": b"data"}
    (path / "config.json").write_text("{}")
    with pytest.raises(RunFolderError, match="exists already") as caught:
        quiet_train(small_plan(), path)
    assert f"--resume {path}" in caught.value.how
    assert files_in(tmp_path) == {"run/precious": b"data", "run/config.json": b"{}"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "nlmlpp"}, "there is no model 'nlmlpp'"),
        ({"preset": "papers"}, "there is no preset 'papers'"),
        ({"protocol": "random-61"}, "has no splits 'random-61'"),
        ({"options": {"epochs": 0}}, "epochs=0"),
        ({"options": {"kernel_size": 4}}, "kernel_size=4"),
        ({"options": {"hidden": -3}}, "hidden=-3"),
        ({"options": {"pretrain_epochs": 3}}, "NLMLP has no pre-training"),
        ({"options": {"device": "quantum"}}, "device 'quantum'"),
    ],
)
def test_a_bad_plan_makes_no_folder(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    plan = Plan(**({"graph": "easy", "model": "nlmlp", "runs": 1} | changes))
    with pytest.raises(NlgnnError, match=message):
        quiet_train(plan, tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_for_one_training_only(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    split = splits_of(GRAPH)
    fit(Linear, GRAPH, split, recipe(), folder=folder, progress=False)
    fit(Linear, GRAPH, split, recipe(threads=1), folder=folder, progress=False)  # what changes no figure may change
    moved = Split(split[0].val, split[0].train, split[0].test)
    for changed in (
        lambda: fit(Linear, GRAPH, split, recipe(lr=0.1), folder=folder, progress=False),
        lambda: fit(Linear, GRAPH, [moved], recipe(), folder=RunFolder.open(folder.path), progress=False),
        lambda: fit("mlp", GRAPH, split, recipe(), folder=folder, progress=False),
        lambda: fit(Linear, easy_graph(seed=1), split, recipe(), folder=folder, progress=False),
    ):
        with pytest.raises(RunFolderError, match="holds another training"):
            changed()


def test_a_folder_knows_settings_that_change_no_shape(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    little, much = (configure("fagcn", GRAPH, eps=eps, epochs=2) for eps in (0.1, 0.9))
    fit(little[0], GRAPH, splits_of(GRAPH), little[1], folder=folder, progress=False)
    with pytest.raises(RunFolderError, match="holds another training"):
        fit(much[0], GRAPH, splits_of(GRAPH), much[1], folder=folder, progress=False)


def test_a_factory_that_cannot_be_compared_is_refused_on_resume(tmp_path: Path) -> None:
    """Another lambda could make another model: a folder never returns the runs of another one."""
    folder = RunFolder.create(tmp_path / "run", {})
    (split,) = splits_of(GRAPH)
    fit(lambda: Linear(), GRAPH, split, recipe(), folder=folder, progress=False)
    for again in (lambda: Linear(), lambda: Linear(4, 2)):
        with pytest.raises(RunFolderError, match="cannot be compared") as caught:
            fit(again, GRAPH, split, recipe(), folder=folder, progress=False)
        assert "partial" in caught.value.how
