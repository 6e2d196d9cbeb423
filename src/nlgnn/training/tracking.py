"""Tracking: curves, settings and figures of a training for TensorBoard and MLflow."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, cast

from nlgnn.errors import NlgnnError, require_packages
from nlgnn.models.options import recipe_options
from nlgnn.models.registry import get_system
from nlgnn.training.replica import Replica, Run
from nlgnn.training.train import Trained

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

SECONDS_BETWEEN_WRITES = 1.0
METRICS_AT_ONCE, PARAMETERS_AT_ONCE = 1000, 100  # limits of one request to MLflow
TRAINING_TAG = "nlgnn.training"
TENSORBOARD = "tensorboard"  # in the run folder


class Tracker:
    """Records one training. A training that is tracked again is recorded once."""

    name: str

    def watch(self, replicas: Sequence[Replica]) -> None:
        """Record the runs in training; called after every epoch. By default, nothing is recorded before the end."""

    def end(self, trained: Trained) -> str:
        """Record a finished training, and return a line that says where to look."""
        raise NotImplementedError


class Tracking:
    """The trackers of one training. Their errors do not stop a training; they are reported at its end.

    Args:
        path: The run folder.
        tensorboard: If True, event files are written into the run folder.
        mlflow: The tracking URI of MLflow, if it is used.
    """

    def __init__(self, path: Path, tensorboard: bool = False, mlflow: str | None = None) -> None:
        self.trackers: list[Tracker] = []
        # Flags that the command which resumes the training needs again.
        self.flags = " --tensorboard" * tensorboard + ("" if mlflow is None else f" --mlflow {shlex.quote(mlflow)}")
        if tensorboard:
            self.trackers.append(TensorBoardFiles(path / TENSORBOARD))
        if mlflow is not None:
            self.trackers.append(MlflowRuns(mlflow))
        self.words: list[str] = []

    def watch(self, replicas: Sequence[Replica]) -> None:
        """Pass the runs in training to all trackers; called after every epoch."""
        for tracker in list(self.trackers):
            try:
                tracker.watch(replicas)
            except Exception as error:  # such as a full disk; the training continues
                self._give_up(tracker, error)

    def end(self, trained: Trained) -> list[str]:
        """Return a line per tracker that says where to look, or what went wrong."""
        for tracker in list(self.trackers):
            try:
                self.words.append(tracker.end(trained))
            except Exception as error:  # a server may answer anything, and the training is complete
                self._give_up(tracker, error)
        return self.words

    def _give_up(self, tracker: Tracker, error: Exception) -> None:
        self.trackers.remove(tracker)
        self.words.append(f"not in {tracker.name}: {_first_line(error)}")


def check_trackers(tensorboard: bool = False, mlflow: str | None = None) -> None:
    """Raise an `NlgnnError` if a tracker cannot be used, before training begins."""
    if tensorboard:
        require_packages("tensorboard", "tensorboard")
    if mlflow is not None:
        require_packages("mlflow", "mlflow")
        MlflowRuns(mlflow).check()


class TensorBoardFiles(Tracker):
    """Event files in `run-00 …`, one per run, written during training.

    Each process starts its files again, so that a resumed run is there once and from its first epoch on.
    """

    name = "TensorBoard"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._writers: dict[int, SummaryWriter] = {}
        self._epochs: dict[int, int] = {}  # written so far, by run
        self._written_at = time.monotonic()

    def watch(self, replicas: Sequence[Replica]) -> None:
        if time.monotonic() - self._written_at < SECONDS_BETWEEN_WRITES:
            return
        for replica in replicas:
            self._write_curves(replica.run, replica.curves).flush()
        self._written_at = time.monotonic()

    def end(self, trained: Trained) -> str:
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb
        from torch.utils.tensorboard import FileWriter

        settings = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in settings_of(trained).items()
        }
        for run in trained.finished:
            writer = self._write_curves(run, run.curves)
            # Not `add_hparams`, which would give each run a group and a second file of its own.
            cast(FileWriter, writer.file_writer).add_summary(hparams_pb(settings))
            for name, value in figures_of(run).items():
                writer.add_scalar(name, value, run.chosen_epoch)
            writer.close()
        return f"TensorBoard: tensorboard --logdir {self.folder}"

    def _write_curves(self, run: Run, curves: Mapping[str, Sequence[float]]) -> SummaryWriter:
        """Write the epochs of a run that are not in its file yet."""
        from torch.utils.tensorboard import SummaryWriter

        if run.index not in self._writers:
            folder = self.folder / f"run-{run.index:02d}"
            shutil.rmtree(folder, ignore_errors=True)
            self._writers[run.index], self._epochs[run.index] = SummaryWriter(folder), 0
        writer, first = self._writers[run.index], self._epochs[run.index]
        for name, values in curves.items():
            for epoch, value in enumerate(values[first:], start=first + 1):
                writer.add_scalar(name, value, epoch)
            self._epochs[run.index] = len(values)
        return writer


class MlflowRuns(Tracker):
    """An MLflow run of a training with its settings and mean figures, and a child run for each of its runs.

    They are written when the training ends.
    """

    name = "MLflow"

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self.experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME", "nlgnn")

    def check(self) -> None:
        """Raise an `NlgnnError` if the server, database or folder cannot be used."""
        try:
            self._experiment_id(self._client())
        except Exception as error:  # servers, databases and folders raise many types of errors
            raise NlgnnError(
                f"MLflow cannot be used at {without_password(self.uri)}: {_first_line(error)}",
                "Give --mlflow a database, such as sqlite:///mlflow.db, or the address of a running server.",
            ) from error

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
            for unfinished in (*parts, earlier):
                client.delete_run(unfinished.info.run_id)
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
        client.set_terminated(parent)  # last, so that a finished run is complete
        return words

    def _client(self) -> Any:
        # By default MLflow tries to reach a missing server for four minutes.
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
    """Return the settings of a training, which all of its runs share."""
    plan = {"graph": trained.plan.graph, "model": trained.plan.model, "protocol": trained.plan.protocol}
    preset = {"preset": trained.folder.config.get("preset")}
    recipe = trained.recipe.model_dump(include=recipe_options(get_system(trained.plan.model)))
    return {**plan, **preset, **recipe, **trained.factory.keywords}


def figures_of(run: Run) -> dict[str, float]:
    """Return the figures of the chosen epoch, in percent."""
    parts = {"val": run.val, "test": run.test}
    return {f"{part} {metric}": value for part, figures in parts.items() for metric, value in figures.items()}


def _means(trained: Trained) -> list[tuple[str, float]]:
    figures = [figures_of(run) for run in trained.finished]
    common = [key for key in figures[0] if all(key in of_run for of_run in figures)]
    return [(key, fmean(of_run[key] for of_run in figures)) for key in common]


def without_password(uri: str) -> str:
    """Return a URI without user name and password."""
    return re.sub(r"//[^/@]*@", "//", uri)


def _first_line(error: Exception) -> str:
    return without_password(str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__)
