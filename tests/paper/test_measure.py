"""The runner: cells are measured once, whole or not at all, by one process, and older ones again on request."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from sample_cells import OLD, write

from experiment_samples import small_graph
from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.paper import measure
from nlgnn.paper.cell import Cell, cell_path
from nlgnn.paper.measure import run_cell, timed_systems
from nlgnn.paper.order_cells import order_cells
from nlgnn.paper.plans import dataset_cells, efficiency_cells


@pytest.fixture(autouse=True)
def with_a_small_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "load_graph", lambda name, **_: small_graph())


def measured(cell: Cell, folder: Path) -> dict[str, Any]:
    result = run_cell(cell, folder, progress=False)
    assert result is not None
    return result


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Files and locks


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace measuring; the list holds the names of measured cells."""
    names: list[str] = []

    def measure_fake(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
        assert unfinished.is_dir()
        names.append(cell.name)
        return {"seconds": len(names), "model": {}, "recipe": {}, "versions": {"nlgnn": "0.2.0"}}

    monkeypatch.setitem(measure.MEASURES, "statistics", measure_fake)  # type: ignore[arg-type]
    return names


CORA, CITESEER = dataset_cells(Path())[:2]


def test_a_cell_is_measured_once(tmp_path: Path, fake: list[str]) -> None:
    folder = tmp_path / "a" / "b"
    assert measured(CORA, folder) == measured(CORA, folder)
    assert fake == ["cora-statistics"]
    assert files(folder / "datasets") == ["cora-statistics.json"]


def test_an_older_cell_is_renewed_only_on_request(tmp_path: Path, fake: list[str]) -> None:
    write(CORA, tmp_path, seconds=7.0, **OLD)
    assert measured(CORA, tmp_path)["seconds"] == 7.0
    assert fake == []
    renewed = run_cell(CORA, tmp_path, renew=True)
    assert renewed is not None
    assert renewed["versions"]["nlgnn"] == "0.2.0"
    assert run_cell(CORA, tmp_path, renew=True) == renewed
    assert fake == ["cora-statistics"]


def test_an_older_cell_stays_until_the_new_result_is_whole(
    tmp_path: Path, fake: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(CORA, tmp_path, seconds=7.0, **OLD)

    def interrupted(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setitem(measure.MEASURES, "statistics", interrupted)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        run_cell(CORA, tmp_path, renew=True)
    assert measured(CORA, tmp_path)["seconds"] == 7.0


def test_a_cell_is_written_whole_or_not_at_all(
    tmp_path: Path, fake: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def power_cut(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as unlucky:
        unlucky.setattr(Path, "replace", power_cut)
        with pytest.raises(NlgnnError, match=r"cora-statistics\.json cannot be written: No space left"):
            run_cell(CORA, tmp_path)
    assert not (tmp_path / "datasets" / "cora-statistics.json").exists()
    assert run_cell(CORA, tmp_path) is not None
    assert files(tmp_path / "datasets") == ["cora-statistics.json"]


def test_the_folder_is_tried_before_a_cell_is_measured(tmp_path: Path, fake: list[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NlgnnError, match="cannot be written"):
        run_cell(CORA, tmp_path / "file")
    assert not fake


def test_a_cell_that_another_process_measures(tmp_path: Path, fake: list[str]) -> None:
    (tmp_path / "datasets").mkdir()
    with FileLock(tmp_path / "datasets" / ".cora-statistics.lock"):
        assert run_cell(CORA, tmp_path) is None
        assert run_cell(CITESEER, tmp_path) is not None
    assert fake == ["citeseer-statistics"]
    assert run_cell(CORA, tmp_path) is not None


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path, fake: list[str]) -> None:
    (tmp_path / "datasets").mkdir()
    lock = tmp_path / "datasets" / ".cora-statistics.lock"
    code = """
import filelock, sys, time
lock = filelock.FileLock(sys.argv[1])
lock.acquire()
print("locked", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code, lock], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        assert run_cell(CORA, tmp_path) is None
        other.kill()
    assert run_cell(CORA, tmp_path) is not None
    assert files(tmp_path / "datasets") == ["cora-statistics.json"]


# Other measurements


def test_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line twice, both directions of an edge, a loop, and a node alone."""
    edges = [[0, 0, 1, 1, 2], [1, 1, 0, 2, 2]]
    graph = Graph([[1.0, 2.0]] * 4, edges, [0, 0, 1, 1], directed=True)
    monkeypatch.setattr(measure, "load_graph", lambda name, **_: graph)
    result = measured(CORA, tmp_path)
    expected = {"nodes": 4, "features": 2, "classes": 2, "edges": 2, "edges either way": 3, "edges in file": 5}
    assert expected.items() <= result.items()
    assert (result["loops in file"], result["homophily"]) == (1, (1 + 0.5 + 0 + 0) / 4)
    assert result["chance"] == pytest.approx(1 / 3, abs=1e-5)


def test_timed_systems() -> None:
    """Where the paper has no time for a system, none is measured."""
    assert timed_systems("chameleon") == ("gcn", "gat", "geom-gcn", "nlgcn", "mlp", "nlmlp", "nlgat")
    assert timed_systems("snap-patents") == ("gcn", "nlgcn")


def test_step_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "ALSO_TIMED", ("mlp",))
    cell = efficiency_cells(tmp_path)[0]
    result = measured(cell.quick(), tmp_path)
    assert list(result["steps"]) == ["gcn", "gat", "geom-gcn", "nlgcn", "mlp"]
    assert all(0 < steps["epochs"] <= 20 for steps in result["steps"].values())  # fewer on a busy machine
    assert all(steps["median ms"] > 0 and steps["mean ms"] > 0 for steps in result["steps"].values())
    assert result["steps"]["gcn"]["ratio"] == 1
    assert result["threads"] == 1
    with pytest.raises(DataError, match="measured with epochs=20; now it is 500"):
        run_cell(cell, tmp_path)


def test_step_times_are_not_measured_on_a_busy_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = efficiency_cells(tmp_path)[0]
    monkeypatch.setattr(os, "getloadavg", lambda: (1.51, 0.0, 0.0))
    with pytest.raises(NlgnnError, match=r"load of this machine is 1\.51"):
        run_cell(cell, tmp_path)
    assert not cell_path(cell, tmp_path).exists()


def test_a_system_stops_after_its_seconds() -> None:
    """Only turns that both took are compared."""
    times = measure.step_times([[0.002], [0.006], [0.008], []], [[0.001], [0.002], [], [0.005]])
    assert times == {"epochs": 3, "median ms": 6.0, "mean ms": 5.333, "ratio": 2.5}


def test_every_split_is_trained_with_several_seeds(tmp_path: Path) -> None:
    cell = next(cell for cell in order_cells() if cell.name == "chameleon-local-part").quick()
    result = measured(cell, tmp_path)
    assert (len(result["runs"]), result["seeds"]) == (6, 3)
    assert len({run["seed"] for run in result["runs"]}) == 6
    twins = result["twins"]
    assert len(twins["shares"]) == len(twins["test"]) == 6
    assert twins["shares"][:2] == twins["shares"][2:4]  # of the same splits
