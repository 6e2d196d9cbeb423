"""The tables of accuracies: ours beside the paper's, with a mark that says whether they agree."""

from __future__ import annotations

from pathlib import Path

import pytest
from result_files import write_framework

from nlgnn.experiments.accuracy import (
    ALL_RESULTS,
    CATEGORIES,
    CPGCN,
    FIRST_CATEGORY,
    SECOND_CATEGORY,
    agreement,
    cells_of,
)
from nlgnn.experiments.compare import Spread
from nlgnn.experiments.paper import Printed, printed_accuracy, printed_cpgcn, printed_validation
from nlgnn.experiments.tables import ResultTable


def test_printed_figures() -> None:
    assert printed_accuracy("nlmlp", "texas") == Printed(85.4, 3.8)
    assert printed_accuracy("nlmlp", "cornell-pre2022") == Printed(84.9, 5.7)
    assert printed_accuracy("nlmlp", "cornell") is None  # the paper's is of the other file
    assert printed_accuracy("h2gcn", "actor") == Printed(35.9, 1.0)  # in the table of a category only
    assert printed_accuracy("fagcn", "squirrel") == Printed(39.7, None)
    assert printed_accuracy("geom-gcn", "snap-patents") is None
    assert printed_validation("gat", "texas") == Printed(63.2, 4.7)
    assert printed_cpgcn("nlgcn", "chameleon") == Printed(60.0, None)
    assert printed_cpgcn("cpgcn", "squirrel") == Printed(37.0, None)
    assert (str(Printed(60.0, None)), str(Printed(85.4, 3.8))) == ("60.0", "85.4 ± 3.8")


@pytest.mark.parametrize(
    ("ours", "printed", "mark"),
    [
        (Spread(80.0, 9.0), Printed(81.0, 1.0), "✓"),
        (Spread(79.9, 9.0), Printed(81.0, 1.0), "▼"),
        (Spread(82.1, 9.0), Printed(81.0, 1.0), "▲"),
        (Spread(83.0, 2.0), Printed(81.0, None), "✓"),
        (Spread(83.1, 2.0), Printed(81.0, None), "▲"),
        (Spread(83.1, None), Printed(81.0, None), ""),
    ],
)
def test_agreement(ours: Spread, printed: Printed, mark: str) -> None:
    assert agreement(ours, printed) == mark


def test_cells_of_a_table() -> None:
    """The framework's by the protocol that is asked for, the others on the splits of their printed figures."""
    cells = cells_of(("gcn", "h2gcn", "nlgcn"), ("texas", "snap-patents"), "random-60")
    assert [(cell.store, cell.name) for cell in cells] == [
        ("framework", "texas-nlgcn-random-60"),
        ("framework", "snap-patents-nlgcn-linkx"),
        ("framework", "texas-gcn-random-60"),
        ("framework", "snap-patents-gcn-linkx"),
        ("systems", "texas-h2gcn"),
    ]
    assert len(ALL_RESULTS.cells("geom-gcn")) == 13 * 10 + 6 * 4


def shown(table: ResultTable, results: Path, protocol: str = "random-60") -> list[dict[str, str]]:
    sections = table.sections(table.cells(protocol), results, protocol)
    rows: dict[str, dict[str, str]] = {}
    for section in sections:
        for row in section.rows:
            rows.setdefault(row["system"], {}).update(row)
    return list(rows.values())


def test_ours_beside_the_paper(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [84.0, 86.0, None])
    write_framework(tmp_path, "texas-mlp", [60.0, 62.0], [90.0, 92.0])
    rows = {row["system"]: row for row in shown(FIRST_CATEGORY, tmp_path)}
    assert list(rows) == ["mlp", "geom-gcn", "geom-gcn-s", "h2gcn", "simp-gcn", "nlmlp"]
    assert rows["nlmlp"]["texas"] == "85.0 ± 1.4 (1 of 3 runs failed) ✓"
    assert rows["nlmlp"]["paper, texas"] == "85.4 ± 3.8"
    assert rows["mlp"]["texas"] == "61.0 ± 1.4 ▼"
    assert (rows["h2gcn"]["texas"], rows["h2gcn"]["paper, texas"]) == ("…", "84.9 ± 6.8")
    assert (rows["nlmlp"]["cornell"], rows["nlmlp"]["paper, cornell"]) == ("…", "–")
    validation = {row["system"]: row for row in shown(CATEGORIES, tmp_path)}
    assert validation["mlp"]["texas"] == "91.0 ± 1.4 ▲"  # the paper's best validation, not its test figure
    assert list(validation) == ["mlp", "gcn", "gat"]


def test_files_that_are_not_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nlgnn.experiments.measured.files_are_here", lambda name: name != "snap-patents")
    rows = {row["system"]: row for row in shown(SECOND_CATEGORY, tmp_path)}
    assert rows["nlgcn"]["snap-patents"] == "files not here"
    assert rows["nlgcn"]["paper, snap-patents"] == "50.8 ± 0.4"
    assert rows["nlgcn"]["squirrel"] == "…"
    assert rows["h2gcn"]["snap-patents"] == "–"


def test_splits_of_cpgnn(tmp_path: Path) -> None:
    write_framework(tmp_path, "chameleon-nlgcn", [59.0, 61.0], protocol="random-10")
    first, second = shown(CPGCN, tmp_path)
    assert (first["system"], first["chameleon"], first["paper, chameleon"]) == ("nlgcn", "60.0 ± 1.4 ✓", "60.0")
    assert (second["system"], second["squirrel"], second["paper, squirrel"]) == ("cpgcn", "…", "37.0")
    caption = CPGCN.sections(CPGCN.cells("random-60"), tmp_path, "random-60")[0].caption
    assert "protocol random-10" in caption
    assert "random-60" not in caption
