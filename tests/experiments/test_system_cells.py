"""The cells of the compared systems: candidates, the choice among them, interruptions, and what is recorded.

On a small graph, with a system made for it: an MLP with two variants, and settings for datasets without published ones.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from experiment_samples import small_graph

from nlgnn.errors import DataError, NlgnnError
from nlgnn.experiments import searched, systems
from nlgnn.experiments.cells import run_cell
from nlgnn.experiments.searched import Schedule, SearchedCell, best_candidate
from nlgnn.experiments.systems import Extra, candidates, system_cells
from nlgnn.graph.graph import Graph
from nlgnn.training.run import Run, RunFolder
from nlgnn.training.system import System
from nlgnn.training.systems import SYSTEMS

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
        patch.setattr(searched, "load_graph", lambda name, **_: small_graph())
        yield


@pytest.fixture(scope="module")
def whole(with_a_small_system: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a cell that was measured without interruption."""
    folder = tmp_path_factory.mktemp("whole")
    measured(small_cell(), folder)
    return folder


def small_cell() -> SearchedCell:
    return SearchedCell("texas", "searched", candidates("searched", "texas"), Schedule({}, splits=3, search_splits=2))


def measured(cell: SearchedCell, folder: Path) -> dict[str, Any]:
    result = run_cell(cell, folder, progress=False)
    assert result is not None
    return result


def without_times(result: Mapping[str, Any]) -> dict[str, Any]:
    search = [{**candidate, "seconds": 0} for candidate in result["search"]]
    runs = [{**run, "ms_per_epoch": 0} for run in result["runs"]]
    return {**result, "seconds": 0, "search_seconds": 0, "search": search, "runs": runs}


def test_candidates() -> None:
    """Variants, with settings where nothing was published."""
    assert candidates("searched", "cora") == ({"hidden": 2}, {"hidden": 6})
    assert candidates("searched", "texas") == (
        {"hidden": 2, "dropout": 0.0},
        {"hidden": 2, "dropout": 0.5},
        {"hidden": 6, "dropout": 0.0},
        {"hidden": 6, "dropout": 0.5},
    )
    assert candidates("mlp", "texas") == ({},)


def test_spaces_without_files_are_no_candidates() -> None:
    assert [options["space"] for options in candidates("geom-gcn", "texas")] == ["isomap", "poincare", "struc2vec"]
    assert candidates("geom-gcn", "squirrel") == ({"space": "isomap"},)


def test_all_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(systems, "EXTRA", (Extra("gcn", "texas", "wide", {"hidden": 64}, "to see", "random-60"),))
    cells = system_cells()
    assert len({cell.name for cell in cells}) == len(cells) == 14 * 10 + 1
    assert max(len(cell.candidates) for cell in cells) <= 8
    assert cells[-1] == SearchedCell(
        "texas", "gcn", ({"hidden": 64},), protocol="random-60", condition="wide", why="to see"
    )
    assert cells[-1].name == "texas-gcn-wide"
    shortened = {(cell.system, cell.dataset) for cell in cells if cell.shortened}
    assert shortened == set(systems.SHORTENED)


def test_what_is_recorded(whole: Path) -> None:
    result = measured(small_cell(), whole)
    assert result["candidates"] == list(small_cell().candidates)
    assert [candidate["options"] for candidate in result["search"]] == result["candidates"]
    assert all(candidate.keys() == {"options", "val", "seconds"} for candidate in result["search"])
    assert len({candidate["val"] for candidate in result["search"]}) > 1
    best = max(result["search"], key=lambda candidate: candidate["val"])
    assert result["options"] == best["options"]
    assert result["model"]["hidden_channels"] == best["options"]["hidden"]
    assert result["model"]["dropout"] == best["options"]["dropout"]
    assert result["recipe"]["epochs"] == 12
    assert result["shortened"] == {"options": {}, "splits": 3, "search_splits": 2}
    assert (result["protocol"], result["preset"], result["threads"]) == ("geom-gcn", "released", 1)
    assert [run["seed"] for run in result["runs"]] == [0, 1, 2]
    assert result["versions"].keys() == {"nlgnn", "python", "torch"}
    assert [path.name for path in (whole / "systems").iterdir()] == ["texas-searched.json"]


