"""RunFolder: runs on disk, written atomically and resumable; their weights."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from nlgnn.errors import DataError, RunFolderError
from nlgnn.files import (
    missing_parents,
    read_regular,
    refuse_existing,
    remove_empty,
    sha256_of,
    write_whole,
    write_whole_folder,
)
from nlgnn.json_files import LARGEST_FILE, parse_json, read_json
from nlgnn.nn.base import as_model
from nlgnn.shallow.base import Factory, ShallowModel
from nlgnn.training.device import model_like
from nlgnn.training.replica import Checkpoint, Run
from nlgnn.training.stored_run import CURVE_ROW, SUMMARY, first_fault
from nlgnn.training.tensor_files import damaged, read_checkpoints, read_tensors, save_tensors, write_checkpoints

FORMAT_VERSION = 1
KNOWS_NUMBERS = "knows nodes by their number or by their row of the adjacency matrix"


class RunFolder:
    """The folder of one training: settings, figures, curves and weights of its runs.

    It holds `config.json`, `summary.json`, `curves.jsonl`, `decision.json`, weights in `models/00.safetensors …`,
    probabilities of validation nodes in `models/00-validation.safetensors …`, and `checkpoint.safetensors` while runs
    are unfinished. Every file is written atomically, so a killed process leaves the old state or the new one.
    `summary.json` is written last: a run that is listed there is complete. It also holds the checksums of the files in
    `models`, and how many models were trained at once on how many threads, which may change the last digits of figures.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from nlgnn import RunFolder
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     made = RunFolder.create(Path(folder) / "run", {"model": "gcn"})
        ...     len(made.finished_runs())
        0
    """

    new_parents: Sequence[Path] = ()  # parent folders that were created for it, the nearest first

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config
        self.execution: list[dict[str, int]] = []
        self._identity: str | None = None
        self._runs: dict[int, dict[str, Any]] = {}
        self._checksums: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            summary = SUMMARY.validate_python(read_json(path / "summary.json"))
            self._runs = {run["index"]: Run(**cast(dict[str, Any], run)).summary() for run in summary["runs"]}
            self._identity, self._checksums = summary["identity"], summary["weights"]
            self.execution = summary.get("execution", [])

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunFolder:
        """Create a folder for a new training.

        Args:
            path: The folder, which must not exist.
            config: The settings of the training, which must be JSON values.

        Raises:
            RunFolderError: If the folder exists or cannot be created.
        """
        refuse_existing(path)
        config = {"format_version": FORMAT_VERSION, **config}

        def write(part: Path) -> None:
            (part / "models").mkdir()
            (part / "config.json").write_text(json.dumps(config, indent=2), "utf-8")

        new_parents = missing_parents(path)
        make_folder(path, write)
        folder = cls(path, config)
        folder.new_parents = new_parents
        return folder

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """Open an existing folder.

        Raises:
            RunFolderError: If the folder is missing, damaged or was written by a newer version.
        """
        config = read_description(path, "config.json", "run folder")
        try:
            return cls(path, config)
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise RunFolderError(
                f"{path} cannot be read as a run folder: {first_fault(error)}.",
                "Restore its JSON files or train again.",
            ) from None

    def claim(self, identity: str, comparable: bool = True) -> None:
        """Record which training this folder belongs to.

        Args:
            identity: A hash of all that decides the figures.
            comparable: False if two trainings of the same model could not be told apart.

        Raises:
            RunFolderError: If it belongs to another training, or if that cannot be known.
        """
        if self._identity is not None and not comparable:
            raise RunFolderError(
                f"{self.path} holds runs already, and a lambda or a function inside a function cannot be compared "
                "with what made them.",
                "Give a class, functools.partial of a class, or what nlgnn.configure returns; or another folder.",
            )
        self.require(identity)
        if self._identity is None:
            self._identity = identity
            self._write_summary()

    def require(self, identity: str) -> None:
        """Raise a `RunFolderError` if the runs in this folder belong to another training."""
        if self._identity not in (None, identity):
            raise RunFolderError(
                f"{self.path} holds another training: its graph, splits, class names, recipe or model differ.",
                "Restore what it was trained with, or train into a new folder.",
            )

    def note_execution(self, replicas: int, threads: int) -> None:
        """Note how many models are trained at once, on how many threads, before anything is trained."""
        used = {"replicas": replicas, "threads": threads}
        if used not in self.execution:
            self.execution.append(used)
            self._write_summary()

    def finished_run(self, index: int) -> Run | None:
        """Return a run with its weights and curves, or None if it is not finished."""
        if index not in self._runs:
            return None
        run = Run(**self._runs[index])
        if run.failure is None:
            file = self._model_path(index)
            run.state = read_tensors(file, self._checksums.get(file.name, ""))
            run.curves = self._curves.get(index, {})
            run.validation = self._validation(index)
        return run

    def finished_runs(self) -> list[Run]:
        """Return all finished runs, including failed ones."""
        found = (self.finished_run(index) for index in sorted(self._runs))
        return [run for run in found if run is not None]

    def save_run(self, run: Run) -> None:
        """Write a finished run: weights and curves first, the summary last."""
        if run.failure is None:
            self._write_tensors(self._model_path(run.index), run.state)
            if run.validation is not None:
                self._write_tensors(self._validation_path(run.index), {"probabilities": run.validation})
            self._curves[run.index] = run.curves
            self._write_curves(self._curves)
        self._runs[run.index] = run.summary()
        self._write_summary()

    def _write_summary(self) -> None:
        runs = [self._runs[index] for index in sorted(self._runs)]
        kept = {"identity": self._identity, "weights": self._checksums, "runs": runs}
        summary = {"format_version": FORMAT_VERSION, **kept, "execution": self.execution}
        self._write(self.path / "summary.json", lambda path: path.write_text(json.dumps(summary, indent=2), "utf-8"))

    @property
    def _checkpoint_path(self) -> Path:
        return self.path / "checkpoint.safetensors"

    def save_checkpoints(self, replicas: Sequence[Checkpoint]) -> None:
        """Write all unfinished runs to one file."""
        self._write(self._checkpoint_path, lambda path: write_checkpoints(path, replicas))

    def checkpoints(self) -> dict[int, Checkpoint]:
        """Return the unfinished runs by their number."""
        return read_checkpoints(self._checkpoint_path) if self._checkpoint_path.exists() else {}

    def remove_checkpoints(self) -> None:
        """Remove the checkpoint file when all runs are finished."""
        self._checkpoint_path.unlink(missing_ok=True)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file."""
        self._write(self.path / name, lambda path: path.write_text(json.dumps(content, indent=2), encoding="utf-8"))

    def write_predictions(self, columns: dict[str, Any]) -> None:
        """Write `predictions.parquet`."""
        self._write(self.path / "predictions.parquet", lambda path: write_parquet(path, columns))
        self.remove_checkpoints()  # a process may have been killed just before it did so itself

    def bad_config(self, why: object) -> RunFolderError:
        """Return the error for settings that cannot be used."""
        return RunFolderError(f"{self.path}/config.json: {why}.", "Restore the file or train again.")

    def remove_if_nothing_was_trained(self) -> None:
        """Remove the folder if it holds neither runs nor checkpoints."""
        if not self._runs and not self._checkpoint_path.exists():
            shutil.rmtree(self.path, ignore_errors=True)
            remove_empty(self.new_parents)

    def _model_path(self, index: int) -> Path:
        return self.path / "models" / f"{index:02d}.safetensors"

    def _validation_path(self, index: int) -> Path:
        return self.path / "models" / f"{index:02d}-validation.safetensors"

    def _validation(self, index: int) -> Tensor | None:
        file = self._validation_path(index)
        return read_tensors(file, self._checksums[file.name])["probabilities"] if file.name in self._checksums else None

    def _write_tensors(self, file: Path, tensors: dict[str, Tensor]) -> None:
        self._write(file, lambda path: save_tensors(tensors, path))
        self._checksums[file.name] = sha256_of(file)

    @cached_property
    def _curves(self) -> dict[int, dict[str, list[float]]]:
        curves: dict[int, dict[str, list[float]]] = {}
        path = self.path / "curves.jsonl"
        try:
            content = read_regular(path, LARGEST_FILE).decode() if path.exists() else ""
            for line in content.splitlines():
                row = CURVE_ROW.validate_python(parse_json(line))
                of_run = curves.setdefault(int(row.pop("run")), {})
                row.pop("epoch")
                for name, value in row.items():
                    of_run.setdefault(name, []).append(value)
        except OSError as error:
            raise RunFolderError(f"{path} cannot be read: {error.strerror}.", "Restore the file.") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(path, error) from None
        return curves

    def _write_curves(self, curves: dict[int, dict[str, list[float]]]) -> None:
        lines = [
            json.dumps({"run": index, "epoch": epoch, **dict(zip(of_run, values, strict=True))})
            for index, of_run in sorted(curves.items())
            for epoch, values in enumerate(zip(*of_run.values(), strict=True), start=1)
        ]
        self._write(self.path / "curves.jsonl", lambda path: path.write_text("".join(f"{line}\n" for line in lines)))

    def _write(self, path: Path, write: Callable[[Path], object]) -> None:
        try:
            write_whole(path, write)
        except OSError as error:
            raise RunFolderError(
                f"{path} cannot be written: {error.strerror or error}. What was there before is untouched.",
                f"Free some space or correct the permissions, then continue with: nlgnn train --resume {self.path}",
            ) from error


