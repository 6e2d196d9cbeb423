"""The ablation: which cells there are, what each changes, and what is said of the differences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import stdev

import pytest
from experiment_samples import small_graph
from result_files import write_changed, write_framework

from nlgnn.experiments import searched
from nlgnn.experiments.ablation import DATASETS, AblationCell, ablation_cells, ablation_sections
from nlgnn.experiments.cells import cell_path, run_cell
from nlgnn.experiments.section import Section
from nlgnn.training.options import keyword_of, model_options
from nlgnn.training.systems import get_system

CELLS = {cell.name: cell for cell in ablation_cells("random-60")}
EQUATION_5 = "texas-nlmlp-equation-5-random-60"


def changed_cells() -> list[AblationCell]:
    return [cell for cell in CELLS.values() if isinstance(cell, AblationCell)]


def shown(folder: Path) -> dict[str, Section]:
    return {section.title: section for section in ablation_sections(list(CELLS.values()), folder, "random-60")}


def test_cells() -> None:
    assert len(CELLS) == len(ablation_cells("random-60"))
    assert {cell.store for cell in changed_cells()} == {"ablation"}
    assert {cell.store for cell in CELLS.values() if cell not in changed_cells()} == {"framework"}
    kernels = {(cell.dataset, cell.condition) for cell in changed_cells() if cell.question == "Kernel sizes"}
    assert kernels == {(dataset, f"kernel {size}") for dataset in DATASETS for size in (3, 5, 7)} - {
        ("texas", "kernel 5"),
        ("wisconsin", "kernel 3"),
        ("cornell-pre2022", "kernel 3"),
        ("chameleon", "kernel 5"),
    }
    assert {cell.protocol for cell in ablation_cells("geom-gcn") if isinstance(cell, AblationCell)} == {"geom-gcn"}


@pytest.mark.parametrize("cell", changed_cells(), ids=lambda cell: cell.name)
def test_every_condition_changes_something(cell: AblationCell) -> None:
    """And its options are ones that the system has."""
    defaults = {keyword_of(name): option.default for name, option in model_options(get_system(cell.system)).items()}
    changed = {**defaults, **cell._settings(cell.candidates[0])}
    unchanged = {**defaults, **cell.unchanged._settings({})}
    different = {name for name in changed if changed[name] != unchanged[name]}
    assert different
    if cell.preset == "released":
        assert len(different) == 1
    assert cell.unchanged in CELLS.values()


def test_measuring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "load_graph", lambda name, **_: small_graph())
    cell = replace(CELLS["texas-nlmlp-width-16-random-60"], protocol="geom-gcn").quick()
    assert isinstance(cell, AblationCell)
    for one in (cell, cell.unchanged):
        run_cell(one, tmp_path, progress=False)
    assert cell_path(cell, tmp_path) == tmp_path / "ablation" / "texas-nlmlp-width-16-geom-gcn.json"
    assert cell_path(cell.unchanged, tmp_path) == tmp_path / "framework" / "texas-nlmlp-geom-gcn.json"
    result = run_cell(cell, tmp_path)
    assert result is not None
    assert (result["condition"], result["preset"]) == ("width 16", "released")
    assert result["model"]["embedding_channels"] == 16
    (section,) = ablation_sections([cell], tmp_path, "geom-gcn")
    assert section.rows[0]["changed"].endswith("*")


def test_differences_are_paired(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [80.0, 60.0, 70.0])
    write_changed(tmp_path, EQUATION_5, [78.0, 57.0, 66.0])
    section = shown(tmp_path)["Equation 5 in place of equation 6"]
    error = stdev([2, 3, 4]) / 3**0.5
    assert section.rows[0] == {
        "dataset": "texas",
        "condition": "equation 5",
        "changed": "67.0 ± 10.5",
        "published": "70.0 ± 10.0",
        "difference": f"-3.0 ({error:.1f})",
        "paper": "85.4 ± 3.8",
        "agrees": "▼",
        "H": "0.30",
        "published H": "0.70",
    }
    assert section.text == "Equation 5: clearly lower on texas; open on wisconsin, cornell-pre2022, chameleon."
    assert "protocol random-60" in section.caption


def test_what_is_not_clear(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [80.0, 60.0, 70.0])
    write_changed(tmp_path, "texas-nlmlp-width-16-random-60", [81.0, 60.0, 70.0])
    write_changed(tmp_path, "texas-nlmlp-width-48-random-60", [82.0, 61.5, 72.0])
    write_changed(tmp_path, "texas-nlmlp-width-96-random-60", [80.0, 60.0, 70.0])
    text = shown(tmp_path)["Width of the embedding"].text
    assert "Width 16: no clear difference on texas; open on wisconsin, cornell-pre2022, chameleon." in text
    assert "Width 48: clearly higher on texas;" in text
    assert "Width 96: no clear difference on texas;" in text


def test_nothing_measured(tmp_path: Path) -> None:
    sections = shown(tmp_path)
    assert list(sections)[-2:] == ["Splits", "Cornell's two files"]
    assert len(sections) == 6
    assert all("clear" not in section.text for section in sections.values())
    assert sections["Splits"].rows[0] == {
        "dataset": "texas",
        "model": "nlmlp",
        "random-60": "…",
        "geom-gcn": "…",
        "difference": "…",
        "paper": "85.4 ± 3.8",
    }


def test_splits_and_files_are_not_paired(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [80.0, 90.0])
    write_framework(tmp_path, "texas-nlmlp", [50.0, 54.0, None, 52.0], protocol="geom-gcn")
    write_framework(tmp_path, "cornell-pre2022-nlmlp", [80.0, 90.0])
    write_framework(tmp_path, "cornell-nlmlp", [80.0, 86.0])
    sections = shown(tmp_path)
    error = (stdev([80, 90]) ** 2 / 2 + stdev([50, 54, 52]) ** 2 / 3) ** 0.5
    assert sections["Splits"].rows[0]["difference"] == f"+33.0 ({error:.1f})"
    assert sections["Splits"].text.startswith("Random splits: clearly higher on texas; open on wisconsin")
    nlmlp, mlp = sections["Cornell's two files"].rows
    assert nlmlp["difference"] == "+2.0 (5.8)"
    assert nlmlp["paper"] == "84.9 ± 5.7"
    assert mlp["difference"] == "…"
    assert sections["Cornell's two files"].text == "The older file: no clear difference with nlmlp; open with mlp."


def test_some_cells_only(tmp_path: Path) -> None:
    """Those of one dataset, as a user may ask for."""
    write_framework(tmp_path, "wisconsin-nlmlp", [80.0, 90.0])
    own = [cell for cell in CELLS.values() if cell.dataset == "wisconsin"]
    sections = ablation_sections(own, tmp_path, "random-60")
    assert {row["dataset"] for section in sections for row in section.rows} == {"wisconsin"}
    only_changed = [cell for cell in own if isinstance(cell, AblationCell)]
    assert ablation_sections(only_changed, tmp_path, "random-60")[0].rows[0]["published"] == "85.0 ± 7.1"
    assert ablation_sections([], tmp_path, "random-60") == []
