"""`nlgnn reproduce`: measure the tables of the paper cell by cell, and show them."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgnn.cli.console import comma_separated, console, errors, telling_report
from nlgnn.errors import DataError, NlgnnError, OptionError, nearest

if TYPE_CHECKING:
    from nlgnn.paper.cell import Cell
    from nlgnn.report.table import Section

# Listed here so that `--help` and misspelt names need no slow import. A test compares the list with the tables.
TABLE_NAMES = (
    *("results", "agreement", "datasets", "categories", "verdicts", "first-category", "second-category", "all"),
    *("homophily", "sequence", "efficiency", "cpgcn", "controls", "ablation", "order", "systems", "benchmark", "auto"),
)
# The first is part of results, the others have pages of their own.
ON_REQUEST = ("controls", "order", "systems", "benchmark", "auto")
SECONDS_BETWEEN_TRIES = 5.0  # to take a cell over that another machine measures
QUICK_DATASETS = ("texas", "chameleon")  # one of each category


class Format(StrEnum):
    """The output formats of tables."""

    CONSOLE = "console"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"
    HTML = "html"


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TABLE]...", help="Tables; by default those of the page of the paper."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of cells: results, or runs/quick with --quick.")] = None,
    systems: Annotated[str, typer.Option(help="Only these models, separated by commas.")] = "",
    datasets: Annotated[str, typer.Option(help="Only these datasets, separated by commas.")] = "",
    cells: Annotated[str, typer.Option(help="Only these cells, separated by commas.")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Try it out with almost no training on two datasets.")] = False,
    table_only: Annotated[bool, typer.Option("--table", help="Show measured cells; measure nothing.")] = False,
    list_only: Annotated[bool, typer.Option("--list", help="Count cells; with TABLE, name open ones.")] = False,
    pages: Annotated[Path | None, typer.Option(help="Write the generated pages to this folder.")] = None,
    storage: Annotated[str | None, typer.Option(help="Share cells between machines: postgresql://…")] = None,
    form: Annotated[Format, typer.Option("--format", help="The format of printed tables.")] = Format.CONSOLE,
) -> None:
    """Repeat the experiments of the paper cell by cell and compare them with the printed tables.

    Measured cells are kept. Open cells are measured first, then those of older versions. Several processes can share
    the work: in one folder, or on several machines by a database (--storage). With one, cells that others measure are
    waited for, and taken over if they are given up.

    Tables: results, agreement, datasets, categories, verdicts, first-category, second-category, all, homophily,
    sequence, efficiency, cpgcn, controls, ablation, order, systems, benchmark, auto.
    """
    for name in names or ():
        if name not in TABLE_NAMES:
            raise OptionError(f"there is no table {name!r}.", nearest(name, TABLE_NAMES))

    from nlgnn.paper import pages as paper_pages
    from nlgnn.paper.cell import read_cells
    from nlgnn.report.table import Section
    from nlgnn.report.text import sections_page

    chosen_names = names or [name for name in TABLE_NAMES if name not in ON_REQUEST]
    tables = {name: paper_pages.get_table(name) for name in chosen_names}
    results = out or Path("runs/quick" if quick else "results")
    if list_only:
        counted = [paper_pages.counts(names or TABLE_NAMES, results)]
        counted += [paper_pages.open_cells(names, results)] if names else []
        console.print(sections_page(counted, console.width))
        return
    if pages is not None:
        for path in paper_pages.write_pages(pages, results):
            console.print(f"page: {path}", soft_wrap=True, markup=False)
        return
    selection = Selection(
        list(tables), comma_separated(systems), comma_separated(datasets), comma_separated(cells), quick
    )
    if storage is not None and table_only:
        raise OptionError("--table measures nothing that --storage could share.", "Leave one of them out.")
    failed = [] if table_only else measure(selection, results, storage)
    found = selection.cells(results)
    if not any((results / store / f"{name}.json").exists() for store, name in found):
        raise DataError(f"there are no measured cells in {results}.", "Name their folder with --out, or measure them.")
    sections: list[Section] = []
    for table in tables.values():
        keys = dict.fromkeys((cell.store, cell.name) for cell in table.cells(results))
        sections += table.sections(read_cells([found[key] for key in keys if key in found], results))
    notice = [Section("A try-out with almost no training: these are not results.", [], "")] if quick else []
    show(selection, [*notice, *sections], found, results, form, out)
    if failed:
        raise NlgnnError(f"not measured: {', '.join(failed)}.", "The errors are printed above.")


class Selection:
    """The cells that the arguments of the command select.

    Args:
        tables: The names of the tables.
        systems: The names of the models, all if empty.
        datasets: The names of the datasets, all if empty.
        names: The names of the cells, all if empty.
        quick: Select the quick variant of each cell.
    """

    def __init__(
        self, tables: list[str], systems: list[str], datasets: list[str], names: list[str], quick: bool
    ) -> None:
        self.tables, self.systems, self.datasets, self.names, self.quick = tables, systems, datasets, names, quick

    def cells(self, results: Path) -> dict[tuple[str, str], Cell]:
        """Return the cells by store and name. Some depend on results: controls belong to the model that was chosen."""
        from nlgnn.paper.cell import choose_cells
        from nlgnn.paper.pages import TABLES

        every = [cell for name in self.tables for cell in TABLES[name].cells(results)]
        chosen = choose_cells(every, self.systems, self.datasets, self.names)
        if self.quick:
            chosen = [cell.quick() for cell in chosen if self.datasets or cell.dataset in QUICK_DATASETS]
        return {(cell.store, cell.name): cell for cell in chosen}  # tables share cells

    def command(self, form: str) -> str:
        """Return the command that shows the same tables again."""
        default = [name for name in TABLE_NAMES if name not in ON_REQUEST]
        words = ["nlgnn", "reproduce", *(self.tables if self.tables != default else []), "--table"]
        words += ["--quick"] * self.quick
        options = {
            "--systems": ",".join(self.systems),
            "--datasets": ",".join(self.datasets),
            "--cells": ",".join(self.names),
        }
        options["--format"] = form if form != Format.CONSOLE else ""
        return shlex.join(words + [word for option, value in options.items() if value for word in (option, value)])


def show(
    selection: Selection,
    sections: list[Section],
    cells: dict[tuple[str, str], Cell],
    results: Path,
    form: Format,
    out: Path | None,
) -> None:
    """Print the sections, and write report.html if they are printed to the console."""
    from nlgnn.paper.figures import page_parts
    from nlgnn.report.page import Command, write_page
    from nlgnn.report.table import Section
    from nlgnn.report.text import FORMATS, sections_page

    one = len(selection.tables) == 1
    title = f"Table {selection.tables[0]}" if one else "The paper's experiments, repeated"
    command = selection.command(form)
    if form is not Format.CONSOLE:
        sys.stdout.write(FORMATS[form](title, [Section("", [], "", f"Made by: {command}"), *sections]))
        return
    console.print(sections_page(sections, console.width))
    again = Command("Show the tables again", command + (f" --out {shlex.quote(str(out))}" if out else ""))
    page = results / "report.html"
    with telling_report(page):
        results.mkdir(parents=True, exist_ok=True)
        write_page(page, title, [*page_parts(list(cells.values()), results), *sections, again])


def measure(selection: Selection, results: Path, storage: str | None = None) -> list[str]:
    """Measure open cells, then older ones, and return the names of those that failed."""
    if storage is None:
        return _measure(selection, results)
    from nlgnn.paper.shared_cells import shared_results
    from nlgnn.tuning.shared_results import SharedResults

    token = shared_results.set(SharedResults(storage, "quick" if selection.quick else "results"))
    try:
        return _measure(selection, results)
    finally:
        shared_results.reset(token)


def _measure(selection: Selection, results: Path) -> list[str]:
    from nlgnn.paper.cell import cell_path, is_older, read_cell
    from nlgnn.paper.measure import make_folder
    from nlgnn.paper.pages import lacks_files
    from nlgnn.paper.plans import measuring_rank

    selection.cells(results)  # so that a wrong name is refused before the folder is made
    make_folder(results)
    done: set[tuple[str, str]] = set()
    failed: list[str] = []
    while waiting := {key: cell for key, cell in selection.cells(results).items() if key not in done}:
        open_cells, older = [], []
        for key, cell in waiting.items():
            path = cell_path(cell, results)
            if lacks_files(cell) and not path.exists():
                errors.print(f"{cell.name}: files not here (see nlgnn datasets {cell.dataset})", soft_wrap=True)
            elif not path.exists():
                open_cells.append(cell)
            else:
                try:
                    older += [cell] * is_older(read_cell(cell, path))
                except NlgnnError as error:
                    errors.print(f"{cell.name}\nerror: {error}", soft_wrap=True, markup=False)
                    failed.append(cell.name)
            done.add(key)
        open_cells.sort(key=measuring_rank)
        older.sort(key=measuring_rank)
        # Results decide which controls are needed, so these are looked up again after the open cells.
        failed += _run(open_cells, results)
        if not open_cells:
            failed += _run(older, results, renew=True)
        else:
            done -= {(cell.store, cell.name) for cell in older}
    return list(dict.fromkeys(failed))


def _run(cells: Sequence[Cell], results: Path, renew: bool = False) -> list[str]:
    """Measure cells one after another and return the names of those that failed.

    If results are shared, those of other processes are waited for.
    """
    from nlgnn.paper.measure import run_cell
    from nlgnn.paper.shared_cells import shared_results

    failed = []
    waiting = list(enumerate(cells, start=1))
    told = set[str]()
    while waiting:
        number, cell = waiting.pop(0)
        where = f"{'older' if renew else 'open'} cell {number} of {len(cells)}: {cell.name}"
        try:
            result = run_cell(cell, results, renew=renew)
        except KeyboardInterrupt:
            errors.print("\ninterrupted. The same command continues from here.")
            raise
        except NlgnnError as error:  # the other cells can still be measured
            errors.print(f"{where}\nerror: {error}", soft_wrap=True, markup=False)
            failed.append(cell.name)
            continue
        if result is not None or cell.name not in told:
            words = f"{where}, {result['seconds']} s" if result else f"{where}: another process measures it"
            errors.print(words, soft_wrap=True)
        if result is None and shared_results.get() is not None:
            if cell.name in told:
                time.sleep(SECONDS_BETWEEN_TRIES)
            told.add(cell.name)
            waiting.append((number, cell))
    return failed
