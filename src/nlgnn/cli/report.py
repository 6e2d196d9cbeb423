"""`nlgnn report`: write the page of a run folder again, or compare several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nlgnn.cli.console import console
from nlgnn.cli.options import OwnModel, check_run_folders
from nlgnn.errors import OptionError


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders; several are compared.", callback=check_run_folders),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The HTML file.", show_default="report.html in the folder, or next to several"),
    ] = None,
    run: Annotated[
        int | None, typer.Option(help="The run to look into.", show_default="the first that did not fail")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(help="The metric that several runs are compared by.", show_default="the first's, if all have it"),
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    model: OwnModel = None,
) -> None:
    """Write the report of a run folder again, compared with its controls, or compare several, sorted by validation."""
    from nlgnn.files import check_target
    from nlgnn.report.companions import read_companions
    from nlgnn.report.comparison_page import write_comparison
    from nlgnn.report.run_page import write_run_page
    from nlgnn.training.train import read_trained

    path = out or (folders[0] if len(folders) == 1 else folders[0].parent) / "report.html"
    if out is not None:
        check_target(out)
    if len(folders) > 1 and run is not None:
        raise OptionError("--run needs a single run folder, but several are given.", "Leave out --run to compare them.")
    if len(folders) == 1 and metric is not None:
        raise OptionError("--metric compares several runs, but one is given.", "Name more, or leave out --metric.")
    if len(folders) == 1:
        trained, graph = read_trained(folders[0])
        write_run_page(path, trained, graph, read_companions(folders[0], trained, graph), run)
    else:
        write_comparison(path, folders, metric)
    console.print(f"report: {path}", soft_wrap=True, markup=False)
    if open_it:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())
