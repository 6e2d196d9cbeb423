"""The paper's tables, from results written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sample_cells import LEVELS, OLD, write, write_framework

from nlgnn.datasets import describe
from nlgnn.paper import cell as cells
from nlgnn.paper import plans
from nlgnn.paper.cell import read_cells
from nlgnn.paper.measure import run_cell
from nlgnn.paper.pages import TABLES
from nlgnn.paper.tables import (
    agreement_cells,
    agreement_sections,
    dataset_sections,
    efficiency_sections,
    verdict_sections,
)

TEXAS = {
    "nodes": 183,
    "features": 1703,
    "classes": 5,
    "edges": 279,
    "edges either way": 309,
    "edges in file": 325,
    "loops in file": 16,
    "homophily": 0.0567,
    "chance": 0.37,
}
STATISTICS = {cell.dataset: cell for cell in plans.dataset_cells(Path())}


@pytest.fixture(autouse=True)
def without_huge_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cells, "files_are_here", lambda dataset: dataset not in cells.HUGE_DATASETS)


def reasons(folder: Path, dataset: str, **changed: Any) -> dict[str, str]:
    """Return why the figures of a graph like Texas differ from those that the paper prints for a dataset."""
    write(STATISTICS[dataset], folder, **{**TEXAS, **changed})
    *_, section = dataset_sections(read_cells([STATISTICS[dataset]], folder))
    return {row["statistic"]: row["reason"] for row in section.rows}


def test_datasets() -> None:
    assert len(STATISTICS) == 11 + 3
    assert [describe(name).name for name in STATISTICS] == list(STATISTICS)
    assert dataset_sections(read_cells([], Path())) == []


def test_statistics_next_to_the_paper(tmp_path: Path) -> None:
    chosen = [STATISTICS[name] for name in ("texas", "snap-patents", "cora", "squirrel-filtered")]
    write(chosen[0], tmp_path, **TEXAS)
    rows = [list(row.values()) for row in dataset_sections(read_cells(chosen, tmp_path))[0].rows]
    figures = ["183", "183", "1703", "1703", "5", "5", "279", "309", "0.057", "0.06", "0.370"]
    assert rows[0] == ["texas", "first", *figures]
    assert rows[1][:4] == ["snap-patents", "second", "files not here", "2923922"]
    assert rows[2][:4] == ["cora", "assortative", "…", "2708"]
    assert rows[3][:4] == ["squirrel-filtered", "–", "…", "–"]


def test_ways_of_counting_edges(tmp_path: Path) -> None:
    assert reasons(tmp_path, "texas") == {"edges": "the paper counts two edges where nodes point to each other"}
    of_lines = reasons(tmp_path, "texas", **{"edges either way": 300, "edges in file": 309})
    assert "lines of the file" in of_lines["edges"]
    assert "16 loops" in of_lines["edges"]
    of_lists = reasons(tmp_path, "texas", **{"edges either way": 300, "edges in file": 618})
    assert "half of the 618 entries" in of_lists["edges"]
    assert reasons(tmp_path, "texas", **{"edges either way": 300}) == {"edges": "not known"}


def test_other_differences(tmp_path: Path) -> None:
    assert reasons(tmp_path, "texas", edges=309, homophily=0.0651) == {"H(G)": "not known"}
    old_cornell = reasons(tmp_path, "cornell-pre2022", homophily=0.301, edges=295)
    assert old_cornell.keys() == {"H(G)"}
    assert "corrected file" in old_cornell["H(G)"]
    write(STATISTICS["texas"], tmp_path, **{**TEXAS, "edges": 309})
    assert len(dataset_sections(read_cells([STATISTICS["texas"]], tmp_path))) == 1  # what agrees needs no reason


@pytest.mark.parametrize(("dataset", "shown"), [("texas", "0.057"), ("cora", "0.825")])
def test_statistics_of_real_graphs(tmp_path: Path, data_root: Path, dataset: str, shown: str) -> None:
    run_cell(STATISTICS[dataset], tmp_path)
    table, differences = dataset_sections(read_cells([STATISTICS[dataset]], tmp_path))
    assert table.rows[0]["H(G)"] == shown
    assert [row["statistic"] for row in differences.rows] == ["edges"]


def test_accuracies_next_to_the_paper(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-nlmlp", [84.0, 86.0])
    write_framework(tmp_path, "texas-mlp", [60.0, 62.0], **OLD)
    write_framework(tmp_path, "texas-nlmlp", [90.0, 92.0], protocol="geom-gcn")
    sections = TABLES["first-category"].sections(read_cells(plans.first_category_cells(tmp_path), tmp_path))
    assert [section.title for section in sections] == [
        "First category (table 3): actor, cornell-pre2022, texas",
        "First category (table 3): wisconsin",
    ]
    rows = {(row["system"], row["splits"]): (row["texas"], row["paper, texas"]) for row in sections[0].rows}
    assert rows["nlmlp", "random-60"] == ("85.0 ± 1.4 ✓ -0.4", "85.4 ± 3.8")
    assert rows["nlmlp", "geom-gcn"] == ("91.0 ± 1.4 ▲ +5.6", "85.4 ± 3.8")
    assert rows["mlp", "random-60"] == ("61.0 ± 1.4† ▼ -20.3", "81.3 ± 7.1")
    assert rows["h2gcn", "geom-gcn"] == ("…", "84.9 ± 6.8")
    assert next(iter(rows))[0] == "mlp"
    assert list(rows)[-1][0] == "nlmlp"
    assert "† measured by a version before 0.2.0" in sections[0].caption
    assert "geom-gcn is the ten public splits" in sections[-1].caption


def test_validation_accuracies(tmp_path: Path) -> None:
    write_framework(tmp_path, "texas-gcn", [10.0, 12.0], [68.0, 69.0])
    table = TABLES["categories"]
    rows = TABLES["categories"].sections(read_cells(table.cells(tmp_path), tmp_path))[0].rows
    assert [row["texas"] for row in rows] == ["…", "68.5 ± 0.7 ✓ +0.4", "…"]
    last = TABLES["categories"].sections(read_cells(table.cells(tmp_path), tmp_path))[-1]
    assert "snap-patents" in last.title
    assert last.rows[0]["snap-patents"] == "files not here"


def test_splits_of_cpgnn(tmp_path: Path) -> None:
    write_framework(tmp_path, "chameleon-nlgcn", [59.0, 61.0], protocol="random-10")
    rows = TABLES["cpgcn"].sections(read_cells(plans.cpgcn_cells(tmp_path), tmp_path))[0].rows
    assert rows[-1]["chameleon"] == "60.0 ± 1.4 ✓ +0.0"
    assert rows[-1]["paper, chameleon"] == "60.0"


def test_agreement_is_counted_by_table(tmp_path: Path) -> None:
    """Non-local models on the public splits are not counted, nor are older cells left out."""
    write_framework(tmp_path, "texas-nlmlp", [84.0, 86.0])
    write_framework(tmp_path, "texas-mlp", [60.0, 62.0], [90.0, 92.0], **OLD)
    write_framework(tmp_path, "texas-nlmlp", [10.0, 12.0], protocol="geom-gcn")
    (section,) = agreement_sections(read_cells(agreement_cells(tmp_path), tmp_path))
    rows = {row["table"]: list(row.values())[1:] for row in section.rows}
    assert rows["best validation (table 2)"][1:5] == ["1", "0", "1", "0"]  # compared, ✓, ▲, ▼
    assert rows["all graphs (table 5)"] == ["93", "2", "1", "0", "1", "-10.4", "10.4", "-20.3, mlp on texas†"]
    assert rows["first category (table 3)"][:5] == ["24", "2", "1", "0", "1"]
    assert rows["splits of CPGNN"] == ["4", "0", "0", "0", "0", "…", "…", "…"]


def test_verdicts(tmp_path: Path) -> None:
    chosen = plans.verdict_cells(tmp_path)
    interval = {"mean": -24.0, "low": -31.0, "high": -17.0}
    figures = {"validation": {"mlp": 87.5, "gcn": 63.4, "gat": 63.1}, "difference": interval}
    write(chosen[0], tmp_path, category="first", **figures)
    write(chosen[3], tmp_path, category="first", **figures)
    section = verdict_sections(read_cells(chosen, tmp_path))[0]
    assert section.rows[0] == {
        "dataset": "texas",
        "paper": "first",
        "ours": "first",
        "mlp": "87.5",
        "gcn": "63.4",
        "gat": "63.1",
        "better graph model − mlp": "-24.0 [-31.0, -17.0]",
        "seconds": "20",
    }
    assert "1 of 10 equal the paper's" in section.caption  # chameleon is of the second


def test_homophily(tmp_path: Path) -> None:
    chosen = plans.main_cells(("texas",), plans.NON_LOCAL)
    assert TABLES["homophily"].sections(read_cells(chosen, tmp_path)) == []
    write_framework(tmp_path, "texas-nlmlp", [70.0, 80.0])
    assert TABLES["homophily"].sections(read_cells(chosen, tmp_path))[0].rows == [
        {
            "dataset": "texas",
            "model": "nlmlp",
            "H(G)": "0.10",
            "chance": "0.40",
            "H(Ĝ) untrained": "0.40 ± 0.14",
            "H(Ĝ) trained": "0.70 ± 0.14",
        }
    ]


def test_sequences(tmp_path: Path) -> None:
    chosen = plans.sequence_cells(tmp_path)
    write(chosen[0], tmp_path, [82.1])
    write(chosen[1], tmp_path, [70.0], homophily={**LEVELS, "after": [0.2]}, **OLD)
    section = TABLES["sequence"].sections(read_cells(chosen, tmp_path))[0]
    assert list(section.rows[0].values()) == ["texas", "nlmlp", "0.10", "0.40", "0.40 ± 0.14", "0.70 ± 0.14"]
    assert section.rows[1]["model"] == "nlmlp†"
    assert len(section.rows) == 2
    assert section.text.startswith(
        "Of 2 trained orders, 2 have a higher H than their graph, 1 a higher H than a random"
    )


def test_step_times_next_to_the_paper(tmp_path: Path) -> None:
    chosen = plans.efficiency_cells(tmp_path)
    steps = {"epochs": 500, "median ms": 2.04, "mean ms": 2.5, "ratio": 1.0}
    further = {"processor": "abacus", "threads": 1, "load": 0.5}
    steps_of = {"gcn": steps, "nlgcn": {**steps, "ratio": 1.76}}
    write(chosen[0], tmp_path, steps=steps_of, **chosen[0].schedule.options, **further)
    (section,) = efficiency_sections(read_cells(chosen, tmp_path))
    rows = {(row["dataset"], row["model"]): list(row.values())[2:] for row in section.rows}
    assert rows["chameleon", "gcn"] == ["2.0", "2.5", "1.00", "22.2", "1.0"]
    assert rows["chameleon", "nlgcn"] == ["2.0", "2.5", "1.76", "26.3", "1.2"]
    assert rows["squirrel", "gcn"] == ["…", "–", "–", "14.3", "1.0"]
    assert rows["snap-patents", "gcn"] == ["files not here", "–", "–", "2193.0", "1.0"]
    assert rows["snap-patents", "gat"][-2:] == ["out of memory", "–"]
    assert ("snap-patents", "nlgat") not in rows
    assert "abacus, threads 1, load 0.5 (chameleon)" in section.caption
    assert efficiency_sections(read_cells([], tmp_path)) == []
