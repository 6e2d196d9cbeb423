"""Tables by name, and the generated pages of docs/results: prose from text/*.md with tables and figures filled in."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from nlgnn.errors import DataError, OptionError, nearest
from nlgnn.files import write_text, writing
from nlgnn.paper import benchmark, findings, plans, tables
from nlgnn.paper.auto_cells import auto_cells
from nlgnn.paper.auto_tables import auto_sections
from nlgnn.paper.cell import (
    HUGE_DATASETS,
    OPEN,
    Cell,
    Found,
    Measured,
    caption,
    cell_path,
    difference,
    files_are_here,
    read_cells,
)
from nlgnn.paper.estimate import estimated_seconds
from nlgnn.paper.figures import draw_planted_orders, draw_roles, draw_sequences
from nlgnn.paper.measure import make_folder
from nlgnn.paper.numbers import printed_cpgcn, printed_validation
from nlgnn.paper.order_cells import order_cells
from nlgnn.paper.order_tables import order_sections
from nlgnn.paper.system_tables import system_sections
from nlgnn.paper.tables import accuracy_sections, homophily_sections
from nlgnn.report.table import Rows, Section
from nlgnn.report.text import markdown_page


class Table(NamedTuple):
    """A table of the reproduction: its cells, and the sections that show them."""

    cells: Callable[[Path], Sequence[Cell]]
    sections: Callable[[Found], list[Section]]


TABLES: dict[str, Table] = {
    "results": Table(plans.result_cells, findings.result_sections),
    "agreement": Table(tables.agreement_cells, tables.agreement_sections),
    "datasets": Table(plans.dataset_cells, tables.dataset_sections),
    "categories": Table(
        plans.category_cells,
        partial(accuracy_sections, "Best validation accuracy (table 2)", printed=printed_validation, validation=True),
    ),
    "verdicts": Table(plans.verdict_cells, tables.verdict_sections),
    "first-category": Table(plans.first_category_cells, partial(accuracy_sections, "First category (table 3)")),
    "second-category": Table(plans.second_category_cells, partial(accuracy_sections, "Second category (table 4)")),
    "all": Table(plans.all_result_cells, partial(accuracy_sections, "All graphs (table 5)")),
    "homophily": Table(
        lambda results: plans.main_cells(plans.SMALL, plans.NON_LOCAL),
        partial(homophily_sections, "Homophily of the re-connected graph (figure)", "homophily"),
    ),
    "sequence": Table(plans.sequence_cells, partial(homophily_sections, "The sorted sequence (figure)", "sequence")),
    "efficiency": Table(plans.efficiency_cells, tables.efficiency_sections),
    "cpgcn": Table(plans.cpgcn_cells, partial(accuracy_sections, "Splits of CPGNN, 10/10/80 %", printed=printed_cpgcn)),
    "controls": Table(plans.result_cells, findings.control_sections),
    "ablation": Table(plans.ablation_cells, findings.ablation_sections),
    "order": Table(lambda results: order_cells(), order_sections),
    "systems": Table(lambda results: plans.compared_cells(), system_sections),
    "benchmark": Table(benchmark.benchmark_cells, benchmark.benchmark_sections),
    "auto": Table(auto_cells, auto_sections),
}
PAGES = ("paper", "systems", "learned_order", "benchmark", "auto")


def get_table(name: str) -> Table:
    """Return a table by name."""
    if name not in TABLES:
        raise OptionError(f"there is no table {name!r}.", nearest(name, list(TABLES)))
    return TABLES[name]


def counts(names: Sequence[str], results: Path) -> Section:
    """Return how many cells of each table are measured, older, open, or cannot be measured without files."""
    rows: Rows = []
    every: dict[str, dict[Path, Measured]] = {}
    for name in TABLES:  # estimates do not depend on the tables that are shown
        own = read_cells(TABLES[name].cells(results), results, check=name in names).values()
        every[name] = {cell_path(one.cell, results): one for one in own}
    known = [one for own in every.values() for one in own.values() if one.result is not None]
    by_table = {name: every[name] for name in names}
    by_table["together"] = {path: one for own in by_table.values() for path, one in own.items()}  # tables share cells
    for name, cells in by_table.items():
        rows.append({"table": name, **_counts(cells.values()), "core-hours left": _hours_left(cells.values(), known)})
    return Section("Cells", rows, caption("counts", rows))


def open_cells(names: Sequence[str], results: Path) -> Section:
    """Return the names of cells that are not measured, in the order of measuring."""
    cells = {cell.name: cell for name in names for cell in TABLES[name].cells(results)}
    found = [one.cell for one in read_cells(cells.values(), results).values() if one.result is None]
    rows = [{"open cell": cell.name} for cell in sorted(found, key=plans.measuring_rank) if not lacks_files(cell)]
    return Section(
        "Open cells", rows, "nlgnn reproduce --cells NAME measures one of them." if rows else "All are measured."
    )


def _hours_left(cells: Collection[Measured], known: Collection[Measured]) -> str:
    left = [one.cell for one in cells if (one.older or one.result is None) and not lacks_files(one.cell)]
    seconds = [estimated_seconds(cell, known) for cell in left]
    return OPEN if None in seconds else f"{sum(filter(None, seconds)) / 3600:.1f}"


def _counts(measured: Collection[Measured]) -> dict[str, str]:
    older = sum(one.older for one in measured)
    done = sum(one.result is not None for one in measured)
    absent = sum(lacks_files(one.cell) for one in measured if one.result is None)
    numbers = {"measured": done - older, "older": older, "open": len(measured) - done - absent, "without files": absent}
    return {name: str(number) for name, number in numbers.items()}


def lacks_files(cell: Cell) -> bool:
    """Return True if the dataset of a cell must be downloaded by hand first."""
    return cell.dataset in HUGE_DATASETS and not files_are_here(cell.dataset)


def make_page(name: str, results: Path) -> str:
    """Return a generated page: the prose with figures filled in.

    `{table NAME}` is a table, `{cells}` counts the cells of all tables of the page, `{CELL}` is a figure and
    `{CELL - CELL}` a difference.
    """
    text = resources.files("nlgnn.paper").joinpath("text").joinpath(f"{name}.md").read_text("utf-8")
    if "{cells}" in text:
        names = re.findall(r"\{table ([a-z-]+)\}", text)
        text = text.replace("{cells}", markdown_page("", [counts(names, results)]).strip())
    return re.sub(r"\{([a-z0-9 -]+)\}", lambda found: _fill(found[1], results), text)


def _fill(wanted: str, results: Path) -> str:
    if wanted.startswith("table "):
        table = get_table(wanted.removeprefix("table "))
        return markdown_page("", table.sections(read_cells(table.cells(results), results))).strip()
    found = {name: one for table in ("systems", "results")
             for name, one in read_cells(TABLES[table].cells(results), results).items()}  # fmt: skip
    names = wanted.split(" - ")
    for name in names:
        if name not in found:
            raise DataError(f"there is no cell {name!r} to fill into a page.", nearest(name, list(found)))
    one, *others = (found[name] for name in names)
    return str(difference([(one, others[0])]) or "…") if others else one.figure


def write_pages(folder: Path, results: Path) -> list[Path]:
    """Write all pages with their pictures and return the paths of the pages."""
    make_folder(folder)
    paths = []
    for name in PAGES:
        path = folder / f"{name}.md"
        with writing(path):
            write_text(path, make_page(name, results))
        paths.append(path)
    draw_sequences(read_cells(plans.sequence_cells(results), results), folder)
    order = read_cells(order_cells(), results)
    draw_planted_orders(order, folder)
    draw_roles(order, folder)
    return paths
