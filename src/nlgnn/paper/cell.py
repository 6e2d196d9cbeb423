"""Cell: one measurement of the reproduction, kept as a JSON file, and Measured: the cell with its result."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from nlgnn.datasets import is_present
from nlgnn.errors import DataError, OptionError, nearest
from nlgnn.models.build import resolve
from nlgnn.models.registry import get_system
from nlgnn.report.table import Rows
from nlgnn.selection.statistics import Interval, Spread, paired_interval, spread
from nlgnn.training.recipe import EXECUTION

Settings = Mapping[str, Any]

SPLITS = 10
SEARCH_SPLITS, SEARCH_EPOCHS = 3, 300  # at most, for each candidate of a search
QUICK_BUDGET = "4s"
FIGURES_SINCE = (0, 2)  # random draws and sort keys changed in this version, and all figures with them
HUGE_DATASETS = ("ogbn-arxiv", "snap-patents")  # their files are not fetched without being asked for
OPEN, NOTHING, SHORTER, OLDER, NO_FILES = "…", "–", "*", "†", "files not here"
REMEDY = "Remove the file to measure the cell again, or pass --quick if it is a try-out."


@dataclass(frozen=True)
class Schedule:
    """The amount of training of a cell.

    Args:
        options: Options that override all others.
        splits: The number of splits.
        search_splits: The number of splits on which each candidate is trained.
        search_epochs: The largest number of epochs of a candidate.
    """

    options: Settings = field(default_factory=dict)
    splits: int = SPLITS
    search_splits: int = SEARCH_SPLITS
    search_epochs: int = SEARCH_EPOCHS


class Planted(NamedTuple):
    """A generated graph in place of a dataset: its seed, and the random links per node of planted roles."""

    seed: int
    noise: int = 0


@dataclass(frozen=True)
class Cell:
    """One measurement: a model on a dataset by a protocol, or another kind of measurement of a dataset.

    Args:
        store: The folder below that of all results.
        dataset: The name of the graph.
        tags: The parts of the file name after the dataset.
        system: The name of the model, empty if the cell does not belong to one model.
        kind: What is measured.
        protocol: The protocol of the splits.
        preset: The preset that options are added to.
        candidates: Settings of which validation chooses one.
        schedule: The amount of training.
        condition: The difference from the usual cell of this model and dataset.
        main: The cell whose chosen settings are used, if not chosen by this cell.
        changes: Options that are added to those of the main cell.
        seeds: The number of trainings on each split.
        records: What else is recorded of the trained models.
        planted: The generated graph that is used in place of the dataset.
        budget: The time budget of an automatic choice.
    """

    store: str
    dataset: str
    tags: tuple[str, ...]
    system: str = ""
    kind: Literal["training", "statistics", "diagnosis", "step times", "auto"] = "training"
    protocol: str = "geom-gcn"
    preset: str = "released"
    candidates: tuple[Settings, ...] = ({},)
    schedule: Schedule = Schedule()
    condition: str = ""
    main: Cell | None = None
    changes: Settings = field(default_factory=dict)
    seeds: int = 1
    records: tuple[str, ...] = ()
    planted: Planted | None = None
    budget: str = ""

    @property
    def name(self) -> str:
        """The name of the cell and of its file, without the ending."""
        return "-".join((self.dataset, *self.tags)).replace(", ", "-").replace(" ", "-")

    @property
    def shortened(self) -> dict[str, Any] | None:
        """The schedule if it differs from the default one. The default number of search epochs is left out."""
        if self.schedule == Schedule():
            return None
        fields = asdict(self.schedule)
        return {name: value for name, value in fields.items() if name != "search_epochs" or value != SEARCH_EPOCHS}

    @property
    def search_epochs(self) -> int | None:
        """The largest number of epochs of a candidate, None if there is no choice."""
        return self.schedule.search_epochs if len(self.candidates) > 1 else None

    def quick(self) -> Cell:
        """Return the same cell with almost no training, to try it out."""
        if self.kind == "auto":
            return replace(self, budget=QUICK_BUDGET, schedule=Schedule(splits=2))
        if self.kind != "training":
            options = {**self.schedule.options, "epochs": 20}
            options.pop("largest load", None)  # a try-out does not need a quiet machine
            return replace(self, schedule=replace(self.schedule, options=options))
        system = get_system(self.system)
        options = {} if system.kind == "shallow" else {"epochs": 3}
        if "pretrain_epochs" in system.program:
            options["pretrain_epochs"] = 2
        return replace(
            self,
            candidates=self.candidates[:2],
            schedule=Schedule(options, splits=min(2, self.schedule.splits), search_splits=1),
            main=self.main.quick() if self.main else None,
        )

    def training_settings(self, options: Settings) -> dict[str, Any]:
        """Return everything that decides a training with these options, known before the graph is read."""
        arguments, recipe = resolve(self.system, self.dataset, self.preset, {**options, **self.schedule.options})
        return recipe.model_dump(exclude=EXECUTION) | arguments

    def settings(self, result: Mapping[str, Any]) -> Settings:
        """Return what the cell would be measured with now, by the names in `result`, its `model` or its `recipe`."""
        if self.kind == "step times":
            return self.schedule.options
        if self.kind == "auto":
            return {name: getattr(self, name) for name in ("protocol", "shortened", "budget")}
        if self.kind != "training":
            return {}
        return {
            "protocol": self.protocol,
            "shortened": self.shortened,
            "search_epochs": self.search_epochs,
            "candidates": [dict(options) for options in self.candidates],
            "seeds": self.seeds,
            **self.training_settings(result["options"]),
        }


class Measured(NamedTuple):
    """A cell with its result, None while it is open."""

    cell: Cell
    result: Mapping[str, Any] | None

    @property
    def tests(self) -> list[float | None]:
        """Test figures by run; None for a failed run."""
        return [run["test"] for run in self.result["runs"]] if self.result else []

    @property
    def test(self) -> Spread | None:
        """Mean and deviation of the test figures."""
        return spread([test for test in self.tests if test is not None])

    @property
    def validation(self) -> Spread | None:
        """Mean and deviation of the validation figures."""
        runs = self.result["runs"] if self.result else []
        return spread([run["val"] for run in runs if run["val"] is not None])

    @property
    def options(self) -> Settings:
        """The chosen options, empty while the cell is open."""
        return self.result["options"] if self.result else {}

    def labels(self, when: Literal["before", "after"]) -> list[int]:
        """Return the recorded labels along the order before training or at the chosen epoch."""
        return [int(digit) for digit in self.result["labels"][when]] if self.result else []

    @property
    def seconds(self) -> float:
        """Seconds of all trainings, those of the search included."""
        return self.result["seconds"] + self.result.get("search_seconds", 0.0) if self.result else 0.0

    @property
    def older(self) -> bool:
        """True if a version of the package with other figures measured it."""
        return self.result is not None and is_older(self.result)

    @property
    def marks(self) -> str:
        """The marks that a figure of this cell carries."""
        return SHORTER * _is_shorter(self.result) + OLDER * self.older

    @property
    def figure(self) -> str:
        """Mean and deviation of the test figures with marks, or the reason why there is none."""
        return self.text(self.test)

    def text(self, value: object) -> str:
        """Return a value of this cell with its marks, or the reason why there is none."""
        if self.result is None:
            return NO_FILES if self.cell.dataset in HUGE_DATASETS and not files_are_here(self.cell.dataset) else OPEN
        failed = self.tests.count(None) if self.cell.kind == "training" else 0
        return f"{value}{self.marks}" + (f" ({failed} of {len(self.tests)} runs failed)" if failed else "")

    def matches(self, other: Measured) -> bool:
        """Return True if both are measured on the same splits by versions with the same figures."""
        both = self.result is not None and other.result is not None and self.older == other.older
        splits = [len(one.tests) // one.cell.seeds for one in (self, other)]
        return both and self.cell.protocol == other.cell.protocol and splits[0] == splits[1]

    def by_split(self) -> dict[int, list[float | None]]:
        """Return the test figures of each split, one for each seed."""
        splits = len(self.tests) // self.cell.seeds
        return {split: self.tests[split::splits] for split in range(splits)}


Found = Mapping[str, Measured]  # cells by name, open ones included


class Difference(NamedTuple):
    """The mean paired difference of test figures with its 95 % interval."""

    interval: Interval
    seeds: int
    older: bool

    def __str__(self) -> str:
        return f"{self.interval}{f' × {self.seeds}' if self.seeds > 1 else ''}{OLDER * self.older}"


def difference(pairs: Iterable[tuple[Measured, Measured]]) -> Difference | None:
    """Compare cells that were trained on the same splits.

    Args:
        pairs: Two cells for each seed. Pairs of different versions are left out, and older pairs are not mixed with
            newer ones.

    Returns:
        The interval over splits of the mean difference over seeds, or None if fewer than two splits can be compared.
    """
    known = [(one, other) for one, other in pairs if one.matches(other)]
    same = [(one, other) for one, other in known if one.older == all(pair[0].older for pair in known)]
    by_split: dict[int, list[float]] = {}
    for one, other in same:
        of_other = other.by_split()
        for split, figures in one.by_split().items():
            by_split.setdefault(split, []).extend(_differences(figures, of_other[split]))
    by_split = {split: values for split, values in by_split.items() if values}
    means = [fmean(values) for values in by_split.values()]
    interval = paired_interval(means, [0.0] * len(means))
    return Difference(interval, len(same), same[0][0].older) if interval else None


def _differences(ones: Sequence[float | None], others: Sequence[float | None]) -> list[float]:
    """Return the differences seed by seed, or that of the means if one has more seeds."""
    if len(ones) == len(others):
        return [a - b for a, b in zip(ones, others, strict=True) if a is not None and b is not None]
    means = [spread(figures) for figures in (ones, others)]
    return [means[0].mean - means[1].mean] if means[0] and means[1] else []


def _is_shorter(result: Mapping[str, Any] | None) -> bool:
    """Return True if fewer splits or epochs were planned. Early stopping is explained in the captions instead."""
    shortened = result.get("shortened") if result else None
    if not shortened:
        return False
    return "epochs" in shortened["options"] or Schedule(**{**shortened, "options": {}}) != Schedule()


def is_older(result: Mapping[str, Any]) -> bool:
    """Return True if the figures of a result were drawn differently than they would be now."""
    version = result.get("versions", {}).get("nlgnn", "0")
    return tuple(int(part) for part in version.split(".")[:2]) < FIGURES_SINCE


files_are_here = cache(is_present)  # asked for every open cell of a page


def cell_path(cell: Cell, results: Path) -> Path:
    """Return the file of a cell."""
    return results / cell.store / f"{cell.name}.json"


def read_cell(cell: Cell, path: Path, check: bool = True) -> dict[str, Any]:
    """Return the result of a measured cell.

    Args:
        cell: The cell.
        path: Its file.
        check: Compare the recorded settings with those of the cell.

    Raises:
        DataError: If the file cannot be read, or if the cell has other settings now. Older cells are not checked,
            because options have been renamed since.
    """
    try:
        result = _load(path, path.stat().st_mtime_ns)
        if not check or is_older(result):
            return result
        recorded = {**result, **result["model"], **result["recipe"]}
        today = cell.settings(result)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", REMEDY) from None
    check_unchanged(path, recorded, today)
    return result


@cache
def _load(path: Path, changed: int) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(path.read_text("utf-8"))
    _ = result["model"], result["recipe"]  # every cell has them
    return result


def read_cells(cells: Iterable[Cell], results: Path, check: bool = True) -> dict[str, Measured]:
    """Return cells by name with their results, open ones included.

    Args:
        cells: The cells.
        results: The folder of all results.
        check: Raise DataError for a cell that was measured with other settings.
    """
    found = {}
    for cell in cells:
        path = cell_path(cell, results)
        found[cell.name] = Measured(cell, read_cell(cell, path, check) if path.exists() else None)
    return found


def check_unchanged(where: Path | str, recorded: Settings, today: Settings) -> None:
    """Raise DataError if a recorded setting differs. Settings that were not recorded did not exist then."""
    for name, value in today.items():
        if recorded.get(name, value) != value:
            raise DataError(f"{where} was measured with {name}={recorded[name]}; now it is {value}.", REMEDY)


def choose_cells(
    cells: Sequence[Cell], systems: Sequence[str], datasets: Sequence[str], names: Sequence[str] = ()
) -> list[Cell]:
    """Return the cells of the named systems and datasets, and with these names. An empty selection selects all."""
    for what, wanted, known in (
        ("model", systems, {cell.system for cell in cells} - {""}),
        ("dataset", datasets, {cell.dataset for cell in cells}),
        ("cell", names, {cell.name for cell in cells}),
    ):
        for name in wanted:
            if name not in known:
                raise OptionError(f"this table has no {what} {name!r}.", nearest(name, sorted(known)))
    return [
        cell
        for cell in cells
        if (not systems or cell.system in systems)
        and (not datasets or cell.dataset in datasets)
        and (not names or cell.name in names)
    ]


@cache
def words() -> dict[str, dict[str, Any]]:
    """Return the sentences of text/captions.toml."""
    text = resources.files("nlgnn.paper").joinpath("text").joinpath("captions.toml").read_text("utf-8")
    return tomllib.loads(text)


def caption(name: str, rows: Rows, **values: object) -> str:
    """Return a caption of text/captions.toml with values filled in, and explain the marks that occur in the rows."""
    sentences = words()
    text = "".join(value for row in rows for value in row.values())
    marks = [f"{mark} {meaning}" for mark, meaning in sentences["marks"].items() if mark in text]
    return " ".join([sentences["table"][name].format_map({**sentences["shared"], **values}).strip(), *marks])
