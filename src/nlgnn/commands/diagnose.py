"""`nlgnn diagnose`: whether neighbours help, and which model to use."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from nlgnn.commands.own_graph import TABLE_FLAGS, GraphName, given_graph, own_tables, with_flags
from nlgnn.commands.terminal import AllowUnverified, console, errors, write_report
from nlgnn.errors import NlgnnError


def diagnose_graph(
    graph: GraphName = None,
    splits: Annotated[
        str | None,
        typer.Option(
            help="random-60, random-10, or a protocol of the graph.",
            show_default="the graph's fixed ones, else random-60",
        ),
    ] = None,
    controls: Annotated[
        bool, typer.Option("--controls", help="Does the order matter? Also train the non-local model and its controls.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A new folder for report.html and diagnosis.json.", show_default="runs/<time>-<graph>-diagnosis"
        ),
    ] = None,
    allow_unverified: AllowUnverified = False,
    **tables: Any,
) -> None:
    """Find out whether neighbours help, before choosing a model.

    Describes the graph, trains MLP, GCN and a small GAT on five to ten splits, and says which category the graph is of
    and what to run next.
    """
    from nlgnn.experiments import diagnose as experiment
    from nlgnn.experiments.section import Section
    from nlgnn.render import sections_page
    from nlgnn.report.diagnosis_page import write_diagnosis_page
    from nlgnn.training.run import write_whole

    if out is not None:
        check_new_folder(out)  # before the minutes that training takes

    def show(sections: list[Section]) -> None:
        if not as_json:
            console.print(sections_page(sections, console.width))
            console.print()

    wanted = given_graph("diagnose", graph, own_tables(tables), allow_unverified)
    flags = [] if wanted.tables is None else wanted.tables.flags
    loaded = wanted.load()
    try:
        diagnosis = experiment.diagnose(loaded, splits, controls=controls, show=show, flags=flags)
    except KeyboardInterrupt:
        errors.print("\ninterrupted. Nothing of a diagnosis is kept: the same command begins anew.")
        raise
    text = json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False) + "\n"
    if as_json:
        sys.stdout.write(text)
    else:
        console.print(f"Next: {diagnosis.next_step}", soft_wrap=True, markup=False)  # in one line, to be copied

    def write(path: Path) -> None:
        write_whole(path.with_name("diagnosis.json"), partial(Path.write_text, data=text, encoding="utf-8"))
        write_diagnosis_page(path, diagnosis)

    folder = out or Path("runs") / f"{datetime.now():%Y%m%d-%H%M%S}-{loaded.name}-diagnosis"
    write_report(folder / "report.html", write, errors if as_json else console)


diagnose = with_flags(diagnose_graph, TABLE_FLAGS)


def check_new_folder(path: Path) -> None:
    """Raise for a folder that is there already, or that cannot be made."""
    try:
        exists, around = path.exists(), next(parent for parent in path.absolute().parents if parent.exists())
    except OSError as error:  # such as a name that is too long
        raise NlgnnError(f"{path} cannot be used: {error.strerror}.", "Name another folder (--out).") from None
    if exists:
        raise NlgnnError(f"{path} exists already.", "Name another folder (--out), or remove it.")
    if not around.is_dir() or not os.access(around, os.W_OK):
        raise NlgnnError(f"{path} cannot be made: {around} is no folder that can be written.", "Name another (--out).")
