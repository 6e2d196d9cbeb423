"""Pages of run folders: the page of one training, and the page that compares several."""

from __future__ import annotations

import glob
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis.columns import accuracy_lost, encoder_of
from nlgnn.analysis.projection import project
from nlgnn.analysis.quality import held_back
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import training_command
from nlgnn.models.registry import get_system
from nlgnn.report.figures.intervals import CONSTANT, MAJORITY, Answer, figures_of
from nlgnn.report.figures.order import order_parts
from nlgnn.report.figures.quality import compatibility_figures, curve_figures, projection_figure, quality_figures
from nlgnn.report.page import Command, Part, caption, write_page
from nlgnn.report.table import Rows, Section
from nlgnn.selection.controls import Variant, figure_words
from nlgnn.selection.leaderboard import read_leaderboard
from nlgnn.selection.profile import portray
from nlgnn.selection.race_verdict import constant_figure
from nlgnn.shallow.base import ShallowModel
from nlgnn.training.device import limited_threads, model_like
from nlgnn.training.fit import predict
from nlgnn.training.predict import calibrated, temperatures
from nlgnn.training.preflight import ignores_weights
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import load_weights
from nlgnn.training.train import Plan, Trained, read_trained

MOST_COLUMNS_SHOWN = 200
WARNING = "warning: "  # the prefix of notes that are warnings


def write_run_page(
    path: Path, trained: Trained, graph: Graph, others: Mapping[str, Trained], run_number: int | None = None
) -> None:
    """Write the page of a training.

    Args:
        path: The HTML file.
        trained: The training.
        graph: Its graph.
        others: Models trained on the same splits, by label, that it is compared with.
        run_number: The run that is looked into. By default it is the first that did not fail.
    """
    write_page(path, f"{label_of(trained)} on {graph.name}", run_parts(trained, graph, others, run_number))


def run_parts(
    trained: Trained, graph: Graph, others: Mapping[str, Trained], run_number: int | None = None
) -> list[Part]:
    """Return the parts of the page of a training, as for `write_run_page`."""
    splits = make_splits(graph, trained.plan.protocol, trained.plan.runs)
    good = trained.finished
    run = trained.finished_run(run_number)
    answer = make_answer(trained, graph, splits, others)
    portrait = portray(graph, splits)
    headline = answer.headline(verdict_words(trained))
    with limited_threads(trained.recipe.threads, graph):  # on small graphs several threads cost far more than one
        probabilities = predict(trained.factory, graph, good, trained.recipe).numpy()  # [runs, n, c]
        own = probabilities[good.index(run)]
        heats = temperatures(probabilities, good, graph, splits)
        sure = np.stack([calibrated(one, heat) for one, heat in zip(probabilities, heats, strict=True)])
        return [
            headline._replace(sentences=[*headline.sentences, *warnings_of(trained.plan)]),
            *leaderboard_parts(trained),
            answer.figure(),
            answer.section(),
            *missing_controls(trained, others),
            *order_parts(trained, graph, good, run, splits[run.index], own),
            *curve_figures(good, answer.selection, answer.metric),
            *quality_figures(
                held_back(sure, graph, [splits[one.index] for one in good]), graph, trained.recipe.class_weight
            ),
            *embedding_figures(trained, graph, run, own.argmax(1)),
            *compatibility_figures(graph.class_names, portrait.compatibility),
            *portrait.sections(matrix=False),
            *table_sections(trained, graph, splits),
            *settings_parts(trained, graph),
        ]


def leaderboard_parts(trained: Trained) -> list[Part]:
    """Return the leaderboard of the automatic choice that a training belongs to, if any."""
    board = read_leaderboard(trained.folder.path.parent.parent) if trained.reason else None
    return [board.section()] if board else []


def embedding_figures(trained: Trained, graph: Graph, run: Run, predictions: NDArray[np.int64]) -> list[Part]:
    """Return the embedding of one run in two dimensions. The list is empty for a model without an embedding."""
    model = model_like(trained.factory)
    if isinstance(model, ShallowModel):
        return []
    load_weights(model, run.state, f"run {run.index}")
    projection = project(model, graph.scale_features(trained.recipe.features))
    return [projection_figure(projection, graph, predictions, run.index)]


def label_of(trained: Trained) -> str:
    """Return the name of a model with its variant."""
    return Variant(trained.plan.model, trained.plan.options).label


