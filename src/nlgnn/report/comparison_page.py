"""The page that compares several run folders, sorted by validation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.report.companions import label_of
from nlgnn.report.page import Command, Part, caption, write_page
from nlgnn.report.run_page import make_answer, repeat_command
from nlgnn.report.table import Rows, Section
from nlgnn.selection.race_verdict import constant_figure
from nlgnn.selection.statistics import spread
from nlgnn.training.recipe import metric_heading
from nlgnn.training.train import Trained, read_trained

ABSENT = "–"


def write_comparison(path: Path, folders: Sequence[Path], metric: str | None = None) -> None:
    """Write the page that compares several run folders on the same nodes and splits.

    Settings, metrics, columns and the direction of edges may differ.

    Args:
        path: The HTML file.
        folders: The run folders.
        metric: The metric to compare by; by default that of the first folder, if all have it.

    Raises:
        OptionError: A folder is given twice, figures cannot be paired, or a folder does not have the metric.
    """
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise OptionError("A run folder is named twice.", "Name each once.")
    found = [read_trained(folder) for folder in folders]
    for folder, other in zip(folders[1:], found[1:], strict=True):
        why = why_not_paired(found[0], other)
        if why is not None:
            raise OptionError(f"{folder} was trained {why} than {folders[0]}.", "Compare runs on the same splits.")
    metric = common_metric([one for one, _ in found], metric)
    names = on_common_runs(with_names([one for one, _ in found]))
    graphs = dict(zip(names, (graph for _, graph in found), strict=True))
    title = f"{len(found)} models on {found[0][1].name}"
    write_page(path, title, comparison_parts(names, graphs, metric))


def why_not_paired(one: tuple[Trained, Graph], other: tuple[Trained, Graph]) -> str | None:
    """Say why the figures of two trainings cannot be paired over splits, or return None if they can.

    Their graphs may differ in features and edges, but not in nodes and labels.
    """
    (mine, graph), (theirs, other_graph) = one, other
    nodes = [(side.class_names, side.node_names, side.y.tolist()) for side in (graph, other_graph)]
    if nodes[0] != nodes[1]:
        return "on other nodes or labels"
    splits = [
        make_splits(side, plan.protocol, plan.runs) for side, plan in ((graph, mine.plan), (other_graph, theirs.plan))
    ]
    for first, second in zip(*splits, strict=False):
        if not all(np.array_equal(getattr(first, part), getattr(second, part)) for part in ("train", "val", "test")):
            return "on other splits"
    return None


def common_metric(trained: Sequence[Trained], metric: str | None = None) -> str:
    """Return the metric to compare trainings by: the given one, that of the first if all have it, or accuracy.

    Raises:
        OptionError: If a training does not have the given metric.
    """
    measured = set.intersection(*(set(run.val) for one in trained for run in one.finished))
    if metric is not None and metric not in measured:
        raise OptionError(f"Not every run has the metric {metric!r}.", f"Choose one of {', '.join(sorted(measured))}.")
    own = trained[0].recipe.metric
    return metric or (own if own in measured else "accuracy")


def with_names(trained: Sequence[Trained]) -> dict[str, Trained]:
    """Name trainings by label, and also by folder where several have one label."""
    labels = Counter(map(label_of, trained))
    names = [label_of(one) if labels[label_of(one)] == 1 else f"{label_of(one)} ({one.folder.path})" for one in trained]
    return dict(zip(names, trained, strict=True))


def on_common_runs(trained: Mapping[str, Trained]) -> dict[str, Trained]:
    """Return the trainings with those of their runs that succeeded in all of them.

    Raises:
        OptionError: If there is no such run.
    """
    common = set.intersection(*({run.index for run in one.finished} for one in trained.values()))
    if not common:
        raise OptionError("No run succeeded in all folders.", "Compare trainings with a common run.")
    return {name: one.with_runs([run for run in one.runs if run.index in common]) for name, one in trained.items()}


def comparison_parts(trained: Mapping[str, Trained], graphs: Mapping[str, Graph], metric: str) -> list[Part]:
    """Return the parts of the page that compares trainings, the best by validation first.

    Args:
        trained: The trainings, by label.
        graphs: The graph of each of them.
        metric: The metric that they are compared by.
    """
    figures = {name: [run.val.get(metric) for run in one.runs] for name, one in trained.items()}
    means = {name: fmean(value for value in values if value is not None) for name, values in figures.items()}
    label, *others = sorted(trained, key=lambda name: -means[name])
    main, graph = trained[label], graphs[label]
    splits = make_splits(graph, main.plan.protocol, main.plan.runs)
    answer = make_answer(main, graph, splits, {name: trained[name] for name in others}, label, metric)
    constant = [constant_figure(graph, splits[run.index], metric) for run in main.runs]
    section = answer.section(caption("compared-runs"))
    heading = f"validation {metric_heading(metric)}"
    rows = [
        {"model": row["model"], heading: str(spread(figures.get(row["model"], constant)) or "–"), **row}
        for row in section.rows
    ]
    rows.sort(key=lambda row: row["model"] not in trained)  # The constant answer comes last.
    ordered = {name: trained[name] for name in (label, *others)}
    settings = differing_settings(ordered, graphs)
    return [
        answer.headline(""),
        answer.figure(),
        section._replace(rows=rows),
        *([Section("Different settings", settings, caption("settings"))] if settings else []),
        Section("Cost", cost_rows(ordered), "Seconds are those of training, over the compared runs."),
        *(Command(f"Repeat {name}", repeat_command(one)) for name, one in ordered.items()),
    ]


def differing_settings(trained: Mapping[str, Trained], graphs: Mapping[str, Graph]) -> Rows:
    """Return the settings that are not equal for all models that have them, those of the tables included."""
    settings: dict[str, dict[str, Any]] = {}
    for label, one in trained.items():
        config, plan = one.folder.config, one.plan
        tables = {} if plan.tables is None else asdict(plan.tables)
        settings[label] = {
            "model": plan.model,
            "preset": config["preset"],
            "direction of edges": "directed" if graphs[label].directed else "undirected",
            **{name: value for name, value in tables.items() if name != "directed"},
            **{name: getattr(plan, name) for name in ("threshold", "cost")},
            **config["model_arguments"],
            **config["recipe"],
        }
    given = {name for one in trained.values() for name in one.plan.options}
    rows = []
    for name in dict.fromkeys(name for of_one in settings.values() for name in of_one):
        values = [str(of_one.get(name, ABSENT)) for of_one in settings.values()]
        # A setting that some models do not have tells nothing, unless somebody gave it.
        if len({*values} - ({ABSENT} if name not in given else set())) > 1:
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
