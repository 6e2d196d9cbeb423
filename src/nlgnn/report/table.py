"""Section: the one table type. Console, Markdown, CSV, LaTeX and HTML are all written from it."""

from __future__ import annotations

from typing import NamedTuple

Rows = list[dict[str, str]]


class Section(NamedTuple):
    """A titled table with a caption and text.

    Args:
        title: The heading. An empty title writes no heading.
        rows: The table, one dictionary per row, all with the same keys. It may be empty.
        caption: How the figures were obtained.
        text: Further paragraphs, separated by empty lines.
        text_columns: The number of leading columns that hold text. All others hold figures and are aligned right.
    """

    title: str
    rows: Rows
    caption: str
    text: str = ""
    text_columns: int = 1


LONGEST_CELL = 60  # characters of a name or a value in a table


def short(text: str) -> str:
    """Return a name or value on one line, cut to `LONGEST_CELL` characters."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_CELL else f"{line[: LONGEST_CELL - 1]}…"


def markdown_table(rows: Rows) -> str:
    """Return rows as a Markdown table.

    Example:
        >>> print(markdown_table([{"model": "gcn", "test": "84.8"}]), end="")
        | model | test |
        | --- | --- |
        | gcn | 84.8 |
    """
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
