"""The search of settings and controls of the runner, and what is kept of an interrupted measurement.

The tests use a small graph and a system made for it: an MLP with two variants, and settings for some datasets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from sample_cells import OLD, write

from experiment_samples import small_graph
from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import chance_homophily, node_homophily
from nlgnn.models.registry import SYSTEMS, System
from nlgnn.paper import measure
from nlgnn.paper.cell import Cell, Schedule
from nlgnn.paper.measure import run_cell
from nlgnn.paper.plans import (
    framework_cell,
    system_candidates,
)
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder

SEARCHED = System(
    "searched",
    "nlgnn.nn:MLP",
    "an MLP",
    "this test",
    program={"epochs": 12, "lr": 0.1, "stopping": "never"},
    published={"cora": {"hidden": 5}},
    variants=({"hidden": 2}, {"hidden": 6}),
    settings=({"dropout": 0.0}, {"dropout": 0.5}),
)


@pytest.fixture(autouse=True, scope="module")
def with_a_small_system() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SYSTEMS, "searched", SEARCHED)  # type: ignore[arg-type]
        patch.setattr(measure, "load_graph", lambda name, **_: small_graph())
        yield


@pytest.fixture(scope="module")
def whole(with_a_small_system: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a cell that was measured without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    measured(small_cell(), folder)
    return folder


def small_cell() -> Cell:
    candidates = system_candidates("searched", "texas")
    schedule = Schedule(splits=3, search_splits=2)
    return Cell("systems", "texas", ("searched",), "searched", candidates=candidates, schedule=schedule)


def measured(cell: Cell, folder: Path) -> dict[str, Any]:
    result = run_cell(cell, folder, progress=False)
    assert result is not None
    return result


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    search = [{**candidate, "seconds": 0} for candidate in result["search"]]
    runs = [{**run, "ms_per_epoch": 0} for run in result["runs"]]
    return {**result, "seconds": 0, "search_seconds": 0, "search": search, "runs": runs}


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# Search


def test_candidates() -> None:
    """Variants, with settings where nothing was published."""
    assert system_candidates("searched", "cora") == ({"hidden": 2}, {"hidden": 6})
    assert system_candidates("searched", "texas") == (
        {"hidden": 2, "dropout": 0.0},
        {"hidden": 2, "dropout": 0.5},
        {"hidden": 6, "dropout": 0.0},
        {"hidden": 6, "dropout": 0.5},
    )
    assert system_candidates("mlp", "texas") == ({},)
    spaces = [options["space"] for options in system_candidates("geom-gcn", "texas")]
    assert spaces == ["isomap", "poincare", "struc2vec"]
    assert system_candidates("geom-gcn", "squirrel") == ({"space": "isomap"},)  # there are no files for others


def test_what_is_recorded(whole: Path) -> None:
    result = measured(small_cell(), whole)
    assert result["candidates"] == list(small_cell().candidates)
    assert [candidate["options"] for candidate in result["search"]] == result["candidates"]
    assert all(candidate.keys() == {"options", "val", "seconds"} for candidate in result["search"])
    assert len({candidate["val"] for candidate in result["search"]}) > 1
    best = max(result["search"], key=lambda candidate: candidate["val"])
    assert result["options"] == best["options"]
    assert result["model"]["hidden_channels"] == best["options"]["hidden"]
    assert result["recipe"]["epochs"] == 12
    assert result["shortened"] == {"options": {}, "splits": 3, "search_splits": 2}
    assert (result["protocol"], result["preset"], result["threads"]) == ("geom-gcn", "released", 1)
    assert [run["seed"] for run in result["runs"]] == [0, 1, 2]
    assert result["versions"].keys() == {"nlgnn", "python", "torch"}
    assert files(whole / "systems") == ["texas-searched.json"]


def test_the_figure_of_a_candidate_is_of_validation_on_the_first_splits(whole: Path) -> None:
    result = measured(small_cell(), whole)
    best = max(candidate["val"] for candidate in result["search"])
    assert best == pytest.approx(sum(run["val"] for run in result["runs"][:2]) / 2)


def test_nothing_but_test_figures_depends_on_test_labels(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = without_times(measured(small_cell(), whole))
    monkeypatch.setattr(measure, "load_graph", lambda name, **_: small_graph(test_labels=1))
    other = without_times(measured(small_cell(), tmp_path))
    tests = [[run.pop("test") for run in result["runs"]] for result in (one, other)]
    assert one == other
    assert tests[0] == pytest.approx([100 - test for test in tests[1]])  # all labels are turned
    assert tests[0] != tests[1]


def given_figures(vals: list[list[float | None]]) -> Callable[..., list[list[Run]]]:
    """Replace training: candidates have these validation figures, and test figures that favour the others."""
    remaining = iter(vals)

    def train(settings: list[Any], graph: Graph, splits: list[Any], progress: bool) -> list[list[Run]]:
        return [
            [
                Run(0, 0, "", 0, val={"accuracy": val}, test={"accuracy": 100 - val})
                if val is not None
                else Run(0, 0, "", 0, failure="the loss became nan")
                for val in next(remaining)
            ]
            for _ in settings
        ]

    return train


@pytest.mark.parametrize(
    ("vals", "means", "chosen"),
    [
        ([[60.0, 70.0], [99.0, None], [66.0, 66.0], [20.0, 90.0]], [65, None, 66, 55], 2),
        ([[60.0, 70.0], [65.0, 65.0], [50.0, 50.0], [20.0, 20.0]], [65, 65, 50, 20], 0),  # the first of equal ones
        ([[None, None], [50.0, 50.0], [None, 50.0], [None, None]], [None, 50, None, None], 1),
    ],
)
def test_choosing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vals: Any, means: list[float | None], chosen: int
) -> None:
    monkeypatch.setattr(measure, "fit_settings", given_figures(vals))
    result = measured(small_cell(), tmp_path)
    assert [candidate["val"] for candidate in result["search"]] == means
    assert result["options"] == small_cell().candidates[chosen]


def test_no_candidate_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "fit_settings", given_figures([[None, None]] * 4))
    with pytest.raises(NlgnnError, match="every candidate failed"):
        measured(small_cell(), tmp_path)


def test_one_candidate_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "fit_settings", lambda *_, **__: pytest.fail("searched"))
    cell = replace(small_cell(), candidates=({"hidden": 3},), condition="narrow", protocol="random-60")
    result = measured(cell, tmp_path)
    assert (result["search"], result["search_seconds"], result["search_epochs"]) == ([], 0, None)
    assert (result["options"], result["condition"], result["protocol"]) == ({"hidden": 3}, "narrow", "random-60")


def watched_search(monkeypatch: pytest.MonkeyPatch, interrupted_at: int | None = None) -> list[list[int]]:
    """Return the epochs of all settings that are trained at once, call by call; one of the calls is interrupted."""
    train, calls = measure.fit_settings, []

    def watched(settings: list[Any], *arguments: Any, **options: Any) -> list[list[Run]]:
        calls.append([recipe.epochs for _, recipe in settings])
        if len(calls) == interrupted_at:
            raise KeyboardInterrupt
        return train(settings, *arguments, **options)

    monkeypatch.setattr(measure, "fit_settings", watched)
    return calls


def test_candidates_are_trained_at_once_and_for_fewer_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = watched_search(monkeypatch)
    cell = replace(small_cell(), schedule=Schedule(splits=3, search_splits=2, search_epochs=2))
    result = measured(cell, tmp_path)
    assert calls == [[2, 2], [2, 2]]
    assert (result["search_epochs"], [run["epochs"] for run in result["runs"]]) == (2, [12, 12, 12])


def test_interrupted_between_candidates(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as unlucky:
        watched_search(unlucky, interrupted_at=2)
        with pytest.raises(KeyboardInterrupt):
            run_cell(small_cell(), tmp_path, progress=False)
    kept = json.loads((tmp_path / "systems" / ".texas-searched" / "candidates.json").read_text())
    assert [candidate["options"]["hidden"] for candidate in kept] == [2, 2]
    assert all("test" not in candidate for candidate in kept)
    calls = watched_search(monkeypatch)
    assert without_times(measured(small_cell(), tmp_path)) == without_times(measured(small_cell(), whole))
    assert len(calls) == 1
    assert files(tmp_path / "systems") == ["texas-searched.json"]


def interrupt_after_a_run(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    save_run, saved = RunFolder.save_run, []

    def interrupted(folder: RunFolder, run: Run) -> None:
        save_run(folder, run)
        saved.append(run.index)
        if saved == [0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "save_run", interrupted)
    return saved


def test_interrupted_within_the_splits(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = interrupt_after_a_run(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_cell(small_cell(), tmp_path, progress=False)
    calls = watched_search(monkeypatch)
    assert without_times(measured(small_cell(), tmp_path)) == without_times(measured(small_cell(), whole))
    assert calls == []
    assert sorted(saved) == [0, 1, 2]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"program": {**SEARCHED.program, "lr": 0.2}}, r"was measured with lr=0\.1; now it is 0\.2\.\nRemove"),
        ({"defaults": {"hidden": 9, "features": "unit-l2"}}, r"measured with features=unit-sum; now it is unit-l2"),
    ],
)
def test_a_finished_cell_of_other_settings(
    whole: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setitem(SYSTEMS, "searched", replace(SEARCHED, **changes))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        run_cell(small_cell(), whole, progress=False)


@pytest.mark.parametrize("where", ["candidates.json", "runs"])
def test_an_unfinished_cell_of_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The file or folder of the interrupted measurement is named, so that it can be removed."""
    interrupt_after_a_run(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_cell(small_cell(), tmp_path, progress=False)
    if where == "runs":
        (tmp_path / "systems" / ".texas-searched" / "candidates.json").unlink()
    program = {**SEARCHED.program, "weight_decay": 0.01}
    monkeypatch.setitem(SYSTEMS, "searched", replace(SEARCHED, program=program))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=rf"{where} was measured with weight_decay=0\.0005; now it is 0\.01.\nRemove"):
        run_cell(small_cell(), tmp_path, progress=False)


