"""Cells: what a table is made of and what takes long to measure, each kept as a JSON file.

So an interrupted reproduction goes on where it stopped, several processes can share one, and every table is built from
what was measured.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import torch

from nlgnn import __version__
from nlgnn.errors import DataError, NlgnnError, OptionError, nearest
from nlgnn.training.recipe import EXECUTION
from nlgnn.training.run import Run, RunFolder, write_whole
from nlgnn.training.systems import resolve

PRESET = "released"
REMEDY = "Remove it, and it will be measured again."

Settings = Mapping[str, Any]


class InWorkElsewhereError(NlgnnError):
    """What a cell stands on is being measured by another process."""


class Cell(ABC):
    """One system on one dataset: what is measured, and what its file is called.

    `store` is the folder below that of all results which cells of a kind share; several tables may show the same cell.
    """

    store: ClassVar[str]
    dataset: str
    system: str

    @property
    @abstractmethod
    def label(self) -> str:
        """The system and what is particular, in words."""

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.dataset}-{self.label}".replace(", ", "-").replace(" ", "-")

    @abstractmethod
    def quick(self) -> Cell:
        """The same with hardly any training: to try out, not to measure."""

    @abstractmethod
    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        """What the file is to hold, `model` and `recipe` too; the folder keeps what is not to be lost till then."""

    @abstractmethod
    def settings(self, result: Mapping[str, Any]) -> Settings:
        """By the names that they have in `result`, its `model` or its `recipe`: what would be measured with today."""


AnyCell = TypeVar("AnyCell", bound=Cell)


def choose_cells(cells: Sequence[AnyCell], systems: Sequence[str], datasets: Sequence[str]) -> list[AnyCell]:
    """Those of the named systems and datasets; no names are all."""
    for what, names, known in (
        ("model", systems, [cell.system for cell in cells]),
        ("dataset", datasets, [cell.dataset for cell in cells]),
    ):
        known = [name for name in dict.fromkeys(known) if name]
        for name in names:
            if name not in known:
                how = nearest(name, known) if known else f"Its cells are of no {what} alone: leave the option out."
                raise OptionError(f"this table has no {what} {name!r}.", how)
    return [
        cell for cell in cells if (not systems or cell.system in systems) and (not datasets or cell.dataset in datasets)
    ]


def cell_path(cell: Cell, results: Path) -> Path:
    return results / cell.store / f"{cell.name}.json"


def run_cell(cell: Cell, results: Path, progress: bool = True) -> dict[str, Any] | None:
    """What a cell gave: read where it was measured before, else measured now; None if another process is at it."""
    path = cell_path(cell, results)
    folder = path.parent
    if not path.exists():
        unfinished = folder / f".{cell.name}"  # keeps what is trained until the cell is whole
        make_folder(unfinished)  # before the minutes that measuring takes
        with _claim(folder / f".{cell.name}.lock") as claimed:
            if not claimed:
                return None
            if not path.exists():  # it may have been written while we asked
                try:
                    measured = cell.measure(unfinished, progress)
                except InWorkElsewhereError:
                    return None
                text = json.dumps(measured, indent=1, ensure_ascii=False) + "\n"
                with _saying_where(path):
                    write_whole(path, partial(Path.write_text, data=text))
            shutil.rmtree(unfinished, ignore_errors=True)
    return read_cell(cell, path)


def make_folder(path: Path) -> None:
    with _saying_where(path):
        path.mkdir(parents=True, exist_ok=True)


@contextmanager
def _claim(lock: Path) -> Iterator[bool]:
    """Whether this process has the lock. That of a process that ended in any way is free: the system sees to it."""
    import fcntl  # not everywhere

    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            claimed = os.path.samestat(os.fstat(file.fileno()), lock.stat())  # else its owner removed it just now
        except (BlockingIOError, FileNotFoundError):
            claimed = False
        try:
            yield claimed
        finally:
            if claimed:
                lock.unlink()


@contextmanager
def _saying_where(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Make room or name another folder (--out); cells that were measured before are kept.",
        ) from error


def read_cell(cell: Cell, path: Path) -> dict[str, Any]:
    """What a cell gave, if it was measured with the settings that it has today."""
    try:
        result: dict[str, Any] = json.loads(path.read_text())
        recorded = {**result, **result["model"], **result["recipe"]}
        today = cell.settings(result)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", REMEDY) from None
    check_unchanged(path, recorded, today)
    return result


def read_cells(cells: Sequence[Cell], results: Path) -> dict[str, dict[str, Any]]:
    """By name, those that were measured so far."""
    return {cell.name: read_cell(cell, path) for cell in cells if (path := cell_path(cell, results)).exists()}


def require_some(cells: Sequence[Cell], results: Path) -> None:
    if not any(cell_path(cell, results).exists() for cell in cells):
        raise DataError(f"there are no measured cells in {results}.", "Name their folder with --out, or measure them.")


def check_unchanged(where: Path, recorded: Settings, today: Settings) -> None:
    """Settings that were not recorded did not exist then, and changed nothing."""
    for name, value in today.items():
        if recorded.get(name, value) != value:
            if name == "shortened":
                raise DataError(
                    f"{where} was measured with another number of splits or epochs than usual.",
                    f"Was it a try-out? Then give --quick. {REMEDY}",
                )
            raise DataError(f"{where} was measured with {name}={recorded[name]}; now it is {value}.", REMEDY)


def settings_today(system: str, dataset: str, options: Settings, preset: str = PRESET) -> dict[str, Any]:
    """All that a training is decided by, before the graph is read."""
    arguments, recipe = resolve(system, dataset, preset, options)
    return recipe.model_dump(exclude=EXECUTION) | arguments


def open_run_folder(path: Path, settings: Settings) -> RunFolder:
    """The run folder of an unfinished cell, begun or taken up again."""
    if not path.exists():
        return RunFolder.create(path, {"settings": dict(settings)})
    folder = RunFolder.open(path)
    check_unchanged(path, folder.config["settings"], settings)
    return folder


def run_rows(runs: Sequence[Run], metric: str = "accuracy") -> list[dict[str, Any]]:
    return [
        {
            "seed": run.seed,
            "val": run.val.get(metric),
            "test": run.test.get(metric),
            "chosen_epoch": run.chosen_epoch,
            "epochs": run.epochs,
            "ms_per_epoch": round(run.ms_per_epoch, 2),
            "failure": run.failure,
        }
        for run in runs
    ]


def versions() -> dict[str, str]:
    return {"nlgnn": __version__, "python": platform.python_version(), "torch": torch.__version__}
