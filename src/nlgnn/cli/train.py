"""`nlgnn train`: train a model, or the automatic choice, on every split of a graph.

The folder of an automatic choice holds `config.json` (the plan), `leaderboard.json`, `leaderboard.csv`, `choice.json`
and, in `models/`, one run folder per trained model. It is created under its final name before anything is trained.
"""

from __future__ import annotations

import json
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import typer
from rich.console import Console

from nlgnn.cli.console import began, console, errors, result_table, tell_decision, tell_report, telling_report
from nlgnn.cli.given_graph import given_graph, own_tables
from nlgnn.cli.options import all_flags, given_flags, plan_keys, read_config, with_flags
from nlgnn.cli.outages import keeping
from nlgnn.datasets import describe
from nlgnn.errors import NlgnnError, OptionError, RunFolderError
from nlgnn.files import refuse_existing
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.limits import memory_limit
from nlgnn.models.build import check_given, configure, default_metric, resolve
from nlgnn.models.registry import get_system
from nlgnn.report.text import sections_page
from nlgnn.selection.auto import Choice, choose, default_runs, is_symmetric, race_metric
from nlgnn.selection.clock import DEFAULT_BUDGET, Clock, parse_budget, show_seconds
from nlgnn.selection.controls import Variant, with_references
from nlgnn.selection.diagnosis import Verdict
from nlgnn.selection.leaderboard import Leaderboard, Row, read_leaderboard
from nlgnn.selection.portfolio import PRESET, Entry, check_options
from nlgnn.training.decision import check_decision, check_texts, read_decision, store_decision
from nlgnn.training.fit import Watch
from nlgnn.training.processes import EXCHANGE_SECONDS, is_rank
from nlgnn.training.recipe import metric_text
from nlgnn.training.replica import Replica
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
    read_trained,
    resume,
    train,
)
from nlgnn.training.trained import ENSEMBLE, Ensemble, Member