# Controls and further seeds


@pytest.fixture
def main_and_control() -> tuple[Cell, Cell]:
    """NLMLP on the small graph with two candidates, and a control of it."""
    cell = framework_cell("texas", "nlmlp", "geom-gcn")
    candidates = ({"hidden": 4, "lr": 1e-9}, {"hidden": 8, "lr": 0.05})
    schedule = Schedule({"epochs": 20}, splits=3, search_splits=2)
    main = replace(cell, candidates=candidates, schedule=schedule)
    control = framework_cell("texas", "nlmlp", "geom-gcn", "kernel 1", 1)
    return main, replace(control, candidates=candidates, schedule=schedule, main=main)


def test_a_control_takes_the_settings_of_its_main_cell(main_and_control: tuple[Cell, Cell], tmp_path: Path) -> None:
    main, control = main_and_control
    result = measured(control, tmp_path)
    assert measured(main, tmp_path)["options"] == {"hidden": 8, "lr": 0.05}
    assert result["options"] == {"hidden": 8, "lr": 0.05, "kernel_size": 1, "seed": 10}
    assert [run["seed"] for run in result["runs"]] == [10, 11, 12]
    assert result["search"] == []
    assert "homophily" not in result
    names = ["texas-nlmlp-geom-gcn.json", "texas-nlmlp-kernel-1-seed-2-geom-gcn.json"]
    assert files(tmp_path / "framework") == names


