"""`nlgnn tune`: any option of `nlgnn train` may be given as a list, and is then searched over."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nlgnn.commands.auto import AUTO, diagnosed_model
from nlgnn.commands.flags import ConfigFile, PresetName, SplitsName, read_config, with_option_flags
from nlgnn.commands.own_graph import TABLE_KEYS, GraphName, given_graph, own_tables
from nlgnn.commands.terminal import AllowUnverified, console, errors, write_report
from nlgnn.experiments.auto import Gate, check_options, gate_tuned
from nlgnn.experiments.tuning import tuned_sections
from nlgnn.render import sections_page
from nlgnn.report.tuning_page import write_tuning_page
from nlgnn.training.search import check_numbers, tune
from nlgnn.training.space import check_space
from nlgnn.training.tuned import Tuned

# What a TOML file may set beside the options of models and recipes.
PLAN_KEYS = {
    "graph": str,
    **TABLE_KEYS,
    "model": str,
    "splits": str,
    "preset": str,
    "settings": int | str,
    "search_splits": int,
    "search_epochs": int,
    "halving": bool,
    "study": str,
    "storage": str,
}

GATE_AFTER_A_SEARCH = "Both have the best setting of the search, which was chosen for the first: that favours it."


def tune_graph(
    graph: GraphName = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="See `nlgnn models`; auto: the non-local one of the diagnosis, then its gate.",
            show_default="nlgcn, for your own graph auto",
        ),
    ] = None,
    settings: Annotated[
        str | None, typer.Option(help="How many of the grid are tried, drawn at random, or all.", show_default="24")
    ] = None,
    splits: SplitsName = None,
    search_splits: Annotated[
        int | None, typer.Option(help="Splits that each setting is trained on.", show_default="3")
    ] = None,
    search_epochs: Annotated[
        int | None, typer.Option(help="Epochs that each setting is trained at most.", show_default="300")
    ] = None,
    halving: Annotated[
        bool | None,
        typer.Option(help="Drop settings on the way that are behind half of the others.", show_default="halving"),
    ] = None,
    preset: PresetName = None,
    study: Annotated[
        str | None,
        typer.Option(
            help="The SQLite file of the study; with --storage its name there.",
            show_default="runs/tune-<graph>-<model>.db",
        ),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(help="A PostgreSQL database that many machines share: postgresql://...", show_default=False),
    ] = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every setting.")] = False,
    allow_unverified: AllowUnverified = False,
    **options: Any,
) -> None:
    """Search over a model's options by validation, and name the command that trains the best setting.

    Any option below may be a list, such as --hidden 16,48: it is searched over, in place of the model's own values
    (nlgnn models NAME). One value is fixed. The same command goes on with an interrupted search; several at once share
    the work.
    """
    plan_given: dict[str, Any] = {"graph": graph, "model": model, "splits": splits, "preset": preset}
    plan_given |= {"settings": settings, "search_splits": search_splits, "search_epochs": search_epochs}
    plan_given |= {"halving": halving, "study": study, "storage": storage}
    flags = {name: value for name, value in (plan_given | options).items() if value is not None}
    given = read_config(config, PLAN_KEYS) | flags
    plan = {name: given.pop(name) for name in PLAN_KEYS if name in given}
    plan["settings"] = _number_or_all(plan.get("settings", 24))
    check_numbers(plan["settings"], plan.get("search_splits", 1), plan.get("search_epochs", 1))
    wanted = given_graph("tune", plan.pop("graph", None), own_tables(plan), allow_unverified)
    name = plan.pop("model", "nlgcn" if wanted.tables is None else AUTO)
    plan["splits"] = plan.get("splits", wanted.protocol)
    automatic, words = name.lower() == AUTO, ""
    if automatic:
        check_options(wanted.name, plan.get("preset"), given, check_space)
        verdict = diagnosed_model(wanted.name, wanted.load, plan["splits"], plan.get("preset"), {}, None, errors)
        name, words = verdict.non_local, f"Diagnosis: {verdict.title}. {verdict.words} "
    check_space(name, wanted.name, plan.get("preset"), given)  # before anything is downloaded
    loaded = wanted.load()
    if errors.is_terminal:
        errors.print(f"searching over {name} on {wanted.name}, protocol {plan['splits']}", markup=False)
    try:
        tuned = replace(tune(loaded, name, **plan, **given), tables=wanted.tables)
        decided, command = gate_tuned(loaded, tuned) if automatic else (None, tuned.command)
    except KeyboardInterrupt:
        errors.print("\ninterrupted. Finished settings are kept: the same command goes on from here.")
        raise
    if as_json:
        gated = {} if decided is None else {"gate": {**decided._asdict(), "taken": decided.taken}, "command": command}
        console.print_json(json.dumps(tuned_json(tuned) | gated))
    else:
        show(tuned, decided, command)
    words += f"{decided.words} {GATE_AFTER_A_SEARCH}" if decided else ""
    name = plan.get("study") or f"tune-{tuned.graph}-{tuned.model}"
    folder = folder_of_database_study(name) if plan.get("storage") else folder_beside(Path(tuned.study))
    write_report(
        folder / "report.html",
        lambda path: write_tuning_page(path, tuned, command, words),
        errors if as_json else console,
    )


def _number_or_all(text: str | int) -> int | str:
    return int(text) if str(text).isdecimal() else str(text)


def folder_beside(study: Path) -> Path:
    """Of the report of a study in a file."""
    return study.with_suffix("") if study.suffix else study.with_name(f"{study.name}-report")


def folder_of_database_study(name: str) -> Path:
    return Path("runs") / re.sub(r"[^\w-]+", "-", name)


def tuned_json(tuned: Tuned) -> dict[str, Any]:
    return {
        "graph": tuned.graph,
        "model": tuned.model,
        "protocol": tuned.protocol,
        "search_splits": tuned.splits,
        "search_runs": tuned.runs,
        "search_epochs": tuned.recipe.epochs,
        "preset": tuned.preset,
        "metric": tuned.recipe.metric,
        "grid": tuned.space.size,
        "settings": [asdict(row) for row in tuned.rows],
        "importances": tuned.importances,
        "options": tuned.options,
        "command": tuned.command,
        "study": tuned.study,
    }


def show(tuned: Tuned, decided: Gate | None, command: str) -> None:
    console.print(sections_page(tuned_sections(tuned), console.width))
    console.print(f"study: {tuned.study} ({tuned.seconds:.0f} s here)", soft_wrap=True, markup=False)
    if decided is not None:
        console.print(f"{decided.words} {GATE_AFTER_A_SEARCH}", soft_wrap=True)
    taken = "The best setting" if decided is None else f"{decided.taken} with the best setting"
    console.print(f"{taken} on all splits, with its whole schedule and test figures:")
    console.print(command, soft_wrap=True, markup=False)


def tune_command() -> Callable[..., None]:
    """`tune_graph` with a flag for every option in place of `**options`."""
    return with_option_flags(tune_graph, lists=True)
