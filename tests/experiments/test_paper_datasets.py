"""The table of datasets: what is counted, and the reason that stands beside a figure other than the paper's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from experiment_samples import write_result

from nlgnn.datasets import describe
from nlgnn.experiments import measured, paper_datasets
from nlgnn.experiments.cells import run_cell
from nlgnn.experiments.paper_datasets import DATASETS_TABLE, DatasetCell, dataset_cells, dataset_sections
from nlgnn.graph.graph import Graph

TEXAS = {
    "dataset": "texas",
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


def reasons(folder: Path, dataset: str, **changed: Any) -> dict[str, str]:
    """Why the figures of a graph like Texas differ from those that the paper prints for a dataset."""
    write_result(DatasetCell(dataset), folder, **{**TEXAS, "dataset": dataset, **changed})
    *_, section = dataset_sections([DatasetCell(dataset)], folder, "")
    return {row["what"]: row["why"] for row in section.rows}


def test_cells() -> None:
    names = [cell.dataset for cell in dataset_cells("random-60")]
    assert len(names) == 11 + 3
    assert [describe(name).name for name in names] == names
    assert dataset_sections([], Path(), "") == []


def test_what_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line twice, both directions of an edge, a loop, and a node alone."""
    edges = [[0, 0, 1, 1, 2], [1, 1, 0, 2, 2]]
    graph = Graph([[1.0, 2.0]] * 4, edges, [0, 0, 1, 1], directed=True)
    monkeypatch.setattr(paper_datasets, "load_graph", lambda name, **_: graph)
    result = run_cell(DatasetCell("texas"), tmp_path)
    assert result is not None
    counted = {name: result[name] for name in TEXAS if name != "dataset"}
    assert counted == {
        "nodes": 4,
        "features": 2,
        "classes": 2,
        "edges": 2,
        "edges either way": 3,
        "edges in file": 5,
        "loops in file": 1,
        "homophily": (1 + 0.5 + 0 + 0) / 4,
        "chance": pytest.approx(1 / 3, abs=1e-5),
    }


def test_ours_beside_the_paper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "files_are_here", lambda dataset: dataset != "snap-patents")
    cells = [DatasetCell(dataset) for dataset in ("texas", "snap-patents", "cora", "squirrel-filtered")]
    write_result(cells[0], tmp_path, **TEXAS)
    sizes, homophily, _ = dataset_sections(cells, tmp_path, "")
    assert [list(row.values()) for row in sizes.rows] == [
        ["texas", "183", "183", "1703", "1703", "5", "5"],
        ["snap-patents", "files not here", "2923922", "–", "269", "–", "5"],
        ["cora", "…", "2708", "–", "1433", "–", "7"],
        ["squirrel-filtered", "…", "–", "–", "–", "–", "–"],
    ]
    assert [list(row.values()) for row in homophily.rows] == [
        ["texas", "first category", "279", "309", "0.057", "0.06", "0.370"],
        ["snap-patents", "second category", "files not here", "13975788", "–", "0.22", "–"],
        ["cora", "assortative", "…", "5429", "–", "0.83", "–"],
        ["squirrel-filtered", "–", "…", "–", "–", "–", "–"],
    ]


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
    of_old_cornell = reasons(tmp_path, "cornell-pre2022", homophily=0.301, edges=295)
    assert of_old_cornell.keys() == {"H(G)"}
    assert "corrected file" in of_old_cornell["H(G)"]


def test_what_agrees_needs_no_reason(tmp_path: Path) -> None:
    cell = DatasetCell("texas")
    write_result(cell, tmp_path, **{**TEXAS, "edges": 309})
    assert [section.title for section in dataset_sections([cell], tmp_path, "")] == ["Sizes", "Edges and homophily"]


@pytest.mark.parametrize(
    ("dataset", "shown", "why"),
    [("texas", "0.057", "two edges where nodes point to each other"), ("cora", "0.825", "half of the 10858 entries")],
)
def test_real_graphs(tmp_path: Path, data_root: Path, dataset: str, shown: str, why: str) -> None:
    cell = DatasetCell(dataset)
    run_cell(cell, tmp_path)
    _, homophily, differences = DATASETS_TABLE.sections([cell], tmp_path, "")
    assert homophily.rows[0]["H(G)"] == shown
    assert [row["what"] for row in differences.rows] == ["edges"]
    assert why in differences.rows[0]["why"]