def make_answer(
    trained: Trained, graph: Graph, splits: Sequence[Split], others: Mapping[str, Trained], label: str | None = None
) -> Answer:
    """Collect the figures of a model, of the majority class and of others. `label` replaces the model's name."""
    recipe, indices = trained.recipe, [run.index for run in trained.runs]
    part = "test" if any(run.test for run in trained.runs) else "validation"
    figures: dict[str, Sequence[float | None]] = {
        label or label_of(trained): figures_of(trained.runs, recipe.metric, part, indices)
    }
    constant = MAJORITY if recipe.metric == "accuracy" else CONSTANT
    figures[constant] = [constant_figure(graph, splits[index], recipe.metric, part) for index in indices]
    for name, other in others.items():
        figures[name] = figures_of(other.runs, recipe.metric, part, indices)
    selection = figure_words(recipe, trained.runs)
    return Answer(figures, part, recipe.metric, trained.plan.protocol, selection)


def verdict_words(trained: Trained) -> str:
    """Return reason and verdict of an automatic choice, or the command that diagnoses the graph."""
    if trained.reason:  # of an automatic choice
        return trained.reason
    graph = [trained.plan.graph] if trained.plan.tables is None else trained.plan.tables.flags
    command = f"nlgnn diagnose {shlex.join(graph)}"
    return f"Trained without a diagnosis. {command} tests if neighbours help on this graph."


def missing_controls(trained: Trained, others: Mapping[str, Trained]) -> list[Part]:
    """Return the command that trains the controls of a non-local model that has none."""
    if others or get_system(trained.plan.model).local is None:
        return []
    command = f"nlgnn train --resume {shlex.quote(str(trained.folder.path))} --controls"
    return [Command("Train its local part and its controls to compare with", command)]


def warnings_of(plan: Plan) -> list[str]:
    """Return the warnings of reading the tables, such as a column that contains the label."""
    return [f"Warning: {note.removeprefix(WARNING)}" for note in plan.notes if note.startswith(WARNING)]


def table_sections(trained: Trained, graph: Graph, splits: Sequence[Split]) -> list[Section]:
    """Return one table for a training on a user's own graph: its columns and what became of them."""
    plan = trained.plan
    if plan.tables is None:
        return []
    encoder = encoder_of(plan)
    described = [] if encoder is None else encoder.describe()
    lost = {} if encoder is None else accuracy_lost(trained, graph, splits, encoder)
    rows = []
    for row in described[:MOST_COLUMNS_SHOWN]:
        cells = {"column": str(row["column"]), "became": str(row["kind"])}
        cells |= {"features": f"{row['slots']:,}", "missing values": f"{row['missing']:,}"}
        rows.append(cells | ({"test accuracy lost": lost.get(str(row["column"]), "")} if lost else {}))
    text = "Made from the links. " * (encoder is not None and encoder.structural)
    if len(described) > MOST_COLUMNS_SHOWN:
        text += f"The first {MOST_COLUMNS_SHOWN} of {len(described)} columns. "
    if lost:
        text += caption("lost", runs=len(trained.finished), protocol=plan.protocol)
    words = [*warnings_of(plan), *(note for note in plan.notes if not note.startswith(WARNING))]
    return [Section("Your table", rows, text.strip(), "\n\n".join(words), text_columns=2)]


def settings_parts(trained: Trained, graph: Graph) -> list[Part]:
    """Return all settings of a training, and the command that repeats it."""
    config, plan, good = trained.folder.config, trained.plan, trained.finished
    settings = {
        "graph": f"{plan.graph}, fingerprint {config['fingerprint']}",
        "model": plan.model,
        **({"edge weights": "not used"} if ignores_weights(model_like(trained.factory), graph) else {}),
        **({"preset": config["preset"]} if good[0].epochs else {}),
        "protocol": f"{plan.protocol}, {len(trained.runs)} runs",
        "seeds": ", ".join(str(run.seed) for run in trained.runs),
        **{name: str(value) for name, value in config["model_arguments"].items()},
        **{name: str(value) for name, value in config["recipe"].items()},
        **({"epochs trained": f"{fmean(run.epochs for run in good):.0f} on average"} if good[0].epochs else {}),
        "seconds": f"{sum(run.seconds for run in good):.1f} in all",
        "versions": ", ".join(f"{name} {version}" for name, version in config["versions"].items()),
        "machine": f"{config['machine']['processor']}, {config['machine']['cores']} cores",
        "date": config["date"],
        "folder": str(trained.folder.path),
    }
    failed = [run.failure for run in trained.runs if run.failure]
    words = " ".join(f"Left out of the figures: {failure}." for failure in failed)
    rows = [{"setting": name, "value": value} for name, value in settings.items()]
    return [
        Section("Settings", rows, "", words, text_columns=2),
        Command("Repeat the training", repeat_command(trained)),
    ]


def repeat_command(trained: Trained) -> str:
    """Return the command that repeats a training."""
    plan, preset = trained.plan, trained.folder.config["preset"]
    return training_command(plan.graph, plan.model, plan.protocol, preset, plan.options, plan.runs, plan.tables)


