"""The page of a run folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis.columns import encoder_of, metric_lost, runs_to_measure
from nlgnn.analysis.periods import metric_periods
from nlgnn.analysis.projection import project
from nlgnn.analysis.quality import held_back
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import TIME, Split, make_splits
from nlgnn.models.build import rare_class, training_command
from nlgnn.report.companions import best_words, board_of_choice, label_of, missing_models, with_baselines
from nlgnn.report.decision import decision_sections, decision_sentences, ranking_figures, rare_class_figures
from nlgnn.report.figures.intervals import CONSTANT, MAJORITY, Answer, figures_of, means_figure
from nlgnn.report.figures.order import order_parts
from nlgnn.report.figures.quality import compatibility_figures, curve_figures, projection_figure, quality_figures
from nlgnn.report.page import Command, Part, caption, write_page
from nlgnn.report.table import Section
from nlgnn.selection.controls import figure_words, selection_words
from nlgnn.selection.profile import profile_of
from nlgnn.selection.race_verdict import constant_figure, labelled_nodes, single_run
from nlgnn.selection.statistics import spread
from nlgnn.shallow.base import ShallowModel
from nlgnn.training.decision import decision_of
from nlgnn.training.device import limited_threads, model_like
from nlgnn.training.predict import calibrated, temperatures
from nlgnn.training.preflight import ignores_types, ignores_weights
from nlgnn.training.recipe import metric_heading
from nlgnn.training.replica import Run, choice_words
from nlgnn.training.run_folder import load_weights
from nlgnn.training.thresholds import answers_of
from nlgnn.training.train import Plan, Trained
from nlgnn.training.trained import Ensemble, HasRuns

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
    good, inside = trained.finished, trained.leading
    run = inside.finished_run(run_number)
    baselines = with_baselines(trained, graph, splits, others)
    answer = make_answer(trained, graph, splits, baselines)
    profile = profile_of(graph, splits)
    with limited_threads(trained.recipe.threads, graph):  # on small graphs several threads cost far more than one
        probabilities = trained.probabilities(graph)  # [runs, n, c]
        own = (
            probabilities[good.index(run)] if inside is trained else replace(inside, runs=[run]).probabilities(graph)[0]
        )
        heats = temperatures(probabilities, good, graph, splits)
        sure = np.stack([calibrated(one, heat) for one, heat in zip(probabilities, heats, strict=True)])
        decision = decision_of(trained, graph, probabilities, heats)
        parts = [splits[one.index] for one in good]
        if len(good) == 1:
            nodes = labelled_nodes(graph, parts[0], answer.part)
            single = single_run(probabilities[0, nodes], graph, parts[0], answer.metric, answer.part)
            answer = answer._replace(single=single)
        headline = answer.headline(verdict_words(trained))
        tested = answers_of(probabilities, heats, graph, parts, "test")
        decided = held_back(sure, graph, parts, decision.labels)
        is_rare = rare_class(graph) is not None and len(decided.nodes) > 0
        return [
            headline._replace(
                sentences=[
                    *decision_sentences(decision, tested if is_rare else []),
                    *headline.sentences,
                    *warnings_of(trained.plan),
                ]
            ),
            *leaderboard_parts(trained),
            *(rare_class_figures(decision, tested, decided, graph) if is_rare else []),
            *decision_sections(decision, graph, tested, is_rare),
            answer.figure(),
            answer.section(best_words(trained, baselines)),
            *member_sections(trained),
            *missing_models(inside, others),
            *order_parts(inside, graph, inside.finished, run, splits[run.index], own),
            *period_parts(trained, graph, parts, sure),
            *curve_figures(inside.finished, selection_words(inside.recipe.selection, answer.metric), answer.metric),
            *quality_figures(
                decided, graph, trained.recipe.class_weight, held_back(sure, graph, parts), matrix=not is_rare
            ),
            *ranking_figures(decision, tested, is_rare),
            *embedding_figures(inside, graph, run, own.argmax(1)),
            *compatibility_figures(graph.class_names, profile.compatibility),
            *profile.sections(matrix=False),
            *table_sections(trained, graph, splits),
            *settings_parts(inside, graph),
        ]


def member_sections(trained: Trained) -> list[Section]:
    """Return the members of an ensemble with their weights; an empty list for a single model."""
    if not isinstance(trained, Ensemble):
        return []
    rows = [{"member": name, "mean weight": f"{weight:.2f}"} for name, weight in trained.mean_weights.items()]
    return [Section("Members of the ensemble", rows, caption("members", leading=next(iter(trained.mean_weights))))]


def leaderboard_parts(trained: Trained) -> list[Part]:
    """Return the leaderboard of the automatic choice that a training belongs to, if any."""
    board = board_of_choice(trained)
    return [board.section()] if board else []


def embedding_figures(trained: Trained, graph: Graph, run: Run, predictions: NDArray[np.int64]) -> list[Part]:
    """Return the embedding of one run in two dimensions. The list is empty for a model without an embedding."""
    model = model_like(trained.factory)
    if isinstance(model, ShallowModel):
        return []
    load_weights(model, run.state, f"run {run.index}")
    projection = project(model, graph.scale_features(trained.recipe.features))
    return [projection_figure(projection, graph, predictions, run.index)]


def period_parts(
    trained: Trained, graph: Graph, splits: Sequence[Split], probabilities: NDArray[np.floating]
) -> list[Part]:
    """Return the test figures by period of a split by time, drawn and as a table; an empty list for other splits."""
    times = trained.plan.tables and trained.plan.tables.node_times()
    if not times or splits[0].protocol != TIME:
        return []
    metric, rare = trained.recipe.metric, rare_class(graph)
    known = np.pad(times.values, (0, graph.num_nodes - len(times.values)), constant_values=np.nan)
    rows, drawn, heading = [], {}, f"test {metric_heading(metric)}"
    for period in metric_periods(known, probabilities, graph, splits, metric):
        row = {"period": f"{times.shown(period.first)} to {times.shown(period.last)}"}
        drawn[row["period"]] = period.values
        row["test nodes"] = f"{len(period.labels):,}"
        if rare is not None:
            row[f"{graph.class_names[rare]} %"] = f"{100 * (period.labels == rare).mean():.1f}"
        rows.append(row | {heading: str(spread(period.values) or "–")})
    if not rows:
        return []
    return [means_figure("Over time", heading, drawn, caption("periods")), Section("", rows, "")]


def make_answer(
    trained: Trained,
    graph: Graph,
    splits: Sequence[Split],
    others: Mapping[str, HasRuns],
    label: str | None = None,
    metric: str | None = None,
) -> Answer:
    """Collect the figures of a model, of the majority class and of others.

    Args:
        trained: The model.
        graph: Its graph.
        splits: Its splits.
        others: What it is compared with, by label.
        label: A label that replaces the name of the model.
        metric: A metric that replaces that of the training.
    """
    metric = metric or trained.recipe.metric
    recipe, indices = trained.recipe, [run.index for run in trained.runs]
    part = "test" if any(run.test for run in trained.runs) else "validation"
    figures: dict[str, Sequence[float | None]] = {
        label or label_of(trained): figures_of(trained.runs, metric, part, indices)
    }
    constant = MAJORITY if metric == "accuracy" else CONSTANT
    figures[constant] = [constant_figure(graph, splits[index], metric, part) for index in indices]
    for name, other in others.items():
        figures[name] = figures_of(other.runs, metric, part, indices)
    selection = figure_words(recipe, trained.runs)
    return Answer(figures, part, metric, trained.plan.protocol, selection)


def verdict_words(trained: Trained) -> str:
    """Return reason and verdict of an automatic choice, or the command that diagnoses the graph."""
    if trained.reason:  # of an automatic choice
        return trained.reason
    graph = [trained.plan.graph] if trained.plan.tables is None else trained.plan.tables.flags
    command = f"nlgnn diagnose {shlex.join(graph)}"
    return f"Trained without a diagnosis. {command} tests if neighbours help on this graph."


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
    lost = {} if encoder is None else metric_lost(trained, graph, splits, encoder)
    rank = {name: place for place, name in enumerate(lost)}
    described = sorted(described, key=lambda row: rank.get(str(row["column"]), len(rank)))  # The most important first.
    rows, heading = [], f"test {trained.recipe.metric} lost"
    for row in described[:MOST_COLUMNS_SHOWN]:
        cells = {"column": str(row["column"]), "became": str(row["kind"]), "remark": str(row["remark"])}
        cells |= {"features": f"{row['slots']:,}", "missing values": f"{row['missing']:,}"}
        rows.append(cells | ({heading: lost.get(str(row["column"]), "")} if lost else {}))
    text = "Made from the links. " * (encoder is not None and encoder.structural)
    if len(described) > MOST_COLUMNS_SHOWN:
        text += f"The first {MOST_COLUMNS_SHOWN} of {len(described)} columns. "
    if lost:
        runs = len(runs_to_measure(trained, graph, encoder)) if encoder else 0
        text += caption("lost", runs=runs, protocol=plan.protocol)
    words = [*warnings_of(plan), *(note for note in plan.notes if not note.startswith(WARNING))]
    return [Section("Your table", rows, text.strip(), "\n\n".join(words), text_columns=3)]


def settings_parts(trained: Trained, graph: Graph) -> list[Part]:
    """Return all settings of a training, and the command that repeats it."""
    config, plan, good = trained.folder.config, trained.plan, trained.finished
    settings = {
        "graph": f"{plan.graph}, fingerprint {config['fingerprint']}",
        "model": plan.model,
        **({"edge weights": "not used"} if ignores_weights(model_like(trained.factory), graph) else {}),
        **({"types of edges": "not used"} if ignores_types(model_like(trained.factory), graph) else {}),
        **({"preset": config["preset"]} if good[0].epochs else {}),
        "protocol": f"{plan.protocol}, {len(trained.runs)} runs",
        "seeds": ", ".join(str(run.seed) for run in trained.runs),
        **{name: str(value) for name, value in config["model_arguments"].items()},
        **{name: str(value) for name, value in config["recipe"].items()},
        **{f"{name}, chosen by validation": value for name, value in choice_words(good).items()},
        **{name: value for name in ("threshold", "cost") if (value := getattr(plan, name)) is not None},
        **({"epochs trained": f"{fmean(run.epochs for run in good):.0f} on average"} if good[0].epochs else {}),
        "seconds": f"{sum(run.seconds for run in good):.1f} in all",
        "versions": ", ".join(f"{name} {version}" for name, version in config["versions"].items()),
        "machine": f"{config['machine']['processor']}, {config['machine']['cores']} cores",
        "date": config["date"],
        "folder": str(trained.folder.path),
    }
    failed = [run.failure for run in trained.runs if run.failure and not run.is_postponed]
    late = [str(run.index) for run in trained.runs if run.is_postponed]
    failed += [f"there was no time for run {', '.join(late)}"] if late else []
    words = " ".join(f"Left out of the figures: {failure}." for failure in failed)
    rows = [{"setting": name, "value": value} for name, value in settings.items()]
    return [
        Section("Settings", rows, "", words, text_columns=2),
        Command("Repeat the training", repeat_command(trained)),
    ]


def repeat_command(trained: Trained) -> str:
    """Return the command that repeats a training."""
    plan, preset = trained.plan, trained.folder.config["preset"]
    command = training_command(plan.graph, plan.model, plan.protocol, preset, plan.options, plan.runs, plan.tables)
    given = {"--threshold": plan.threshold, "--cost": plan.cost}
    words = [word for flag, value in given.items() if value is not None for word in (flag, value)]
    return f"{command} {shlex.join(words)}" if words and command.startswith("nlgnn ") else command
