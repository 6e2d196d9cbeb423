"""train: train a plan into a run folder. resume: continue an interrupted training."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from nlgnn.datasets import load_graph
from nlgnn.errors import NlgnnError, OptionError, RunFolderError
from nlgnn.files import remove_stale_parts_in
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import configure, default_preset
from nlgnn.models.options import recipe_options
from nlgnn.models.registry import get_system, load
from nlgnn.tables.source import OwnTables
from nlgnn.training.device import CORES, model_like, processor, versions
from nlgnn.training.fit import Watch, fit, predict
from nlgnn.training.predict import mean_probabilities, temperatures
from nlgnn.training.preflight import check, identity
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder

AUTO: str = "auto"
CHOICE_FILE: str = "choice.json"


@dataclass(frozen=True)
class Plan:
    """Everything that a training can be repeated from, given the graph.

    Attributes:
        graph: The name of the graph.
        model: The name of the model.
        protocol: The name of the split protocol.
        runs: The number of runs; by default that of the protocol.
        preset: The name of the preset; by default that of the graph.
        options: Options of the model and the recipe that replace those of the preset.
        tables: The user's own tables that the graph was read from, if any.
        encoder: The `FeatureEncoder` of the tables, as JSON.
        notes: Remarks from reading the tables.
    """

    graph: str
    model: str
    protocol: str = "random-60"
    runs: int | None = None
    preset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    tables: OwnTables | None = None
    encoder: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Trained:
    """A training and its runs, with everything that is needed to show and use them.

    `reason` says why an automatic choice took the model.
    """

    plan: Plan
    recipe: Recipe
    factory: partial[Any]
    folder: RunFolder
    runs: list[Run]
    reason: str = ""

    @property
    def finished(self) -> list[Run]:
        """Return the runs that did not fail."""
        return [run for run in self.runs if run.failure is None]

    def finished_run(self, number: int | None = None) -> Run:
        """Return the run of a number; by default the first that did not fail.

        Raises:
            OptionError: If there is no such run, or if it failed.
        """
        for run in self.finished:
            if number in (None, run.index):
                return run
        failures = [f" ({run.failure})" for run in self.runs if run.index == number]
        raise OptionError(
            f"{self.folder.path} has no finished run {number}{''.join(failures)}.",
            f"It has: {', '.join(str(run.index) for run in self.finished)}.",
        )


def train(plan: Plan, graph: Graph, path: Path, progress: bool = True, watch: Watch | None = None) -> Trained:
    """Train a plan into a new folder.

    Args:
        plan: The plan to train.
        graph: The graph that the plan names.
        path: The folder, which must not exist.
        progress: If True, a progress bar is drawn on terminals.
        watch: Called after every epoch with the replicas in training.

    Raises:
        NlgnnError: If the plan cannot be trained. A folder without any run is removed again.
    """
    factory, recipe = configure(plan.model, graph, plan.preset, **plan.options)
    splits = make_splits(graph, plan.protocol, plan.runs)
    check(graph, splits, recipe)  # before a folder is made
    config = {
        **asdict(plan),
        "preset": plan.preset or default_preset(graph.name),
        "fingerprint": graph.fingerprint,
        "recipe": recipe.model_dump(include=recipe_options(get_system(plan.model))),
        "model_arguments": factory.keywords,
        "versions": versions(),
        "machine": {"processor": processor(), "cores": CORES},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    folder = RunFolder.create(path, config)
    try:
        runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress, watch=watch)
        return _with_predictions(Trained(plan, recipe, factory, folder, runs), graph, splits)
    except NlgnnError as error:
        if not isinstance(error, RunFolderError):  # after a full disk the training can be resumed
            folder.remove_if_nothing_was_trained()
        raise


def read_plan(folder: RunFolder) -> Plan:
    """Return the plan that a folder was made for.

    Raises:
        RunFolderError: If `config.json` is damaged.
    """
    recorded = {name: _setting(folder, name) for name in Plan.__dataclass_fields__}
    try:
        tables = recorded["tables"] and asdict(OwnTables(**recorded["tables"]))  # pydantic would ignore unknown names
        return TypeAdapter(Plan).validate_json(json.dumps({**recorded, "tables": tables}), strict=True)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise folder.bad_config(f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}") from None
    except TypeError as error:
        raise folder.bad_config(error) from None


def _setting(folder: RunFolder, name: str) -> Any:
    if name not in folder.config:
        raise folder.bad_config(f"it lacks {name!r}")
    return folder.config[name]


def resume(folder: RunFolder, graph: Graph, progress: bool = True, watch: Watch | None = None) -> Trained:
    """Finish an interrupted training. Its figures equal those of an uninterrupted one."""
    plan = read_plan(folder)
    factory, recipe = _recorded(folder, graph)
    remove_stale_parts_in(folder.path)
    splits = make_splits(graph, plan.protocol, plan.runs)
    runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress, watch=watch)
    return _with_predictions(Trained(plan, recipe, factory, folder, runs), graph, splits)


def read_trained(path: Path, graph: Graph | None = None) -> tuple[Trained, Graph]:
    """Read a folder: its finished runs, and the graph that they were trained on.

    For the folder of an automatic choice these are the runs of the chosen model. A graph that is given is not read
    again.

    Raises:
        RunFolderError: If the folder is damaged, has no finished run, or if the graph has changed.
    """
    choice = read_choice(path)
    if "folder" in choice:
        path = candidate_folder(path, str(choice["folder"]))
    folder = RunFolder.open(path)
    plan = read_plan(folder)
    if plan.model == AUTO:
        raise unfinished(path)
    graph = graph_of(plan, path) if graph is None else graph
    factory, recipe = _recorded(folder, graph)
    splits = make_splits(graph, plan.protocol, plan.runs)
    folder.require(identity(graph, splits, recipe, factory, model_like(factory)))
    runs = folder.finished_runs()
    if all(run.failure for run in runs):
        raise unfinished(path)
    return Trained(plan, recipe, factory, folder, runs, str(choice.get("reason", ""))), graph


def unfinished(path: Path) -> RunFolderError:
    """Return the error for a folder without a finished run."""
    return RunFolderError(
        f"{path} holds no finished run.", f"Continue it: nlgnn train --resume {shlex.quote(str(path))}"
    )


def read_choice(folder: Path) -> dict[str, Any]:
    """Return the record of an automatic choice in its folder; empty for other folders."""
    path = folder / CHOICE_FILE
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read: {error}.", "Restore the file or train again.") from None
    if not isinstance(recorded, dict):
        raise RunFolderError(f"{path} is not a JSON object.", "Restore the file or train again.")
    return recorded


def candidate_folder(folder: Path, name: str) -> Path:
    """Return where an automatic choice keeps one of the models that it trained."""
    return folder / "models" / Path(name).name


def graph_of(plan: Plan, folder: Path) -> Graph:
    """Read the graph that a folder was trained on."""
    if plan.tables is None:
        return load_graph(plan.graph, allow_unverified=True)
    return plan.tables.read_again(folder).graph


def check_same_graph(folder: RunFolder, graph: Graph) -> None:
    """Raise if a folder was started with another version of the graph."""
    if graph.fingerprint != _setting(folder, "fingerprint"):
        raise RunFolderError(
            f"{folder.path} was trained on another version of {graph.name!r}: its features, edges or labels differ.",
            "Put back the files that it was trained on, or train again.",
        )


def _recorded(folder: RunFolder, graph: Graph) -> tuple[partial[Any], Recipe]:
    """Return factory and recipe as recorded, because a newer version may have other presets."""
    check_same_graph(folder, graph)
    system = get_system(folder.config["model"])  # a user's own model must have been imported before
    try:
        factory = partial(load(system), **_setting(folder, "model_arguments"))
        model_like(factory)  # raises if the arguments have wrong types
        return factory, Recipe(**_setting(folder, "recipe"))
    except (TypeError, ValueError, RuntimeError) as error:
        raise folder.bad_config(error) from None


def _with_predictions(trained: Trained, graph: Graph, splits: list[Split]) -> Trained:
    """Write the predictions of a training into its folder, and return the training."""
    trained.folder.write_predictions(predictions(trained, graph, splits))
    return trained


def predictions(trained: Trained, graph: Graph, splits: list[Split]) -> dict[str, Any]:
    """Return a table with one row per node: the calibrated mean of all runs, and that of the runs that tested it.

    Accuracy must be computed from the latter, because most runs have seen the label of a node in training.
    """
    good = trained.finished
    probabilities = predict(trained.factory, graph, good, trained.recipe).numpy()  # [runs, n, c]
    tested = np.stack([splits[run.index].test for run in good])  # [runs, n]
    mean = mean_probabilities(probabilities, temperatures(probabilities, good, graph, splits))
    tested_sum = (probabilities * tested[:, :, None]).sum(0)
    names = np.array([*graph.class_names, None], dtype=object)
    return {
        "node": graph.node_names or list(range(graph.num_nodes)),
        "label": list(names[graph.y]),  # an unknown label, -1, gives the None at the end
        "prediction": list(names[mean.argmax(1)]),
        "tested in runs": tested.sum(0),
        "prediction where tested": list(names[np.where(tested.any(0), tested_sum.argmax(1), -1)]),
        **{f"probability of {name}": mean[:, label] for label, name in enumerate(graph.class_names)},
    }
