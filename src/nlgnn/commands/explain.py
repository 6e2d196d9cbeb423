"""`nlgnn explain`: why a trained model says what it says of a node."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from nlgnn.commands.terminal import console, errors
from nlgnn.errors import OptionError


def explain(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder that a training made.")],
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="The number of a node, or its name where nodes have names.")
    ],
    run: Annotated[
        int | None, typer.Option(help="The run whose weights are used.", show_default="the first finished one")
    ] = None,
    top: Annotated[int, typer.Option(help="Neighbours, voters and columns that are shown at most.")] = 10,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
) -> None:
    """Show why a trained model says what it says of a node.

    Its place in the sorted order, what the nodes around it there add to its logits, what the model would say without
    its non-local part, and its neighbours in the graph.
    """
    from nlgnn.experiments.explained import explain_in_run, explained_sections
    from nlgnn.render import sections_page
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
