"""`nlgnn leaderboard`: the models of one or several run folders, sorted by validation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nlgnn.cli.console import console
from nlgnn.cli.options import OUTPUT, OwnModel, check_run_folders, option
from nlgnn.errors import OptionError


def leaderboard(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders; several are merged.", callback=check_run_folders),
    ],
    as_json: Annotated[bool, option("Print every model as JSON.", OUTPUT, "--json")] = False,
    as_csv: Annotated[bool, option("Print every model as CSV.", OUTPUT, "--csv")] = False,
    model: OwnModel = None,
) -> None:
    """Show the models of automatic choices and of other run folders, sorted by validation."""
    from nlgnn.report.text import sections_page
    from nlgnn.selection.leaderboard import Leaderboard, board_of, csv_text

    boards = [board_of(folder) for folder in folders]
    first = boards[0]
    for folder, board in zip(folders, boards, strict=True):
        for what in ("graph", "protocol", "metric"):
            if getattr(board, what) != getattr(first, what):
                raise OptionError(
                    f"{folder} has the {what} {getattr(board, what)}, {folders[0]} {getattr(first, what)}.",
                    "Merge runs of one graph, protocol and metric.",
                )
    merged = first
    if len(boards) > 1:
        rows = [
            replace(row, entry=replace(row.entry, name=f"{folder}: {row.entry.name}"))
            for folder, board in zip(folders, boards, strict=True)
            for row in board.rows
        ]
        merged = Leaderboard(first.graph, first.protocol, first.metric, rows)
    if as_json or as_csv:
        dicts = merged.to_dicts()
        console.out(json.dumps(dicts, indent=2) if as_json else csv_text(dicts).rstrip("\n"), highlight=False)
    else:
        console.print(sections_page([merged.section()], console.width))
