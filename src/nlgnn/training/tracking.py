"""Tracking: what happens in a training, kept where TensorBoard and MLflow show it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any

from nlgnn.errors import NlgnnError
from nlgnn.training.replica import Replica
from nlgnn.training.run import Run
from nlgnn.training.train import Trained

SECONDS_BETWEEN_WRITES = 1.0
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100  # that one request to MLflow may hold
TRAINING_TAG = "nlgnn.training"
TENSORBOARD = "tensorboard"  # in the run folder


class Tracker(ABC):
    """Keeps what happens in one training. Tracked again, a training is there once."""

    name: str

    @abstractmethod
    def watch(self, replicas: Sequence[Replica]) -> None:
        """Called after every epoch with the runs that are in training."""

    @abstractmethod
    def end(self, trained: Trained) -> str:
        """Called when all runs are finished, by whichever process, and are where they stay. In words, where to look."""


class Tracking:
    """The trackers of one training. What goes wrong in them ends no training; it is told at the end.

    Args:
        path: the run folder.
        tensorboard: whether event files are written into it.
        mlflow: where MLflow keeps runs, if it is to.
    """

    def __init__(self, path: Path, tensorboard: bool = False, mlflow: str | None = None) -> None:
        self.trackers: list[Tracker] = []
        # What a command that goes on with the training has to say again.
        self.flags = " --tensorboard" * tensorboard + ("" if mlflow is None else f" --mlflow {shlex.quote(mlflow)}")
        if tensorboard:
            self.trackers.append(TensorBoardFiles(path / TENSORBOARD))
        if mlflow is not None:
            self.trackers.append(MlflowRuns(mlflow))
        self.words: list[str] = []

    def watch(self, replicas: Sequence[Replica]) -> None:
        for tracker in list(self.trackers):
            try:
                tracker.watch(replicas)
            except Exception as error:  # such as a full disk; the training goes on
                self._give_up(tracker, error)

    def end(self, trained: Trained) -> list[str]:
        """A line for each tracker: where to look, or what went wrong."""
        for tracker in list(self.trackers):
            try:
                self.words.append(tracker.end(trained))
            except Exception as error:  # a server may answer anything, and the training is whole without it
                self._give_up(tracker, error)
        return self.words

    def _give_up(self, tracker: Tracker, error: Exception) -> None:
        self.trackers.remove(tracker)
        self.words.append(f"not in {tracker.name}: {_first_line(error)}")


def check_trackers(tensorboard: bool = False, mlflow: str | None = None) -> None:
    """Raise whatever would keep a training from being tracked, before it begins."""
    for wanted, package in ((tensorboard, "tensorboard"), (mlflow is not None, "mlflow")):
        if wanted and find_spec(package) is None:
            raise NlgnnError(
                f"--{package} needs the package {package}, which is not installed.",
                f"Install it: pip install 'nlgnn[{package}]'",
            )
    if mlflow is not None:
        MlflowRuns(mlflow).check()


class TensorBoardFiles(Tracker):
    """An event file a run, in `run-00 …`, while the run is trained: begun anew by each process, so that a resumed run
    is there once and from its first epoch on."""

    name = "TensorBoard"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[int, _EventFile] = {}
        self._written_at = time.monotonic()

    def watch(self, replicas: Sequence[Replica]) -> None:
        if time.monotonic() - self._written_at < SECONDS_BETWEEN_WRITES:
            return
        for replica in replicas:
            self._of(replica.run).write_curves(replica.curves)
        self._written_at = time.monotonic()

    def end(self, trained: Trained) -> str:
        self.folder = trained.folder.path / TENSORBOARD  # the run folder may have been renamed
        settings = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in settings_of(trained).items()
        }
        for run in trained.finished:
            file = self._of(run)
            file.folder = self._folder_of(run)
            file.write_curves(run.curves)
            file.write_outcome(settings, figures_of(run), run.chosen_epoch)
        return f"TensorBoard: tensorboard --logdir {self.folder}"

    def _of(self, run: Run) -> _EventFile:
        if run.index not in self._files:
            self._files[run.index] = _EventFile(self._folder_of(run))
        return self._files[run.index]

    def _folder_of(self, run: Run) -> Path:
        return self.folder / f"run-{run.index:02d}"


class _EventFile:
    # Not by torch's SummaryWriter, whose thread prints a traceback where a disk is full.
    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self._name = f"events.out.tfevents.{int(time.time()):010d}.nlgnn.{os.getpid()}"  # as TensorBoard wants it
        self._epochs = 0
        self._append([{"file_version": "brain.Event:2"}])

    def write_curves(self, curves: Mapping[str, Sequence[float]]) -> None:
        """Those epochs that are not in the file yet."""
        epochs = list(zip(*curves.values(), strict=True))
        new = enumerate(epochs[self._epochs :], start=self._epochs + 1)
        self._append(
            [{"step": epoch, "summary": _summary(dict(zip(curves, values, strict=True)))} for epoch, values in new]
        )
        self._epochs = len(epochs)

    def write_outcome(self, settings: dict[str, Any], figures: Mapping[str, float], epoch: int) -> None:
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        # All runs of a training are of one group, which is told by the hash of its settings.
        self._append([{"summary": hparams_pb(settings)}, {"step": epoch, "summary": _summary(figures)}])

    def _append(self, events: Sequence[Mapping[str, Any]]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        with (self.folder / self._name).open("ab") as file:
            writer = RecordWriter(file)
            for fields in events:
                writer.write(Event(wall_time=time.time(), **fields).SerializeToString())


def _summary(figures: Mapping[str, float]) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in figures.items()])


class MlflowRuns(Tracker):
    """An MLflow run for the training, with its settings and mean figures, and one below it for each of its runs.

    They are written when the training ends.
    """

    name = "MLflow"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "nlgnn")

    def check(self) -> None:
        try:
            self._experiment_id(self._client())
        except Exception as error:  # of a server, a database or a folder: many kinds, all of which mean the same
            raise NlgnnError(
                f"MLflow cannot be used at {without_password(self.uri)}: {_first_line(error)}",
                "Give --mlflow a database, such as sqlite:///mlflow.db, or the address of a server that runs.",
            ) from error

    def watch(self, replicas: Sequence[Replica]) -> None:
        """MLflow is told at the end."""

    def end(self, trained: Trained) -> str:
        client = self._client()
        experiment = self._experiment_id(client)
        name, config = trained.folder.path.name, trained.folder.config
        words = f"MLflow: run {name} of experiment {self.experiment}"
        identity = hashlib.sha256(json.dumps([str(trained.folder.path.absolute()), config]).encode()).hexdigest()[:16]
        for earlier in client.search_runs([experiment], f"tags.`{TRAINING_TAG}` = '{identity}'"):
            if earlier.info.status == "FINISHED":
                return words
            parts = client.search_runs([experiment], f"tags.`mlflow.parentRunId` = '{earlier.info.run_id}'")
            for half_written in (*parts, earlier):
                client.delete_run(half_written.info.run_id)
        versions = {f"version.{package}": version for package, version in config.get("versions", {}).items()}
        parent = client.create_run(experiment, run_name=name, tags={TRAINING_TAG: identity, **versions}).info.run_id
        _log(client, parent, settings_of(trained), [(f"mean {key}", value, 0) for key, value in _means(trained)])
        for run in trained.finished:
            tags = {"mlflow.parentRunId": parent}
            child = client.create_run(experiment, run_name=f"{name} run {run.index}", tags=tags).info.run_id
            curves = [
                (key, value, epoch) for key, values in run.curves.items() for epoch, value in enumerate(values, start=1)
            ]
            figures = [(key, value, run.chosen_epoch) for key, value in figures_of(run).items()]
            about = {"split": run.split, "protocol": run.protocol, "seed": run.seed, "chosen_epoch": run.chosen_epoch}
            _log(client, child, about, curves + figures)
            client.set_terminated(child)
        client.set_terminated(parent)  # last: what is finished is whole
        return words

    def _client(self) -> Any:
        # By itself MLflow asks a server that is not there for four minutes.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=self.uri)

    def _experiment_id(self, client: Any) -> str:
        found = client.get_experiment_by_name(self.experiment)
        return str(client.create_experiment(self.experiment) if found is None else found.experiment_id)


def _log(client: Any, run_id: str, settings: Mapping[str, Any], figures: Sequence[tuple[str, float, int]]) -> None:
    from mlflow.entities import Metric, Param

    now = int(1000 * time.time())
    parameters = [Param(name, str(value)) for name, value in settings.items()]
    metrics = [Metric(name, value, now, step) for name, value, step in figures]
    for first in range(0, len(parameters), PARAMETERS_AT_ONCE):
        client.log_batch(run_id, params=parameters[first : first + PARAMETERS_AT_ONCE])
    for first in range(0, len(metrics), METRICS_AT_ONCE):
        client.log_batch(run_id, metrics=metrics[first : first + METRICS_AT_ONCE])


def settings_of(trained: Trained) -> dict[str, Any]:
    """What was trained, and how: the same for all of its runs."""
    plan = {"graph": trained.plan.graph, "model": trained.plan.model, "protocol": trained.plan.protocol}
    preset = {"preset": trained.folder.config.get("preset")}
    return {**plan, **preset, **trained.recipe.model_dump(), **trained.factory.keywords}


def figures_of(run: Run) -> dict[str, float]:
    """Figures of the chosen epoch, in percent."""
    parts = {"val": run.val, "test": run.test}
    return {f"{part} {metric}": value for part, figures in parts.items() for metric, value in figures.items()}


def _means(trained: Trained) -> list[tuple[str, float]]:
    figures = [figures_of(run) for run in trained.finished]
    common = [key for key in figures[0] if all(key in of_run for of_run in figures)]
    return [(key, fmean(of_run[key] for of_run in figures)) for key in common]


def without_password(uri: str) -> str:
    return re.sub(r"//[^/@]*@", "//", uri)


def _first_line(error: Exception) -> str:
    return without_password(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
