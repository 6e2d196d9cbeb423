"""Findings: the best model by validation, its controls, the paper's claims, the ablation and the cost."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_cells import OLD, write, write_framework

from nlgnn.errors import DataError
from nlgnn.paper import plans
from nlgnn.paper.cell import read_cells
from nlgnn.paper.findings import ablation_sections, best_printed, control_sections, read_comparisons, result_sections
from nlgnn.report.table import Section


def shown(results: Path) -> dict[str, Section]:
    return {section.title: section for section in result_sections(read_cells(plans.result_cells(results), results))}


def best(results: Path, dataset: str = "texas") -> dict[str, str]:
    rows = shown(results)["Best non-local model by validation"].rows
    return next(row for row in rows if row["dataset"] == dataset)


def control_row(results: Path) -> dict[str, str]:
    return control_sections(read_cells(plans.result_cells(results), results))[0].rows[0]


def test_best_printed() -> None:
    assert str(best_printed("cora")) == "88.5 ± 1.8"
    assert best_printed("cornell") is None


def test_validation_chooses(tmp_path: Path) -> None:
    """Neither the test figure nor the paper decides."""
    write_framework(tmp_path, "texas-nlmlp", [90.0, 92.0], [70.0, 72.0])
    write_framework(tmp_path, "texas-nlgcn", [82.0, 84.0], [75.0, 77.0])
    assert best(tmp_path) == {
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
    assert "1 of 1 graphs reach the paper's best" in shown(tmp_path)["Best non-local model by validation"].caption


def test_the_distance_from_the_paper_is_shown(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [81.0, 82.0], [70.0, 72.0])
    assert best(tmp_path)["agrees"] == "▼ 0.10"  # 85.4 - 3.8 - 81.5
    assert "0 of 1 graphs reach" in shown(tmp_path)["Best non-local model by validation"].caption
    assert best(tmp_path, "wisconsin")["chosen"] == "…"


def test_the_program_is_shown_next_to_the_paper(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [80.0, 81.0])
    rows = {
        row["dataset"]: list(row.values())[1:] for row in shown(tmp_path)["NLMLP: the paper, its program and ours"].rows
    }
    assert rows["texas"] == ["85.4 ± 3.8", "81.0 ± 4.4", "80.5 ± 0.7", "-0.5", "-4.9"]
    assert rows["wisconsin"] == ["87.3 ± 4.3", "83.7 ± 2.8", "…", "…", "…"]


def test_controls_are_paired(tmp_path: Path) -> None:
    assert control_sections(read_cells(plans.result_cells(tmp_path), tmp_path)) == []
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0, 90.0])
    write_framework(tmp_path, "texas-mlp", [69.0, 78.0, 87.0])
    write_framework(tmp_path, "texas-nlmlp", [70.0, None, 91.0], control="kernel 1")
    row = control_row(tmp_path)
    assert row["ours"] == "80.0 ± 10.0"
    assert row["local"] == "78.0 ± 9.0"
    assert row["kernel 1"] == "80.5 ± 14.8 (1 of 3 runs failed)"
    assert row["− local"] == "+2.0 [-0.5, +4.5]"
    assert row["− kernel 1"].startswith("-0.5 [")
    assert row["random order"] == row["− random order"] == "…"


def test_controls_of_other_models_are_not_planned(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    write_framework(tmp_path, "texas-nlgcn", [60.0, 70.0])
    rows = control_sections(read_cells(plans.result_cells(tmp_path), tmp_path))[0].rows
    assert [row["− kernel 1"] for row in rows] == ["…", "–"]


def test_older_controls_are_not_paired_with_a_newer_model(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    write_framework(tmp_path, "texas-mlp", [69.0, 78.0], **OLD)
    row = control_row(tmp_path)
    assert row["local"] == "73.5 ± 6.4†"
    assert row["− local"] == "…"


def test_a_control_of_other_options_is_refused(tmp_path: Path) -> None:
    """Such as one that was measured before the main cell was searched again."""
    write_framework(tmp_path, "texas-nlgcn", [70.0, 80.0])
    changed = {"hidden": 1, "kernel_size": 1}
    write_framework(tmp_path, "texas-nlgcn", [60.0, 70.0], control="kernel 1", options=changed, **OLD)
    assert control_row(tmp_path)["− kernel 1"] == "…"  # an older one is only not paired
    write_framework(tmp_path, "texas-nlgcn", [60.0, 70.0], control="kernel 1", options=changed)
    with pytest.raises(DataError, match=r"nlgcn-kernel-1-random-60\.json was measured with hidden=1; now it is"):
        control_row(tmp_path)


def test_several_seeds(tmp_path: Path) -> None:
    for again in range(2):
        write_framework(tmp_path, "texas-nlmlp", [70.0 + again, 80.0], again=again)
        write_framework(tmp_path, "texas-mlp", [69.0, 78.0], again=again)
    comparison = read_comparisons(read_cells(plans.result_cells(tmp_path), tmp_path))[0]
    found = comparison.minus("main", "local")
    assert found is not None
    assert (found.seeds, found.interval.mean) == (2, 1.75)
    assert comparison.minus("main", "random order") is None


def test_claims(tmp_path: Path) -> None:
    """Open cells are counted, and a difference that is not clear does not count."""
    write_framework(tmp_path, "texas-mlp", [70.0, 81.0, 75.0], [88.0, 90.0, 89.0])
    write_framework(tmp_path, "texas-gcn", [60.0, 61.0], [60.0, 61.0])
    write_framework(tmp_path, "wisconsin-mlp", [70.0, 81.0], [50.0, 51.0])
    write_framework(tmp_path, "wisconsin-gat", [60.0, 61.0], [60.0, 61.0])
    write_framework(tmp_path, "texas-nlmlp", [75.0, 86.5, 80.5])
    write_framework(tmp_path, "texas-nlmlp", [75.0, 86.0, 81.0], control="random order")
    rows = shown(tmp_path)["The paper's claims"].rows
    first, second, local, assortative, kernel_1, order, homophily = rows
    assert first["measured"] == "texas: mlp 89.0, gcn 60.5; wisconsin: mlp 50.5, gat 60.5*"
    assert (first["holds on"], first["verdict"]) == ("1 of 2, 2 open", "undecided")
    assert second["verdict"] == assortative["verdict"] == kernel_1["verdict"] == "undecided"
    assert local["measured"] == "1 clearly above, 0 clearly below, 0 neither (nlmlp on texas +5.3 [+4.6, +6.1])"
    assert local["holds on"] == "1 of 1, 17 open"
    assert order["measured"] == "0 clearly above, 0 clearly below, 1 neither"
    assert homophily["measured"] == "of 1 cells 1 above H(G), 1 above chance"


def test_a_claim_that_is_decided(tmp_path: Path) -> None:
    for dataset in plans.FIRST:
        write_framework(tmp_path, f"{dataset}-mlp", [70.0, 71.0])
        write_framework(tmp_path, f"{dataset}-gcn", [60.0, 61.0])
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    first = shown(tmp_path)["The paper's claims"].rows[0]
    assert (first["holds on"], first["verdict"]) == ("4 of 4", "held")


def test_cost(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0])
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0], control="kernel 1")
    write_framework(tmp_path, "texas-nlmlp", [75.0, 87.0], protocol="geom-gcn", seconds=3580.0)
    section = shown(tmp_path)["Cost of a repetition"]
    assert section.rows == [
        {
            "dataset": "texas",
            **dict.fromkeys(["mlp", "gcn", "gat"], "…"),
            "nlmlp": "3650 (3)",
            "nlgcn": "…",
            "nlgat": "…",
        }
    ]
    assert "1.0 hours for 3 cells" in section.caption


def test_ties(tmp_path: Path) -> None:
    cells = plans.ablation_cells(tmp_path)
    ties = {"nodes": [1700, None, 1720], "test": [80.5, None, 82.0]}
    write(cells[0], tmp_path, [80.0, None, 81.0], ties=ties)
    (section,) = ablation_sections(read_cells(cells, tmp_path))
    texas, actor = section.rows
    assert texas["nodes with equal keys"] == "1710"
    assert texas["ties by number"] == "80.5 ± 0.7 (1 of 3 runs failed)"
    assert texas["mean over ties"] == "81.2 ± 1.1 (1 of 3 runs failed)"
    assert texas["difference"].startswith("+0.8 [")
    assert {actor[name] for name in ("nodes with equal keys", "ties by number", "difference")} == {"…"}
