"""The automatic choice of a model, used by the command line and by `NodeClassifier`.

A diagnosis names a local model and its non-local version. Both are trained, and validation chooses one of them, on the
metric that the user asked for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.errors import NlgnnError, OptionError, RunFolderError
from nlgnn.files import write_whole
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import check_given, configure, default_metric, default_protocol, training_command
from nlgnn.selection.controls import with_controls
from nlgnn.selection.diagnosis import NON_LOCAL, Verdict, diagnose
from nlgnn.training.fit import fit_settings
from nlgnn.training.recipe import metric_text
from nlgnn.training.replica import Run
from nlgnn.training.train import CHOICE_FILE, read_choice
from nlgnn.tuning.result import Tuned


class Decision(NamedTuple):
    """Mean validation figures of a non-local model and of its local part, over the runs that both finished.

    A figure is None if all runs of the model failed.
    """

    non_local: str
    local: str
    non_local_mean: float | None
    local_mean: float | None
    metric: str

    @property
    def chosen(self) -> str:
        """Return the non-local model only if it is ahead of its local part."""
        if self.non_local_mean is None or self.local_mean is None:
            return self.local if self.non_local_mean is None else self.non_local
        return self.non_local if self.non_local_mean > self.local_mean else self.local

    @property
    def reason(self) -> str:
        """Return the choice and its reason in one sentence."""
        means = {self.non_local: self.non_local_mean, self.local: self.local_mean}
        own = means.pop(self.chosen)
        ((other, other_mean),) = means.items()
        if own is None or other_mean is None:
            return f"Chose {self.chosen}: the training of {other} failed."
        comparison = "above" if self.chosen == self.non_local else "not below"
        figures = [metric_text(self.metric, mean, 2) for mean in (own, other_mean)]
        return (
            f"Chose {self.chosen}: its validation {self.metric} ({figures[0]}) is {comparison} that of {other} "
            f"({figures[1]})."
        )


def decide(runs: Mapping[str, Sequence[Run]], metric: str) -> Decision:
    """Choose between a non-local model and its local part by validation.

    Args:
        runs: Runs by the name of the model: the non-local model first, then its local part.
        metric: Name of the evaluation metric.

    Returns:
        The decision.

    Raises:
        NlgnnError: If no split was finished by both models, unless all runs of just one model failed.
    """
    non_local, local = runs
    one, other = ({run.index: run.val[metric] for run in of_model if run.failure is None} for of_model in runs.values())
    compared = one.keys() & other.keys() if one and other else one.keys() | other.keys()
    if not compared:
        raise NlgnnError(
            f"no split was finished by both {non_local} and {local}, so that they cannot be compared.",
            "Try a lower learning rate, or look at the features.",
        )
    mean, local_mean = (fmean(figures[run] for run in compared) if figures else None for figures in (one, other))
    return Decision(non_local, local, mean, local_mean, metric)


def decide_tuned(graph: Graph, tuned: Tuned, progress: bool = True) -> tuple[Decision, str]:
    """Train the local part of the best setting of a search, as the search did, and choose between the two.

    Returns:
        The decision, and the command that trains the chosen model.
    """
    system, options = with_controls(tuned.model, tuned.options)[1]
    setting = configure(system, graph, tuned.preset, **{**options, "epochs": tuned.recipe.epochs})
    (runs,) = fit_settings([setting], graph, make_splits(graph, tuned.protocol, tuned.runs), progress=progress)
    failed = any(run.failure for run in runs)  # One failed run is a failed setting, as in the search.
    mean = None if failed else fmean(run.val[tuned.recipe.metric] for run in runs)
    decided = Decision(tuned.model, system, tuned.best.mean, mean, tuned.recipe.metric)
    if decided.chosen == tuned.model:
        return decided, tuned.command
    return decided, training_command(graph.name, system, tuned.protocol, tuned.preset, options, tables=tuned.tables)


def check_options(
    graph_name: str, preset: str | None, options: Mapping[str, Any], check: Callable[..., None] = check_given
) -> None:
    """Raise an `OptionError` for an option that one of the possible models does not take.

    `check` is `check_space` for options that are searched over.
    """
    for name in NON_LOCAL.values():
        try:
            check(name, graph_name, preset, options)
        except OptionError as error:
            raise OptionError(f"{error.what} The model auto may choose {name}.", error.how) from None


@dataclass(frozen=True)
class Choice:
    """The chosen model, its options and runs, the decision, and the verdict of the diagnosis before it."""

    model: str
    options: dict[str, Any]
    runs: Sequence[Run]
    decision: Decision
    verdict: Verdict


def choose_model(
    graph: Graph,
    splits: str | None = None,
    runs: int | None = None,
    preset: str | None = None,
    *,
    progress: bool = True,
    **options: Any,
) -> Choice:
    """Diagnose a graph, train the local model of the verdict and its non-local version, and choose by validation.

    Labels of test nodes have no influence on the choice.

    Args:
        graph: The graph, as for `diagnose`.
        splits: Name of a protocol. By default the one of the graph.
        runs: Number of training runs, one per split. By default ten, or all fixed splits.
        preset: paper, released or robust. By default the one that suits the graph.
        progress: Whether to draw progress bars.
        options: Options as for `configure`. All models that may be chosen must have them.

    Returns:
        The choice.

    Raises:
        OptionError: If a model that may be chosen does not take the options.
        NlgnnError: If both trainings failed.
    """
    check_options(graph.name, preset, options)
    protocol = splits or default_protocol(graph)
    drawn = make_splits(graph, protocol, runs)
    verdict = begin_choice(graph, protocol, options, progress=progress)
    settings = [
        configure(variant.system, graph, preset, **variant.options)
        for variant in with_controls(verdict.non_local, options)[:2]
    ]
    return end_choice(graph, verdict, options, fit_settings(settings, graph, drawn, progress=progress))


def begin_choice(
    graph: Graph, protocol: str, options: Mapping[str, Any], folder: Path | None = None, progress: bool = True
) -> Verdict:
    """Return the verdict that `choice.json` in the folder records, or diagnose the graph and record it there."""
    verdict = recorded_verdict(folder)
    if verdict is None:
        metric = options.get("metric") or default_metric(graph)
        verdict = diagnose(graph, protocol, metric=metric, progress=progress).verdict
        write_choice(folder, {"verdict": verdict._asdict()})
    return verdict


def end_choice(
    graph: Graph, verdict: Verdict, options: dict[str, Any], runs: Sequence[Sequence[Run]], folder: Path | None = None
) -> Choice:
    """Choose between the two candidates of a verdict, and record the decision before it is used.

    Args:
        graph: The graph.
        verdict: The verdict, which names a local model and its non-local version.
        options: The options that both were trained with.
        runs: The runs of the non-local model and of its local part; none for a training that failed.
        folder: A folder for `choice.json`.

    Raises:
        NlgnnError: If both trainings failed.
    """
    candidates = with_controls(verdict.non_local, options)[:2]
    by_label = {variant.label: of_one for variant, of_one in zip(candidates, runs, strict=True)}
    decision = decide(by_label, options.get("metric") or default_metric(graph))
    (chosen,) = [variant for variant in candidates if variant.label == decision.chosen]
    record = {"model": chosen.system, "folder": chosen.slug, "reason": decision.reason}
    write_choice(folder, {**record, "decision": decision._asdict(), "verdict": verdict._asdict()})
    return Choice(chosen.system, chosen.options, by_label[chosen.label], decision, verdict)


def recorded_verdict(folder: Path | None) -> Verdict | None:
    """Return the verdict that `choice.json` records, or None."""
    recorded = {} if folder is None else read_choice(folder)
    try:
        return Verdict(**recorded["verdict"]) if recorded else None
    except (KeyError, TypeError) as error:
        raise RunFolderError(f"{folder}/{CHOICE_FILE}: {error}.", "Remove the file and resume the training.") from None


def write_choice(folder: Path | None, record: dict[str, Any]) -> None:
    """Write `choice.json` atomically, if there is a folder."""
    if folder is not None:
        path = folder / CHOICE_FILE
        try:
            write_whole(path, partial(Path.write_text, data=json.dumps(record, indent=2), encoding="utf-8"))
        except OSError as error:
            raise RunFolderError(
                f"{path} cannot be written: {error.strerror}.",
                f"Free some space or change the permissions, then continue with: nlgnn train --resume {folder}",
            ) from error
