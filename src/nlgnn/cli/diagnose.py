"""`nlgnn diagnose`: find out whether neighbours help, and which model to use."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlgnn.cli.console import console, errors, telling_report
from nlgnn.cli.given_graph import given_graph, own_tables
from nlgnn.cli.options import FLAGS, given_flags, with_flags
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.files import refuse_existing, write_text

if TYPE_CHECKING:
    from nlgnn.graph.graph import Graph
    from nlgnn.report.table import Section


def diagnose(**flags: Any) -> None:
    """Find out whether neighbours help.

    Describe the graph, train MLP, GCN and a small GAT on five to ten splits, and print the category of the graph and
    what to run next. A graph store is only described.
    """
    from nlgnn.training.recipe import Recipe

    given = given_flags(flags)
    out, as_json = given.get("out"), "as_json" in given
    Recipe(**{name: value for name, value in given.items() if name == "metric"})  # raises for an unknown metric
    if out is not None:
        check_new_folder(out)  # Training takes minutes.
    wanted = given_graph("diagnose", given.get("graph"), own_tables(given), "allow_unverified" in given)

    from nlgnn.report.diagnosis_page import write_diagnosis_page
    from nlgnn.report.text import sections_page
    from nlgnn.selection import diagnosis as experiment

    def show(sections: list[Section]) -> None:
        if not as_json:
            console.print(sections_page(sections, console.width))
            console.print()

    loaded = wanted.load()
    if wanted.tables is not None and wanted.tables.is_store:
        _describe(loaded, given, show)
        return
    try:
        asked: dict[str, Any] = {name: given.get(name) for name in ("splits", "metric")} | {
            "controls": "controls" in given
        }
        diagnosis = experiment.diagnose(loaded, **asked, show=show, flags=wanted.tables.flags if wanted.tables else ())
    except KeyboardInterrupt:
        errors.print("\ninterrupted. A diagnosis cannot be resumed. Run the same command again.")
        raise
    text = json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False) + "\n"
    if as_json:
        sys.stdout.write(text)
    else:
        console.print(f"Next: {diagnosis.next_step}", soft_wrap=True, markup=False)  # One line, to be copied.
    folder = out or Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{loaded.name}-diagnosis"
    page = folder / "report.html"
    with telling_report(page, errors if as_json else console):
        page.parent.mkdir(parents=True, exist_ok=True)
        write_text(folder / "diagnosis.json", text)
        write_diagnosis_page(page, diagnosis)


with_flags(diagnose, FLAGS["diagnose"])


def _describe(graph: Graph, given: Mapping[str, Any], show: Callable[[list[Section]], None]) -> None:
    """Show the profile of a graph without trainings."""
    from nlgnn.graph.splits import make_splits
    from nlgnn.selection.diagnosis import own_protocol
    from nlgnn.selection.evidence import MOST_SPLITS
    from nlgnn.selection.profile import profile_of

    for name in ("controls", "metric", "out"):
        if name in given:
            raise OptionError(f"--{name} is for trainings, but a store is only described.", f"Leave --{name} out.")
    profile = profile_of(graph, make_splits(graph, given.get("splits") or own_protocol(graph), MOST_SPLITS))
    show(profile.sections())
    if "as_json" in given:
        sys.stdout.write(json.dumps({"graph": graph.name, "profile": profile.to_dict()}, indent=2) + "\n")
    else:
        console.print("Nothing was trained, because the graph is in a store.")


def check_new_folder(path: Path) -> None:
    """Raise an error if a folder exists already or cannot be created."""
    refuse_existing(path)
    around = next(parent for parent in path.absolute().parents if parent.exists())
    if not around.is_dir() or not os.access(around, os.W_OK):
        raise NlgnnError(
            f"{path} cannot be created: {around} is not a writable folder.", "Name another folder (--out)."
        )
