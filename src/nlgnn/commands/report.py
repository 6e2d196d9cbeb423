"""`nlgnn report`: the page of a run folder anew, or one that compares several."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgnn.commands.terminal import console, write_report
from nlgnn.errors import OptionError

if TYPE_CHECKING:
    from nlgnn.graph.graph import Graph
    from nlgnn.training.train import Trained


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders; several are compared.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The page.", show_default="report.html in the folder, or beside several"),
    ] = None,
    run: Annotated[
        int | None, typer.Option(help="Which run to look into.", show_default="the first that did not fail")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Make the page of a run folder anew, beside the controls that stand next to it; or compare several."""
    from nlgnn.report.comparison_page import read_companions, write_comparison
    from nlgnn.report.run_page import write_run_page
    from nlgnn.training.run import check_target
    from nlgnn.training.train import read_trained

    path = out or (folders[0] if len(folders) == 1 else folders[0].parent) / "report.html"
    if out is not None:
        check_target(out)
    if len(folders) > 1 and run is not None:
        raise OptionError("--run is of one folder, and several are given.", "Leave it out to compare them.")
    if len(folders) == 1:
        trained, graph = read_trained(folders[0])
        write_run_page(path, trained, graph, read_companions(folders[0], trained), run)
    else:
        write_comparison(path, folders)
    console.print(f"report: {path}", soft_wrap=True, markup=False)
    if open_it:
        import webbrowser

        webbrowser.open(path.absolute().as_uri())


def tell_report(trained: Trained, graph: Graph, others: Mapping[str, Trained]) -> None:
    """Write the page of a training into its folder, and say where it is. The training is whole without it.

    Beside what was trained with it stands what was trained there before.
    """
    from nlgnn.report.comparison_page import read_companions
    from nlgnn.report.run_page import write_run_page

    folder = trained.folder.path
    beside = {**others, **{name: one for name, one in read_companions(folder, trained).items() if name not in others}}
    write_report(folder / "report.html", lambda path: write_run_page(path, trained, graph, beside))
