"""The tables that `nlgnn reproduce` makes, by name: the cells of each, and what they show once measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlgnn.errors import OptionError, nearest
from nlgnn.experiments.published import published_cells, published_sections
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.systems import system_cells
from nlgnn.experiments.systems_page import system_sections


class ResultTable(NamedTuple):
    """`heading` is how its page in Markdown begins; without one, it is the table alone, to stand in another page."""

    cells: Callable[[], Sequence[Any]]
    sections: Callable[[Sequence[Any], Path], list[Section]]
    heading: str = ""


SYSTEMS_HEADING = """\
# The systems compared

Made by `nlgnn reproduce systems --table --markdown` from [a JSON file a cell](../results/systems).
"""
TABLES = {
    "published": ResultTable(published_cells, published_sections),
    "systems": ResultTable(system_cells, system_sections, SYSTEMS_HEADING),
}


def get_table(name: str) -> ResultTable:
    if name not in TABLES:
        raise OptionError(f"there is no table {name!r}.", nearest(name, list(TABLES)))
    return TABLES[name]


def markdown(rows: Rows) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def markdown_page(table: ResultTable, sections: Sequence[Section]) -> str:
    if not table.heading:
        return "".join(markdown(section.rows) for section in sections)
    parts = [table.heading]
    for section in sections:
        parts += [f"## {section.title}\n", markdown(section.rows), f"{section.caption}\n"]
        parts += [f"{section.text}\n"] if section.text else []
    return "\n".join(parts)
