"""Sections as text: Markdown, CSV, LaTeX and a page of HTML that needs nothing else."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from html import escape

from nlgnn.experiments.section import Section, markdown_table


def markdown_page(title: str, sections: Sequence[Section]) -> str:
    parts = [f"# {title}\n"] if title else []
    for section in sections:
        parts += [f"## {section.title}\n"] if section.title else []
        parts += [markdown_table(section.rows)] if section.rows else []
        parts += [f"{text}\n" for text in (section.caption, section.text) if text]
    return "\n".join(parts)


def csv_page(title: str, sections: Sequence[Section]) -> str:
    """One table after another, an empty line between them; the first column says which it is."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for number, section in enumerate(section for section in sections if section.rows):
        writer.writerows([[]] if number else [])
        writer.writerow(["table", *section.rows[0]])
        writer.writerows([section.title or title, *row.values()] for row in section.rows)
    return text.getvalue()


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
        "✓": r"$\checkmark$",
        "▲": r"$\uparrow$",
        "▼": r"$\downarrow$",
        "≥": r"$\geq$",
        "≤": r"$\leq$",
        "ε": r"$\epsilon$",
    }
)


def latex_page(title: str, sections: Sequence[Section]) -> str:
    """Tables to be put into a document that has booktabs and amssymb."""
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


STYLE = """\
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .875rem; }
th, td { padding: .25rem .75rem .25rem 0; text-align: right; }
th, td { border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); }
th { border-bottom-color: currentColor; vertical-align: bottom; }
.text { text-align: left; }
.caption { font-size: .875rem; opacity: .75; max-width: 60rem; }
p { max-width: 60rem; }
@media print { .table { overflow: visible; } body { font-size: 11px; } }
"""


def html_page(title: str, sections: Sequence[Section]) -> str:
    """One file without scripts: light and dark, on a phone and in print."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n<h1>{escape(title)}</h1>\n",
    ]
    for section in sections:
        parts += [f"<h2>{escape(section.title)}</h2>\n"] if section.title else []
        parts += [_html_table(section)] if section.rows else []
        parts += [f'<p class="caption">{escape(section.caption)}</p>\n'] if section.caption else []
        parts += [f"<p>{escape(text)}</p>\n" for text in section.text.split("\n\n") if text]
    return "".join(parts)


def _html_table(section: Section) -> str:
    lines = [_html_line("th", list(section.rows[0]), section.text_columns)]
    lines += [_html_line("td", list(row.values()), section.text_columns) for row in section.rows]
    return f'<div class="table"><table>\n<thead>{lines[0]}</thead>\n{"".join(lines[1:])}</table></div>\n'


def _html_line(tag: str, cells: Sequence[str], text_columns: int) -> str:
    shown = (
        f"<{tag}{' class=text' if number < text_columns else ''}>{escape(cell)}</{tag}>"
        for number, cell in enumerate(cells)
    )
    return f"<tr>{''.join(shown)}</tr>\n"


FORMATS: Mapping[str, Callable[[str, Sequence[Section]], str]] = {
    "markdown": markdown_page,
    "csv": csv_page,
    "latex": latex_page,
    "html": html_page,
}
