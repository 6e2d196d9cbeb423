"""`nlgnn diagnose`: whether neighbours help, and which model to use."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from nlgnn.commands.terminal import AllowUnverified, console, errors
from nlgnn.errors import NlgnnError


def diagnose(
    graph: Annotated[str, typer.Argument(help="A named graph: see `nlgnn datasets`.")],
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
    html: Annotated[
        Path | None, typer.Option(help="Also write it all into this HTML file.", show_default=False)
    ] = None,
    allow_unverified: AllowUnverified = False,
) -> None:
    """Find out whether neighbours help, before choosing a model.

    Describes the graph, trains MLP, GCN and a small GAT on five to ten splits, and says which category the graph is of
    and what to run next.
    """
    from nlgnn.datasets import load_graph
    from nlgnn.experiments import diagnose as experiment
    from nlgnn.experiments.section import Section
    from nlgnn.render import sections_page
    from nlgnn.report.formats import html_page
    from nlgnn.training.run import write_whole

    if html is not None and not html.parent.is_dir():  # before the minutes that training takes
        raise NlgnnError(f"{html} cannot be written: there is no folder {html.parent}.", "Make it, or name another.")

    def show(sections: list[Section]) -> None:
        if not as_json:
            console.print(sections_page(sections, console.width))
            console.print()

    loaded = load_graph(graph, allow_unverified=allow_unverified)
    try:
        diagnosis = experiment.diagnose(loaded, splits, controls=controls, show=show)
    except KeyboardInterrupt:
        errors.print("\ninterrupted. Nothing of a diagnosis is kept: the same command begins anew.")
        raise
    if as_json:
        sys.stdout.write(json.dumps(diagnosis.to_dict(), indent=2, ensure_ascii=False) + "\n")
    if html is not None:
        page = html_page(f"Diagnosis of {loaded.name}", diagnosis.sections())
        try:
            write_whole(html, partial(Path.write_text, data=page))
        except OSError as error:
            raise NlgnnError(f"{html} cannot be written: {error.strerror or error}.", "Name another file.") from error
        errors.print(f"page: {html}", soft_wrap=True)
