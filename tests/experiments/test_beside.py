"""Non-local cells beside their local part and controls: pairs, seeds, and what is still open."""

from __future__ import annotations

from pathlib import Path

import pytest
from result_files import write_framework

from nlgnn.errors import DataError
from nlgnn.experiments.beside import CONTROL_TABLE, HOMOPHILY_TABLE, read_beside


def row(results: Path) -> dict[str, str]:
    section = CONTROL_TABLE.sections(CONTROL_TABLE.cells("random-60"), results, "random-60")[0]
    return section.rows[0]


def test_nothing_is_shown_before_the_main_cell(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-mlp", [60.0, 62.0])
    cells = CONTROL_TABLE.cells("random-60")
    assert CONTROL_TABLE.sections(cells, tmp_path, "random-60") == []
    assert HOMOPHILY_TABLE.sections(HOMOPHILY_TABLE.cells("random-60"), tmp_path, "random-60") == []


def test_differences_are_paired_over_splits(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0, 90.0])
    write_framework(tmp_path, "texas-mlp", [69.0, 78.0, 87.0])
    write_framework(tmp_path, "texas-nlmlp", [70.0, None, 91.0], control="kernel 1")
    assert row(tmp_path) == {
        "dataset": "texas",
        "model": "nlmlp",
        "ours": "80.0 ± 10.0",
        "paper": "85.4 ± 3.8",
        "its local part": "78.0 ± 9.0",
        "kernel 1": "80.5 ± 14.8",
        "random order": "…",
        "− local": "+2.0 (0.6)",
        "− kernel 1": "-0.5 (0.5)",
        "− random order": "…",
    }


def test_several_seeds(tmp_path: Path) -> None:
    """The mean of a split's differences first; a seed that one of the two lacks does not count."""
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    write_framework(tmp_path, "texas-mlp", [70.0, 78.0])
    write_framework(tmp_path, "texas-nlmlp", [72.0, 84.0], again=1)
    write_framework(tmp_path, "texas-mlp", [70.0, 80.0], again=1)
    write_framework(tmp_path, "texas-mlp", [0.0, 0.0], again=2)
    shown = row(tmp_path)
    assert shown["− local"] == "+2.0 (1.0) × 2"
    assert shown["its local part"] == "74.0 ± 5.7"  # of the first seed, as the main figure is
    beside = read_beside(CONTROL_TABLE.cells("random-60"), tmp_path)[0]
    assert beside.seeds("local") == 2
    assert beside.difference("random order") is None


def test_a_control_of_other_options_is_refused(tmp_path: Path) -> None:
    """Such as one that was measured before the main cell was searched again."""
    write_framework(tmp_path, "texas-nlgcn", [70.0, 80.0])
    write_framework(tmp_path, "texas-nlgcn", [60.0, 70.0], control="kernel 1")
    assert row(tmp_path)["− kernel 1"] == "+10.0 (0.0)"
    changed = {"hidden": 1, "kernel_size": 1}
    write_framework(tmp_path, "texas-nlgcn", [60.0, 70.0], control="kernel 1", options=changed)
    with pytest.raises(DataError, match=r"nlgcn-kernel-1-random-60\.json was measured with hidden=1; now it is"):
        row(tmp_path)


def test_homophily(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    section = HOMOPHILY_TABLE.sections(HOMOPHILY_TABLE.cells("random-60"), tmp_path, "random-60")[0]
    assert section.rows == [
        {
            "dataset": "texas",
            "model": "nlmlp",
            "H(G)": "0.10",
            "chance": "0.40",
            "H(Ĝ) untrained": "0.40 ± 0.14",
            "H(Ĝ) trained": "0.70 ± 0.14",
            "trained − untrained": "+0.30 (0.00)",
        }
    ]


@pytest.mark.parametrize("table", [CONTROL_TABLE, HOMOPHILY_TABLE])
def test_the_protocol_is_named(table: object, tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0], protocol="geom-gcn")
    cells = table.cells("geom-gcn")  # type: ignore[attr-defined]
    assert "protocol geom-gcn" in table.sections(cells, tmp_path, "geom-gcn")[0].caption  # type: ignore[attr-defined]