def read_description(path: Path, name: str, kind: str) -> dict[str, Any]:
    """Return the JSON object that describes a folder.

    Args:
        path: The folder.
        name: The name of the JSON file in it.
        kind: The kind of folder, for errors.

    Raises:
        RunFolderError: If the file is missing, damaged or was written by a newer version.
    """
    try:
        content: Any = read_json(path / name)
        if not isinstance(content, dict) or "format_version" not in content:
            raise ValueError(f"{name} has no format_version")
        version = int(content["format_version"])
    except (FileNotFoundError, NotADirectoryError):
        what = f"{path} is not a {kind}: it has no {name}." if path.exists() else f"there is no folder {path}."
        raise RunFolderError(what, "Give a folder that this package made.") from None
    except (ValueError, TypeError, OSError) as error:
        raise RunFolderError(
            f"{path} cannot be read as a {kind}: {error}.", f"Restore {name} or train again."
        ) from None
    if version > FORMAT_VERSION:
        raise RunFolderError(
            f"{path} was written by a newer version (format {version}).", "Update this package to read it."
        )
    return content


def make_folder(path: Path, write: Callable[[Path], object]) -> None:
    """Create a folder atomically; raise a `RunFolderError` if it cannot be made."""
    try:
        write_whole_folder(path, write)
    except OSError as error:
        raise RunFolderError(
            f"the folder {path} cannot be made: {error.strerror or error}.", "Name a folder that can be written."
        ) from error


