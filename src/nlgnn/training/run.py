"""Run: what one trained model gave. RunFolder: how runs are kept, whole or not at all, and taken up again."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.training.left_behind import half_written, remove_left_behind

FORMAT_VERSION = 1


@dataclass
class Run:
    """One model trained on one split.

    `val` and `test` hold every metric, in percent, of the chosen epoch; `curves` a value an epoch; `state` the weights
    of the chosen epoch. A run whose loss stopped being a number has `failure` set and no figures.
    """

    index: int
    seed: int
    protocol: str
    split: int
    epochs: int = 0
    chosen_epoch: int = 0
    seconds: float = 0.0
    val: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    curves: dict[str, list[float]] = field(default_factory=dict, repr=False)
    state: dict[str, Tensor] = field(default_factory=dict, repr=False)

    @property
    def ms_per_epoch(self) -> float:
        """Training step and evaluation together; of models trained at once, its share."""
        return 1000 * self.seconds / max(1, self.epochs)

    def summary(self) -> dict[str, Any]:
        """All but the arrays, for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in ("curves", "state")}


@dataclass
class Checkpoint:
    """A run in progress, as it was at the end of an epoch."""

    index: int
    seconds: float
    curves: dict[str, list[float]]
    model: dict[str, Tensor]
    best: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random_state: Tensor


