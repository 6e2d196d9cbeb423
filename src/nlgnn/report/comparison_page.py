"""Several run folders side by side: what stands next to one, and the page that compares them."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.experiments.section import Rows, Section
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.report.page import Command, Part, write_page
from nlgnn.report.run_page import label_of, make_answer, repeat_command
from nlgnn.training.train import Trained, read_trained


def read_companions(path: Path, trained: Trained) -> dict[str, Trained]:
    """What was trained beside a model on the same splits: folders whose names go on from its own."""
    companions: dict[str, Trained] = {}
    for other in sorted(path.resolve().parent.glob(f"{glob.escape(path.resolve().name)}-*")):
        try:
            found, _ = read_trained(other)
        except NlgnnError:  # not a run folder, or not finished
            continue
        if label_of(found) != label_of(trained) and why_not_comparable(trained, found) is None:
            companions.setdefault(label_of(found), found)  # not another that goes on from its name
    return companions


def why_not_comparable(one: Trained, other: Trained) -> str | None:
    """Figures are paired over splits, which must be the same."""
    facts = {
        "on another graph": [side.folder.config["fingerprint"] for side in (one, other)],
        "under another protocol": [side.plan.protocol for side in (one, other)],
        "for another metric": [side.recipe.metric for side in (one, other)],
        "from another seed": [side.recipe.seed for side in (one, other)],
        "with another split column": [side.plan.tables and side.plan.tables.split for side in (one, other)],
    }
    return next((fact for fact, (mine, theirs) in facts.items() if mine != theirs), None)


def write_comparison(path: Path, folders: Sequence[Path]) -> None:
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise OptionError("a run folder is named twice.", "Name each once.")
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
    write_page(path, f"{len(trained)} trainings on {graph.name}", comparison_parts(trained, graph))


def with_names(trained: Sequence[Trained]) -> dict[str, Trained]:
    """By label; by the folder too, where several have one label."""
    labels = Counter(map(label_of, trained))
    names = [label_of(one) if labels[label_of(one)] == 1 else f"{label_of(one)} ({one.folder.path})" for one in trained]
    return dict(zip(names, trained, strict=True))


def comparison_parts(trained: Mapping[str, Trained], graph: Graph) -> list[Part]:
    label, *others = trained
    main = trained[label]
    splits = make_splits(graph, main.plan.protocol, main.plan.runs)
    answer = make_answer(main, graph, splits, {name: trained[name] for name in others}, label)
    commands = [Command(f"Run {name} again", repeat_command(one)) for name, one in trained.items()]
    return [
        answer.headline(""),
        answer.figure(),
        answer.section(),
        Section("What differs", differing_settings(trained), "Settings that are the same for all are left out."),
        Section("What it cost", cost_rows(trained), "Seconds of training, of all runs together."),
        *commands,
    ]


def settings_of(trained: Trained) -> dict[str, Any]:
    config = trained.folder.config
    return {"model": config["model"], "preset": config["preset"], **config["model_arguments"], **config["recipe"]}


def differing_settings(trained: Mapping[str, Trained]) -> Rows:
    settings = {label: settings_of(one) for label, one in trained.items()}
    names = dict.fromkeys(name for of_one in settings.values() for name in of_one)
    rows = []
    for name in names:
        values = [str(of_one.get(name, "–")) for of_one in settings.values()]
        if len(set(values)) > 1:
            rows.append({"setting": name, **dict(zip(settings, values, strict=True))})
    return rows


def cost_rows(trained: Mapping[str, Trained]) -> Rows:
    rows = []
    for label, one in trained.items():
        good = one.finished
        rows.append(
            {
                "model": label,
                "runs": str(len(good)),
                "epochs, mean": f"{fmean(run.epochs for run in good):.0f}",
                "ms an epoch": f"{fmean(run.ms_per_epoch for run in good):.2f}",
                "seconds": f"{sum(run.seconds for run in good):.1f}",
            }
        )
    return rows
