"""`nlgnn tune`: search over options of `nlgnn train`, any of which may be given as a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from nlgnn.cli.console import console, errors, telling_report
from nlgnn.cli.given_graph import given_graph, own_tables
from nlgnn.cli.options import all_flags, given_flags, plan_keys, read_config, with_flags
from nlgnn.cli.outages import keeping
from nlgnn.cli.train import show_verdict
from nlgnn.graph.splits import make_splits
from nlgnn.limits import memory_limit
from nlgnn.models.build import default_metric
from nlgnn.report.text import sections_page
from nlgnn.report.tuning_page import tuned_sections, write_tuning_page
from nlgnn.selection.auto import race_metric
from nlgnn.selection.diagnosis import diagnose
from nlgnn.selection.tuned_choice import Decision, check_options, decide_tuned
from nlgnn.training.train import AUTO
from nlgnn.tuning.result import Tuned
from nlgnn.tuning.space import check_numbers, check_space
from nlgnn.tuning.tune import tune

PLAN_KEYS = plan_keys("tune")
CHOICE_AFTER_A_SEARCH = "Both models have the best setting of the search, which favours the non-local one."


def tune_graph(**flags: Any) -> None:
    """Search over a model's options by validation, and print the command that trains the best setting.

    Any option of the model and of training may be a list, such as --hidden 16,48. It is then searched over in place of
    the model's own values (nlgnn models NAME). The same command continues an interrupted search. Several processes may
    share the work.
    """
    given = given_flags(flags)
    as_json, allow_unverified = given.pop("as_json", False), given.pop("allow_unverified", False)
    given = read_config(given.pop("config", None), PLAN_KEYS) | given
    plan = {name: given.pop(name) for name in PLAN_KEYS if name in given}
    check_numbers(**{name: plan[name] for name in ("settings", "search_splits", "search_epochs") if name in plan})
    with memory_limit(given.get("memory")):
        wanted = given_graph("tune", plan.get("graph"), own_tables(plan), allow_unverified)
    plan.pop("graph", None)
    name = plan.pop("model", "nlgcn" if wanted.tables is None else AUTO)
    plan["splits"] = plan.get("splits", wanted.protocol)
    automatic, words = name.lower() == AUTO, ""
    if automatic:
        check_options(wanted.name, plan.get("preset"), given, check_space)
        metric = given.get("metric")
        metric = metric if isinstance(metric, str) else None
        verdict = diagnose(wanted.load(), plan["splits"], metric=metric).verdict
        show_verdict(verdict, plan["splits"], errors)
        name, words = verdict.non_local, f"Diagnosis: {verdict.title}. {verdict.words} "
    check_space(name, wanted.name, plan.get("preset"), given)  # before anything is downloaded
    loaded = wanted.load()
    if wanted.tables is not None and "metric" not in given and default_metric(loaded) != "accuracy":
        given["metric"], why = race_metric(loaded, make_splits(loaded, plan["splits"]), None)
        errors.print(why, soft_wrap=True, markup=False)
    if errors.is_terminal:
        errors.print(f"searching over {name} on {wanted.name}, protocol {plan['splits']}", markup=False)
    try:
        with keeping("Finished settings are kept. Free memory, then repeat the command: it continues from here."):
            tuned = replace(tune(loaded, name, **plan, **given), tables=wanted.tables)
            decided, command = decide_tuned(loaded, tuned) if automatic else (None, tuned.command)
    except KeyboardInterrupt:
        errors.print("\ninterrupted. Finished settings are kept: the same command continues from here.")
        raise
    if as_json:
        choice = {} if decided is None else {"choice": {**decided._asdict(), "chosen": decided.chosen}}
        console.print_json(json.dumps(tuned_json(tuned) | choice | {"command": command}))
    else:
        show(tuned, decided, command)
    words += f"{decided.reason} {CHOICE_AFTER_A_SEARCH}" if decided else ""
    default_name = f"tune-{tuned.graph}-{tuned.model.replace(':', '.')}"
    name_in_database = plan.get("study", default_name) if "storage" in plan else ""
    page = report_folder(tuned.study, name_in_database) / "report.html"
    with telling_report(page, errors if as_json else console):
        page.parent.mkdir(parents=True, exist_ok=True)
        write_tuning_page(page, tuned, command, words)


def report_folder(study: str, name_in_database: str = "") -> Path:
    """Return the folder for the report of a search: next to the file of its study, or in `runs`."""
    if name_in_database:
        return Path("runs") / re.sub(r"[^\w-]+", "-", name_in_database)
    path = Path(study)
    return path.with_suffix("") if path.suffix else path.with_name(f"{path.name}-report")


def tuned_json(tuned: Tuned) -> dict[str, Any]:
    """Return what `--json` prints of a search."""
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


def show(tuned: Tuned, decided: Decision | None, command: str) -> None:
    """Print the settings of a search, the choice among them, and the command that trains it."""
    console.print(sections_page(tuned_sections(tuned), console.width))
    console.print(f"study: {tuned.study} ({tuned.seconds:.0f} s here)", soft_wrap=True, markup=False)
    if decided is not None:
        console.print(f"{decided.reason} {CHOICE_AFTER_A_SEARCH}", soft_wrap=True)
    taken = "The best setting" if decided is None else f"{decided.chosen} with the best setting"
    console.print(f"{taken} on all splits, with its whole schedule and test figures:")
    console.print(command, soft_wrap=True, markup=False)


def generated_command(arguments: Sequence[str] = ("--help",)) -> Callable[..., None]:
    """Return the command with a flag for every option, of which those of the model and of training take lists."""
    return with_flags(tune_graph, all_flags("tune", arguments))