def read_companions(path: Path, trained: Trained, graph: Graph | None = None) -> dict[str, Trained]:
    """Read the models that were trained on the same splits.

    They are in folders whose names begin with that of `path`, or in `models/` of the folder of an automatic choice,
    whose leaderboard names them. A graph that is given is not read again.
    """
    companions: dict[str, Trained] = {}
    path = path.resolve()
    board = read_leaderboard(path)
    if board is not None:
        folders = {row.entry.name: path / "models" / row.entry.folder for row in board.ranked()}
        return {
            name: read_trained(folder, graph)[0]
            for name, folder in folders.items()
            if folder != trained.folder.path.resolve()
        }
    for other in sorted(path.parent.glob(f"{glob.escape(path.name)}-*")):
        try:
            found, _ = read_trained(other)
        except NlgnnError:  # not a run folder, or not finished
            continue
        if label_of(found) != label_of(trained) and why_not_comparable(trained, found) is None:
            companions.setdefault(label_of(found), found)
    return companions


def why_not_comparable(one: Trained, other: Trained) -> str | None:
    """Say why the figures of two trainings cannot be paired over splits, or return None if they can."""
    facts = {
        "on another graph": [side.folder.config["fingerprint"] for side in (one, other)],
        "under another protocol": [side.plan.protocol for side in (one, other)],
        "for another metric": [side.recipe.metric for side in (one, other)],
        "from another seed": [side.recipe.seed for side in (one, other)],
        "with another split column": [side.plan.tables and side.plan.tables.split for side in (one, other)],
    }
    return next((fact for fact, (mine, theirs) in facts.items() if mine != theirs), None)


def write_comparison(path: Path, folders: Sequence[Path]) -> None:
    """Write the page that compares several run folders.

    Raises:
        OptionError: A folder is given twice, or their figures cannot be paired.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise OptionError("A run folder is named twice.", "Name each once.")
    found = [read_trained(folder) for folder in folders]
    first, graph = found[0]
    for folder, (other, _) in zip(folders, found, strict=True):
        why = why_not_comparable(first, other)
        if why is not None:
            raise OptionError(
                f"{folder} was trained {why} than {folders[0]}.",
                "Compare runs of one graph, protocol, metric and seed.",
            )
    trained = with_names([one for one, _ in found])
    write_page(path, f"{len(trained)} models on {graph.name}", comparison_parts(trained, graph))


def with_names(trained: Sequence[Trained]) -> dict[str, Trained]:
    """Name trainings by label, and also by folder where several have one label."""
    labels = Counter(map(label_of, trained))
    names = [label_of(one) if labels[label_of(one)] == 1 else f"{label_of(one)} ({one.folder.path})" for one in trained]
    return dict(zip(names, trained, strict=True))


def comparison_parts(trained: Mapping[str, Trained], graph: Graph) -> list[Part]:
    """Return the parts of the page that compares trainings."""
    label, *others = trained
    main = trained[label]
    splits = make_splits(graph, main.plan.protocol, main.plan.runs)
    answer = make_answer(main, graph, splits, {name: trained[name] for name in others}, label)
    return [
        answer.headline(""),
        answer.figure(),
        answer.section(),
        Section("Different settings", differing_settings(trained), "Settings that are equal for all are left out."),
        Section("Cost", cost_rows(trained), "Seconds are those of training, over all runs."),
        *(Command(f"Repeat {name}", repeat_command(one)) for name, one in trained.items()),
    ]


def differing_settings(trained: Mapping[str, Trained]) -> Rows:
    """Return the settings that are not equal for all."""
    settings: dict[str, dict[str, Any]] = {}
    for label, one in trained.items():
        config = one.folder.config
        own = {"model": config["model"], "preset": config["preset"]}
        settings[label] = own | config["model_arguments"] | config["recipe"]
    rows = []
    for name in dict.fromkeys(name for of_one in settings.values() for name in of_one):
        values = [str(of_one.get(name, "–")) for of_one in settings.values()]
        if len(set(values)) > 1:
            rows.append({"setting": name, **dict(zip(settings, values, strict=True))})
    return rows


def cost_rows(trained: Mapping[str, Trained]) -> Rows:
    """Return the epochs and the time of each training."""
    return [
        {
            "model": label,
            "runs": str(len(good)),
            "epochs, mean": f"{fmean(run.epochs for run in good):.0f}" if good[0].epochs else "–",
            "ms per epoch": f"{fmean(run.ms_per_epoch for run in good):.2f}" if good[0].epochs else "–",
            "seconds": f"{sum(run.seconds for run in good):.1f}",
        }
        for label, good in ((label, one.finished) for label, one in trained.items())
    ]