def load_weights(model: nn.Module | ShallowModel, state: dict[str, Tensor], where: object) -> None:
    """Load weights into a model.

    Args:
        model: The model.
        state: What its `state_dict` returned after training.
        where: Where the weights come from, for the error.

    Raises:
        RunFolderError: If the weights belong to another model.
    """
    check_weights(model, state, where)
    if isinstance(model, nn.Module):
        model.load_state_dict(state)


def check_weights(model: nn.Module | ShallowModel, state: dict[str, Tensor], where: object) -> None:
    """Raise a `RunFolderError` if weights belong to another model."""
    if isinstance(model, ShallowModel):
        try:
            model.load_state_dict(state)  # only the model itself can tell, by loading them
        except DataError as error:
            raise RunFolderError(f"the weights in {where} cannot be used: {error.what}", error.how) from None
        return
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    for name in sorted(own.keys() | given.keys()):
        if own.get(name) != given.get(name):
            raise RunFolderError(
                f"the weights in {where} belong to another model: {name} is {given.get(name, 'missing')} there, "
                f"{own.get(name, 'missing')} in {type(model).__name__}.",
                "Use the model and the options that they were trained with.",
            )


def why_no_new_nodes(name: str, factory: Factory, runs: Sequence[Run]) -> tuple[str, str] | None:
    """Return why a trained model cannot predict nodes that it was not trained on, and what to do; None if it can.

    Args:
        name: The name of the model, for the first sentence.
        factory: Its factory.
        runs: The runs. A shallow model may decide in training whether it knows nodes by their number.
    """
    model = model_like(factory)
    if isinstance(model, ShallowModel):
        for run in runs:
            if run.failure is None:
                load_weights(model, run.state, f"run {run.index}")
                if model.identifies_nodes:
                    break
    else:
        model = as_model(model)
    if not model.identifies_nodes:
        return None
    reason = "reads the labels of training nodes" if model.reads_labels else KNOWS_NUMBERS
    return f"{name} {reason}: it cannot predict nodes that it was not trained on.", model.way_to_new_nodes


def write_parquet(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns to a Parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(parquet_table(columns), path)


def parquet_table(columns: Mapping[str, Any]) -> Any:
    """Return columns as a table of pyarrow."""
    import pyarrow as pa

    return pa.table(dict(columns))