def test_the_figure_of_a_candidate_is_of_validation_on_the_first_splits(whole: Path) -> None:
    """The same trainings as those of the chosen one on these splits."""
    result = measured(small_cell(), whole)
    of_first_splits = [run["val"] for run in result["runs"][:2]]
    best = max(candidate["val"] for candidate in result["search"])
    assert best == pytest.approx(sum(of_first_splits) / 2)


def test_nothing_but_test_figures_depends_on_test_labels(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = without_times(measured(small_cell(), whole))
    monkeypatch.setattr(searched, "load_graph", lambda name, **_: small_graph(test_labels=1))
    other = without_times(measured(small_cell(), tmp_path))
    tests = [[run.pop("test") for run in result["runs"]] for result in (one, other)]
    assert one == other
    assert tests[0] == pytest.approx([100 - test for test in tests[1]])  # all labels are turned
    assert tests[0] != tests[1]


@pytest.mark.parametrize(
    ("figures", "chosen"),
    [
        ((70.0, 80.0, 75.0), 1),
        ((70.0, 80.0, 80.0), 1),  # the first of equal ones
        ((None, 60.0, 70.0), 2),
        ((50.0, None, None), 0),
    ],
)
def test_choosing(figures: tuple[float | None, ...], chosen: int) -> None:
    searched = [{"options": {"hidden": number}, "val": val} for number, val in enumerate(figures)]
    assert best_candidate(searched) == {"hidden": chosen}


def test_no_candidate_is_left() -> None:
    with pytest.raises(NlgnnError, match="every candidate failed"):
        best_candidate([{"options": {}, "val": None}])


def given_figures(vals: list[list[float | None]]) -> Callable[..., list[list[Run]]]:
    """In place of training: a candidate has these validation figures, and test figures that speak for the others."""
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


def test_a_candidate_with_a_failed_run_is_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vals: list[list[float | None]] = [[60.0, 70.0], [99.0, None], [66.0, 66.0], [20.0, 90.0]]
    monkeypatch.setattr(searched, "fit_settings", given_figures(vals))
    result = measured(small_cell(), tmp_path)
    assert [candidate["val"] for candidate in result["search"]] == [65, None, 66, 55]
    assert result["options"] == {"hidden": 6, "dropout": 0.0}


def test_one_candidate_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "fit_settings", lambda *_, **__: pytest.fail("searched"))
    cell = replace(small_cell(), candidates=({"hidden": 3},), condition="narrow", protocol="random-60")
    result = measured(cell, tmp_path)
    assert (result["search"], result["search_seconds"], result["search_epochs"]) == ([], 0, None)
    assert (result["options"], result["condition"], result["protocol"]) == ({"hidden": 3}, "narrow", "random-60")
    assert (tmp_path / "systems" / "texas-searched-narrow.json").exists()


def watched_search(monkeypatch: pytest.MonkeyPatch, interrupted_at: int | None = None) -> list[int]:
    """How many settings are trained at once, call by call; one of the calls is interrupted."""
    train, calls = searched.fit_settings, []

    def watched(settings: list[Any], *arguments: Any, **options: Any) -> list[list[Run]]:
        calls.append(len(settings))
        if len(calls) == interrupted_at:
            raise KeyboardInterrupt
        return train(settings, *arguments, **options)

    monkeypatch.setattr(searched, "fit_settings", watched)
    return calls


def test_candidates_that_differ_in_rates_only_are_trained_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = watched_search(monkeypatch)
    measured(small_cell(), tmp_path)
    assert calls == [2, 2]


