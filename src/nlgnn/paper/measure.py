"""The runner of cells, and what it measures: search, training, statistics, diagnoses and step times."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from torch import nn

from nlgnn.analysis import kernel_sizes, order_before_and_after, reconnected_homophily
from nlgnn.datasets import load_graph
from nlgnn.datasets.synthetic import planted_order_graph, planted_roles_graph
from nlgnn.errors import NlgnnError
from nlgnn.files import claim, write_text, writing
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import chance_homophily, node_homophily
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import configure
from nlgnn.models.registry import get_system, load
from nlgnn.nn.base import as_model, prepare
from nlgnn.paper.auto_cells import measure_auto
from nlgnn.paper.cell import Cell, Settings, cell_path, check_unchanged, is_older, read_cell
from nlgnn.paper.numbers import printed_speed
from nlgnn.paper.order_cells import ROLES
from nlgnn.paper.shared_cells import claim_cell, publish
from nlgnn.paper.ties import measure_ties
from nlgnn.paper.twins import measure_without_twins
from nlgnn.selection.diagnosis import diagnose
from nlgnn.training.device import CORES, allocation, limited_threads, processor, versions
from nlgnn.training.fit import fit, fit_settings
from nlgnn.training.loop import Objective
from nlgnn.training.preflight import Setting
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Adam, Run, shape_of_setting
from nlgnn.training.run_folder import RunFolder

TIMED_SYSTEMS = ("gcn", "gat", "geom-gcn", "nlgcn")  # of the paper's table 6; the first is the reference
ALSO_TIMED = ("mlp", "nlmlp", "nlgat")
TURN, TURN_SECONDS = 10, 1.0  # steps of a system before the next one has its turn, fewer if they are long
WARM_UP = 2
RECORDED = ("system", "condition", "protocol", "preset", "shortened", "search_epochs", "seeds")  # of a cell


class InWorkElsewhereError(NlgnnError):
    """Another process measures the cell that this one depends on."""


def run_cell(cell: Cell, results: Path, progress: bool = True, renew: bool = False) -> dict[str, Any] | None:
    """Return the result of a cell, measured now if it is open.

    Args:
        cell: The cell.
        results: The folder of all results.
        progress: Show progress bars.
        renew: Measure the cell again if an older version of the package measured it. The file is replaced only when
            the new result is complete.

    Returns:
        The content of the cell's file, or None if another process measures it. Shared results are not measured again.

    Raises:
        DataError: If the file cannot be read, or if the cell was measured with other settings.
        NlgnnError: If the file cannot be written.
    """
    path = cell_path(cell, results)
    if not _is_done(cell, path, renew):
        unfinished = path.parent / f".{cell.name}"  # keeps trained models until the cell is complete
        make_folder(unfinished)
        with claim(path.parent / f".{cell.name}.lock") as here, claim_cell(cell, path) as everywhere:
            if not (here and everywhere):
                return None
            if not _is_done(cell, path, renew):  # another process may have finished it meanwhile
                try:
                    result = MEASURES[cell.kind](cell, unfinished, progress)
                except InWorkElsewhereError:
                    return None
                whole = {"dataset": cell.dataset, "model": {}, "recipe": {}, **result, "versions": versions()}
                text = json.dumps(whole, indent=1, ensure_ascii=False) + "\n"
                with writing(path):
                    write_text(path, text)
                publish(cell, text)
            shutil.rmtree(unfinished, ignore_errors=True)
    return read_cell(cell, path)


def _is_done(cell: Cell, path: Path, renew: bool) -> bool:
    return path.exists() and not (renew and is_older(read_cell(cell, path)))


def make_folder(path: Path) -> None:
    """Create a folder with its parents."""
    with writing(path):
        path.mkdir(parents=True, exist_ok=True)


def measure_training(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
    """Choose settings by validation, train them on all splits and return what the file holds."""
    graph = _graph(cell)
    splits = _splits(cell, graph)
    searched, options = _choose(cell, graph, splits[: cell.schedule.search_splits], unfinished, progress)
    factory, recipe = _configure(cell, graph, options)
    folder = _open_run_folder(unfinished / "runs", cell.training_settings(options))
    runs = fit(factory, graph, splits * cell.seeds, recipe, folder=folder, progress=progress)
    with limited_threads(recipe.threads, graph):
        threads = torch.get_num_threads()
    return {
        **{name: getattr(cell, name) for name in RECORDED},
        "candidates": [dict(candidate) for candidate in cell.candidates],
        "search": searched,
        "options": dict(options),
        "model": factory.keywords,
        "recipe": recipe.model_dump(),
        "seconds": round(sum(run.seconds for run in runs), 1),
        "search_seconds": round(sum(candidate["seconds"] for candidate in searched), 1),
        "runs": [_run_row(run, recipe.metric) for run in runs],
        "threads": threads,
        **_records(cell, graph, splits * cell.seeds, factory, recipe, runs),
    }


def _graph(cell: Cell) -> Graph:
    if cell.planted and cell.dataset == ROLES:
        return planted_roles_graph(seed=cell.planted.seed, noise_links=cell.planted.noise)
    if cell.planted:
        return planted_order_graph(seed=cell.planted.seed)
    return load_graph(cell.dataset, allow_unverified=True)  # checksums of some files are not known


def _splits(cell: Cell, graph: Graph) -> list[Split]:
    return make_splits(graph, cell.protocol, 1 if cell.planted else cell.schedule.splits)


def _configure(cell: Cell, graph: Graph, options: Settings) -> tuple[partial[nn.Module], Recipe]:
    return configure(cell.system, graph, preset=cell.preset, **{**options, **cell.schedule.options})


def _open_run_folder(path: Path, settings: Settings) -> RunFolder:
    if not path.exists():
        return RunFolder.create(path, {"settings": dict(settings)})
    folder = RunFolder.open(path)
    check_unchanged(path, folder.config["settings"], settings)
    return folder


def _choose(
    cell: Cell, graph: Graph, splits: Sequence[Split], unfinished: Path, progress: bool
) -> tuple[list[dict[str, Any]], Settings]:
    """Return every candidate with its validation figure, and the options that are used."""
    if cell.main is not None and len(cell.main.candidates) == 1:
        return [], {**cell.main.candidates[0], **cell.changes}
    if cell.main is not None:
        main = run_cell(cell.main, unfinished.parent.parent, progress, renew=True)
        if main is None:
            raise InWorkElsewhereError(f"{cell.name} uses the settings of {cell.main.name}.")
        return [], {**main["options"], **cell.changes}
    if len(cell.candidates) == 1:
        return [], cell.candidates[0]
    searched = _search(cell, graph, splits, unfinished / "candidates.json", progress)
    good = [candidate for candidate in searched if candidate["val"] is not None]
    if not good:
        raise NlgnnError("every candidate failed.", "Check the features, or use a lower learning rate.")
    best: Settings = max(good, key=lambda candidate: float(candidate["val"]))["options"]
    return searched, best


def _search(cell: Cell, graph: Graph, splits: Sequence[Split], kept: Path, progress: bool) -> list[dict[str, Any]]:
    """Return the mean validation figure of each candidate, those of an interrupted search included."""
    done: dict[int, dict[str, Any]] = {}
    for candidate in json.loads(kept.read_text("utf-8")) if kept.exists() else []:
        if candidate["options"] in cell.candidates:
            check_unchanged(kept, candidate["settings"], _search_settings(cell, candidate["options"]))
            done[cell.candidates.index(candidate["options"])] = candidate
    shapes: dict[Hashable, dict[int, Setting]] = {}  # candidates of one shape are trained together
    for number, options in enumerate(cell.candidates):
        if number not in done:
            factory, recipe = _configure(cell, graph, options)
            setting = factory, recipe.model_copy(update={"epochs": min(recipe.epochs, cell.schedule.search_epochs)})
            shapes.setdefault(shape_of_setting(*setting), {})[number] = setting
    for settings in shapes.values():
        trained = fit_settings(list(settings.values()), graph, splits, progress=progress)
        for number, runs in zip(settings, trained, strict=True):
            failed = any(run.failure for run in runs)
            done[number] = {
                "options": dict(cell.candidates[number]),
                "settings": _search_settings(cell, cell.candidates[number]),
                "val": None if failed else fmean(run.val[settings[number][1].metric] for run in runs),
                "seconds": round(sum(run.seconds for run in runs), 1),
            }
        write_text(kept, json.dumps(list(done.values()), indent=1))
    return [{key: done[number][key] for key in ("options", "val", "seconds")} for number in sorted(done)]


def _search_settings(cell: Cell, options: Settings) -> dict[str, Any]:
    return {**cell.training_settings(options), "search_epochs": cell.search_epochs}


def _run_row(run: Run, metric: str) -> dict[str, Any]:
    return {
        "seed": run.seed,
        "val": run.val.get(metric),
        "test": run.test.get(metric),
        "chosen_epoch": run.chosen_epoch,
        "epochs": run.epochs,
        "ms_per_epoch": round(run.ms_per_epoch, 2),
        "failure": run.failure,
    }


def _records(
    cell: Cell,
    graph: Graph,
    splits: Sequence[Split],
    factory: partial[nn.Module],
    recipe: Recipe,
    runs: Sequence[Run],
) -> dict[str, Any]:
    """Return what is recorded of trained models, such as their orders before training and at the chosen epoch."""
    if not cell.records:
        return {}
    if "twins" in cell.records:
        return {"twins": measure_without_twins(graph, splits, factory, recipe, runs)}
    scaled = graph.scale_features(recipe.features)
    if "ties" in cell.records:
        return {"ties": measure_ties(scaled, splits, factory, recipe.metric, runs)}
    orders = [order_before_and_after(factory, scaled, run) for run in runs if run.failure is None]
    found: dict[str, Any] = {}
    if "homophily" in cell.records:
        kernels = kernel_sizes(factory())
        before, after = (
            [round(reconnected_homophily(order.nodes, graph.y, kernels), 5) for order in some]
            for some in zip(*orders, strict=True)
        )
        levels = {"graph": round(node_homophily(graph), 5), "chance": round(chance_homophily(graph), 5)}
        found["homophily"] = {**levels, "before": before, "after": after}
    if "labels" in cell.records:
        found["class names"] = list(graph.class_names)
        # One digit per node: the recorded graphs have at most ten classes and no unknown labels.
        digits = ["".join(map(str, order.labels)) for order in orders[0]]
        found["labels"] = dict(zip(("before", "after"), digits, strict=True))
    return found


def measure_statistics(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
    """Return the sizes and homophily of a graph."""
    started = time.perf_counter()
    graph = _graph(cell)
    source, target = graph.edge_index
    return {
        "nodes": graph.num_nodes,
        "features": graph.num_features,
        "classes": graph.num_classes,
        "edges": graph.num_edges,
        "edges either way": graph.directed_adjacency.nnz,
        "edges in file": len(source),
        "loops in file": int(np.count_nonzero(source == target)),
        "homophily": round(node_homophily(graph), 5),
        "chance": round(chance_homophily(graph), 5),
        "seconds": round(time.perf_counter() - started, 2),
    }


def measure_diagnosis(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
    """Return the verdict of `nlgnn diagnose` on a graph."""
    graph = _graph(cell)
    wall, cpu = time.perf_counter(), time.process_time()
    diagnosis = diagnose(graph, progress=progress)
    difference = diagnosis.evidence.difference
    return {
        "category": diagnosis.category,
        "adjusted_homophily": round(diagnosis.evidence.adjusted_homophily, 4),
        "protocol": diagnosis.evidence.protocol,
        "splits": diagnosis.evidence.splits,
        "validation": {name: round(mean, 3) for name, mean in diagnosis.evidence.means.items()},
        "difference": {name: getattr(difference, name) for name in ("mean", "low", "high")} if difference else None,
        "seconds": round(time.perf_counter() - wall, 1),
        "cpu_seconds": round(time.process_time() - cpu, 1),
    }


def measure_step_times(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
    """Return the times of training steps of all systems, which take turns in one process.

    Raises:
        NlgnnError: If other processes are running: the load includes this process, which may have measured before.
    """
    load_before = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    started, date = time.perf_counter(), datetime.now(UTC).isoformat(timespec="seconds")
    options = cell.schedule.options
    largest = options.get("largest load")
    if largest is not None and load_before is not None and load_before > largest:
        raise NlgnnError(
            f"the load of this machine is {load_before}, and step times need a quiet one (at most {largest}).",
            "Stop other processes, wait a minute, and run nlgnn reproduce efficiency.",
        )
    graph = load_graph(cell.dataset).scale_features("unit-sum")
    train = torch.from_numpy(make_splits(graph, "random-60", 1)[0].train.nonzero()[0])
    systems = timed_systems(cell.dataset)
    turns: dict[str, list[list[float]]] = {system: [] for system in systems}
    with limited_threads("auto", graph), allocation(frugal=False):  # as in training
        steps = {system: training_step(system, graph, train, options["hidden"]) for system in systems}
        for _ in range(math.ceil(options["epochs"] / TURN)):
            for system, step in steps.items():
                spent = sum(map(sum, turns[system]))
                turns[system].append(_turn(step) if spent <= options["seconds a system"] else [])
        threads = torch.get_num_threads()
    return {
        **options,
        "steps": {system: step_times(turns[system], turns[systems[0]]) for system in systems},
        "threads": threads,
        "seconds": round(time.perf_counter() - started, 1),
        "date": date,
        "processor": processor(),
        "cores": CORES,
        "load": load_before,
    }


def timed_systems(dataset: str) -> tuple[str, ...]:
    """Return the systems that the paper timed on a dataset, and further ones where all of them fit into memory."""
    printed = tuple(system for system in TIMED_SYSTEMS if printed_speed(system, dataset)["status"] == "ok")
    return (*printed, *ALSO_TIMED) if printed == TIMED_SYSTEMS else printed


def training_step(system: str, graph: Graph, train: torch.Tensor, hidden: int) -> Callable[[], None]:
    """Return a function that trains a model for one step as `fit` does, after a warm-up."""
    model = as_model(load(get_system(system))(graph.num_features, hidden, graph.num_classes))
    inputs, y = prepare(model, graph), torch.tensor(graph.y)
    objective, adam = Objective(model).train(), Adam(model, Recipe(lr=0.01, weight_decay=5e-4))

    def step() -> None:
        _, loss = objective(inputs, y, train)
        adam.step(torch.autograd.grad(loss, adam.parameters, allow_unused=True))

    for _ in range(WARM_UP):
        step()
    return step


def _turn(step: Callable[[], None]) -> list[float]:
    times: list[float] = []
    while len(times) < TURN and sum(times) < TURN_SECONDS:
        started = time.perf_counter()
        step()
        times.append(time.perf_counter() - started)
    return times


def step_times(turns: Sequence[Sequence[float]], reference: Sequence[Sequence[float]]) -> dict[str, float]:
    """Summarise the turns of a system, each with the seconds of its steps.

    The ratio to the reference is the median over the turns that both took.
    """
    milliseconds = [1000 * seconds for turn in turns for seconds in turn]
    ratios = [fmean(own) / fmean(other) for own, other in zip(turns, reference, strict=True) if own and other]
    return {
        "epochs": len(milliseconds),
        "median ms": round(median(milliseconds), 3),
        "mean ms": round(fmean(milliseconds), 3),
        "ratio": round(median(ratios), 3),
    }


MEASURES: Mapping[str, Callable[[Cell, Path, bool], dict[str, Any]]] = {
    "training": measure_training,
    "statistics": measure_statistics,
    "diagnosis": measure_diagnosis,
    "step times": measure_step_times,
    "auto": measure_auto,
}
