"""From names to a run folder: what `nlgnn train` does, and how an interrupted training is taken up again."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from nlgnn import __version__
from nlgnn.errors import RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.execution import choose_device, model_like
from nlgnn.training.fit import check, fit, prepare
from nlgnn.training.loop import evaluate
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run, RunFolder, load_weights
from nlgnn.training.systems import configure, default_preset, get_system


@dataclass(frozen=True)
class Plan:
    """What to train: all that a training can be repeated from, given the graph."""

    graph: str
    model: str
    protocol: str = "random-60"
    runs: int | None = None
    preset: str | None = None
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trained:
    """What came out: the runs, and what is needed to show and to use them."""

    plan: Plan
    recipe: Recipe
    factory: partial[nn.Module]
    folder: RunFolder
    runs: list[Run]


def train(plan: Plan, graph: Graph, path: Path, progress: bool = True) -> Trained:
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
    }
    return _train(plan, graph, factory, recipe, RunFolder.create(path, config), progress)


def read_plan(folder: RunFolder) -> Plan:
    return Plan(*(_setting(folder, name) for name in ("graph", "model", "protocol", "runs", "preset", "options")))


def _setting(folder: RunFolder, name: str) -> Any:
    if name not in folder.config:
        raise RunFolderError(f"{folder.path}/config.json lacks {name!r}.", "Restore the file or train again.")
    return folder.config[name]


def resume(folder: RunFolder, graph: Graph, progress: bool = True) -> Trained:
    """Finish what a folder began. The figures are those that an uninterrupted training gives."""
    plan = read_plan(folder)
    if graph.fingerprint != _setting(folder, "fingerprint"):
        raise RunFolderError(
            f"{folder.path} was trained on another version of {plan.graph!r}: its features, edges or labels differ.",
            "Put back the files that it was trained on, or train again.",
        )
    # From what was recorded, not from the options: a newer version may have other presets.
    factory = partial(get_system(plan.model).load(), **_setting(folder, "model_arguments"))
    recipe = Recipe.of(**_setting(folder, "recipe"))
    folder.remove_half_written()
    return _train(plan, graph, factory, recipe, folder, progress)


def _train(
    plan: Plan, graph: Graph, factory: partial[nn.Module], recipe: Recipe, folder: RunFolder, progress: bool
) -> Trained:
    splits = make_splits(graph, plan.protocol, plan.runs)
    runs = fit(factory, graph, splits, recipe, folder=folder, progress=progress)
    folder.write_predictions(predictions(factory, graph, recipe, folder, runs))
    return Trained(plan, recipe, factory, folder, runs)


def predictions(
    factory: partial[nn.Module], graph: Graph, recipe: Recipe, folder: RunFolder, runs: list[Run]
) -> dict[str, Any]:
    """Every node's class probabilities, the mean over runs, as columns of a table."""
    device, model = choose_device(recipe.device), model_like(factory)
    inputs = prepare(model, graph.scale_features(recipe.features)).to(device)
    model = model.to(device)
    probabilities = []
    for run in runs:
        if run.failure is None:
            load_weights(model, run.state, folder.path)
            probabilities.append(evaluate(model, inputs).softmax(1).cpu())
    mean = torch.stack(probabilities).mean(0).numpy()
    classes = graph.class_names
    return {
        "node": graph.node_names or list(range(graph.num_nodes)),
        "label": [classes[label] if label >= 0 else None for label in graph.y],
        "prediction": [classes[label] for label in mean.argmax(1)],
        **{f"probability of {name}": mean[:, label] for label, name in enumerate(classes)},
    }