def test_a_control_measures_an_older_main_cell_again(main_and_control: tuple[Cell, Cell], tmp_path: Path) -> None:
    main, control = main_and_control
    write(main, tmp_path, [50.0, 50.0, 50.0], options={"hidden": 2}, **OLD)
    assert measured(control, tmp_path)["options"]["hidden"] == 8
    assert measured(main, tmp_path)["options"] == {"hidden": 8, "lr": 0.05}


def test_a_control_waits_for_a_main_cell_in_work_elsewhere(main_and_control: tuple[Cell, Cell], tmp_path: Path) -> None:
    folder = tmp_path / "framework"
    folder.mkdir()
    with FileLock(folder / ".texas-nlmlp-geom-gcn.lock"):
        assert run_cell(main_and_control[1], tmp_path, progress=False) is None
    assert not list(folder.glob("*.json"))


def test_homophily_along_the_order(main_and_control: tuple[Cell, Cell], tmp_path: Path) -> None:
    levels = measured(main_and_control[0], tmp_path)["homophily"]
    graph = small_graph()
    assert levels["graph"] == pytest.approx(node_homophily(graph), abs=1e-5)
    assert levels["chance"] == pytest.approx(chance_homophily(graph), abs=1e-5)
    assert len(levels["before"]) == len(levels["after"]) == 3
    assert levels["before"] != levels["after"]
