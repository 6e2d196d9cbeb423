"""Generated pages: those in the repository are made of the cells at hand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sample_cells import OLD, write_framework

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.paper import cell as cells
from nlgnn.paper import pages
from nlgnn.paper.cell import read_cells
from nlgnn.paper.pages import PAGES, TABLES, counts, get_table, make_page, write_pages
from nlgnn.report.text import latex_page

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


@pytest.fixture(autouse=True)
def without_huge_files(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (cells, pages):
        monkeypatch.setattr(module, "files_are_here", lambda dataset: dataset not in cells.HUGE_DATASETS)


@pytest.mark.parametrize("name", PAGES)
def test_pages_in_the_repository_are_made_of_its_cells(name: str) -> None:
    page = (ROOT / "docs" / "results" / f"{name}.md").read_text()
    assert page == make_page(name, RESULTS), "run nlgnn reproduce --pages docs/results"
    assert not re.search(r"\{[a-z]", page)


@pytest.mark.parametrize("name", PAGES)
def test_links_of_pages_lead_somewhere(name: str) -> None:
    folder = ROOT / "docs" / "results"
    for target in re.findall(r"\]\(([^)#]+)\)", (folder / f"{name}.md").read_text()):
        assert (folder / target).exists(), target


@each_of("name", TABLES)
def test_latex_knows_all_signs(name: str) -> None:
    table = TABLES[name]
    page = latex_page("", table.sections(read_cells(table.cells(RESULTS), RESULTS)))
    assert {sign for sign in page if not sign.isascii() and not sign.isalpha()} == set()  # names of authors may be any


def test_an_unknown_cell_in_the_prose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'texas-h2gnc'.*\nDid you mean 'texas-h2gcn'"):
        pages._fill("texas-h2gnc", tmp_path)
    assert pages._fill("texas-h2gcn", tmp_path) == "…"
    assert pages._fill("texas-simp-gcn - texas-h2gcn", tmp_path) == "…"


def test_an_unknown_table() -> None:
    with pytest.raises(OptionError, match=r"no table 'sistems'.*\nDid you mean 'systems'"):
        get_table("sistems")


def test_counts(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0])
    write_framework(tmp_path, "texas-mlp", [70.0], **OLD)
    section = counts(["categories", "homophily", "datasets"], tmp_path)
    rows = {row["table"]: list(row.values())[1:-1] for row in section.rows}
    assert rows["categories"] == ["0", "1", "26", "6"]  # measured, older, open, without files
    assert rows["homophily"] == ["1", "0", "26", "0"]
    assert rows["together"] == ["1", "1", "64", "8"]


def test_pages_are_written_with_their_pictures(tmp_path: Path) -> None:
    write_framework(tmp_path / "results", "texas-nlmlp", [70.0, 71.0])
    paths = write_pages(tmp_path / "pages", tmp_path / "results")
    assert [path.name for path in paths] == ["paper.md", "systems.md", "learned_order.md", "benchmark.md", "auto.md"]
    assert "| texas | nlmlp | 70.5 ± 0.7 |" in paths[0].read_text()
    assert not list((tmp_path / "pages").glob("*.svg"))  # there is nothing to draw
