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
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from nlgnn.cli.console import console, errors, result_table, tell_report
from nlgnn.cli.options import all_flags, given_flags, given_graph, own_tables, plan_keys, read_config, with_flags
from nlgnn.datasets import describe
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.files import refuse_existing
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import check_given, configure, resolve
from nlgnn.models.registry import get_system
from nlgnn.selection.auto import begin_choice, check_options, end_choice
from nlgnn.selection.controls import Variant, with_references
from nlgnn.selection.diagnosis import Verdict
from nlgnn.training.fit import EveryRunFailedError
from nlgnn.training.run_folder import RunFolder
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

PLAN_KEYS = plan_keys("train")


class Request(NamedTuple):
    """A training that was asked for.

    Attributes:
        plan: The plan.
        path: The run folder of the model, or of the automatic choice.
        graph: The graph.
        controls: Whether to train the controls of a non-local model as well.
        trackers: The arguments of `Tracking`; empty if nothing is tracked.
    """

    plan: Plan
    path: Path
    graph: Graph
    controls: bool
    trackers: Mapping[str, Any]


def train_graph(**flags: Any) -> None:
    """Train a model on every split of a named graph, or of your own tables.

    Flags are shown with their defaults. A model's own defaults and published settings take precedence: `nlgnn models
    NAME` lists them.
    """
    given = given_flags(flags)
    trackers: dict[str, Any] = {name: given.pop(name) for name in ("tensorboard", "mlflow") if name in given}
    if trackers:
        check_trackers(**trackers)
    request = (_resumed if "resume" in given else _begun)(given, trackers)
    plan, path, graph, controls, _ = request
    if plan.model != AUTO:
        variants = with_references(plan.model, plan.options)
        with _way_to_go_on(request):
            trained = _train_each(request, variants if controls else variants[:1])
        chosen, reason = variants[0].label, ""
    else:
        if errors.is_terminal:
            errors.print(f"choosing a model for {graph.name}, protocol {plan.protocol}", markup=False)
        with _way_to_go_on(request):
            verdict = begin_choice(graph, plan.protocol, plan.options, path)
            show_verdict(verdict, plan.protocol)
            variants = with_references(verdict.non_local, plan.options)
            request = request._replace(plan=replace(plan, verdict=f"{verdict.title}. {verdict.words}"))
            trained = _train_each(request, variants[:2])
            runs = [trained[one.label].runs if one.label in trained else [] for one in variants[:2]]
            decision = end_choice(graph, verdict, plan.options, runs, path).decision
            if controls:
                trained |= _train_each(request, variants[2:])
        chosen, reason = decision.chosen, decision.reason
    _show_trained(trained, reason)
    main = replace(trained.pop(chosen), reason=reason)
    tell_report(main, graph, trained, path)
    if plan.model != AUTO and variants[1:] and not controls and "resume" not in given:
        labels = "; ".join(variant.label for variant in variants[1:])
        console.print(f"Does the order matter? --controls also trains: {labels}.", soft_wrap=True)


def _begun(given: dict[str, Any], trackers: Mapping[str, Any]) -> Request:
    """Return a new training, after everything that can be checked before it."""
    allow_unverified = given.pop("allow_unverified", False)
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
        path = Path(settings["out"] or _new_name(plan.graph, AUTO))
        check_options(plan.graph, plan.preset, plan.options)
        graph = wanted.load()
        make_splits(graph, plan.protocol, plan.runs)
        RunFolder.create(path, {**asdict(plan), "fingerprint": graph.fingerprint})
        return Request(plan, path, graph, controls, trackers)
    check_given(model, plan.graph, plan.preset, options)  # before anything is downloaded
    main, *others = with_references(model, options)
    if controls and not others:
        errors.print(f"{main.system} is a local model: it has no controls.")
    variants = [main, *others] if controls else [main]
    for variant in variants[1:]:
        resolve(variant.system, plan.graph, plan.preset, variant.options)
    path = Path(settings["out"] or _new_name(plan.graph, main.slug))
    for variant in variants:
        refuse_existing(_folder(plan, path, variant))  # all of them, before the first is trained into
    graph = wanted.load()
    for variant in variants:  # the sizes of the graph are known now
        configure(variant.system, graph, plan.preset, **variant.options)
    return Request(plan, path, graph, controls, trackers)


