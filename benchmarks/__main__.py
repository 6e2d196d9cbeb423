"""`python -m benchmarks`, in the root of the repository: time our models and plain PyTorch Geometric ones."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from nlgnn.cli.console import console, errors, told_warnings
from nlgnn.errors import NlgnnError


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CASE]...", help="Cases, or the beginnings of their names: step, splits-te."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of results: benchmarks/results, or runs/bench with --quick.")
    ] = None,
    large: Annotated[bool, typer.Option("--large", help="Also graphs of up to 2.9 million nodes.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Try all cases out on very small graphs.")] = False,
    short: Annotated[bool, typer.Option("--short", help="Only comparisons with peers, in 10 minutes.")] = False,
    table_only: Annotated[bool, typer.Option("--table", help="Show measured cases; measure nothing.")] = False,
) -> None:
    """Time our models and plain PyTorch Geometric ones. The named cases, or all, are measured again.

    A result of a quiet machine is not replaced by one of a busy machine.
    """
    from benchmarks import cases as experiment
    from benchmarks.page import exponents, goal_rows, goal_sections, scaling_chart, scaling_rows, write_page
    from nlgnn.report.figures import save_chart
    from nlgnn.report.text import sections_page

    folder = out or Path("runs/bench" if quick else "benchmarks/results")
    known = experiment.quick_cases() if quick else experiment.all_cases()
    wanted = experiment.short_cases() if short else known
    cases = [] if table_only else experiment.choose_cases(names or [], large or quick, wanted)
    failed, kept, started = [], dict[str, Any](), time.monotonic()
    try:
        for number, case in enumerate(cases, start=1):
            if short and time.monotonic() - started > 60 * experiment.SHORT_MINUTES:
                left = ", ".join(case.name for case in cases[number - 1 :])
                errors.print(f"no time left for: {left}.", soft_wrap=True)
                break
            errors.print(f"case {number} of {len(cases)}: {case.name} ...", soft_wrap=True)
            try:
                experiment.run_case(case, folder)
            except experiment.KeptResultError as error:
                errors.print(escape(error.what), soft_wrap=True)
                kept[case.name] = error.result
            except NlgnnError as error:  # the others may be measured all the same
                errors.print(f"[red]error:[/] {escape(str(error))}", soft_wrap=True)
                failed.append(case.name)
    finally:  # also after Ctrl-C: what was measured is kept and shown
        results = experiment.read_results(known, folder)
        if rows := goal_rows(known, results | kept):
            console.print(sections_page(goal_sections(rows), console.width))
        if results and not table_only:
            write_page(known, results, folder)
        if (trainings := scaling_rows(results)) and not table_only:
            save_chart(scaling_chart(trainings, exponents(trainings)), folder / "scaling.svg")
    if failed or not results:
        raise NlgnnError(
            f"not measured: {', '.join(failed)}." if failed else f"there are no results in {folder}.",
            "The errors are printed above." if failed else "Name their folder with --out, or measure them.",
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark. An error prints two lines and exits with code 2, Ctrl-C with code 130."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(bench)
    try:
        with told_warnings():
            app(arguments)
    except NlgnnError as error:
        errors.print(f"[red]error:[/] {escape(error.what)}", soft_wrap=True)
        if error.how:
            errors.print(escape(error.how), soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
