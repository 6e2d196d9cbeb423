"""The command line: parse, call, render. Everything that takes time to import is imported inside the commands."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from nlgnn import __version__
from nlgnn.commands.diagnose import diagnose
from nlgnn.commands.explain import explain
from nlgnn.commands.export import export
from nlgnn.commands.predict import predict
from nlgnn.commands.report import report
from nlgnn.commands.reproduce import reproduce
from nlgnn.commands.terminal import console, errors, told_warnings
from nlgnn.errors import NlgnnError

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
DatasetName = Annotated[str | None, typer.Argument(help="Show this one in full.", show_default=False)]


def datasets(name: DatasetName = None) -> None:
    """List the named graphs, or show one with its quirks and citation."""
    from nlgnn.render import dataset_page, dataset_table

    console.print(dataset_page(name) if name else dataset_table())


def models(name: DatasetName = None) -> None:
    """List the models, or show one with its options, presets and source."""
    from nlgnn.render import model_page, model_table

    console.print(model_page(name) if name else model_table())


def demo(
    out: Annotated[Path, typer.Option(help="Where run folders go.")] = Path("runs"),
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the sorted sequence into this .svg or .png file.")
    ] = None,
) -> None:
    """Train on the graph that ships with the package, beside the controls, and show what came out."""
    from nlgnn.commands.report import tell_report
    from nlgnn.experiments.demo import run_demo
    from nlgnn.render import demo_page

    if picture is not None:
        from nlgnn.report.figures import check_picture, save_chart, sequence_chart

        check_picture(picture)
    try:
        result = run_demo(out, tell=errors.print)
    except KeyboardInterrupt:
        errors.print(f"\ninterrupted. Go on with a folder in {out}: nlgnn train --resume FOLDER", markup=False)
        raise
    console.print(demo_page(result, console.width))
    tell_report(result.trained[0][1], result.graph, dict(result.trained[1:]))
    if picture is not None:
        save_chart(sequence_chart(result.graph, result.sequences), picture)
        console.print(f"picture: {picture}", soft_wrap=True)


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[CASE]...", help="Cases, or how their names begin: step, splits-te.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where results are kept; benchmarks/results, of --quick runs/bench.")
    ] = None,
    large: Annotated[bool, typer.Option("--large", help="Also graphs of up to 2.9 million nodes.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="All of it, very small: tries it out, measures nothing.")
    ] = False,
    table_only: Annotated[bool, typer.Option("--table", help="Measure nothing: show what is at hand.")] = False,
) -> None:
    """Time our models beside plain PyTorch Geometric ones. Cases that are named, or else all, are measured anew."""
    from nlgnn.experiments.bench import cases as experiment
    from nlgnn.experiments.bench.page import CAPTION, write_page
    from nlgnn.experiments.bench.table import exponents, goal_rows, scaling_rows
    from nlgnn.render import bench_table
    from nlgnn.report.figures import save_chart, scaling_chart

    folder = out or Path("runs/bench" if quick else "benchmarks/results")
    known = experiment.quick_cases() if quick else experiment.all_cases()
    cases = [] if table_only else experiment.choose_cases(names or [], large or quick, known)
    failed = []
    try:
        for number, case in enumerate(cases, start=1):
            errors.print(f"case {number} of {len(cases)}: {case.name} ...", soft_wrap=True)
            try:
                experiment.run_case(case, folder)
            except NlgnnError as error:  # the others may be measured all the same
                errors.print(f"[red]error:[/] {_escape(error)}", soft_wrap=True)
                failed.append(case.name)
    finally:  # also after Ctrl-C: what was measured is kept and shown
        results = experiment.read_results(known, folder)
        if rows := goal_rows(known, results):
            console.print(bench_table(rows, CAPTION))
        if results and not table_only:
            write_page(known, results, folder)
        if (trainings := scaling_rows(results)) and not table_only:
            save_chart(scaling_chart(trainings, exponents(trainings)), folder / "scaling.svg")
    if failed or not results:
        raise NlgnnError(
            f"not measured: {', '.join(failed)}." if failed else f"there are no results in {folder}.",
            "The errors stand above." if failed else "Name their folder with --out, or measure them.",
        )


def show_version(wanted: bool) -> None:
    if wanted:
        console.print(f"nlgnn {__version__}")
        raise typer.Exit


def top(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error came from.")] = False,
) -> None:
    """Node classification on graphs whose neighbours disagree."""


def build_app(arguments: list[str]) -> typer.Typer:
    """All commands. The many flags of `train` and `tune` are read off the models, which needs torch: only if called."""
    app = typer.Typer(no_args_is_help=True, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(top)
    if "train" in arguments:
        from nlgnn.commands.train import train_command

        app.command("train")(train_command())
    else:
        app.command("train", help="Train a model on a graph: nlgnn train texas --model nlmlp")(lambda: None)
    if "tune" in arguments:
        from nlgnn.commands.tune import tune_command

        app.command("tune")(tune_command())
    else:
        app.command("tune", help="Search over a model's options: nlgnn tune texas --model nlmlp")(lambda: None)
    app.command("diagnose")(diagnose)
    for command in (predict, report, explain, export, demo, datasets, models, reproduce, bench):
        app.command()(command)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run a command. A user's mistake is two lines and exit code 2; Ctrl-C is exit code 130."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments  # anywhere, also behind the command
    arguments = [argument for argument in arguments if argument != "--debug"]
    try:
        with told_warnings():
            build_app(arguments)(arguments)
    except NlgnnError as error:
        if debug:
            raise
        what = error.what.replace("\n", "\\n")  # one line, whatever files are called
        errors.print(f"[red]error:[/] {_escape(what)}", soft_wrap=True)
        if error.how:
            errors.print(_escape(error.how), soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output, such as `head`, has seen enough
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        where = error.filename or "what is printed"
        errors.print(f"[red]error:[/] {_escape(where)} cannot be written: {error.strerror}.", soft_wrap=True)
        errors.print("Make room, or let it go somewhere else.")
        with suppress(OSError, ValueError):  # else Python would try once more to write it at its end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(2)


def _escape(text: Any) -> str:
    from rich.markup import escape

    return escape(str(text))