def test_candidates_are_trained_for_fewer_epochs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train, epochs = searched.fit_settings, []

    def watched(settings: list[Any], *arguments: Any, **options: Any) -> list[list[Run]]:
        epochs.extend(recipe.epochs for _, recipe in settings)
        return train(settings, *arguments, **options)

    monkeypatch.setattr(searched, "fit_settings", watched)
    monkeypatch.setattr(searched, "SEARCH_EPOCHS", 2)
    result = measured(small_cell(), tmp_path)
    assert epochs == [2, 2, 2, 2]
    assert (result["search_epochs"], [run["epochs"] for run in result["runs"]]) == (2, [12, 12, 12])
    monkeypatch.setattr(searched, "SEARCH_EPOCHS", 3)
    with pytest.raises(DataError, match="was measured with search_epochs=2; now it is 3"):
        run_cell(small_cell(), tmp_path, progress=False)


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
    assert calls == [2]
    assert [path.name for path in (tmp_path / "systems").iterdir()] == ["texas-searched.json"]


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
        ({"program": {**SEARCHED.program, "lr": 0.2}}, r"was measured with lr=0\.1; now it is 0\.2\.\nRemove it"),
        ({"settings": ({"dropout": 0.0},)}, r"was measured with candidates=.*\nRemove it"),
        ({"defaults": {"hidden": 9, "features": "unit-l2"}}, r"measured with features=unit-sum; now it is unit-l2"),
    ],
)
def test_a_finished_cell_of_other_settings(
    whole: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], message: str
) -> None:
    monkeypatch.setitem(SYSTEMS, "searched", replace(SEARCHED, **changes))  # type: ignore[arg-type]
    with pytest.raises(DataError, match=message):
        run_cell(small_cell(), whole, progress=False)


def test_a_finished_cell_of_another_schedule_or_protocol(whole: Path) -> None:
    with pytest.raises(DataError, match=r"was measured with another number of splits or epochs .*\n.*give --quick"):
        run_cell(replace(small_cell(), schedule=Schedule({})), whole, progress=False)
    with pytest.raises(DataError, match="was measured with protocol=geom-gcn; now it is random-60"):
        run_cell(replace(small_cell(), protocol="random-60"), whole, progress=False)


@pytest.mark.parametrize("where", ["candidates.json", "runs"])
def test_an_unfinished_cell_of_other_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    """The file or folder that holds what was begun is named, so that it can be removed."""
    interrupt_after_a_run(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        run_cell(small_cell(), tmp_path, progress=False)
    if where == "runs":
        (tmp_path / "systems" / ".texas-searched" / "candidates.json").unlink()
    monkeypatch.setitem(
        SYSTEMS,
        "searched",
        replace(SEARCHED, program={**SEARCHED.program, "weight_decay": 0.01}),  # type: ignore[arg-type]
    )
    with pytest.raises(
        DataError, match=rf"{where} was measured with weight_decay=0\.0005; now it is 0\.01.\nRemove it"
    ):
        run_cell(small_cell(), tmp_path, progress=False)


def test_an_unfinished_search_of_another_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched_search(monkeypatch, interrupted_at=2)
    with pytest.raises(KeyboardInterrupt):
        run_cell(small_cell(), tmp_path, progress=False)
    monkeypatch.setattr(searched, "SEARCH_EPOCHS", 5)
    with pytest.raises(DataError, match=r"candidates\.json was measured with search_epochs=\d+; now it is 5"):
        run_cell(small_cell(), tmp_path, progress=False)


def test_a_shortened_cell(tmp_path: Path) -> None:
    cell = replace(small_cell(), schedule=Schedule({"epochs": 2}, splits=2, search_splits=1))
    result = measured(cell, tmp_path)
    assert result["shortened"] == {"options": {"epochs": 2}, "splits": 2, "search_splits": 1}
    assert result["recipe"]["epochs"] == 2
    assert [run["epochs"] for run in result["runs"]] == [2, 2]


def test_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert small_cell().quick().schedule == Schedule({"epochs": 3}, splits=2, search_splits=1)
    monkeypatch.setitem(SYSTEMS, "searched", replace(SEARCHED, program={"pretrain_epochs": 400}))  # type: ignore[arg-type]
    assert small_cell().quick().schedule.options == {"epochs": 3, "pretrain_epochs": 2}
