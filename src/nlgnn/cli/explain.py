"""`nlgnn explain`: explain the prediction of one node."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from nlgnn.cli.console import console, errors
from nlgnn.cli.options import OwnModel, RunFolderPath
from nlgnn.errors import OptionError


def explain(
    folder: RunFolderPath,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="The number of a node, or its name where nodes have names.")
    ],
    run: Annotated[
        int | None, typer.Option(help="The run whose weights are used.", show_default="the first finished one")
    ] = None,
    top: Annotated[int, typer.Option(help="Neighbours, voters and columns that are shown at most.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    model: OwnModel = None,
) -> None:
    """Explain the prediction of one node.

    Show its position in the sorted order, the contributions of the nodes around it to its logits, the prediction
    without the non-local part, and its neighbours in the graph.
    """
    from nlgnn.report.explanation import explain_in_run, explained_sections
    from nlgnn.report.text import sections_page
    from nlgnn.training.train import read_trained

    for flag, number in (("--run", run), ("--top", top)):
        if number is not None and number < 0:
            raise OptionError(f"{flag} {number} is negative.", "Give 0 or more.")
    trained, graph = read_trained(folder)
    with errors.status(f"evaluating {trained.plan.model} on {graph.name}"):
        explained = explain_in_run(trained, graph, node, run)
    if as_json:
        sys.stdout.write(json.dumps(explained.to_dict(top), indent=2, ensure_ascii=False) + "\n")
    else:
        console.print(sections_page(explained_sections(explained, top), console.width))
