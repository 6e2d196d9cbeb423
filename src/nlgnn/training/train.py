"""From names to a run folder: what `nlgnn train` does, and how an interrupted training is taken up again."""

from __future__ import annotations

import json
import platform
import shlex
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter, ValidationError
from torch import nn

from nlgnn import __version__
from nlgnn.datasets import load_graph
from nlgnn.datasets.own import OwnTables
from nlgnn.errors import NlgnnError, OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.training.checks import check
from nlgnn.training.execution import model_like
from nlgnn.training.fit import Watch, fit, identity, predict
from nlgnn.training.left_behind import remove_left_behind_in
from nlgnn.training.machine import CORES, processor
from nlgnn.training.prediction import temperatures, together, without_weights
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run, RunFolder
from nlgnn.training.systems import configure, default_preset, get_system, load


@dataclass(frozen=True)
class Plan:
    """What to train: all that a training can be repeated from, given the graph.

    `automatic`: it is the non-local model of an automatic choice, which its local part is to be trained beside.
    `verdict`: what a diagnosis said of the graph beforehand. `tables`: where it comes from, if it is the user's own.
    `encoder`: what made its features (a `FeatureEncoder`, as JSON has it). `notes`: what was found on reading it.
    """

    graph: str
    model: str
    protocol: str = "random-60"
    runs: int | None = None
    preset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    automatic: bool = False
    verdict: str = ""
    tables: OwnTables | None = None
    encoder: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trained:
    """What came out: the runs, and what is needed to show and to use them."""

    plan: Plan
    recipe: Recipe
    factory: partial[nn.Module]
    folder: RunFolder
    runs: list[Run]

    @property
    def finished(self) -> list[Run]:
        """The runs that did not fail."""
        return [run for run in self.runs if run.failure is None]

    def finished_run(self, number: int | None = None) -> Run:
        """The run of that number; by default the first that did not fail."""
        for run in self.finished:
            if number in (None, run.index):
                return run
        failures = [f" ({run.failure})" for run in self.runs if run.index == number]
        raise OptionError(
            f"{self.folder.path} has no finished run {number}{''.join(failures)}.",
            f"It has: {', '.join(str(run.index) for run in self.finished)}.",
        )


