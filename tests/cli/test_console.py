"""Tables on narrow terminals: nothing that is a figure is broken or lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from nlgnn.paper.cell import read_cells
from nlgnn.paper.pages import TABLES
from nlgnn.report.table import Section
from nlgnn.report.text import LONG_COLUMNS, LONG_TEXT, WIDE_TERMINAL, sections_page

RESULTS = Path(__file__).parents[2] / "results"

FIGURES = st.sampled_from(["80.3 ± 5.7", "-2.6 (1.7) × 3", "+0.5 [-0.1, +1.0]", "…", "▼ 1.34", "88.5 ± 0.5*"])


def printed(section: Section, width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(sections_page([section], width))
    return capture.get().splitlines()


@given(st.lists(st.lists(FIGURES, min_size=8, max_size=8), min_size=1, max_size=4), st.integers(50, 200))
def test_no_figure_is_broken(cells: list[list[str]], width: int) -> None:
    """Every line of a table is that of one row, begins with what the row is about, and holds whole figures."""
    rows = [
        {"dataset": f"graph-{number}", "model": "nlgcn", **{f"column {at}": cell for at, cell in enumerate(line)}}
        for number, line in enumerate(cells)
    ]
    lines = printed(Section("", rows, "", text_columns=2), width)
    assert max(map(len, lines)) <= width
    for row in rows:
        of_row = [line.split("nlgcn")[1] for line in lines if line.startswith(f"{row['dataset']}  nlgcn")]
        assert "".join(of_row).split() == " ".join(list(row.values())[2:]).split()
    assert " ".join(lines).count("graph-") == " ".join(lines).count("dataset") * len(rows)


def test_as_few_tables_as_fit_of_about_equal_width() -> None:
    rows = [{"dataset": "texas", **{f"figure {letter}": "80.3 ± 5.7" for letter in "abcdef"}}]
    headers = [line for line in printed(Section("", rows, ""), 60) if line.startswith("dataset")]
    assert [header.split() for header in headers] == [
        ["dataset", "figure", "a", "figure", "b", "figure", "c"],
        ["dataset", "figure", "d", "figure", "e", "figure", "f"],
    ]
    (header,) = [line for line in printed(Section("", rows, ""), 90) if line.startswith("dataset")]
    assert header.split()[-1] == "f"
    widest = len("dataset") + 6 * len("  80.3 ± 5.7")
    for width, tables in ((widest, 1), (widest - 1, 2)):
        assert sum(line.startswith("dataset") for line in printed(Section("", rows, ""), width)) == tables


def test_long_text_and_lists_are_wrapped_where_words_end() -> None:
    rows = [{"claim": "neighbours help " * 5, "why": "since edges join alike " * 4, "cells": "texas 80.3, cora 88.1"}]
    lines = printed(Section("", rows, "", text_columns=2), 80)
    assert {word for line in lines[1:] for word in line.replace(",", "").split()} == {
        word for cell in rows[0].values() for word in cell.replace(",", "").split()
    }
    assert len([line for line in lines if line.startswith("claim")]) == 1  # one table


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("results", 60),
        ("results", 140),
        ("categories", 80),
        ("systems", 80),
        ("systems", 140),
        ("controls", 100),
        ("order", 60),
        ("verdicts", 80),
        ("datasets", 100),
    ],
)
def test_nothing_is_lost_of_the_pages_of_results(name: str, width: int) -> None:
    table = TABLES[name]
    for section in table.sections(read_cells(table.cells(RESULTS), RESULTS)):
        if not section.rows:
            continue
        kept = [column for column in section.rows[0] if column not in LONG_COLUMNS or width >= WIDE_TERMINAL]
        wanted = {word for row in section.rows for column in kept for word in row[column].split()}
        text = " ".join(printed(section._replace(title="", caption="", text=""), width))
        assert {
            word for word in wanted if re.search(r"\d", word) and len(word) < LONG_TEXT and word not in text
        } == set()


def test_long_names_are_folded_and_not_lost() -> None:
    names = [f"https://example.org/{'a' * 60}/{end}" for end in "xy"]
    rows = [{"of class": own, **dict.fromkeys(names, "0.50")} for own in names]
    text = "".join("".join(printed(Section("", rows, ""), 80)).split())
    assert text.count("0.50") == 4
