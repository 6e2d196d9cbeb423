"""Section: a part of what an experiment shows. Console, Markdown, CSV, LaTeX and HTML are made of the same ones."""

from __future__ import annotations

from typing import NamedTuple

Rows = list[dict[str, str]]


class Section(NamedTuple):
    """A table, whose first columns are text, and words about it, in paragraphs. Without rows it is words alone."""

    title: str
    rows: Rows
    caption: str
    text: str = ""
    text_columns: int = 1


def markdown_table(rows: Rows) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
