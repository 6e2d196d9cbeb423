"""SearchedCell: settings are chosen by validation on the first splits, the chosen one is trained on all of them.

Nobody looks at a candidate's test figures.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar

import torch
from torch import nn

from nlgnn.datasets import load_graph
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
from nlgnn.training.fit import Setting, fit, fit_settings
from nlgnn.training.jobs import shape_of_setting
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run, write_whole
from nlgnn.training.systems import configure, get_system

PROTOCOL: str = "geom-gcn"
SPLITS: int = 10
SEARCH_SPLITS, SEARCH_EPOCHS = 3, 300  # candidates are trained on the first splits, for so many epochs at most


@dataclass(frozen=True)
class Schedule:
    """How much a cell is trained: options that win over all others, and the numbers of splits."""

    options: Settings
    splits: int = SPLITS
    search_splits: int = SEARCH_SPLITS


@dataclass(frozen=True)
class SearchedCell(Cell):
    """A system on a dataset, by a protocol.

    Args:
        candidates: options to choose from.
        schedule: how much it is trained.
        preset: what the options are added to.
        condition: what is other than usual, of cells that are there to explain a difference.
        why: the same in a sentence.
    """

    store: ClassVar[str] = "systems"
    dataset: str
    system: str
    candidates: tuple[Settings, ...]
    schedule: Schedule = Schedule({})
    protocol: str = PROTOCOL
    condition: str = ""
    why: str = ""
    preset: str = PRESET

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

    def quick(self) -> SearchedCell:
        pretraining = {"pretrain_epochs": 2} if "pretrain_epochs" in get_system(self.system).program else {}
        return replace(
            self,
            candidates=self.candidates[:2],
            schedule=Schedule({"epochs": 3, **pretraining}, splits=2, search_splits=1),
        )

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return {
            "protocol": self.protocol,
            "shortened": self.shortened,
            "search_epochs": self.search_epochs,
            "candidates": [dict(options) for options in self.candidates],
            **self._settings(result["options"]),
        }

    def _settings(self, options: Settings) -> dict[str, Any]:
        return settings_today(self.system, self.dataset, {**options, **self.schedule.options}, self.preset)

    def _search_settings(self, options: Settings) -> dict[str, Any]:
        return {**self._settings(options), "search_epochs": self.search_epochs}

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        graph = self._graph()
        splits = self._splits(graph)
        searched, options = self._choose(graph, splits[: self.schedule.search_splits], unfinished, progress)
        factory, recipe = self._configure(graph, options)
        folder = open_run_folder(unfinished / "runs", self._settings(options))
        runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress)
        with limited_threads(recipe.threads, graph):
            threads = torch.get_num_threads()
        return {
            "dataset": self.dataset,
            "system": self.system,
            "condition": self.condition,
            "protocol": self.protocol,
            "preset": self.preset,
            "shortened": self.shortened,
            "candidates": [dict(candidate) for candidate in self.candidates],
            "search": searched,
            "search_epochs": self.search_epochs,
            "options": dict(options),
            "model": factory.keywords,
            "recipe": recipe.model_dump(),
            "seconds": round(sum(run.seconds for run in runs), 1),
            "search_seconds": round(sum(candidate["seconds"] for candidate in searched), 1),
            "runs": run_rows(runs, recipe.metric),
            "threads": threads,
            "versions": versions(),
            **self._also(graph, factory, recipe, runs),
        }

    def _graph(self) -> Graph:
        return load_graph(self.dataset, allow_unverified=True)  # of some nobody knows a checksum

    def _splits(self, graph: Graph) -> list[Split]:
        return make_splits(graph, self.protocol, self.schedule.splits)

    def _also(self, graph: Graph, factory: partial[nn.Module], recipe: Recipe, runs: list[Run]) -> dict[str, Any]:
        """What else the file is to hold, read off the trained models."""
        return {}

    def _configure(self, graph: Graph, options: Settings) -> tuple[partial[nn.Module], Recipe]:
        return configure(self.system, graph, preset=self.preset, **{**options, **self.schedule.options})

    def _choose(
        self, graph: Graph, splits: Sequence[Split], unfinished: Path, progress: bool
    ) -> tuple[list[dict[str, Any]], Settings]:
        """Every candidate with its figure, where there is more than one, and the options that are taken."""
        if len(self.candidates) == 1:
            return [], self.candidates[0]
        searched = self._search(graph, splits, unfinished / "candidates.json", progress)
        return searched, best_candidate(searched)

    def _search(self, graph: Graph, splits: Sequence[Split], kept: Path, progress: bool) -> list[dict[str, Any]]:
        """Each candidate with its mean validation figure. Those that an interrupted search has are taken from it."""
        done: dict[int, dict[str, Any]] = {}
        for candidate in json.loads(kept.read_text()) if kept.exists() else []:
            if candidate["options"] in self.candidates:
                options = candidate["options"]
                check_unchanged(kept, candidate["settings"], self._search_settings(options))
                done[self.candidates.index(options)] = candidate
        forms: dict[Hashable, dict[int, Setting]] = {}  # of each what can be trained at once
        for number, options in enumerate(self.candidates):
            if number not in done:
                factory, recipe = self._configure(graph, options)
                setting = factory, _for_search(recipe)
                forms.setdefault(shape_of_setting(*setting), {})[number] = setting
        for settings in forms.values():
            trained = fit_settings(list(settings.values()), graph, splits, progress=progress)
            for number, runs in zip(settings, trained, strict=True):
                failed = any(run.failure for run in runs)
                done[number] = {
                    "options": dict(self.candidates[number]),
                    "settings": self._search_settings(self.candidates[number]),
                    "val": None if failed else fmean(run.val[settings[number][1].metric] for run in runs),
                    "seconds": round(sum(run.seconds for run in runs), 1),
                }
            write_whole(kept, partial(Path.write_text, data=json.dumps(list(done.values()), indent=1)))
        return [{key: done[number][key] for key in ("options", "val", "seconds")} for number in sorted(done)]


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
