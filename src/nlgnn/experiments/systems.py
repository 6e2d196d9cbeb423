"""Every compared system on the nine small datasets, as its own authors train it, on the ten fixed splits.

Where a system has several named variants, or nothing was published for a dataset, each candidate is trained on the
first splits and the best one by validation on all of them. Nobody looks at a candidate's test figures.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch

from nlgnn.datasets import load_graph
from nlgnn.datasets.relations import GRAPHS as WITH_RELATION_FILES
from nlgnn.datasets.relations import NAME_IN_FILES as SPACES_IN_FILES
from nlgnn.errors import NlgnnError
from nlgnn.experiments.cells import (
    PRESET,
    Cell,
    Settings,
    check_unchanged,
    open_run_folder,
    run_rows,
    settings_today,
    versions,
)
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.training.execution import limited_threads
from nlgnn.training.fit import fit, fit_settings
from nlgnn.training.jobs import RATES
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import write_whole
from nlgnn.training.systems import configure, get_system

PROTOCOL, SPLITS = "geom-gcn", 10
SEARCH_SPLITS, SEARCH_EPOCHS = 3, 300  # candidates are trained on the first splits, for so many epochs at most
COMPARED_SYSTEMS = (
    *("mlp", "gcn", "gat", "geom-gcn", "geom-gcn-g", "geom-gcn-s", "h2gcn", "simp-gcn", "fagcn", "cpgcn"),
    *("dirgcn", "linkx", "gcnii", "sage"),
)
# Cornell twice: figures printed before July 2022 are of a file with the features and labels of Texas.
SMALL_DATASETS = (
    *("texas", "wisconsin", "cornell", "cornell-pre2022", "actor"),
    *("chameleon", "squirrel", "cora", "citeseer", "pubmed"),
)


@dataclass(frozen=True)
class Schedule:
    """How much a cell is trained: options that win over all others, and the numbers of splits."""

    options: Settings
    splits: int = SPLITS
    search_splits: int = SEARCH_SPLITS


# Cells that would take more than half an hour on two cores.
SHORTENED: Mapping[tuple[str, str], Schedule] = {
    ("h2gcn", "actor"): Schedule({"epochs": 500}),
    ("h2gcn", "squirrel"): Schedule({"epochs": 200}, search_splits=1),
    ("h2gcn", "pubmed"): Schedule({"epochs": 500}),
}


class Extra(NamedTuple):
    """A cell measured again under other conditions, to explain a difference. Nothing is searched for it."""

    system: str
    dataset: str
    condition: str
    options: Settings
    why: str
    protocol: str = PROTOCOL


EXTRA: tuple[Extra, ...] = (
    Extra(
        "geom-gcn-s",
        "texas",
        "poincare",
        {"space": "poincare"},
        "in the authors' own Poincaré space, where only a few nodes have neighbours",
    ),
    Extra(
        "cpgcn",
        "chameleon",
        "cotrained",
        {"prior": "mlp", "hops": 2, "dropout": 0.5, "cotrain": "paper"},
        "with the prior's own loss kept while all is trained, as the text has it",
    ),
    Extra(
        "linkx",
        "cornell-pre2022",
        "unit-sum",
        {"hidden": 256, "lr": 0.01, "features": "unit-sum"},
        "with rows of features divided by their sums, as for most others",
    ),
    Extra(
        "simp-gcn",
        "texas",
        "directed",
        {"directed": True},
        "with edges as they stand in the file, as in the authors' program",
    ),
)


@dataclass(frozen=True)
class SystemCell(Cell):
    """Candidates are options; `condition` and `why` are of extra cells only."""

    dataset: str
    system: str
    candidates: tuple[Settings, ...]
    schedule: Schedule = Schedule({})
    protocol: str = PROTOCOL
    condition: str = ""
    why: str = ""

    @property
    def label(self) -> str:
        return f"{self.system}, {self.condition}" if self.condition else self.system

    @property
    def shortened(self) -> dict[str, Any] | None:
        return None if self.schedule == Schedule({}) else asdict(self.schedule)

    @property
    def search_epochs(self) -> int | None:
        """At most; None where nothing is searched."""
        return SEARCH_EPOCHS if len(self.candidates) > 1 else None

    def quick(self) -> SystemCell:
        pretraining = {"pretrain_epochs": 2} if "pretrain_epochs" in get_system(self.system).program else {}
        return replace(self, schedule=Schedule({"epochs": 3, **pretraining}, splits=2, search_splits=1))

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return {
            "protocol": self.protocol,
            "shortened": self.shortened,
            "search_epochs": self.search_epochs,
            "candidates": [dict(options) for options in self.candidates],
            **self._settings(result["options"]),
        }

    def _settings(self, options: Settings) -> dict[str, Any]:
        return settings_today(self.system, self.dataset, {**options, **self.schedule.options})

    def _search_settings(self, options: Settings) -> dict[str, Any]:
        return {**self._settings(options), "search_epochs": self.search_epochs}

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        graph = load_graph(self.dataset)
        splits = make_splits(graph, self.protocol, self.schedule.splits)
        searched: list[dict[str, Any]] = []
        options = self.candidates[0]
        if len(self.candidates) > 1:
            kept = unfinished / "candidates.json"
            searched = self._search(graph, splits[: self.schedule.search_splits], kept, progress)
            options = best_candidate(searched)
        factory, recipe = configure(self.system, graph, preset=PRESET, **{**options, **self.schedule.options})
        folder = open_run_folder(unfinished / "runs", self._settings(options))
        runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress)
        with limited_threads(recipe.threads, graph):
            threads = torch.get_num_threads()
        return {
            "dataset": self.dataset,
            "system": self.system,
            "condition": self.condition,
            "protocol": self.protocol,
            "preset": PRESET,
            "shortened": self.shortened,
            "candidates": [dict(candidate) for candidate in self.candidates],
            "search": searched,
            "search_epochs": self.search_epochs,
            "options": dict(options),
            "model": factory.keywords,
            "recipe": recipe.model_dump(),
            "seconds": round(sum(run.seconds for run in runs), 1),
            "search_seconds": round(sum(candidate["seconds"] for candidate in searched), 1),
            "runs": run_rows(runs),
            "threads": threads,
            "versions": versions(),
        }

    def _search(self, graph: Graph, splits: Sequence[Split], kept: Path, progress: bool) -> list[dict[str, Any]]:
        """Each candidate with its mean validation accuracy. Those that an interrupted search has are taken from it."""
        done: dict[int, dict[str, Any]] = {}
        for candidate in json.loads(kept.read_text()) if kept.exists() else []:
            if candidate["options"] in self.candidates:
                options = candidate["options"]
                check_unchanged(kept, candidate["settings"], self._search_settings(options))
                done[self.candidates.index(options)] = candidate
        for numbers in self._by_form():
            waiting = [number for number in numbers if number not in done]
            if not waiting:
                continue
            wanted = [{**self.candidates[number], **self.schedule.options} for number in waiting]
            configured = [configure(self.system, graph, preset=PRESET, **options) for options in wanted]
            settings = [(factory, _for_search(recipe)) for factory, recipe in configured]
            for number, runs in zip(waiting, fit_settings(settings, graph, splits, progress=progress), strict=True):
                failed = any(run.failure for run in runs)
                done[number] = {
                    "options": dict(self.candidates[number]),
                    "settings": self._search_settings(self.candidates[number]),
                    "val": None if failed else fmean(run.val["accuracy"] for run in runs),
                    "seconds": round(sum(run.seconds for run in runs), 1),
                }
            write_whole(kept, partial(Path.write_text, data=json.dumps(list(done.values()), indent=1)))
        return [{key: done[number][key] for key in ("options", "val", "seconds")} for number in sorted(done)]

    def _by_form(self) -> list[list[int]]:
        """The numbers of candidates that can be trained at once: their models differ in rates only."""
        forms: dict[str, list[int]] = {}
        for number, options in enumerate(self.candidates):
            settings = self._settings(options)
            form = {name: settings[name] for name in settings.keys() - RATES - Recipe.model_fields.keys()}
            forms.setdefault(json.dumps(form, sort_keys=True), []).append(number)
        return list(forms.values())


def _for_search(recipe: Recipe) -> Recipe:
    return recipe.model_copy(update={"epochs": min(recipe.epochs, SEARCH_EPOCHS)})


def best_candidate(searched: Sequence[Mapping[str, Any]]) -> Settings:
    """The options with the best validation figure, of equal ones the first; those with a failed run are out."""
    good = [candidate for candidate in searched if candidate["val"] is not None]
    if not good:
        raise NlgnnError(
            "every candidate failed.", "Look at the features, or give settings with a lower learning rate."
        )
    chosen: Settings = max(good, key=lambda candidate: float(candidate["val"]))["options"]
    return chosen


def system_cells() -> list[SystemCell]:
    """By system, in the order of the paper; extra cells last."""
    return [
        *(
            SystemCell(dataset, system, candidates(system, dataset), SHORTENED.get((system, dataset), Schedule({})))
            for system in COMPARED_SYSTEMS
            for dataset in SMALL_DATASETS
        ),
        *(
            SystemCell(
                extra.dataset,
                extra.system,
                (extra.options,),
                SHORTENED.get((extra.system, extra.dataset), Schedule({})),
                extra.protocol,
                extra.condition,
                extra.why,
            )
            for extra in EXTRA
        ),
    ]


def candidates(system: str, dataset: str) -> tuple[Settings, ...]:
    """Its variants, each with every setting that is to be tried where none was published."""
    known = get_system(system)
    settings = ({},) if dataset in known.published else known.settings or ({},)
    return tuple(
        {**variant, **setting}
        for variant, setting in product(known.variants or ({},), settings)
        if variant.get("space") not in SPACES_IN_FILES or dataset in WITH_RELATION_FILES
    )
