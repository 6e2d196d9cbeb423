"""Sections as text: on the console, as Markdown, as CSV and as LaTeX."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from nlgnn.report.table import Section, markdown_table

WIDE_TERMINAL, LONG_COLUMNS = 120, {"settings", "split", "source"}
LONG_TEXT, WIDEST = 24, 36  # text of this length is wrapped; a longer piece is folded wherever it is cut
UNLIMITED = 100_000

LATEX_ESCAPES = str.maketrans(
    {
        **{character: f"\\{character}" for character in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "−": "$-$",
        "×": r"$\times$",
        "…": r"\dots{}",
        "–": "--",
        "Ĝ": r"$\hat{G}$",
        "²": "$^2$",
        "†": r"$\dagger$",
        "✓": r"$\checkmark$",
        "▲": r"$\uparrow$",
        "▼": r"$\downarrow$",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
        "ε": r"$\epsilon$",
    }
)


def markdown_page(title: str, sections: Sequence[Section]) -> str:
    """Return sections as Markdown."""
    parts = [f"# {title}\n"] if title else []
    for section in sections:
        parts += [f"## {section.title}\n"] if section.title else []
        parts += [markdown_table(section.rows)] if section.rows else []
        parts += [f"{text}\n" for text in (section.caption, section.text) if text]
    return "\n".join(parts)


def csv_page(title: str, sections: Sequence[Section]) -> str:
    """Return all tables as CSV, separated by empty lines. The first column names the table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, section in enumerate(section for section in sections if section.rows):
        writer.writerows([[]] if number else [])
        writer.writerow(["table", *section.rows[0]])
        writer.writerows([section.title or title, *row.values()] for row in section.rows)
    return text.getvalue()


def latex_page(title: str, sections: Sequence[Section]) -> str:
    """Return all tables as LaTeX, for a document that loads booktabs and amssymb."""
    parts = [f"% {title}: needs \\usepackage{{amssymb, booktabs}}\n"]
    for section in (section for section in sections if section.rows):
        columns = "".join("l" if number < section.text_columns else "r" for number in range(len(section.rows[0])))
        lines = [list(section.rows[0]), *(list(row.values()) for row in section.rows)]
        header, *body = (" & ".join(cell.translate(LATEX_ESCAPES) for cell in line) + r" \\" for line in lines)
        caption = " ".join(part for part in (f"{section.title}.", section.caption, section.text) if part)
        parts.append(
            "\n".join(
                [
                    r"\begin{table}",
                    rf"\caption{{{caption.translate(LATEX_ESCAPES)}}}",
                    rf"\begin{{tabular}}{{{columns}}}",
                    *(r"\toprule", header, r"\midrule", *body, r"\bottomrule"),
                    r"\end{tabular}",
                    "\\end{table}\n",
                ]
            )
        )
    return "\n".join(parts)


def _html_page(title: str, sections: Sequence[Section]) -> str:
    """Return sections as one HTML file."""
    from nlgnn.report.page import page  # which imports more than a table on the console needs

    return page(title, sections)


FORMATS: Mapping[str, Callable[[str, Sequence[Section]], str]] = {
    "markdown": markdown_page,
    "csv": csv_page,
    "latex": latex_page,
    "html": _html_page,
}


def sections_page(sections: Sequence[Section], width: int) -> RenderableType:
    """Return sections for a console of some width. A narrow one does not show `LONG_COLUMNS`."""
    parts: list[RenderableType] = []
    for section in sections:
        parts += [Text(section.title, "bold")] if section.title else []
        parts += _section_tables(section, width) if section.rows else []
        parts += [Text(section.caption, "dim")] if section.caption else []
        parts += [*([Text(section.text)] if section.text else []), Text()]
    return Group(*parts[:-1])


def table_of(headers: list[str], rows: list[list[str]], numbers_from: int = 1, **options: Any) -> Table:
    """Return a console table whose columns hold text before `numbers_from` and figures from there on."""
    table = Table(box=None, pad_edge=False, header_style="bold", **options)
    for position, header in enumerate(headers):
        # Folded where it is too narrow: a figure that is cut would be another figure.
        table.add_column(header, justify="right" if position >= numbers_from else "left", overflow="fold")
    table.columns[0].no_wrap = True
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # as Text, since brackets would be read as markup
    return table


def _section_tables(section: Section, width: int) -> list[RenderableType]:
    """Return one table, or several that repeat the first columns where one would break figures."""
    left_out = LONG_COLUMNS if width < WIDE_TERMINAL else set()
    names = [name for name in section.rows[0] if name not in left_out]
    text = [name for name in list(section.rows[0])[: section.text_columns] if name in names]
    long_text = [name for name in text if any(len(row[name]) >= LONG_TEXT for row in section.rows)]
    least = {
        name: _least_width(name, [row[name] for row in section.rows], name in text, name in long_text) for name in names
    }
    repeated = len(list(takewhile(lambda name: name in text and name not in long_text, names))) or 1
    tables: list[RenderableType] = []
    for group in _columns_that_fit(least, repeated, width):
        cells = [[row[name] for name in group] for row in section.rows]
        table = table_of(group, cells, numbers_from=sum(name in text for name in group))
        too_wide = Console(width=UNLIMITED).measure(table).maximum > width
        for column, name in zip(table.columns, group, strict=True):
            column.no_wrap = name in text and name not in long_text
            if too_wide and name not in long_text:  # rich would break some figures and leave other columns room
                column.width = least[name]
        tables += [*([Text()] if tables else []), table]
    return tables


def _least_width(name: str, cells: list[str], is_text: bool, is_long: bool) -> int:
    """Return the width of a column that breaks long text and headers between words, and never breaks a figure."""
    pieces = [piece for cell in cells for piece in ([cell[:LONG_TEXT]] if is_text else _unbroken(cell))]
    header = [name] if is_text and not is_long else name.split()
    return min(WIDEST, max(map(len, (*pieces, *header))))


def _unbroken(cell: str) -> list[str]:
    """Split a cell into pieces that stay on one line: words, or each figure with its spread or interval."""
    return re.split(r"(?<=,) (?![^\[]*\])", cell) if re.search(r"\d", cell) else cell.split()


def _columns_that_fit(least_widths: Mapping[str, int], repeated: int, width: int) -> list[list[str]]:
    """Group columns into as few tables as fit, of about equal width. All begin with the repeated columns."""
    first, others = list(least_widths)[:repeated], list(least_widths)[repeated:]

    def packed(room: int) -> list[list[str]]:
        groups = [list(first)]
        for name in others:
            if len(groups[-1]) > repeated and sum(least_widths[one] + 2 for one in (*groups[-1], name)) - 2 > room:
                groups.append(list(first))
            groups[-1].append(name)
        return groups

    fewest = len(packed(width))
    return next(groups for room in range(width + 1) if len(groups := packed(room)) == fewest)
