"""What is shown of the compared systems, from cells written by hand; and that the page in the repository is it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from experiment_samples import write_result

from nlgnn.errors import DataError
from nlgnn.experiments.printed import words
from nlgnn.experiments.reproduce import page_title
from nlgnn.experiments.searched import SEARCH_EPOCHS, Schedule, SearchedCell
from nlgnn.experiments.section import Section
from nlgnn.experiments.systems import system_cells
from nlgnn.experiments.systems_page import system_sections
from nlgnn.report.formats import markdown_page
from nlgnn.training.systems import get_system

ROOT = Path(__file__).parents[2]


def cell_of(name: str) -> SearchedCell:
    return next(cell for cell in system_cells() if cell.name == name)


def write(cell: SearchedCell, folder: Path, *tests: float | None, **options: Any) -> SearchedCell:
    """A result of a cell; the first candidate is the chosen one unless `options` say otherwise."""
    chosen = next(one for one in cell.candidates if options.items() <= one.items())
    search = [{"options": dict(one), "val": 50.0, "seconds": 2.0} for one in cell.candidates]
    write_result(
        cell,
        folder,
        protocol=cell.protocol,
        shortened=cell.shortened,
        candidates=[dict(one) for one in cell.candidates],
        search=search if len(search) > 1 else [],
        search_seconds=2.0 * len(search) if len(search) > 1 else 0.0,
        options=dict(chosen),
        recipe={"selection": get_system(cell.system).program.get("selection", "first-best")},
        runs=[{"test": test} for test in tests],
    )
    return cell


def shown(cells: list[SearchedCell], folder: Path) -> dict[str, Section]:
    return {section.title: section for section in system_sections(cells, folder, "geom-gcn")}


@pytest.fixture
def cells(tmp_path: Path) -> list[SearchedCell]:
    """H2GCN near what was printed, GCN far from it, one cell with a failed run, one shortened, some open."""
    names = ["texas-gcn", "cora-gcn", "texas-h2gcn", "squirrel-h2gcn", "cora-h2gcn", "chameleon-cpgcn", "cora-fagcn"]
    found = {name: cell_of(name) for name in names}
    write(found["texas-gcn"], tmp_path, 49.0, 50.0, 51.0)
    write(found["cora-gcn"], tmp_path, 87.0, 88.0, None)
    write(found["texas-h2gcn"], tmp_path, 83.0, 84.0, 85.0, rounds=2)
    shorter = replace(found["squirrel-h2gcn"], schedule=Schedule({"epochs": 7}, splits=4))
    found["squirrel-h2gcn"] = write(shorter, tmp_path, 36.0, 37.0, rounds=1)
    write(found["chameleon-cpgcn"], tmp_path, 55.0, 57.0, prior="cheby", hops=1)
    write(found["cora-fagcn"], tmp_path, 85.0, 86.0)
    return list(found.values())


def test_matrix(cells: list[SearchedCell], tmp_path: Path) -> None:
    matrix = shown(cells, tmp_path)["All systems"]
    assert matrix.rows == [
        {
            "system": "gcn",
            "texas": "50.0 ± 1.0",
            "cora": "87.5 ± 0.7 (1 of 3 runs failed)",
            "squirrel": "",
            "chameleon": "",
        },
        {"system": "h2gcn", "texas": "84.0 ± 1.0 b", "cora": "…", "squirrel": "36.5 ± 0.7* a", "chameleon": ""},
        {"system": "cpgcn", "texas": "", "cora": "", "squirrel": "", "chameleon": "56.0 ± 1.4 c"},
        {"system": "fagcn", "texas": "", "cora": "85.5 ± 0.7", "squirrel": "", "chameleon": ""},
    ]
    for part in (
        "Protocol geom-gcn, 4 or 10 splits, one run on each; preset released.",
        "by the rule of each system: the first epoch with the best validation accuracy; the last epoch with the best",
        f"on the first 3 splits, in {SEARCH_EPOCHS} epochs at most",
        "* shortened to epochs=7, 4 splits: h2gcn on squirrel.",
        "h2gcn: a rounds=1, b rounds=2; cpgcn: a prior=mlp, hops=1, b prior=mlp, hops=2, c prior=cheby, hops=1",
        "5 of 5 compared cells are within two standard deviations of what was printed.",
        "… not measured yet.",
    ):
        assert part in matrix.caption


def test_a_table_for_each_system(cells: list[SearchedCell], tmp_path: Path) -> None:
    sections = shown(cells, tmp_path)
    tried = cells[2].candidates
    one_round, two_rounds = (words(next(one for one in tried if one["rounds"] == rounds)) for rounds in (1, 2))
    seconds = f"{1 + 2 * len(tried)}"
    assert sections["h2gcn"].rows == [
        {
            "dataset": "texas",
            "ours": "84.0 ± 1.0",
            "settings": f"{two_rounds} (of {len(tried)})",
            "printed": "82.16 ± 5.28 (rounds=2); best 84.86 ± 6.77 (rounds=1)",
            "split": "G48",
            "source": "Zhu et al. 2020",
            "difference (s.d.)": "+0.3",
            "within 2 s.d.": "yes",
            "seconds": seconds,
        },
        {
            "dataset": "squirrel",
            "ours": "36.5 ± 0.7*",
            "settings": f"{one_round} (of {len(tried)})",
            "printed": "36.42 ± 1.89 (rounds=1); best 37.9 ± 2.02 (rounds=2)",
            "split": "G48",
            "source": "Zhu et al. 2020",
            "difference (s.d.)": "+0.0",
            "within 2 s.d.": "yes",
            "seconds": seconds,
        },
        {
            "dataset": "cora",
            "ours": "…",
            "settings": f"… (of {len(tried)})",
            "printed": "86.92 to 87.81",
            "split": "G48",
            "source": "Zhu et al. 2020",
            "difference (s.d.)": "–",
            "within 2 s.d.": "–",
            "seconds": "…",
        },
    ]
    assert sections["h2gcn"].caption.startswith("Zhu et al. NeurIPS, 2020. Protocol geom-gcn, 4 or 10 splits")
    assert [row["settings"] for row in sections["gcn"].rows] == ["those of nlmlp", "defaults"]
    assert [row["printed"] for row in sections["gcn"].rows] == [
        "61.1 to 63.8 (third-party)",
        "87.1 to 88.2 (third-party)",
    ]
    assert [row["difference (s.d.)"] for row in sections["gcn"].rows] == ["-1.6", "inside"]
    cpgcn, fagcn = sections["cpgcn"].rows[0], sections["fagcn"].rows[0]
    assert cpgcn["printed"] == "54.5 to 65.2 (third-party); on T10 56.9"
    assert (fagcn["printed"], fagcn["within 2 s.d."]) == ("on P20 84.1 ± 0.5", "–")


def test_published_settings_are_called_so(tmp_path: Path) -> None:
    cell = write(cell_of("texas-simp-gcn"), tmp_path, 81.0, 82.0)
    assert shown([cell], tmp_path)["simp-gcn"].rows[0]["settings"] == "published"


def test_a_variant_that_had_no_rival_has_no_letter(tmp_path: Path) -> None:
    cell = write(cell_of("squirrel-geom-gcn"), tmp_path, 38.0, 39.0)
    sections = shown([cell], tmp_path)
    assert sections["All systems"].rows == [{"system": "geom-gcn", "squirrel": "38.5 ± 0.7"}]
    assert sections["geom-gcn"].rows[0]["settings"] == "published; space=isomap"


def test_what_is_far_from_what_was_printed(cells: list[SearchedCell], tmp_path: Path) -> None:
    write(cells[0], tmp_path, 39.0, 40.0, 41.0)
    row = {"system": "gcn", "dataset": "texas", "ours": "40.0 ± 1.0", "printed": "61.1 to 63.8 (third-party)"}
    outside = shown(cells, tmp_path)["Outside two standard deviations"]
    assert outside.rows == [{**row, "difference (s.d.)": "-3.0", "measured about it": "–"}]
    extra = replace(cells[0], condition="no edges", why="to see", candidates=({"hidden": 64},))
    cells.append(write(extra, tmp_path, 60.0, 62.0, 67.0))
    (tmp_path / "systems" / "notes.md").write_text("## gcn\nOn Texas it is odd.\n")
    sections = shown(cells, tmp_path)
    about = "no edges: 63.0 ± 3.6; see the text"
    assert sections["Outside two standard deviations"].rows == [
        {**row, "difference (s.d.)": "-3.0", "measured about it": about}
    ]
    assert sections["gcn under other conditions"].rows == [
        {
            "dataset": "texas",
            "condition": "no edges",
            "why": "to see",
            "protocol": "geom-gcn",
            "this": "63.0 ± 3.6",
            "above": "40.0 ± 1.0",
            "this − above": "+23.0 (1.5)",
            "printed": "61.1 to 63.8 (third-party)",
            "difference (s.d.)": "inside",
        }
    ]
    assert list(sections)[3] == "gcn under other conditions"  # right after its table
    assert {row["system"] for row in sections["All systems"].rows} == {"gcn", "h2gcn", "cpgcn", "fagcn"}
    assert "no edges" not in str(sections["All systems"])


def test_other_splits_have_no_paired_difference(cells: list[SearchedCell], tmp_path: Path) -> None:
    extra = replace(cells[0], condition="random splits", protocol="random-60", candidates=({},))
    cells.append(write(extra, tmp_path, 60.0, 62.0, 67.0))
    row = shown(cells, tmp_path)["gcn under other conditions"].rows[0]
    assert (row["this − above"], row["printed"]) == ("–", "61.1 ± 7.0 (third-party)")


def test_notes(cells: list[SearchedCell], tmp_path: Path) -> None:
    (tmp_path / "systems" / "notes.md").write_text(
        "Not shown.\n\n## h2gcn\n\n{texas-h2gcn} ({texas-h2gcn printed}), {texas-h2gcn - texas-gcn}, {cora-h2gcn}; "
        "{wisconsin-mlp - texas-gcn}.\n\n## gcn\n\nNo figure.\n"
    )
    sections = shown(cells, tmp_path)
    printed = "82.16 ± 5.28 (rounds=2); best 84.86 ± 6.77 (rounds=1)"
    assert sections["h2gcn"].text == f"84.0 ± 1.0 ({printed}), +34.0 (0.0), …; …."
    assert (sections["gcn"].text, sections["cpgcn"].text) == ("No figure.", "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("## h2gcn\n{texas-h2gnc}", r"no cell 'texas-h2gnc'.*\nDid you mean 'texas-h2gcn'\?"),
        ("## h2gcn\n{texas-h2gcn - texas-gnc}", "no cell 'texas-gnc'"),
        ("## h2gnc\nWords.", r"no system 'h2gnc'.*\nDid you mean 'h2gcn'\?"),
    ],
)
def test_notes_with_a_wrong_name(cells: list[SearchedCell], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "systems" / "notes.md").write_text(text)
    with pytest.raises(DataError, match=message):
        system_sections(cells, tmp_path, "geom-gcn")


def test_splits_and_sources_that_are_named(cells: list[SearchedCell], tmp_path: Path) -> None:
    names = [row["name"] for row in shown(cells, tmp_path)["Printed figures"].rows]
    assert names[:4] == ["G48", "G48?", "R60", "T10"]
    assert "Zhu et al. 2020" in names
    assert "Jin et al. 2021" not in names


def test_markdown(cells: list[SearchedCell], tmp_path: Path) -> None:
    (tmp_path / "systems" / "notes.md").write_text("## gcn\nA word about it.\n")
    text = markdown_page(page_title(["systems"]), system_sections(cells, tmp_path, "geom-gcn"))
    assert text.startswith("# The systems compared\n\n## All systems")
    assert re.findall("^## (.*)$", text, flags=re.MULTILINE) == [
        *("All systems", "gcn", "h2gcn", "cpgcn", "fagcn", "Printed figures")
    ]
    assert "\n\nA word about it.\n\n## h2gcn\n\n| dataset | ours |" in text
    assert "\n\n\n" not in text