PLAN_KEYS = plan_keys("train")
MOST_SHOWN = 5  # rows of the leaderboard while models are trained


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

    Flags are shown with their defaults. `nlgnn models NAME` lists those of a model.
    """
    started = began.get(time.monotonic())
    given = given_flags(flags)
    processes, seconds = given.pop("processes", 1), given.pop("process_timeout", EXCHANGE_SECONDS)
    if is_rank() or processes > 1:
        from nlgnn.cli.processes import check_request, launch, train_in_process

        if not is_rank():
            check_request(given, PLAN_KEYS)
            raise typer.Exit(launch(processes))
        train_in_process(given, PLAN_KEYS, seconds)
        return
    trackers: dict[str, Any] = {name: given.pop(name) for name in ("tensorboard", "mlflow") if name in given}
    if trackers:
        check_trackers(**trackers)
    if given.pop("estimate", False):
        _estimate(given)
        return
    request = (_resumed if "resume" in given else _begun)(given, trackers)
    with _way_to_go_on(request), keeping(_kept(request)):
        if request.plan.model == AUTO:
            _choose(request, started)
        else:
            _train_with_controls(request, hint="resume" not in given)


def _estimate(given: dict[str, Any]) -> None:
    """Print what a training of a named model needs; create no folder."""
    from nlgnn.training.requirements import estimate_requirements

    if "resume" in given or str(given.get("model", "")).lower() == AUTO or "time_budget" in given:
        raise OptionError("--estimate needs a named model.", "Pass --model nlgcn, without --resume.")
    given.setdefault("model", "nlgcn")
    plan, _, graph, *_ = _begun(given, {})
    factory, recipe = configure(plan.model, graph, plan.preset, **plan.options)
    splits = make_splits(graph, plan.protocol, plan.runs)
    needed = estimate_requirements(factory, graph, splits, recipe)
    console.print(str(needed), soft_wrap=True, markup=False)


def _train_with_controls(request: Request, hint: bool) -> None:
    """Train a named model, with its controls if asked for, and show figures and report."""
    plan, _, graph, controls, _ = request
    variants = with_references(plan.model, plan.options)
    trained = _train_each(request, variants if controls else variants[:1])
    _show_trained(trained)
    tell_decision(read_decision(trained[variants[0].label].folder.path))
    tell_report(trained.pop(variants[0].label), graph, trained)
    if variants[1:] and not controls and hint:
        labels = "; ".join(variant.label for variant in variants[1:])
        console.print(f"Does the order matter? --controls also trains: {labels}.", soft_wrap=True)


def _choose(request: Request, started: float) -> None:
    """Run the race of an automatic choice, and show leaderboard, verdict and report."""
    plan, path, graph, controls, trackers = request
    splits = make_splits(graph, plan.protocol, plan.runs)
    metric, why = race_metric(graph, splits, plan.options.get("metric"))
    board = read_leaderboard(path) or Leaderboard(graph.name, plan.protocol, metric, folder=path)
    config = RunFolder.open(path).config
    budget = parse_budget(config.get("time_budget") or DEFAULT_BUDGET)
    clock = Clock(budget, board.seconds, started)
    limit = "no time limit" if budget is None else f"time budget {show_seconds(budget)}"
    runs = f"{len(splits)} run{'s' * (len(splits) != 1)}"
    errors.print(f"{why} {runs}, protocol {plan.protocol}, {limit}.", soft_wrap=True, markup=False)
    trained: dict[str, Trained] = {}

    def train_entry(entry: Entry, watch: Watch) -> Member:
        own = replace(plan, model=entry.model, options=entry.options, preset=plan.preset or PRESET)
        folder = candidate_folder(path, entry.folder)
        if errors.is_terminal:
            errors.print(f"training {entry.name}", markup=False)
        try:
            found = trained[entry.name] = _train_into(folder, own, graph, trackers, watch)
        except RunFolderError:
            raise
        except (NlgnnError, MemoryError, RuntimeError, ValueError):  # the race goes on with the next entry
            if board.row(entry.name) is None:  # otherwise some of its runs are finished
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return Member(found.factory, found.recipe, found.runs)

    def recall(entry: Entry) -> Member:
        row, known = board.row(entry.name), trained.get(entry.name)
        if known is None or (row is not None and len(known.finished) < row.runs):  # by another process, or earlier
            trained[entry.name], _ = read_trained(candidate_folder(path, entry.folder), graph)
        found = trained[entry.name]
        return Member(found.factory, found.recipe, found.runs)

    def show(row: Row) -> None:
        text = f"{row.status}: {row.reason}"
        if row.status == "finished" and row.fit_seconds is not None:
            figure = metric_text(metric, row.mean(metric), 2)
            text = f"validation {metric} {figure}, {show_seconds(row.fit_seconds)}"
        errors.print(f"{row.entry.name}: {text}", soft_wrap=True, markup=False)
        if errors.is_terminal and row.status == "finished":
            errors.print(sections_page([board.section(MOST_SHOWN)], errors.width))

    choice = choose(
        *(graph, splits, board, clock, train_entry, recall, plan.options),
        ensemble=config.get("ensemble", True),
        controls=controls,
        show=show,
    )
    for row in board.ranked(lambda row: row.entry.model != ENSEMBLE):
        recall(row.entry)
    console.print(sections_page([board.section()], console.width))
    for sentence in (choice.headline, *choice.verdict):
        console.print(sentence, soft_wrap=True, markup=False)
    console.print(f"run folder: {path}", soft_wrap=True, markup=False)
    main = _chosen(choice, trained, graph)
    tell_decision(store_decision(RunFolder.open(path), main, graph))
    others = {row.entry.name: trained[row.entry.name] for row in board.ranked() if row.entry.name in trained}
    from nlgnn.report.run_page import write_run_page

    page = path / "report.html"
    with telling_report(page):
        write_run_page(page, main, graph, others)


def _chosen(choice: Choice, trained: dict[str, Trained], graph: Graph) -> Trained:
    """Return the chosen training, which is taken out of `trained`, or the ensemble."""
    found = choice.ensemble
    if found is None:
        return replace(trained.pop(choice.entry.name), reason=choice.words)
    members = [trained[name] for name in found.names]
    ensemble = Ensemble.of(members, found.names, found.weights, found.runs, choice.words)
    ensemble.latest.append((graph, found.probabilities))
    return ensemble


def _begun(given: dict[str, Any], trackers: Mapping[str, Any]) -> Request:
    """Return a new training, after everything that can be checked before it."""
    allow_unverified = given.pop("allow_unverified", False)
    options = read_config(given.pop("config", None), PLAN_KEYS) | given
    settings = {name: options.pop(name, None) for name in PLAN_KEYS}
    if settings["out"] is not None:
        refuse_existing(Path(settings["out"]))  # before tables are read
    with memory_limit(options.get("memory")):
        wanted = given_graph("train", settings["graph"], own_tables(settings), allow_unverified)
    budget = settings["time_budget"]
    model = settings["model"] or (AUTO if wanted.tables is not None or budget is not None else "nlgcn")
    if budget is not None:
        parse_budget(budget)
        if model.lower() != AUTO:
            raise OptionError(f"--time-budget does not apply to {model}.", "Leave it out, or use --model auto.")
    if settings["ensemble"] is not None and model.lower() != AUTO:
        raise OptionError(f"--ensemble does not apply to {model}.", "Leave it out, or use --model auto.")
    protocol, controls = settings["splits"] or wanted.protocol, bool(settings["controls"])
    plan = Plan(wanted.name, model, protocol, settings["runs"], settings["preset"], options)
    plan = replace(plan, tables=wanted.tables, encoder=wanted.encoder, notes=wanted.notes)
    plan = replace(plan, threshold=settings["threshold"], cost=settings["cost"])
    check_texts(plan.threshold, plan.cost)
    if model.lower() == AUTO:
        plan = replace(plan, model=AUTO)
        path = Path(settings["out"] or new_name(plan.graph, AUTO))
        check_options(plan.graph, plan.preset, plan.options)
        graph = wanted.load()
        check_decision(graph, plan.threshold, plan.cost, plan.options.get("class_weight"))
        plan, graph = _with_direction(plan, graph)
        runs = plan.runs or default_runs(graph, plan.protocol, parse_budget(budget or DEFAULT_BUDGET))
        plan = replace(plan, runs=runs)
        race_metric(graph, make_splits(graph, plan.protocol, plan.runs), options.get("metric"))
        own = {"time_budget": budget, "ensemble": settings["ensemble"] is not False}
        RunFolder.create(path, {**asdict(plan), "fingerprint": graph.fingerprint, **own})
        return Request(plan, path, graph, controls, trackers)
    check_given(model, plan.graph, plan.preset, options)  # before anything is downloaded
    main, *others = with_references(model, options)
    if controls and not others:
        errors.print(f"{main.system} is a local model: it has no controls.")
    variants = [main, *others] if controls else [main]
    for variant in variants[1:]:
        resolve(variant.system, plan.graph, plan.preset, variant.options)
    path = Path(settings["out"] or new_name(plan.graph, main.slug))
    for variant in variants:
        refuse_existing(_folder(plan, path, variant))  # all of them, before the first is trained into
    graph = wanted.load()
    if plan.tables is not None and "metric" not in options and default_metric(graph) != "accuracy":
        metric, why = race_metric(graph, make_splits(graph, plan.protocol, plan.runs), None)
        errors.print(why, soft_wrap=True, markup=False)
        plan = replace(plan, options={**options, "metric": metric})
        variants = with_references(model, plan.options)[: len(variants)]
    for variant in variants:  # the sizes of the graph are known now
        configure(variant.system, graph, plan.preset, **variant.options)
    check_decision(graph, plan.threshold, plan.cost, plan.options.get("class_weight"))
    return Request(plan, path, graph, controls, trackers)


def _with_direction(plan: Plan, graph: Graph) -> tuple[Plan, Graph]:
    """Return a plan on a user's tables with directed edges, unless all edges lead both ways, and its graph.

    A store decides about the direction itself.
    """
    tables = plan.tables
    if tables is None or tables.is_store or graph.directed or is_symmetric(graph):
        return plan, graph
    tables = replace(tables, directed=True)
    found = tables.read()  # features that are made from the edges change with it
    encoder = None if found.encoder is None else json.loads(found.encoder.to_json())
    return replace(plan, tables=tables, encoder=encoder), found.graph


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
    loaded = graph_of(plan, path, given.get("allow_unverified", False))
    if plan.model == AUTO:
        check_same_graph(folder, loaded)
    return Request(plan, path, loaded, bool(controls), trackers)


def _kept(request: Request) -> str:
    """Return the sentence about a training that ended for lack of memory or the like."""
    command = f"nlgnn train --resume {shlex.quote(str(request.path))}" + " --controls" * request.controls
    return f"Finished runs are kept. Free memory, then continue with: {command}"


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
        if request.plan.model == AUTO and request.path.exists() and not any((request.path / "models").iterdir()):
            RunFolder.open(request.path).remove_if_nothing_was_trained()
        raise


def _train_each(request: Request, variants: Sequence[Variant]) -> dict[str, Trained]:
    """Train variants into their folders, or resume the trainings there, and return them by label."""
    plan, path, graph, _, trackers = request
    trained: dict[str, Trained] = {}
    for variant in variants:
        if errors.is_terminal:
            errors.print(f"training {variant.label} on {graph.name}, protocol {plan.protocol}", markup=False)
        own = replace(plan, model=variant.system, options=variant.options)
        trained[variant.label] = _train_into(_folder(plan, path, variant), own, graph, trackers)
    return trained


def _train_into(
    folder: Path, plan: Plan, graph: Graph, trackers: Mapping[str, Any], limit: Watch | None = None
) -> Trained:
    """Train a plan into a folder, or resume the training there."""
    tracking = Tracking(folder, **trackers)

    def watch(replicas: Sequence[Replica]) -> None:
        tracking.watch(replicas)
        if limit:
            limit(replicas)

    if folder.exists():
        result = resume(RunFolder.open(folder), graph, watch=watch)
    else:
        result = train(plan, graph, folder, watch=watch)
    for line in tracking.end(result):
        console.print(line, soft_wrap=True, markup=False)
    return result


def _folder(plan: Plan, path: Path, variant: Variant) -> Path:
    """Return the run folder of a variant. The folders of controls are next to that of the model."""
    main = with_references(plan.model, plan.options)[0]
    return path if variant == main else path.with_name(f"{path.name}-{variant.slug}")


def _show_trained(trained: Mapping[str, Trained]) -> None:
    """Print the table of results, failed runs and folders."""
    console.print(result_table(list(trained.items()), console.width))
    for result in trained.values():
        for run in result.runs:
            if run.failure:
                errors.print(f"left out of the figures: {run.failure}", soft_wrap=True, markup=False)
        console.print(f"run folder: {result.folder.path}", soft_wrap=True, markup=False)


def new_name(graph: str, model: str) -> Path:
    """Return the name of a new run folder."""
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{graph}-{model.replace(':', '.')}"


def show_verdict(verdict: Verdict, protocol: str, where: Console = console) -> None:
    """Print the verdict of a diagnosis."""
    where.print(f"Diagnosis: {verdict.title}. {verdict.words}", soft_wrap=True)
    where.print(f"{verdict.confidence} Protocol {protocol}.", soft_wrap=True)


def generated_command(arguments: Sequence[str] = ("--help",)) -> Callable[..., None]:
    """Return the command with a flag for every option."""
    return with_flags(train_graph, all_flags("train", arguments))