def _resumed(given: dict[str, Any], trackers: Mapping[str, Any]) -> Request:
    """Return the training of a folder, or raise if it is not the one that is asked for."""
    path = given["resume"]
    folder = RunFolder.open(path)
    plan = read_plan(folder)
    graph, model, controls = (given.get(name) for name in ("graph", "model", "controls"))
    asked_graph = graph if plan.tables is not None or graph is None else describe(graph).name
    asked_model = model and (AUTO if model.lower() == AUTO else get_system(model).name)
    for what, asked, there in (("graph", asked_graph, plan.graph), ("model", asked_model, plan.model)):
        if asked is not None and asked != there:
            how = f"Pass --model {there}." if ":" in there else "Leave it out: it is in the folder."
            raise OptionError(f"{path} holds the {what} {there!r}, not {asked!r}.", how)
    for name in given:
        if name not in ("resume", "allow_unverified", "graph", "model", "controls"):
            flag = f"--{name.replace('_', '-')}"
            raise OptionError(f"{flag} cannot change while resuming {path}.", "Train into a new folder instead.")
    loaded = graph_of(plan, path)
    if plan.model == AUTO:
        check_same_graph(folder, loaded)
    return Request(plan, path, loaded, bool(controls), trackers)


@contextmanager
def _way_to_go_on(request: Request) -> Iterator[None]:
    """Print the command that resumes a training after Ctrl-C, and remove the folder of a choice without any model."""
    try:
        yield
    except KeyboardInterrupt:
        if request.path.exists():  # otherwise nothing was started
            command = f"nlgnn train --resume {shlex.quote(str(request.path))}" + " --controls" * request.controls
            flags = Tracking(request.path, **request.trackers).flags
            errors.print(f"\ninterrupted. Continue with: {command}{flags}", soft_wrap=True, markup=False)
        raise
    except NlgnnError:
        if request.plan.model == AUTO and not any((request.path / "models").iterdir()):
            RunFolder.open(request.path).remove_if_nothing_was_trained()
        raise


def _train_each(request: Request, variants: Sequence[Variant]) -> dict[str, Trained]:
    """Train variants into their folders, or resume the trainings there, and return them by label."""
    plan, path, graph, _, trackers = request
    trained: dict[str, Trained] = {}
    for variant in variants:
        if errors.is_terminal:
            errors.print(f"training {variant.label} on {graph.name}, protocol {plan.protocol}", markup=False)
        folder = _folder(plan, path, variant)
        tracking = Tracking(folder, **trackers) if trackers else None
        watch = tracking.watch if tracking else None
        try:
            if folder.exists():
                result = resume(RunFolder.open(folder), graph, watch=watch)
            else:
                own = replace(plan, model=variant.system, options=variant.options)
                result = train(own, graph, folder, watch=watch)
        except EveryRunFailedError as error:
            if plan.model != AUTO:
                raise
            errors.print(f"{variant.label}: {error.what}", soft_wrap=True, markup=False)
            continue
        trained[variant.label] = result
        for line in tracking.end(result) if tracking else []:
            console.print(line, soft_wrap=True, markup=False)
    return trained


def _folder(plan: Plan, path: Path, variant: Variant) -> Path:
    """Return the run folder of a variant. The folders of controls are next to that of the model."""
    if plan.model == AUTO:
        return candidate_folder(path, variant.slug)
    main = with_references(plan.model, plan.options)[0]
    return path if variant == main else path.with_name(f"{path.name}-{variant.slug}")


def _show_trained(trained: Mapping[str, Trained], reason: str) -> None:
    """Print the table of results, failed runs, folders, and the reason of an automatic choice."""
    console.print(result_table(list(trained.items()), console.width))
    for result in trained.values():
        for run in result.runs:
            if run.failure:
                errors.print(f"left out of the figures: {run.failure}", soft_wrap=True, markup=False)
        console.print(f"run folder: {result.folder.path}", soft_wrap=True, markup=False)
    if reason:
        console.print(reason, soft_wrap=True)


def _new_name(graph: str, model: str) -> Path:
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{graph}-{model.replace(':', '.')}"


def show_verdict(verdict: Verdict, protocol: str, where: Console = console) -> None:
    """Print the verdict of a diagnosis."""
    where.print(f"Diagnosis: {verdict.title}. {verdict.words}", soft_wrap=True)
    where.print(f"{verdict.confidence} Protocol {protocol}.", soft_wrap=True)


def generated_command(arguments: Sequence[str] = ("--help",)) -> Callable[..., None]:
    """Return the command with a flag for every option."""
    return with_flags(train_graph, all_flags("train", arguments))