def train(plan: Plan, graph: Graph, path: Path, progress: bool = True, watch: Watch | None = None) -> Trained:
    """Train into a new folder."""
    factory, recipe = configure(plan.model, graph, plan.preset, **plan.options)
    check(graph, make_splits(graph, plan.protocol, plan.runs), recipe)  # before a folder is made
    config = {
        **asdict(plan),
        "preset": plan.preset or default_preset(graph.name),
        "fingerprint": graph.fingerprint,
        "recipe": recipe.model_dump(),
        "model_arguments": factory.keywords,
        "versions": {"nlgnn": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"processor": processor(), "cores": CORES},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    folder = RunFolder.create(path, config)
    try:
        return _train(plan, graph, factory, recipe, folder, progress, watch)
    except NlgnnError as error:
        if not isinstance(error, RunFolderError):  # such as for lack of memory; what a full disk left can be resumed
            folder.remove_if_nothing_was_trained()
        raise


def read_plan(folder: RunFolder) -> Plan:
    names = ("graph", "model", "protocol", "runs", "preset", "options")
    recorded = {name: _setting(folder, name) for name in names}
    newer = ("automatic", "verdict", "encoder", "notes")  # which older folders do not have, nor tables
    later = {name: folder.config[name] for name in newer if name in folder.config}
    tables = folder.config.get("tables")
    try:
        tables = tables and asdict(OwnTables(**tables))  # pydantic would pass over names that it does not have
        return TypeAdapter(Plan).validate_json(json.dumps({**recorded, **later, "tables": tables}), strict=True)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise bad_config(folder, f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    except TypeError as error:
        raise bad_config(folder, error) from None


def bad_config(folder: RunFolder, why: object) -> RunFolderError:
    return RunFolderError(f"{folder.path}/config.json: {why}.", "Restore the file or train again.")


def _setting(folder: RunFolder, name: str) -> Any:
    if name not in folder.config:
        raise RunFolderError(f"{folder.path}/config.json lacks {name!r}.", "Restore the file or train again.")
    return folder.config[name]


def resume(folder: RunFolder, graph: Graph, progress: bool = True, watch: Watch | None = None) -> Trained:
    """Finish what a folder began. The figures are those that an uninterrupted training gives."""
    plan = read_plan(folder)
    factory, recipe = _recorded(folder, graph)
    remove_left_behind_in(folder.path)
    return _train(plan, graph, factory, recipe, folder, progress, watch)


def read_trained(path: Path) -> tuple[Trained, Graph]:
    """The runs that a folder holds so far, and the graph that they were trained on."""
    folder = RunFolder.open(path)
    plan = read_plan(folder)
    graph = graph_of(plan, path)
    factory, recipe = _recorded(folder, graph)
    splits = make_splits(graph, plan.protocol, plan.runs)
    folder.require(identity(graph, splits, recipe, factory, model_like(factory)))
    runs = folder.finished_runs()
    if all(run.failure for run in runs):
        raise RunFolderError(
            f"{path} holds no finished run.", f"Go on with it: nlgnn train --resume {shlex.quote(str(path))}"
        )
    return Trained(plan, recipe, factory, folder, runs), graph


def graph_of(plan: Plan, folder: Path) -> Graph:
    """The graph that a folder was trained on, which knows its fingerprint; without weights of edges if it had none."""
    if plan.tables is None:
        return load_graph(plan.graph, allow_unverified=True)
    graph = plan.tables.read_again(folder).graph
    recorded = RunFolder.open(folder).config.get("fingerprint")
    had_no_weights = graph.fingerprint != recorded == replace(graph, edge_weight=None).fingerprint
    return without_weights(graph, folder) if had_no_weights else graph


def _recorded(folder: RunFolder, graph: Graph) -> tuple[partial[nn.Module], Recipe]:
    """From what was recorded, not from the options: a newer version may have other presets."""
    if graph.fingerprint != _setting(folder, "fingerprint"):
        raise RunFolderError(
            f"{folder.path} was trained on another version of {graph.name!r}: its features, edges or labels differ.",
            "Put back the files that it was trained on, or train again.",
        )
    try:
        factory = partial(load(get_system(folder.config["model"])), **_setting(folder, "model_arguments"))
        model_like(factory)  # whether the arguments are of the right types
        return factory, Recipe(**_setting(folder, "recipe"))
    except (TypeError, ValueError, RuntimeError) as error:
        raise bad_config(folder, error) from None


def _train(
    plan: Plan,
    graph: Graph,
    factory: partial[nn.Module],
    recipe: Recipe,
    folder: RunFolder,
    progress: bool,
    watch: Watch | None,
) -> Trained:
    splits = make_splits(graph, plan.protocol, plan.runs)
    runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress, watch=watch)
    trained = Trained(plan, recipe, factory, folder, runs)
    folder.write_predictions(predictions(trained, graph, splits))
    return trained


def predictions(trained: Trained, graph: Graph, splits: list[Split]) -> dict[str, Any]:
    """A row a node: what the runs say of it together, calibrated, and what those runs say that held it back for their
    test.

    Most runs have seen the label of a node that is not held back, so that accuracy is to be read off the latter.
    """
    good = trained.finished
    probabilities = predict(trained.factory, graph, good, trained.recipe).numpy()  # [runs, n, c]
    held_back = np.stack([splits[run.index].test for run in good])  # [runs, n]
    mean = together(probabilities, temperatures(probabilities, good, graph, splits))
    held_back_sum = (probabilities * held_back[:, :, None]).sum(0)
    names = np.array([*graph.class_names, None], dtype=object)
    return {
        "node": graph.node_names or list(range(graph.num_nodes)),
        "label": list(names[graph.y]),  # -1, unknown, is the None at the end
        "prediction": list(names[mean.argmax(1)]),
        "tested in runs": held_back.sum(0),
        "prediction where tested": list(names[np.where(held_back.any(0), held_back_sum.argmax(1), -1)]),
        **{f"probability of {name}": mean[:, label] for label, name in enumerate(graph.class_names)},
    }
