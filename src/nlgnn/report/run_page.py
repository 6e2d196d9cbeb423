"""The page of a training: the answer first, then the order and its nodes, where it is right, and what was run."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis import kernel_sizes, order_before_and_after
from nlgnn.analysis.projection import project
from nlgnn.analysis.quality import held_back, majority_accuracy
from nlgnn.errors import OptionError
from nlgnn.experiments.compare import Variant, selection_words
from nlgnn.experiments.own_columns import table_sections, warnings_of
from nlgnn.experiments.portrait import portray
from nlgnn.experiments.section import Section
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import reconnected_homophily
from nlgnn.graph.splits import Split, make_splits
from nlgnn.nn.inputs import ignores_weights
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.report.agreement import WINDOW_CAPTION, agreement_figure
from nlgnn.report.answer import MAJORITY, Answer, figures_of
from nlgnn.report.curves import curve_figures
from nlgnn.report.node_list import node_list
from nlgnn.report.page import Command, Figure, Part, write_page
from nlgnn.report.quality_figures import MOST_CLASSES, compatibility_figure, projection_figure, quality_figures
from nlgnn.report.votes import vote_parts
from nlgnn.training.calibration import calibrated
from nlgnn.training.execution import model_like
from nlgnn.training.fit import predict
from nlgnn.training.prediction import temperatures
from nlgnn.training.run import Run
from nlgnn.training.systems import get_system
from nlgnn.training.train import Trained
from nlgnn.training.tuned import training_command


def write_run_page(
    path: Path, trained: Trained, graph: Graph, others: Mapping[str, Trained], run_number: int | None = None
) -> None:
    """Beside `others`, by label, which were trained on the same splits. One run is looked into: the first, or that."""
    write_page(path, f"{label_of(trained)} on {graph.name}", run_parts(trained, graph, others, run_number))


def run_parts(
    trained: Trained, graph: Graph, others: Mapping[str, Trained], run_number: int | None = None
) -> list[Part]:
    splits = make_splits(graph, trained.plan.protocol, trained.plan.runs)
    good = trained.finished
    run = chosen_run(good, run_number)
    probabilities = predict(trained.factory, graph, good, trained.recipe).numpy()  # [runs, n, c]
    own = probabilities[good.index(run)]
    heats = temperatures(probabilities, good, graph, splits)
    sure = np.stack([calibrated(one, heat) for one, heat in zip(probabilities, heats, strict=True)])
    answer = make_answer(trained, graph, splits, others)
    portrait = portray(graph, splits)
    headline = answer.headline(verdict_words(trained))
    parts: list[Part | None] = [
        headline._replace(sentences=[*headline.sentences, *warnings_of(trained.plan)]),
        answer.figure(),
        answer.section(),
        *missing_controls(trained, others),
        *order_parts(trained, graph, good, run, splits[run.index], own),
        *curve_figures(good, answer.selection, answer.metric),
        *quality_figures(
            held_back(sure, graph, [splits[one.index] for one in good]), graph, trained.recipe.class_weight
        ),
        embedding_figure(trained, graph, run, own),
        *(
            []
            if graph.num_classes > MOST_CLASSES
            else [compatibility_figure(graph.class_names, portrait.compatibility)]
        ),
        *portrait.sections(matrix=False),
        *table_sections(trained, graph, splits),
        *what_was_run(trained, graph),
    ]
    return [part for part in parts if part is not None]


def label_of(trained: Trained) -> str:
    return Variant(trained.plan.model, trained.plan.options).label


def chosen_run(good: Sequence[Run], number: int | None) -> Run:
    found = [run for run in good if number is None or run.index == number]
    if not found:
        known = ", ".join(str(run.index) for run in good)
        raise OptionError(f"there is no finished run {number}.", f"Choose one of these: {known}.")
    return found[0]


def make_answer(
    trained: Trained, graph: Graph, splits: Sequence[Split], others: Mapping[str, Trained], label: str | None = None
) -> Answer:
    """The model goes by the name of its kind, or by a label."""
    recipe, indices = trained.recipe, [run.index for run in trained.runs]
    part = "test" if any(run.test for run in trained.runs) else "validation"
    figures: dict[str, Sequence[float | None]] = {
        label or label_of(trained): figures_of(trained.runs, recipe.metric, part, indices)
    }
    if part == "test" and recipe.metric == "accuracy":
        figures[MAJORITY] = [majority_accuracy(graph, splits[index]) for index in indices]
    for name, other in others.items():
        figures[name] = figures_of(other.runs, recipe.metric, part, indices)
    selection = selection_words(recipe.selection, recipe.metric)
    return Answer(figures, part, recipe.metric, trained.plan.protocol, selection)


def verdict_words(trained: Trained) -> str:
    gate = trained.folder.config.get("gate", "")  # of a choice that was automatic
    if trained.plan.verdict:
        return f"Diagnosis: {trained.plan.verdict} {gate}".rstrip()
    graph = [trained.plan.graph] if trained.plan.tables is None else trained.plan.tables.flags
    command = f"nlgnn diagnose {shlex.join(graph)}"
    return f"Trained without a diagnosis. {command} says whether neighbours help on this graph. {gate}".rstrip()


def missing_controls(trained: Trained, others: Mapping[str, Trained]) -> list[Part]:
    """The command that trains what should stand beside a non-local model."""
    if others or get_system(trained.plan.model).local is None:
        return []
    command = f"nlgnn train --resume {shlex.quote(str(trained.folder.path))} --controls"
    return [Command("It stands alone so far; this trains its local part and its controls beside it", command)]


def order_parts(
    trained: Trained, graph: Graph, good: Sequence[Run], run: Run, split: Split, probabilities: NDArray[Any]
) -> list[Part]:
    """Nothing of a model that sorts no nodes."""
    model = model_like(trained.factory)
    if isinstance(model, NonLocal) and model.vote is not None:
        return vote_parts(trained, graph, good)
    try:
        kernels = kernel_sizes(model)
    except OptionError:
        return []
    scaled = graph.scale_features(trained.recipe.features)
    orders = [order_before_and_after(trained.factory, scaled, one) for one in good]
    agreement = [[reconnected_homophily(order.nodes, graph.y, kernels) for order in pair] for pair in orders]
    return [
        node_list(trained, graph, run, split, probabilities),
        agreement_figure("Do neighbours in the order agree?", "the order", WINDOW_CAPTION, graph, np.array(agreement)),
    ]


def embedding_figure(trained: Trained, graph: Graph, run: Run, probabilities: NDArray[Any]) -> Figure:
    model = trained.factory()
    model.load_state_dict(run.state)
    projection = project(model, graph.scale_features(trained.recipe.features))
    return projection_figure(projection, graph, probabilities.argmax(1), run.index)


def what_was_run(trained: Trained, graph: Graph) -> list[Part]:
    config, plan, good = trained.folder.config, trained.plan, trained.finished
    machine = config.get("machine", {})
    settings = {
        "graph": f"{plan.graph}, fingerprint {config['fingerprint']}",
        "model": plan.model,
        **({"weights of edges": "not looked at"} if ignores_weights(model_like(trained.factory), graph) else {}),
        "preset": config["preset"],
        "protocol": f"{plan.protocol}, {len(trained.runs)} runs",
        "seeds": ", ".join(str(run.seed) for run in trained.runs),
        **{name: str(value) for name, value in config["model_arguments"].items()},
        **{name: str(value) for name, value in config["recipe"].items()},
        "epochs trained": f"{fmean(run.epochs for run in good):.0f} on average",
        "seconds": f"{sum(run.seconds for run in good):.1f} in all",
        "versions": ", ".join(f"{name} {version}" for name, version in config["versions"].items()),
        "machine": f"{machine['processor']}, {machine['cores']} cores" if machine else "not recorded",
        "date": config.get("date", "not recorded"),
        "folder": str(trained.folder.path),
    }
    failed = [run.failure for run in trained.runs if run.failure]
    words = " ".join(f"Left out of the figures: {failure}." for failure in failed)
    return [
        Section(
            "What was run",
            [{"setting": name, "value": value} for name, value in settings.items()],
            "",
            words,
            text_columns=2,
        ),
        Command("Run it again", repeat_command(trained)),
    ]


def repeat_command(trained: Trained) -> str:
    plan, preset = trained.plan, trained.folder.config["preset"]
    return training_command(plan.graph, plan.model, plan.protocol, preset, plan.options, plan.runs, plan.tables)
