"""`nlgnn train`: its flags are made from the fields of Recipe and the keyword arguments of the models."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nlgnn.commands.auto import AUTO, beside, diagnosed_model, settle
from nlgnn.commands.flags import ConfigFile, PresetName, SplitsName, read_config, with_option_flags
from nlgnn.commands.own_graph import TABLE_KEYS, GraphName, given_graph, own_tables
from nlgnn.commands.report import tell_report
from nlgnn.commands.terminal import AllowUnverified, console, errors
from nlgnn.datasets import describe
from nlgnn.errors import OptionError
from nlgnn.experiments.auto import check_options
from nlgnn.experiments.compare import Variant, with_references
from nlgnn.graph.graph import Graph
from nlgnn.render import result_table
from nlgnn.training.fit import EveryRunFailedError
from nlgnn.training.run import RunFolder
from nlgnn.training.systems import check_given, configure, get_system, resolve
from nlgnn.training.tracking import Tracking, check_trackers
from nlgnn.training.train import Plan, Trained, graph_of, read_plan, resume, train

Track = Callable[[Path], Tracking]
# What a TOML file may set beside the options of models and recipes.
PLAN_KEYS = {
    "graph": str,
    **TABLE_KEYS,
    "model": str,
    "splits": str,
    "runs": int,
    "preset": str,
    "controls": bool,
    "out": str,
}


def train_graph(
    graph: GraphName = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="See `nlgnn models`; auto diagnoses the graph and chooses by validation.",
            show_default="nlgcn, for your own graph auto",
        ),
    ] = None,
    splits: SplitsName = None,
    runs: Annotated[
        int | None, typer.Option(help="Training runs, one a split.", show_default="10, or all fixed splits")
    ] = None,
    preset: PresetName = None,
    controls: Annotated[
        bool | None, typer.Option("--controls", help="Also train the local part, kernel 1, a random order and an MLP.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder.", show_default="runs/<time>-<graph>-<model>")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on with an interrupted run folder.", show_default=False)
    ] = None,
    config: ConfigFile = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write TensorBoard files into the run folder.")
    ] = False,
    mlflow: Annotated[
        str | None,
        typer.Option(help="Also tell MLflow: sqlite:///mlflow.db or a server's address.", show_default=False),
    ] = None,
    allow_unverified: AllowUnverified = False,
    **options: Any,
) -> None:
    """Train a model on every split of a graph: a named one, or your own, given as tables of nodes and edges.

    A model's own defaults, programme and published settings come before the defaults shown here: nlgnn models NAME.
    """
    check_trackers(tensorboard, mlflow)
    track = partial(Tracking, tensorboard=tensorboard, mlflow=mlflow)
    options = {name: value for name, value in options.items() if value is not None}
    if resume is not None:
        fixed = {"splits": splits, "runs": runs, "preset": preset, "out": out, "config": config} | options
        changed = [name for name, value in fixed.items() if value is not None]
        _resume(resume, graph, model, changed, bool(controls), track)
        return
    plan_given: dict[str, Any] = {"graph": graph, "model": model, "splits": splits, "runs": runs, "preset": preset}
    plan_given |= {"controls": controls, "out": out}
    given = (
        read_config(config, PLAN_KEYS)
        | {name: value for name, value in plan_given.items() if value is not None}
        | options
    )
    settings = {name: given.pop(name, None) for name in PLAN_KEYS}
    wanted = given_graph("train", settings["graph"], own_tables(settings), allow_unverified)
    name, load, protocol = wanted.name, wanted.load, settings["splits"] or wanted.protocol
    automatic, words = (settings["model"] or ("nlgcn" if wanted.tables is None else AUTO)).lower() == AUTO, ""
    if automatic:
        verdict = diagnosed_model(name, load, protocol, settings["preset"], given, settings["out"])
        settings["model"], words = verdict.non_local, f"{verdict.title}. {verdict.words}"
    variants = with_references(settings["model"] or "nlgcn", given)
    if settings["controls"] and len(variants) == 1:
        errors.print(f"{variants[0].system} is a local model: it has no controls.")
    variants = variants if settings["controls"] else variants[: 2 if automatic else 1]
    check_given(variants[0].system, name, settings["preset"], given)  # before anything is downloaded
    for variant in variants[1:]:
        resolve(variant.system, name, settings["preset"], variant.options)
    paths = _folders(settings["out"] or _new_name(name, AUTO if automatic else variants[0].slug), variants)
    for path in [*paths, *([beside(paths[0], variants[0])] if automatic else [])]:
        RunFolder.refuse_existing(path)  # all of them, before the first is trained into
    loaded = load()
    plan = Plan(name, "", protocol, settings["runs"], settings["preset"], verdict=words)
    plan = replace(plan, tables=wanted.tables, encoder=wanted.encoder, notes=wanted.notes)
    plans = [replace(plan, model=variant.system, options=variant.options) for variant in variants]
    plans[0] = replace(plans[0], automatic=automatic)
    for plan in plans:  # once more, now that the classes are known
        configure(plan.model, loaded, plan.preset, **plan.options)
    _train_all(plans, paths, loaded, automatic, track)
    if len(plans) == 1 and len(with_references(plans[0].model, given)) > 1:
        others = "; ".join(variant.label for variant in with_references(plans[0].model, given)[1:])
        console.print(f"Does the order matter? --controls trains beside it: {others}.", soft_wrap=True)


def _resume(path: Path, graph: str | None, model: str | None, changed: list[str], controls: bool, track: Track) -> None:
    first = read_plan(RunFolder.open(path))
    asked_graph = graph if first.tables is not None or graph is None else describe(graph).name
    asked_auto = (model or "").lower() == AUTO
    asked_model = None if model is None or asked_auto else get_system(model).name
    for what, asked, there in (("graph", asked_graph, first.graph), ("model", asked_model, first.model)):
        if asked is not None and asked != there:
            raise OptionError(
                f"{path} holds the {what} {there!r}, not {asked!r}.", "Leave it out: it is in the folder."
            )
    if changed:
        raise OptionError(
            f"--{changed[0].replace('_', '-')} cannot change while resuming {path}.", "Train into a new folder instead."
        )
    variants = with_references(first.model, first.options)
    automatic = (first.automatic or asked_auto) and len(variants) > 1  # else the gate has taken a local model
    if automatic:
        check_options(first.graph, first.preset, first.options)
    variants = variants if controls else variants[: 2 if automatic else 1]
    plans = [replace(first, model=one.system, options=one.options, automatic=False) for one in variants]
    loaded = graph_of(first, path)
    _train_all(plans, _folders(path, variants), loaded, automatic, track)


def _train_all(plans: list[Plan], paths: list[Path], graph: Graph, automatic: bool, track: Track) -> None:
    """Train each plan into its folder, going on where there is one, and show them side by side.

    Where the choice is automatic, the gate then decides between the first, which is non-local, and its local part; of
    these one may fail.
    """
    variants = [Variant(plan.model, plan.options) for plan in plans]
    trained: dict[str, Trained] = {}
    tracking: dict[str, Tracking] = {}
    for number, (plan, path) in enumerate(zip(plans, paths, strict=True)):
        label = variants[number].label
        if errors.is_terminal:
            errors.print(f"training {label} on {graph.name}, protocol {plan.protocol}", markup=False)
        try:
            tracked = track(path)
            if path.exists():
                result = resume(RunFolder.open(path), graph, watch=tracked.watch)
            else:
                result = train(plan, graph, path, watch=tracked.watch)
        except KeyboardInterrupt:
            if paths[0].exists():  # else it came before anything was begun
                command = f"nlgnn train --resume {shlex.quote(str(paths[0]))}" + f" --model {AUTO}" * automatic
                command += " --controls" * (len(plans) > (2 if automatic else 1)) + tracked.flags
                errors.print(f"\ninterrupted. Go on with: {command}", soft_wrap=True, markup=False)
            raise
        except EveryRunFailedError as error:
            if not automatic or (number == 1 and not trained):
                raise
            errors.print(f"{label}: {error.what}", soft_wrap=True, markup=False)
        else:
            trained[label], tracking[label] = result, tracked
    words = settle(paths[0], variants, trained) if automatic else ""
    _show(list(trained.items()))
    for label, result in trained.items():  # by now each is in the folder that it stays in
        for line in tracking[label].end(result):
            console.print(line, soft_wrap=True, markup=False)
    if automatic:
        console.print(words, soft_wrap=True)
    main = next(label for label, one in trained.items() if one.folder.path == paths[0])
    others = {label: one for label, one in trained.items() if label != main}
    tell_report(trained[main], graph, others)


def _show(trained: list[tuple[str, Trained]]) -> None:
    console.print(result_table(trained, console.width))
    for _, result in trained:
        for run in result.runs:
            if run.failure:
                errors.print(f"left out of the figures: {run.failure}", soft_wrap=True, markup=False)
        console.print(f"run folder: {result.folder.path}", soft_wrap=True, markup=False)


def _new_name(graph: str, model: str) -> Path:
    return Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{graph}-{model}"


def _folders(first: str | Path, variants: list[Variant]) -> list[Path]:
    """A folder for each variant: the first as named, its controls beside it."""
    return [Path(first), *(beside(Path(first), variant) for variant in variants[1:])]


def train_command() -> Callable[..., None]:
    """`train_graph` with a flag for every option in place of `**options`."""
    return with_option_flags(train_graph)
