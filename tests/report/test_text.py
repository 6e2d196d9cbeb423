"""Sections as Markdown, CSV, LaTeX and HTML."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

from each_of import each_of
from nlgnn.report.table import Section
from nlgnn.report.text import FORMATS, csv_page, latex_page, markdown_page

SECTIONS = [
    Section("First", [{"name": "a|b", "test": "80.0 ± 1.0 ✓"}, {"name": "<i>&x_y</i>", "test": "…"}], "How it came."),
    Section("", [], "", text="Only words."),
    Section("Third", [{"what": "50 % − 2", "why": "x, y"}], "", text="More.", text_columns=2),
]


def test_markdown() -> None:
    assert markdown_page("Title", SECTIONS) == (
        "# Title\n\n## First\n\n| name | test |\n| --- | --- |\n| a\\|b | 80.0 ± 1.0 ✓ |\n| <i>&x_y</i> | … |\n\n"
        "How it came.\n\nOnly words.\n\n## Third\n\n| what | why |\n| --- | --- |\n| 50 % − 2 | x, y |\n\nMore.\n"
    )


def test_csv() -> None:
    lines = list(csv.reader(io.StringIO(csv_page("Title", SECTIONS))))
    assert lines == [
        ["table", "name", "test"],
        ["First", "a|b", "80.0 ± 1.0 ✓"],
        ["First", "<i>&x_y</i>", "…"],
        [],
        ["table", "what", "why"],
        ["Third", "50 % − 2", "x, y"],
    ]


def test_latex() -> None:
    text = latex_page("Title", SECTIONS)
    assert text.count(r"\begin{table}") == text.count(r"\end{table}") == 2
    assert r"<i>\&x\_y</i> & \dots{} \\" in text
    assert r"a|b & 80.0 $\pm$ 1.0 $\checkmark$ \\" in text
    assert r"\begin{tabular}{lr}" in text
    assert r"\begin{tabular}{ll}" in text
    assert r"50 \% $-$ 2 & x, y \\" in text


class Tags(HTMLParser):
    """Counts tags, and keeps the text of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts += [data] if data.strip() else []


def test_html() -> None:
    page = Tags()
    page.feed(FORMATS["html"]("<Title>", SECTIONS))
    assert (page.tags.count("table"), page.tags.count("td"), page.tags.count("th")) == (2, 6, 4)
    assert "i" not in page.tags  # what users call their nodes is text
    assert "<i>&x_y</i>" in page.texts
    assert "Only words." in page.texts
    assert not {"script", "link", "img"} & set(page.tags)


@each_of("form", FORMATS)
def test_no_sections(form: str) -> None:
    page = FORMATS[form]("Title", [Section("", [], "")])
    assert not any(table in page for table in ("|", "table,", "{tabular}", "<table>"))
