"""The page of results: the best model by validation, what held, and what it cost."""

from __future__ import annotations

from pathlib import Path

from result_files import write_framework

from nlgnn.experiments.claims import tally
from nlgnn.experiments.compare import Spread
from nlgnn.experiments.results_page import RESULTS, best_printed
from nlgnn.experiments.section import Section


def shown(results: Path) -> dict[str, Section]:
    return {section.title: section for section in RESULTS.sections(RESULTS.cells("random-60"), results, "random-60")}


def test_best_printed() -> None:
    assert str(best_printed("cora")) == "88.5 ± 1.8"
    assert best_printed("cornell") is None


def test_validation_chooses(tmp_path: Path) -> None:
    """Not the test figure, and not the model that the paper has it from."""
    write_framework(tmp_path, "texas-nlmlp", [90.0, 92.0], [70.0, 72.0])
    write_framework(tmp_path, "texas-nlgcn", [82.0, 84.0], [75.0, 77.0])
    section = shown(tmp_path)["Best non-local model by validation, random-60"]
    assert next(row for row in section.rows if row["dataset"] == "texas") == {
        "dataset": "texas",
        "chosen": "nlgcn",
        "validation": "76.0 ± 1.4",
        "test": "83.0 ± 1.4",
        "paper's best": "85.4 ± 3.8",
        "agrees": "✓",
        "− local": "…",
        "− kernel 1": "…",
        "− random order": "…",
        "measured": "2 of 3",
    }
    assert "▼ below: 1 of 1 reach it." in section.caption
    other = shown(tmp_path)["Best non-local model by validation, geom-gcn"]
    assert {row["chosen"] for row in other.rows} <= {"…", "files not here"}


def test_tally() -> None:
    counted = tally([Spread(3.0, 1.0), Spread(-3.0, 1.0), Spread(1.9, 1.0), Spread(5.0, None), None])
    assert counted == (1, 1, 1)
    assert str(counted) == "of 3 cells 1 clearly above, 1 clearly below, 1 neither"


def test_what_held(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-mlp", [70.0, 81.0], [88.0, 90.0])
    write_framework(tmp_path, "texas-gcn", [60.0, 61.0], [60.0, 61.0])
    write_framework(tmp_path, "wisconsin-mlp", [70.0, 81.0], [50.0, 51.0])
    write_framework(tmp_path, "wisconsin-gat", [60.0, 61.0], [60.0, 61.0])
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0])
    write_framework(tmp_path, "texas-nlmlp", [75.0, 86.9], control="random order")
    sections = RESULTS.sections(RESULTS.cells("random-60"), tmp_path, "random-60")
    section = next(section for section in sections if section.title == "What held and what did not")
    first, second, local, assortative, kernel_1, order, homophily = section.rows
    assert first["what we see"] == "texas: MLP 89.0, best GNN 60.5; wisconsin: MLP 50.5, best GNN 60.5"
    assert first["held here"] == "in 1 of 2"
    assert second["held here"] == assortative["held here"] == kernel_1["held here"] == "…"
    assert local["what we see"].startswith("minus local: of 1 cells 1 clearly above, 0 clearly below")
    assert "nlmlp on texas +5.5 (0.5)" in local["what we see"]
    assert local["held here"] == "yes"
    assert order["what we see"] == "minus random order: of 1 cells 0 clearly above, 0 clearly below, 1 neither"
    assert order["held here"] == "no"
    assert homophily["what we see"] == "of 1 cells 1 above H(G), 1 above chance, 1 above the untrained model"


def test_cost(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0])
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0], control="kernel 1")
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0], protocol="geom-gcn", seconds=3580.0)
    section = shown(tmp_path)["What it cost"]
    assert section.rows == [
        {
            "dataset": "texas",
            "nlmlp": "30, 3590 + 30 for 1",
            **dict.fromkeys(["nlgcn", "nlgat", "mlp", "gcn", "gat"], "…"),
        }
    ]
    assert "In all 1.0 hours for 3 cells" in section.caption
