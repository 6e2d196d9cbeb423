"""The reproduction of the published settings: its cells, and the table that is made of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_samples import write_result

from nlgnn.errors import DataError
from nlgnn.experiments import published
from nlgnn.experiments.cells import run_cell
from nlgnn.experiments.paper import printed_accuracy
from nlgnn.experiments.published import published_cells, published_table
from nlgnn.experiments.reproduce import markdown
from nlgnn.graph.graph import Graph
from nlgnn.training.run import Run, RunFolder
from nlgnn.training.systems import PUBLISHED


@pytest.mark.parametrize(
    ("system", "dataset", "printed"),
    [
        ("nlmlp", "texas", (85.4, 3.8)),
        ("gcn", "chameleon", (67.6, 2.4)),
        ("nlmlp", "cornell-pre2022", (84.9, 5.7)),
        ("nlmlp", "cornell", None),  # corrected after the paper
        ("nlmlp", "tolokers", None),
        ("h2gcn", "texas", None),
    ],
)
def test_what_the_paper_prints(system: str, dataset: str, printed: tuple[float, float] | None) -> None:
    assert printed_accuracy(system, dataset) == printed


def test_cells() -> None:
    cells = published_cells()
    assert len(cells) == 28
    assert len({cell.name for cell in cells}) == 28
    assert {cell.dataset for cell in cells} == set(PUBLISHED)
    assert [cell.system for cell in cells[:7]] == [published.PUBLISHED_SYSTEMS[cell.dataset] for cell in cells[:7]]
    assert {cell.system for cell in cells[7:14]} == {"mlp", "gcn"}
    assert [cell.variant.control for cell in cells] == [None] * 14 + ["kernel 1"] * 7 + ["random order"] * 7
    assert cells[14].name == "texas-nlmlp-kernel-1"
    assert [cell.quick().name for cell in cells] == [cell.name for cell in cells]


@pytest.fixture
def on_a_small_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Graph([[1, 0], [0, 1]] * 10, [[0, 1], [1, 2]], [0, 1] * 10, name="texas")
    monkeypatch.setattr(published, "load_graph", lambda name: small)


@pytest.mark.usefixtures("on_a_small_graph")
def test_an_interrupted_cell_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs that were finished before an interruption are not trained again, and leave nothing behind in the end."""
    cell = published_cells()[0].quick()
    save_run, saved = RunFolder.save_run, []

    def interrupted_after(folder: RunFolder, run: Run) -> None:
        save_run(folder, run)
        saved.append(run.index)
        if saved == [0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "save_run", interrupted_after)
    with pytest.raises(KeyboardInterrupt):
        run_cell(cell, tmp_path, progress=False)
    changed = replace(cell, options={**cell.options, "lr": 0.2})
    with pytest.raises(DataError, match=r"/runs was measured with lr=0\.05; now it is 0\.2\.\nRemove it"):
        run_cell(changed, tmp_path, progress=False)
    run_cell(cell, tmp_path, progress=False)
    assert saved == [0, 1]
    assert [path.name for path in tmp_path.iterdir()] == [f"{cell.name}.json"]


@pytest.mark.usefixtures("on_a_small_graph")
def test_measuring_a_cell(tmp_path: Path) -> None:
    """On a small graph of that name, two runs, a few epochs; the settings are the published ones."""
    result = run_cell(published_cells()[14].quick(), tmp_path, progress=False)
    assert result is not None
    kept = {key: result[key] for key in ("dataset", "system", "control", "protocol", "preset")}
    assert list(kept.values()) == ["texas", "nlmlp", "kernel 1", "random-60", "released"]
    assert result["model"]["kernel_size"] == 1
    assert (result["recipe"]["lr"], result["recipe"]["stopping"]) == (0.05, "window")
    assert [(run["seed"], run["failure"]) for run in result["runs"]] == [(0, None), (1, None)]
    assert all(0 <= run["test"] <= 100 for run in result["runs"])


def test_table(tmp_path: Path) -> None:
    texas = [cell for cell in published_cells() if cell.dataset == "texas"]
    for cell, tests in zip(texas, [(80.0, 90.0), (70.0, 84.0), (80.0, None)], strict=False):
        write_result(cell, tmp_path, runs=[{"test": test} for test in tests])
    rows = published_table(tmp_path)
    assert [row["dataset"] for row in rows] == list(published.PUBLISHED_SYSTEMS)
    assert rows[0] == {
        "dataset": "texas",
        "model": "nlmlp",
        "ours": "85.0 ± 7.1",
        "paper": "85.4 ± 3.8",
        "its local part": "77.0 ± 9.9",
        "paper's": "81.3 ± 7.1",
        "kernel 1": "80.0",
        "random order": "…",
        "ours − local": "+8.0 (2.0)",
        "ours − kernel 1": "–",  # one pair has no spread
        "ours − random": "…",
    }
    corrected = next(row for row in rows if row["dataset"] == "cornell")
    assert (corrected["ours"], corrected["paper"], corrected["paper's"]) == ("…", "–", "–")
    text = markdown(rows)
    assert text.count("\n") == 9
    assert {line.count("|") for line in text.splitlines()} == {12}
    assert published_table(tmp_path, texas) == rows[:1]


def test_a_cell_of_other_settings(tmp_path: Path) -> None:
    cell = published_cells()[0]
    (tmp_path / f"{cell.name}.json").write_text(json.dumps({"model": {"kernel_size": 7}, "recipe": {}}))
    with pytest.raises(DataError, match=r"was measured with kernel_size=7; now it is 5\.\nRemove it"):
        published_table(tmp_path)
