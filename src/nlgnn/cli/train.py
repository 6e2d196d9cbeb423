"""`nlgnn train`: train a model, or the automatic choice, on every split of a graph.

The folder of an automatic choice holds `config.json` (the plan), `choice.json` (verdict and decision) and, in
`models/`, one run folder per trained model. It is created under its final name before anything is trained.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from nlgnn.cli.console import console, errors, result_table
from nlgnn.cli.options import all_flags, given_graph, own_tables, plan_keys, read_config, with_flags
from nlgnn.cli.report import tell_report
from nlgnn.datasets import describe
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.files import refuse_existing
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import check_given, configure, resolve
from nlgnn.models.registry import get_system
from nlgnn.selection.auto import check_options, choose_model
from nlgnn.selection.controls import Variant, with_references
from nlgnn.selection.diagnosis import Verdict
from nlgnn.training.fit import EveryRunFailedError
from nlgnn.training.run_folder import Run, RunFolder
from nlgnn.training.tracking import Tracking, check_trackers
from nlgnn.training.train import (
    AUTO,
    Plan,
    Trained,
    candidate_folder,
    check_same_graph,
    graph_of,
    read_plan,
    resume,
    train,
)

Track = Callable[[Path], Tracking]
PLAN_KEYS = plan_keys("train")


def train_graph(given: dict[str, Any]) -> None:
    """Train a model on every split of a named graph, or of your own tables.

    Flags are shown with their defaults. A model's own defaults and published settings take precedence: `nlgnn models
    NAME` lists them.
    """
    trackers = {name: given.pop(name) for name in ("tensorboard", "mlflow") if name in given}
    check_trackers(**trackers)
    track = partial(Tracking, **trackers)
    allow_unverified = given.pop("allow_unverified", False)
    if "resume" in given:
        _resume(given.pop("resume"), given, track)
        return
    options = read_config(given.pop("config", None), PLAN_KEYS) | given
    settings = {name: options.pop(name, None) for name in PLAN_KEYS}
    if settings["out"] is not None:
        refuse_existing(Path(settings["out"]))  # before tables are read
    wanted = given_graph("train", settings["graph"], own_tables(settings), allow_unverified)
    model = settings["model"] or ("nlgcn" if wanted.tables is None else AUTO)
    protocol, controls = settings["splits"] or wanted.protocol, bool(settings["controls"])
    plan = Plan(wanted.name, model, protocol, settings["runs"], settings["preset"], options)
    plan = replace(plan, tables=wanted.tables, encoder=wanted.encoder, notes=wanted.notes)
    if model.lower() == AUTO:
        plan = replace(plan, model=AUTO)
        folder, graph = _begin_choice(plan, Path(settings["out"] or _new_name(plan.graph, AUTO)), wanted.load)
        _train_automatically(plan, folder, graph, controls, track)
        return
    check_given(model, plan.graph, plan.preset, options)  # before anything is downloaded
    main, *others = with_references(model, options)
    if controls and not others:
        errors.print(f"{main.system} is a local model: it has no controls.")
    variants = [main, *others] if controls else [main]
    for variant in variants[1:]:
        resolve(variant.system, plan.graph, plan.preset, variant.options)
    paths = _folders(Path(settings["out"] or _new_name(plan.graph, main.slug)), variants)
    for path in paths:
        refuse_existing(path)  # all of them, before the first is trained into
    graph = wanted.load()
    for variant in variants:  # the sizes of the graph are known now
        configure(variant.system, graph, plan.preset, **variant.options)
    _train_all(plan, variants, paths, graph, track)
    if others and not controls:
        labels = "; ".join(variant.label for variant in others)
        console.print(f"Does the order matter? --controls also trains: {labels}.", soft_wrap=True)


def _resume(path: Path, given: dict[str, Any], track: Track) -> None:
    """Continue the trainings of a folder and its neighbours."""
    folder = RunFolder.open(path)
    plan = read_plan(folder)
    graph, model, controls = (given.pop(name, None) for name in ("graph", "model", "controls"))
    asked_graph = graph if plan.tables is not None or graph is None else describe(graph).name
    asked_model = model and (AUTO if model.lower() == AUTO else get_system(model).name)
    for what, asked, there in (("graph", asked_graph, plan.graph), ("model", asked_model, plan.model)):
        if asked is not None and asked != there:
            how = f"Pass --model {there}." if ":" in there else "Leave it out: it is in the folder."
            raise OptionError(f"{path} holds the {what} {there!r}, not {asked!r}.", how)
    if given:
        flag = f"--{next(iter(given)).replace('_', '-')}"
        raise OptionError(f"{flag} cannot change while resuming {path}.", "Train into a new folder instead.")
    if plan.model == AUTO:
        _train_automatically(plan, folder, graph_of(plan, path), bool(controls), track)
        return
    variants = with_references(plan.model, plan.options)[: None if controls else 1]
    _train_all(plan, variants, _folders(path, variants), graph_of(plan, path), track)


def _train_all(plan: Plan, variants: list[Variant], paths: list[Path], graph: Graph, track: Track) -> None:
    """Train each variant into its folder, or resume it there, and show all results in one table."""
    trained: dict[str, tuple[Trained, Tracking]] = {}
    with _way_to_go_on(paths[0], len(variants) > 1, track):
        for variant, path in zip(variants, paths, strict=True):
            trained[variant.label] = _train_or_resume(plan, variant, path, graph, track)
    _show_trained(trained)
    main, *others = ((label, result) for label, (result, _) in trained.items())
    tell_report(main[1], graph, dict(others))


@contextmanager
def _way_to_go_on(path: Path, controls: bool, track: Track) -> Iterator[None]:
    """Print the command that resumes a training after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        if path.exists():  # otherwise nothing was started
            command = f"nlgnn train --resume {shlex.quote(str(path))}" + " --controls" * controls
            errors.print(f"\ninterrupted. Continue with: {command}{track(path).flags}", soft_wrap=True, markup=False)
        raise


def _train_or_resume(plan: Plan, variant: Variant, path: Path, graph: Graph, track: Track) -> tuple[Trained, Tracking]:
    """Train a variant into its folder, or resume the training there."""
    if errors.is_terminal:
        errors.print(f"training {variant.label} on {graph.name}, protocol {plan.protocol}", markup=False)
    tracked = track(path)
    if path.exists():
        return resume(RunFolder.open(path), graph, watch=tracked.watch), tracked
    own = replace(plan, model=variant.system, options=variant.options)
    return train(own, graph, path, watch=tracked.watch), tracked


def _show_trained(trained: Mapping[str, tuple[Trained, Tracking]]) -> None:
    """Print the table of results, failed runs, folders and the places of tracked results."""
    console.print(result_table([(label, result) for label, (result, _) in trained.items()], console.width))
    for result, _ in trained.values():
        for run in result.runs:
            if run.failure:
                errors.print(f"left out of the figures: {run.failure}", soft_wrap=True, markup=False)
        console.print(f"run folder: {result.folder.path}", soft_wrap=True, markup=False)
    for result, tracked in trained.values():
        for line in tracked.end(result):
            console.print(line, soft_wrap=True, markup=False)


def _new_name(graph: str, model: str) -> Path:
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{graph}-{model.replace(':', '.')}"


def _folders(first: Path, variants: list[Variant]) -> list[Path]:
    """Return a folder for each variant: the first as named, those of its controls next to it."""
    return [first, *(first.with_name(f"{first.name}-{variant.slug}") for variant in variants[1:])]


def show_verdict(verdict: Verdict, protocol: str, where: Console = console) -> None:
    """Print the verdict of a diagnosis."""
    where.print(f"Diagnosis: {verdict.title}. {verdict.words}", soft_wrap=True)
    where.print(f"{verdict.confidence} Protocol {protocol}.", soft_wrap=True)


def _begin_choice(plan: Plan, path: Path, load: Callable[[], Graph]) -> tuple[RunFolder, Graph]:
    """Create the run folder of an automatic choice, after everything that can be checked before it."""
    check_options(plan.graph, plan.preset, plan.options)
    graph = load()
    make_splits(graph, plan.protocol, plan.runs)
    return RunFolder.create(path, {**asdict(plan), "fingerprint": graph.fingerprint}), graph


def _train_automatically(plan: Plan, folder: RunFolder, graph: Graph, controls: bool, track: Track) -> None:
    """Choose a model, train what is missing in the folder, and print the results.

    Args:
        plan: The plan, whose model is "auto".
        folder: The run folder, new or of an interrupted training.
        graph: The graph.
        controls: Whether to train the controls of the non-local candidate as well.
        track: A function that makes the tracking of one training from its folder.
    """
    check_same_graph(folder, graph)
    trained: dict[str, tuple[Trained, Tracking]] = {}

    def train_into(variants: Sequence[Variant], verdict: Verdict) -> list[list[Run]]:
        own = replace(plan, verdict=f"{verdict.title}. {verdict.words}")
        for variant in variants:
            try:
                path = candidate_folder(folder.path, variant.slug)
                trained[variant.label] = _train_or_resume(own, variant, path, graph, track)
            except EveryRunFailedError as error:
                errors.print(f"{variant.label}: {error.what}", soft_wrap=True, markup=False)
        return [trained[one.label][0].runs if one.label in trained else [] for one in variants]

    if errors.is_terminal:
        errors.print(f"choosing a model for {graph.name}, protocol {plan.protocol}", markup=False)
    asked: dict[str, Any] = {"train": train_into, "folder": folder.path}
    asked["show"] = partial(show_verdict, protocol=plan.protocol)
    try:
        with _way_to_go_on(folder.path, controls, track):
            choice = choose_model(graph, plan.protocol, plan.runs, plan.preset, **asked, **plan.options)
            if controls:
                train_into(with_references(choice.verdict.non_local, plan.options)[2:], choice.verdict)
    except NlgnnError:
        if not any((folder.path / "models").iterdir()):
            folder.remove_if_nothing_was_trained()
        raise
    _show_trained(trained)
    console.print(choice.decision.reason, soft_wrap=True)
    results = {label: result for label, (result, _) in trained.items()}
    main = replace(results.pop(choice.decision.chosen), reason=choice.decision.reason)
    tell_report(main, graph, results, folder.path)


def generated_command(arguments: Sequence[str] = ("--help",)) -> Callable[..., None]:
    """Return the command with a flag for every option."""
    return with_flags(train_graph, all_flags("train", arguments))
