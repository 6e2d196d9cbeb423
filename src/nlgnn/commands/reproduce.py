"""`nlgnn reproduce`: measures the tables of the paper cell by cell, and shows those that are there."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nlgnn.commands.terminal import comma_separated, console, errors, write_report
from nlgnn.errors import NlgnnError

if TYPE_CHECKING:
    from nlgnn.experiments.cells import Cell

# As a list, so that `--help` waits for no import; a test compares it with the tables that there are.
TABLE_NAMES = (
    *("results", "datasets", "categories", "verdicts", "first-category", "second-category", "all", "homophily"),
    *("sequence", "efficiency", "cpgcn", "controls", "ablation", "order", "systems"),
)
ON_REQUEST = ("controls", "order", "systems")  # the first is part of results, the others have pages of their own
QUICK_DATASETS = ("texas", "chameleon")  # of each category one


class Format(StrEnum):
    CONSOLE = "console"
    MARKDOWN = "markdown"
    CSV = "csv"
    LATEX = "latex"
    HTML = "html"


class Protocol(StrEnum):
    RANDOM_60 = "random-60"
    GEOM_GCN = "geom-gcn"


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TABLE]...", help=f"{', '.join(TABLE_NAMES)}; by default every one but {' and '.join(ON_REQUEST)}."
        ),
    ] = None,
    protocol: Annotated[
        Protocol, typer.Option(help="Random 60/20/20 splits, as the authors' program has, or the public fixed ones.")
    ] = Protocol.RANDOM_60,
    out: Annotated[
        Path | None, typer.Option(help="Where each cell's JSON file is kept: results, or runs/quick for --quick.")
    ] = None,
    systems: Annotated[str, typer.Option(help="Only these, separated by commas.")] = "",
    datasets: Annotated[str, typer.Option(help="Only these, separated by commas.")] = "",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"Hardly any training, on {' and '.join(QUICK_DATASETS)} unless others are named: tries it out, "
            "measures nothing.",
        ),
    ] = False,
    table_only: Annotated[
        bool,
        typer.Option(
            "--table", help="Measure nothing: show the cells at hand, here and, of format console, in report.html."
        ),
    ] = False,
    form: Annotated[Format, typer.Option("--format", help="How the tables are printed.")] = Format.CONSOLE,
) -> None:
    """Repeat the experiments of the paper, and ours, cell by cell; ours beside the paper's.

    Cells measured before are kept. Several processes can share the work.
    """
    from nlgnn.experiments.cells import choose_cells, make_folder, require_some
    from nlgnn.experiments.reproduce import get_table, page_title
    from nlgnn.experiments.section import Section
    from nlgnn.render import sections_page
    from nlgnn.report.formats import FORMATS
    from nlgnn.report.page import Command, write_page
    from nlgnn.report.reproduction_page import reproduction_parts

    tables = {name: get_table(name) for name in names or [name for name in TABLE_NAMES if name not in ON_REQUEST]}
    results = out or Path("runs/quick" if quick else "results")
    every = [cell for table in tables.values() for cell in table.cells(protocol)]
    chosen = choose_cells(every, comma_separated(systems), comma_separated(datasets))
    if quick:
        chosen = [cell.quick() for cell in chosen if datasets or cell.dataset in QUICK_DATASETS]
    cells = {(cell.store, cell.name): cell for cell in chosen}  # tables share some
    failed = []
    if not table_only:
        make_folder(results)  # before the hours that measuring takes
        failed = measure(list(cells.values()), results)
        draw_orders(list(cells.values()), results)
    require_some(list(cells.values()), results)
    sections: list[Section] = []
    for table in tables.values():
        keys = [(cell.store, cell.name) for cell in table.cells(protocol)]
        sections += table.sections([cells[key] for key in keys if key in cells], results, protocol)
    title, command = page_title(list(tables)), made_by(names, protocol, systems, datasets, quick, form)
    notice = [Section("A try-out, with hardly any training: these are not results.", [], "")] if quick else []
    if form is Format.CONSOLE:
        console.print(sections_page([*notice, *sections], console.width))
        again = Command("Show the tables again", command + (f" --out {shlex.quote(str(out))}" if out else ""))

        def write(path: Path) -> None:
            drawn = reproduction_parts(list(cells.values()), results, validation="categories" in tables)
            write_page(path, title, [*notice, *drawn, *sections, again])

        write_report(results / "report.html", write)
    else:
        origin = Section("", [], "", f"Made by: {command}")
        sys.stdout.write(FORMATS[form](title, [origin, *notice, *sections]))
    if failed:
        raise NlgnnError(f"not measured: {', '.join(failed)}.", "The errors stand above.")


def made_by(names: Sequence[str] | None, protocol: str, systems: str, datasets: str, quick: bool, form: str) -> str:
    """The command that makes a page, again."""
    options = {"--protocol": protocol if protocol != Protocol.RANDOM_60 else "", "--systems": systems}
    options |= {"--datasets": datasets, "--format": form if form != Format.CONSOLE else ""}
    words = ["nlgnn", "reproduce", *(names or []), "--table", *(["--quick"] if quick else [])]
    return shlex.join(words + [word for option, value in options.items() if value for word in (option, value)])


def draw_orders(cells: Sequence[Cell], results: Path) -> None:
    """The pictures that go with tables of orders, beside their cells."""
    from nlgnn.experiments.learned_order import PlantedCell
    from nlgnn.experiments.sequences import SequenceCell
    from nlgnn.report.degradation_picture import draw_degradation
    from nlgnn.report.sequence_pictures import draw, draw_learned_orders

    paths = []
    if own := [cell for cell in cells if isinstance(cell, SequenceCell)]:
        paths += draw(own, results, results / SequenceCell.store)
    if any(isinstance(cell, PlantedCell) for cell in cells):
        paths += draw_learned_orders(cells, results, results / PlantedCell.store)
        paths += draw_degradation(cells, results, results / PlantedCell.store)
    for path in paths:
        errors.print(f"picture: {path}", soft_wrap=True)


def measure(cells: Sequence[Cell], results: Path) -> list[str]:
    """All that are open, but those of huge datasets whose files are not here. The names of those that failed."""
    from nlgnn.datasets import is_present
    from nlgnn.experiments.cells import cell_path, run_cell
    from nlgnn.experiments.framework import HUGE_DATASETS

    failed = []
    for number, cell in enumerate(cells, start=1):
        where = f"cell {number} of {len(cells)}: {cell.dataset}, {cell.label}"
        kept = cell_path(cell, results).exists()
        if not kept and cell.dataset in HUGE_DATASETS and not is_present(cell.dataset):
            errors.print(f"{where}: files not here (nlgnn datasets {cell.dataset} says where they are)", soft_wrap=True)
            continue
        where += " (kept)" * kept
        try:
            result = run_cell(cell, results)
        except KeyboardInterrupt:
            errors.print("\ninterrupted. The same command goes on from here.")
            raise
        except NlgnnError as error:  # the others may be measured all the same
            errors.print(f"{where}\nerror: {error}", soft_wrap=True, markup=False)
            failed.append(cell.name)
            continue
        errors.print(f"{where}, {result['seconds']} s" if result else f"{where}: in work elsewhere", soft_wrap=True)
    return failed
