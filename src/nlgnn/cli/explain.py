"""`nlgnn explain`: the reasons for the predictions of one or several nodes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from nlgnn.cli.console import console, errors
from nlgnn.cli.options import OwnModel, RunFolderPath
from nlgnn.errors import OptionError, nearest


def explain(
    folder: RunFolderPath,
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE...", help="Numbers of nodes, or their names where nodes have names."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Explain all nodes.")] = False,
    run: Annotated[
        int | None, typer.Option(help="The run whose weights are used.", show_default="the first finished one")
    ] = None,
    of_class: Annotated[
        str | None,
        typer.Option("--class", help="The class to explain.", show_default="the rare one, or the predicted one"),
    ] = None,
    top: Annotated[int, typer.Option(help="Most neighbours, voters and columns; 0: no neighbours.")] = 10,
    out: Annotated[
        Path | None,
        typer.Option(help="Table of reasons: .csv, .parquet, .jsonl or - (print).", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    picture: Annotated[
        Path | None,
        typer.Option(help="Also draw the votes on the node into this .svg or .png file.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead.")] = False,
    model: OwnModel = None,
) -> None:
    """Explain the predictions of nodes.

    Show the contributions of its own columns, of its neighbours, of structure, labels and the non-local part, by taking
    each of them away and predicting again. For a single node, also show the exact contributions that its model can
    give: columns, voters, or the nodes around it in the sorted order. Several nodes give a table.
    """
    from nlgnn.analysis.explain import node_number
    from nlgnn.analysis.reasons import reasons_of
    from nlgnn.models.build import rare_class
    from nlgnn.report.explanation import explain_in_run, explained_sections
    from nlgnn.report.reasons import reason_columns, reasons_dict, several_sections
    from nlgnn.report.text import sections_page
    from nlgnn.training.prediction_files import STANDARD_OUTPUT, check_table_path, write_table
    from nlgnn.training.train import read_trained

    for flag, number in (("--run", run), ("--top", top)):
        if number is not None and number < 0:
            raise OptionError(f"{flag} {number} is negative.", "Give 0 or more.")
    if every == bool(nodes):
        what = "--all and nodes exclude each other." if every else "No node was given."
        raise OptionError(what, "Give numbers or names of nodes, or --all.")
    if picture is not None and (every or len(nodes or ()) != 1):
        raise OptionError("--picture draws a single node.", "Name one node, or leave --picture out.")
    if out is not None:
        check_table_path(out, replace=force)
    trained, graph = read_trained(folder)
    chosen = list(range(graph.num_nodes)) if every else [node_number(graph, node) for node in nodes or ()]
    if of_class is not None and of_class not in graph.class_names:
        raise OptionError(f"{graph.name} has no class {of_class!r}.", nearest(of_class, graph.class_names))
    number = rare_class(graph) if of_class is None else graph.class_names.index(of_class)
    reasons = reasons_of(trained, graph, chosen, run, 0 if top == 0 else None, number, progress=True)
    if out is not None:
        write_table(out, reason_columns(reasons, top))
        if out != STANDARD_OUTPUT:
            count = f"{len(chosen):,} node{'s' * (len(chosen) != 1)}"
            console.print(f"reasons of {count}: {out}", soft_wrap=True, markup=False)
    elif len(chosen) > 1 and as_json:
        _print_json([reasons_dict(one, top) for one in reasons])
    elif len(chosen) > 1:
        console.print(sections_page(several_sections(reasons, trained), console.width))
    else:
        with errors.status(f"evaluating {trained.plan.model} on {graph.name}"):
            explained = explain_in_run(trained, graph, chosen[0], run)
        if picture is not None:
            from nlgnn.report.figures.votes import save_votes

            save_votes(explained.explanation, picture)
        if as_json:
            _print_json(explained.to_dict(top) | {"reasons": reasons_dict(reasons[0], top)})
        else:
            console.print(sections_page(explained_sections(explained, top, reasons[0]), console.width))


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")