class RunFolder:
    """`config.json`, `summary.json`, `curves.jsonl`, `models/00.safetensors …`; `checkpoint.safetensors` in between.

    Every file is written under another name and renamed, so that a killed process leaves the old state or the new one.
    `summary.json` is written last: a run that is in it is whole. It also has the checksums of the weights.
    """

    new_parents: Sequence[Path] = ()  # folders around it that were made for it, the nearest first

    def __init__(self, path: Path, config: dict[str, Any]) -> None:
        self.path, self.config = path, config
        self._identity: str | None = None
        self._runs: dict[int, dict[str, Any]] = {}
        self._checksums: dict[str, str] = {}
        with contextlib.suppress(FileNotFoundError):
            summary = json.loads((path / "summary.json").read_text())
            self._runs = {int(run["index"]): Run(**run).summary() for run in summary["runs"]}
            self._identity = summary.get("identity")
            self._checksums = dict(summary.get("weights", {}))  # older folders have none

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> RunFolder:
        cls.refuse_existing(path)
        half_made = half_written(path)
        new_parents = [parent for parent in path.parents if not parent.exists()]
        try:
            remove_left_behind(path)
            (half_made / "models").mkdir(parents=True)
            config = {"format_version": FORMAT_VERSION, **config}
            (half_made / "config.json").write_text(json.dumps(config, indent=2))
            half_made.rename(path)
        except OSError as error:
            shutil.rmtree(half_made, ignore_errors=True)
            remove_empty(new_parents)
            raise RunFolderError(
                f"the run folder {path} cannot be made: {error.strerror}.", "Name a folder that can be written (--out)."
            ) from error
        folder = cls(path, config)
        folder.new_parents = new_parents
        return folder

    @staticmethod
    def refuse_existing(path: Path) -> None:
        try:
            exists = path.exists()
        except OSError as error:  # such as a name that is too long
            raise RunFolderError(f"{path} cannot be used: {error.strerror}.", "Name another folder (--out).") from None
        if exists and not path.is_dir():
            raise RunFolderError(f"{path} is there, and no folder.", "Name a new folder (--out).")
        if exists:
            resume = f"Go on with it (--resume {path}), name" if (path / "config.json").is_file() else "Name"
            raise RunFolderError(f"{path} exists already.", f"{resume} another folder, or remove it.")

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        try:
            config = json.loads((path / "config.json").read_text())
            version = config["format_version"]
            if version > FORMAT_VERSION:
                raise RunFolderError(
                    f"{path} was written by a newer version (format {version}).", "Update this package to read it."
                )
            return cls(path, config)
        except FileNotFoundError:
            what = (
                f"{path} is not a run folder: it has no config.json."
                if path.exists()
                else f"there is no folder {path}."
            )
            raise RunFolderError(what, "Give a folder that a training made.") from None
        except NotADirectoryError:
            inside = [folder for folder in path.parents if (folder / "config.json").is_file()]
            how = f"Give the folder: {inside[0]}" if inside else "Give a folder that a training made."
            raise RunFolderError(f"{path} is a file, not a run folder.", how) from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise RunFolderError(
                f"{path} cannot be read as a run folder: {error}.", "Restore its JSON files or train again."
            ) from None

    def claim(self, identity: str) -> None:
        """Say which training this folder is for; another one than before is refused."""
        if self._identity not in (None, identity):
            raise RunFolderError(
                f"{self.path} holds another training: its graph, splits, recipe or model differ.",
                "Train into a new folder, or put back what it was trained with.",
            )
        if self._identity is None:
            self._identity = identity
            self._write_summary()

    def require(self, identity: str) -> None:
        """That the runs in it are of this training, where it says of which they are."""
        if self._identity not in (None, identity):
            raise RunFolderError(
                f"{self.path} holds another training: its splits or class names differ from those that are read now.",
                "Put back the files that it was trained on, or train again.",
            )

    def finished_run(self, index: int) -> Run | None:
        """The run with its weights and curves, or None where it is not finished."""
        if index not in self._runs:
            return None
        run = Run(**self._runs[index])
        if run.failure is None:
            file = self._model_path(index)
            run.state = read_tensors(file, self._checksums.get(file.name))
            run.curves = self._curves.get(index, {})
        return run

    def finished_runs(self) -> list[Run]:
        """All that are finished, failed ones among them."""
        found = (self.finished_run(index) for index in sorted(self._runs))
        return [run for run in found if run is not None]

    def save_run(self, run: Run) -> None:
        if run.failure is None:
            file = self._model_path(run.index)
            self._write(file, lambda path: save_tensors(run.state, path))
            self._checksums[file.name] = sha256_of(file)
            self._curves[run.index] = run.curves
            self._write_curves(self._curves)
        self._runs[run.index] = run.summary()
        self._write_summary()

    def _write_summary(self) -> None:
        runs = [self._runs[index] for index in sorted(self._runs)]
        kept = {"identity": self._identity, "weights": self._checksums, "runs": runs}
        summary = {"format_version": FORMAT_VERSION, **kept}
        self._write(self.path / "summary.json", lambda path: path.write_text(json.dumps(summary, indent=2)))

    @property
    def _checkpoint_path(self) -> Path:
        return self.path / "checkpoint.safetensors"

    def save_checkpoints(self, replicas: Sequence[Checkpoint]) -> None:
        """All runs in progress, in one file."""
        tensors: dict[str, Tensor] = {}
        for saved in replicas:
            tensors[f"{saved.index}/random_state"] = saved.random_state
            for part in ("model", "best", "optimizer"):
                tensors |= {f"{saved.index}/{part}/{name}": value for name, value in getattr(saved, part).items()}
        states = {saved.index: [saved.seconds, saved.curves] for saved in replicas}
        metadata = {"states": json.dumps(states)}
        self._write(self._checkpoint_path, lambda path: save_tensors(tensors, path, metadata))

    def checkpoints(self) -> dict[int, Checkpoint]:
        """The interrupted runs by their number."""
        if not self._checkpoint_path.exists():
            return {}
        tensors = read_tensors(self._checkpoint_path)
        try:
            with safe_open(self._checkpoint_path, "pt") as file:
                states = json.loads(file.metadata()["states"])
            found = {}
            for index, (seconds, curves) in states.items():
                parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
                for part, values in parts.items():
                    prefix = f"{index}/{part}/"
                    values |= {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
                random_state = tensors[f"{index}/random_state"]
                found[int(index)] = Checkpoint(int(index), seconds, curves, **parts, random_state=random_state)
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(self._checkpoint_path, error) from None
        return found

    def remove_checkpoints(self) -> None:
        """Once all runs are finished."""
        self._checkpoint_path.unlink(missing_ok=True)

    def write_predictions(self, columns: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._write(self.path / "predictions.parquet", lambda path: pq.write_table(pa.table(columns), path))
        self.remove_checkpoints()  # of a process that was killed just before it did so itself

    def remove_if_nothing_was_trained(self) -> None:
        if not self._runs and not self._checkpoint_path.exists():
            shutil.rmtree(self.path, ignore_errors=True)
            remove_empty(self.new_parents)

    def _model_path(self, index: int) -> Path:
        return self.path / "models" / f"{index:02d}.safetensors"

    @cached_property
    def _curves(self) -> dict[int, dict[str, list[float]]]:
        curves: dict[int, dict[str, list[float]]] = {}
        path = self.path / "curves.jsonl"
        try:
            for line in path.read_text().splitlines() if path.exists() else []:
                row = json.loads(line)
                of_run = curves.setdefault(row.pop("run"), {})
                row.pop("epoch")
                for name, value in row.items():
                    of_run.setdefault(name, []).append(value)
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
                f"Make room or mend the permissions, then go on with: nlgnn train --resume {self.path}",
            ) from error


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write under another name and rename, so that the file is there whole or not at all.

    Renaming would put a file in the place of a device or pipe: these are refused.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is there, and no ordinary file")
    remove_left_behind(path)
    unfinished = half_written(path)
    try:
        write(unfinished)
        with open(unfinished, "rb+") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:  # also when a second Ctrl-C ends it
        unfinished.unlink(missing_ok=True)


def remove_empty(folders: Sequence[Path]) -> None:
    for folder in folders:
        with contextlib.suppress(OSError):  # something else is in it by now
            folder.rmdir()


def check_target(path: Path) -> None:
    """Raise where `write_whole` would fail: what is there already is replaced, but not a folder or a device."""
    try:
        if path.is_file() or (path.absolute().parent.is_dir() and not path.exists()):
            return
        why = "it is no ordinary file" if path.exists() else f"there is no folder {path.parent}"
    except OSError as error:  # such as a name that is too long
        why = str(error.strerror)
    raise NlgnnError(f"{path} cannot be written: {why}.", "Name a file in a folder that exists.")


def damaged(path: Path, error: Exception) -> RunFolderError:
    return RunFolderError(f"{path} is damaged: {error}.", "Restore the file or train again.")


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_tensors(path: Path, checksum: str | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file; nothing in it is ever executed. With a checksum, only of that very file."""
    try:
        if checksum is not None and checksum != sha256_of(path):
            raise damaged(path, ValueError("its checksum is not the one that was noted when it was written"))
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing.", "Restore the file or train again.") from None
    except PermissionError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}.", "Ask its owner to let you read it.") from None
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None


def load_weights(model: nn.Module, state: dict[str, Tensor], where: object) -> None:
    """Put weights into a model that they belong to."""
    check_weights(model, state, where)
    model.load_state_dict(state)


def check_weights(model: nn.Module, state: dict[str, Tensor], where: object) -> None:
    own = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    for name in sorted(own.keys() | given.keys()):
        if own.get(name) != given.get(name):
            raise RunFolderError(
                f"the weights in {where} are of another model: {name} is {given.get(name, 'missing')} there, "
                f"{own.get(name, 'missing')} in {type(model).__name__}.",
                "Use the model and the options that they were trained with.",
            )


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    # Copies, since a model may have one tensor under two names, which safetensors refuses.
    copies = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    path.write_bytes(save(copies, metadata))  # its own way to files shuts out other users, and leaves some when killed
