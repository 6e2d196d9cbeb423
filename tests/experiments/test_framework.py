"""The framework's cells: which there are, what a control takes from its main cell, and what is kept of the order."""

from __future__ import annotations

import fcntl
import json
from dataclasses import replace
from pathlib import Path

import pytest
from experiment_samples import small_graph

from nlgnn.errors import DataError
from nlgnn.experiments import searched
from nlgnn.experiments.cells import cell_path, read_cell, run_cell
from nlgnn.experiments.compare import CONTROLS
from nlgnn.experiments.framework import (
    DATASETS,
    HUGE_DATASETS,
    LARGE_DATASETS,
    SAMPLED,
    SEEDS,
    FrameworkCell,
    framework_cell,
    framework_cells,
    sampled_candidates,
)
from nlgnn.experiments.searched import Schedule
from nlgnn.graph.homophily import chance_homophily, node_homophily
from nlgnn.training.systems import get_system


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> FrameworkCell:
    """NLMLP on a small graph, with two candidates and hardly any training."""
    monkeypatch.setattr(searched, "load_graph", lambda name, **_: small_graph())
    cell = framework_cell("texas", "nlmlp", "geom-gcn")
    candidates = ({"hidden": 4, "lr": 1e-9}, {"hidden": 8, "lr": 0.05})
    return replace(cell, candidates=candidates, schedule=Schedule({"epochs": 20}, splits=3, search_splits=2))


def test_candidates() -> None:
    assert sampled_candidates("nlmlp", "texas") == ({},)
    assert sampled_candidates("nlgcn", "chameleon") == ({},)
    for system in ("mlp", "nlgcn", "nlgat"):
        found = sampled_candidates(system, "texas")
        assert found == sampled_candidates(system, "cora")
        assert len({json.dumps(one) for one in found}) == len(found) == SAMPLED
        space = get_system(system).search_space
        assert all(one.keys() == space.keys() for one in found)
        assert all(value in space[key] for one in found for key, value in one.items())
    assert sampled_candidates("cpgcn", "chameleon")[0].keys() >= {"prior", "hops"}


def test_all_cells() -> None:
    cells = framework_cells("geom-gcn", controls=True)
    assert len({cell.name for cell in cells}) == len(cells)
    first = [cell for cell in cells if not cell.again]
    assert len(first) == len(DATASETS) * (6 + 3 * len(CONTROLS))
    again = [cell for cell in cells if cell.again]
    assert {cell.dataset for cell in again} == set(DATASETS) - set(LARGE_DATASETS) - set(HUGE_DATASETS)
    assert {cell.again for cell in again} == set(range(1, SEEDS))
    assert {cell.protocol for cell in cells} == {"geom-gcn", "heterophilous", "ogb", "linkx"}
    assert {cell.schedule.splits for cell in cells if cell.dataset in HUGE_DATASETS} == {5}
    assert [cell.control for cell in first] == sorted((cell.control for cell in first), key=lambda name: name != "")
    assert {cell.protocol for cell in framework_cells("random-60")} == {"random-60", "ogb", "linkx"}


def test_a_control_takes_the_settings_of_its_main_cell(small: FrameworkCell, tmp_path: Path) -> None:
    """Which is measured first where it is not there."""
    control = replace(small, control="kernel 1", again=1)
    result = run_cell(control, tmp_path, progress=False)
    assert result is not None
    main = read_cell(small, cell_path(small, tmp_path))
    assert main["options"] == {"hidden": 8, "lr": 0.05}
    assert result["options"] == {"hidden": 8, "lr": 0.05, "kernel_size": 1, "seed": 10}
    assert [run["seed"] for run in result["runs"]] == [10, 11, 12]
    assert result["search"] == []
    assert "homophily" not in result
    assert sorted(path.name for path in (tmp_path / "framework").iterdir()) == [
        "texas-nlmlp-geom-gcn.json",
        "texas-nlmlp-kernel-1-seed-2-geom-gcn.json",
    ]


def test_a_control_waits_for_a_main_cell_in_work_elsewhere(small: FrameworkCell, tmp_path: Path) -> None:
    folder = tmp_path / "framework"
    folder.mkdir()
    with (folder / ".texas-nlmlp-geom-gcn.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert run_cell(replace(small, control="kernel 1"), tmp_path, progress=False) is None
    assert not list(folder.glob("*.json"))


def test_homophily_along_the_order(small: FrameworkCell, tmp_path: Path) -> None:
    levels = small.measure(tmp_path, progress=False)["homophily"]
    graph = small_graph()
    assert levels["graph"] == pytest.approx(node_homophily(graph), abs=1e-5)
    assert levels["chance"] == pytest.approx(chance_homophily(graph), abs=1e-5)
    assert len(levels["before"]) == len(levels["after"]) == 3
    assert levels["before"] != levels["after"]
    local = replace(small, system="mlp", candidates=({},))
    assert "homophily" not in local.measure(tmp_path / "mlp", progress=False)


def test_a_cell_of_another_sample(small: FrameworkCell, tmp_path: Path) -> None:
    run_cell(small, tmp_path, progress=False)
    with pytest.raises(DataError, match="was measured with candidates="):
        run_cell(replace(small, candidates=small.candidates[::-1]), tmp_path, progress=False)
