"""train: train a plan into a run folder. resume: continue an interrupted training."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from pydantic import TypeAdapter, ValidationError

from nlgnn.datasets import load_graph
from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.files import remove_stale_parts_in, sha256_of
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.graph.store import GraphStore
from nlgnn.json_files import read_json
from nlgnn.limits import memory_limit
from nlgnn.models.build import configure, default_preset
from nlgnn.models.options import recipe_options
from nlgnn.models.registry import get_system, load
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.tables.source import OwnTables
from nlgnn.training.decision import DECISION_FILE, Decision, check_decision, decide
from nlgnn.training.device import CORES, model_like, processor, versions
from nlgnn.training.fit import Watch, fit
from nlgnn.training.predict import calibrated, mean_probabilities, temperatures
from nlgnn.training.preflight import check, check_weights_fit, identity
from nlgnn.training.processes import check_agreement, check_model, folder_class, is_first
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.stored_run import RUNS, WEIGHTS, first_fault
from nlgnn.training.tensor_files import damaged
from nlgnn.training.trained import Ensemble, Probabilities
from nlgnn.training.trained import Plan as Plan
from nlgnn.training.trained import Trained as Trained

AUTO: str = "auto"
CHOICE_FILE: str = "choice.json"


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
    check_decision(graph, plan.threshold, plan.cost, recipe.class_weight)
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
    if active_ranks() is not None:
        check_model(model_like(factory), plan.model, recipe.device)
        check_agreement({"settings": json.dumps({**config, "machine": "", "date": ""}, sort_keys=True, default=str)})
    folder = folder_class().create(path, config)
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
        raise folder.bad_config(first_fault(error)) from None
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
    if is_first():
        remove_stale_parts_in(folder.path)
    splits = make_splits(graph, plan.protocol, plan.runs)
    runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress, watch=watch)
    return _with_predictions(Trained(plan, recipe, factory, folder, runs), graph, splits)


def read_trained(path: Path, graph: Graph | None = None) -> tuple[Trained, Graph]:
    """Read a folder: its finished runs, and the graph that they were trained on.

    For the folder of an automatic choice these are the runs of the chosen model, or of the ensemble. A graph that is
    given is not read again.

    Raises:
        RunFolderError: If the folder is damaged, has no finished run, or if the graph has changed.
    """
    choice = read_choice(path)
    if "ensemble" in choice:
        return _read_ensemble(path, choice, graph)
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


def _read_ensemble(path: Path, choice: Mapping[str, Any], graph: Graph | None) -> tuple[Ensemble, Graph]:
    """Read the members of an ensemble, which must be those that it was made of."""
    members = []
    try:
        stated = choice["ensemble"]
        for one in stated["members"]:
            folder = candidate_folder(path, one["folder"])
            if member_checksum(folder) != one["checksum"]:
                state = "another one" if (folder / "summary.json").exists() else "missing"
                raise RunFolderError(
                    f"{folder} is not what the ensemble of {path} was made of: its summary.json is {state}.",
                    "Restore the folder, or train again.",
                )
            member, graph = read_trained(folder, graph)
            members.append(member)
        runs = [Run(**cast(dict[str, Any], run)) for run in RUNS.validate_python(stated["runs"])]
        weights = WEIGHTS.validate_python(stated["weights"])
        if {len(row) for row in weights} != {len(members)} or len(weights) != len(runs):
            raise ValueError("the number of weights is not that of members and runs")
        names = [str(one["name"]) for one in stated["members"]]
        found = Ensemble.of(members, names, weights, runs, str(choice.get("reason", "")))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(path / CHOICE_FILE, error) from None
    assert graph is not None  # read with the first member
    return found, graph


def member_checksum(folder: Path) -> str:
    """Return the checksum of a member of an ensemble, which holds those of its weights; empty without a summary."""
    try:
        return sha256_of(folder / "summary.json")
    except (FileNotFoundError, NotADirectoryError):
        return ""


def unfinished(path: Path) -> RunFolderError:
    """Return the error for a folder without a finished run."""
    return RunFolderError(
        f"{path} holds no finished run.", f"Continue it: nlgnn train --resume {shlex.quote(str(path))}"
    )


def read_choice(folder: Path) -> dict[str, Any]:
    """Return the record of an automatic choice in its folder; empty for other folders."""
    path = folder / CHOICE_FILE
    try:
        recorded = read_json(path)
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


def graph_of(plan: Plan, folder: Path, allow_unverified: bool = False) -> Graph:
    """Read the graph that a folder was trained on.

    Files without a known checksum are refused unless the caller or the environment allows them: a run folder of
    somebody else may name them.
    """
    with memory_limit(plan.options.get("memory")):
        if plan.tables is None:
            return load_graph(plan.graph, allow_unverified=allow_unverified)
        return plan.tables.read_again(folder, plan.encoder).graph


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
        recipe = Recipe(**_setting(folder, "recipe"))
        factory = partial(load(system), **_setting(folder, "model_arguments"))
        check_weights_fit(factory)
        model_like(factory)  # raises if the arguments have wrong types
        return factory, recipe
    except (TypeError, ValueError, RuntimeError, LookupError) as error:
        raise folder.bad_config(error.what.rstrip(".") if isinstance(error, NlgnnError) else error) from None


def _with_predictions(trained: Trained, graph: Graph, splits: list[Split]) -> Trained:
    """Write decision and predictions of a training into its folder, and return the training."""
    plan, good = trained.plan, trained.finished
    probabilities = trained.probabilities(graph)  # [runs, n, c]
    heats, own = temperatures(probabilities, good, graph, splits), [splits[run.index] for run in good]
    decision = decide(probabilities, heats, graph, own, plan.threshold, plan.cost)
    trained.folder.write_json(DECISION_FILE, asdict(decision))
    columns: dict[str, Any] = {}
    if is_first():
        columns = {"node": node_names(plan, graph), **predictions(probabilities, heats, graph, own, decision)}
    trained.folder.write_predictions(columns)
    return trained


def node_names(plan: Plan, graph: Graph) -> Sequence[object]:
    """Return the names of all nodes; a process that holds a part of a store reads its ids."""
    if graph.node_names is None and plan.tables is not None and plan.tables.is_store:
        ids = GraphStore.open(str(plan.tables.graph_file)).ids()
        if ids is not None:
            return ids.cast(str).to_list()
    return graph.node_names or list(range(graph.num_nodes))


def predictions(
    probabilities: Probabilities, heats: Sequence[float], graph: Graph, splits: Sequence[Split], decision: Decision
) -> dict[str, Any]:
    """Return a table with one row per node: the calibrated mean of all runs, and that of the runs that tested it.

    Accuracy must be computed from the latter, because most runs have seen the label of a node in training.
    """
    tested = np.stack([split.test for split in splits])  # [runs, n]
    mean = mean_probabilities(probabilities, heats)
    tested_sum = np.zeros(mean.shape)
    for one, heat, test in zip(probabilities, heats, tested, strict=True):
        tested_sum[test] += calibrated(one[test], heat)
    tested_mean = tested_sum / np.maximum(tested.sum(0), 1)[:, None]
    names = np.array([*graph.class_names, None], dtype=object)
    return {
        "label": list(names[graph.y]),  # an unknown label, -1, gives the None at the end
        "prediction": list(names[decision.labels(mean)]),
        "tested in runs": tested.sum(0),
        "prediction where tested": list(names[np.where(tested.any(0), decision.labels(tested_mean), -1)]),
        **{f"probability of {name}": mean[:, label] for label, name in enumerate(graph.class_names)},
    }
