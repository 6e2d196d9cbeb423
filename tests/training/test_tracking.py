"""Tracking: TensorBoard and MLflow hold every epoch of every run once, and never stand in a training's way."""

from __future__ import annotations

import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mlflow_stand_in import Server, stand_in
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from tensorboard.plugins.hparams.metadata import SESSION_START_INFO_TAG

from nlgnn import errors
from nlgnn.errors import NlgnnError
from nlgnn.training import tracking
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.tracking import Tracking, check_trackers
from nlgnn.training.train import Trained, resume, train
from training_samples import GRAPH, assert_same_runs, signal_at, small_plan

CURVES = ("train_loss", "val_loss", "val_metric")


@pytest.fixture(autouse=True)
def write_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "SECONDS_BETWEEN_WRITES", 0.0)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    for name, module in stand_in(server).items():
        monkeypatch.setitem(sys.modules, name, module)
    return server


def tracked_training(path: Path, tracked: Tracking) -> Trained:
    return train(small_plan(), GRAPH, path, progress=False, watch=tracked.watch)


def moved_to(path: Path, trained: Trained) -> Trained:
    return replace(trained, folder=RunFolder(path, trained.folder.config))


def points(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Every value that the event files of a run hold, by name, with its step; nothing merged or left out."""
    found: dict[str, list[tuple[int, float]]] = {}
    for file in sorted(folder.glob("events.out.tfevents.*")):
        for event in LegacyEventFileLoader(str(file)).Load():
            for value in event.summary.value:
                found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def assert_points_of(run: Run, folder: Path) -> None:
    found = points(folder)
    for name in CURVES:
        wanted = list(enumerate(np.float32(run.curves[name]).tolist(), start=1))
        assert found.pop(name) == wanted
    assert len(found.pop(SESSION_START_INFO_TAG)) == 1
    assert found == {
        f"{part} {metric}": [(run.chosen_epoch, float(np.float32(value)))]
        for part, figures in (("val", run.val), ("test", run.test))
        for metric, value in figures.items()
    }


def test_event_files(tmp_path: Path, expected: Trained) -> None:
    path = tmp_path / "run"
    tracked = Tracking(path, tensorboard=True)
    trained = tracked_training(path, tracked)
    assert_same_runs(trained.runs, expected.runs)
    live = points(path / "tensorboard" / "run-00")
    assert [step for step, _ in live["val_loss"]] == [1, 2, 3]
    assert tracked.end(trained) == [f"TensorBoard: tensorboard --logdir {path / 'tensorboard'}"]
    assert sorted(folder.name for folder in (path / "tensorboard").iterdir()) == ["run-00", "run-01"]
    for run in trained.runs:
        assert_points_of(run, path / "tensorboard" / f"run-{run.index:02d}")


def test_nothing_is_written_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Epochs are often shorter than what it takes to write of them."""
    monkeypatch.setattr(tracking, "SECONDS_BETWEEN_WRITES", 1e9)
    tracked = Tracking(tmp_path / "run", tensorboard=True)
    trained = tracked_training(tmp_path / "run", tracked)
    assert not (tmp_path / "run" / "tensorboard").exists()
    tracked.end(trained)
    assert_points_of(trained.runs[1], tmp_path / "run" / "tensorboard" / "run-01")


@pytest.mark.usefixtures("checkpoint_every_epoch")
@pytest.mark.parametrize("update", [2, 3], ids=["both in training", "in the last epoch"])
def test_a_resumed_training_is_there_once(
    tmp_path: Path, expected: Trained, monkeypatch: pytest.MonkeyPatch, update: int
) -> None:
    path = tmp_path / "run"
    with monkeypatch.context() as interrupted:
        signal_at(update, signal.SIGINT, interrupted)
        with pytest.raises(KeyboardInterrupt):
            tracked_training(path, Tracking(path, tensorboard=True))
    assert points(path / "tensorboard" / "run-00")["val_loss"]
    again = Tracking(path, tensorboard=True)
    trained = resume(RunFolder.open(path), GRAPH, progress=False, watch=again.watch)
    again.end(trained)
    assert_same_runs(trained.runs, expected.runs)
    for run in trained.runs:
        assert_points_of(run, path / "tensorboard" / f"run-{run.index:02d}")


def test_a_finished_training_tracked_again(tmp_path: Path, server: Server) -> None:
    path = tmp_path / "run"
    for _ in range(2):
        tracked = Tracking(path, tensorboard=True, mlflow="http://there")
        if path.exists():
            trained = resume(RunFolder.open(path), GRAPH, progress=False, watch=tracked.watch)
        else:
            trained = tracked_training(path, tracked)
        tracked.end(trained)
    assert_points_of(trained.runs[0], path / "tensorboard" / "run-00")
    assert list(server.runs) == ["1", "2", "3"]  # the first ones


def test_settings_are_of_the_training_not_of_the_run(tmp_path: Path, expected: Trained) -> None:
    """TensorBoard then shows the runs of a training as one group."""
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    tracking.TensorBoardFiles(tmp_path / "tensorboard").end(moved_to(tmp_path, expected))
    groups = []
    for folder in sorted((tmp_path / "tensorboard").iterdir()):
        (file,) = folder.iterdir()
        for event in LegacyEventFileLoader(str(file)).Load():
            for value in event.summary.value:
                if value.tag == SESSION_START_INFO_TAG:
                    content = HParamsPluginData.FromString(value.metadata.plugin_data.content)
                    groups.append(content.session_start_info)
    assert groups[0].hparams == groups[1].hparams
    assert groups[0].group_name == groups[1].group_name
    assert groups[0].hparams["model"].string_value == "nlmlp"
    assert groups[0].hparams["lr"].number_value == 0.05
    assert groups[0].hparams["hidden_channels"].number_value == 4


def test_a_full_disk_ends_no_training(
    tmp_path: Path, expected: Trained, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("torch.utils.tensorboard.SummaryWriter.add_scalar", full)
    tracked = Tracking(tmp_path / "run", tensorboard=True, mlflow="http://there")
    trained = tracked_training(tmp_path / "run", tracked)
    assert_same_runs(trained.runs, expected.runs)
    first, second = tracked.end(trained)
    assert first == "not in TensorBoard: [Errno 28] No space left on device"
    assert second.startswith("MLflow: ")


def test_mlflow_runs(tmp_path: Path, expected: Trained, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "METRICS_AT_ONCE", 4)
    monkeypatch.setattr(tracking, "PARAMETERS_AT_ONCE", 3)
    assert Tracking(tmp_path, mlflow="http://there").end(expected) == ["MLflow: run run of experiment nlgnn"]
    parent, *children = server.runs.values()
    assert all(run.info.status == "FINISHED" for run in server.runs.values())
    assert server.largest_batch == 4
    settings = {"graph": "easy", "model": "nlmlp", "protocol": "random-60", "preset": "paper", "lr": "0.05"}
    assert settings.items() <= parent.params.items()
    assert parent.params["hidden_channels"] == "4"
    assert parent.tags["version.nlgnn"] == expected.folder.config["versions"]["nlgnn"]
    means = {metric.key: metric.value for metric in parent.metrics}
    assert means["mean test accuracy"] == np.mean([run.test["accuracy"] for run in expected.runs])
    assert len(children) == 2
    for run, child in zip(expected.runs, children, strict=True):
        assert child.tags["mlflow.parentRunId"] == parent.info.run_id
        assert (child.params["split"], child.params["seed"]) == (str(run.split), str(run.seed))
        for name in CURVES:
            found = [(metric.step, metric.value) for metric in child.metrics if metric.key == name]
            assert found == list(enumerate(run.curves[name], start=1))
        found = [(metric.step, metric.value) for metric in child.metrics if metric.key == "test accuracy"]
        assert found == [(run.chosen_epoch, run.test["accuracy"])]


def test_a_server_that_dies_is_told_the_rest_later(expected: Trained, server: Server) -> None:
    """Killed at any call: what is half-written is replaced, what is whole stays."""
    for calls in range(60):
        server.calls_left = calls
        (words,) = Tracking(Path("run"), mlflow="http://user:secret@there").end(expected)
        if words.startswith("MLflow: "):
            break
        assert words == "not in MLflow: http://there is gone."
    assert calls > 10
    assert [run.info.status for run in server.runs.values()] == ["FINISHED"] * 3
    assert len({run.info.run_name for run in server.runs.values()}) == 3


def test_failed_runs_are_left_out(tmp_path: Path, expected: Trained, server: Server) -> None:
    failed = Run(1, 1, "random-60", 1, failure="run 1: the loss became nan")
    trained = replace(moved_to(tmp_path, expected), runs=[expected.runs[0], failed])
    Tracking(tmp_path, tensorboard=True, mlflow="http://there").end(trained)
    assert [folder.name for folder in (tmp_path / "tensorboard").iterdir()] == ["run-00"]
    assert len(server.runs) == 2


@pytest.mark.parametrize("package", ["tensorboard", "mlflow"])
def test_packages_that_are_not_there(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    check_trackers()
    wanted: dict[str, Any] = {"tensorboard": {"tensorboard": True}, "mlflow": {"mlflow": "sqlite:///x.db"}}
    with pytest.raises(NlgnnError, match=rf"not installed: {package}(.|\n)*'nlgnn\[{package}\]'"):
        check_trackers(**wanted[package])


def test_servers_that_are_not_there(server: Server) -> None:
    check_trackers(tensorboard=True, mlflow="http://there")
    assert list(server.experiments) == ["nlgnn"]
    server.calls_left = 0
    with pytest.raises(NlgnnError) as refused:
        check_trackers(mlflow="http://user:secret@there")
    assert refused.value.what == "MLflow cannot be used at http://there: http://there is gone."


def test_the_experiment_can_be_named(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "pages")
    check_trackers(mlflow="http://there")
    assert list(server.experiments) == ["pages"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # those of MLflow are not ours
@pytest.mark.parametrize("kind", ["database", "folder"])
def test_mlflow_itself(tmp_path: Path, expected: Trained, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # else MLflow 3 takes no folder
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path / 'runs.db'}" if kind == "database" else f"file:{tmp_path / 'runs'}"
    check_trackers(mlflow=uri)
    for _ in range(2):
        assert Tracking(tmp_path, mlflow=uri).end(expected) == ["MLflow: run run of experiment nlgnn"]
    client = mlflow.MlflowClient(uri)
    experiment = client.get_experiment_by_name("nlgnn").experiment_id
    runs = {run.info.run_name: run for run in client.search_runs([experiment])}
    assert sorted(runs) == ["run", "run run 0", "run run 1"]
    parent, child = runs["run"], runs["run run 1"]
    assert parent.data.params["model"] == "nlmlp"
    assert parent.data.metrics["mean test accuracy"] == np.mean([run.test["accuracy"] for run in expected.runs])
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    history = client.get_metric_history(child.info.run_id, "val_loss")
    assert [(point.step, point.value) for point in history] == list(
        enumerate(expected.runs[1].curves["val_loss"], start=1)
    )
