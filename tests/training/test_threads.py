"""Threads: the faster number is chosen by a clock that the tests set, kept in the run folder, and watched later."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from nlgnn import Recipe, RunFolder, configure, fit
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.errors import NlgnnWarning
from nlgnn.training import threads
from nlgnn.training.threads import PACE_EPOCHS, Pace, can_matter, fastest_threads

GRAPH = planted_order_graph(60)


class FakeClock:
    """A clock by which a step takes `cost` of the number of threads seconds."""

    def __init__(self, **cost: float) -> None:
        self.now = 0.0
        self.cost = {int(name.removeprefix("on_")): seconds for name, seconds in cost.items()}
        self.steps: list[int] = []

    def __call__(self) -> float:
        return self.now

    def step(self) -> None:
        self.steps.append(torch.get_num_threads())
        self.now += self.cost[self.steps[-1]]


@pytest.mark.parametrize(("one", "two", "expected"), [(2.0, 1.2, 2), (1.0, 16.0, 1), (1.0, 1.0, 1)])
def test_faster_number_is_taken(one: float, two: float, expected: int) -> None:
    before = torch.get_num_threads()
    clock = FakeClock(on_1=one, on_2=two)
    assert fastest_threads(clock.step, 2, clock) == expected
    assert clock.steps[:4] == [1, 2, 1, 2]
    assert torch.get_num_threads() == before


def test_first_steps_and_a_single_slow_one_do_not_count() -> None:
    clock = FakeClock(on_1=2.0, on_2=1.0)
    extra = iter([0.0, 50.0, 0.0, 0.0, 0.0, 40.0])  # the second thread is started, and loses its core once

    def step() -> None:
        clock.step()
        clock.now += next(extra, 0.0)

    assert fastest_threads(step, 2, clock, seconds=1000.0) == 2
    assert clock.steps == [1, 2] * 4


def test_slow_steps_are_timed_once() -> None:
    clock = FakeClock(on_1=100.0, on_2=60.0)
    assert fastest_threads(clock.step, 2, clock) == 2
    assert clock.steps == [1, 2, 1, 2]  # one to warm up, one that counts


def test_small_graphs_and_short_trainings_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not can_matter(GRAPH, 10_000)
    monkeypatch.setattr(threads, "MEASURED_FROM", 10)
    assert can_matter(GRAPH, 10_000)
    assert not can_matter(GRAPH, 10)


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Measure on every graph, with two threads at hand. Return the measurements: each chooses two threads."""
    measured: list[int] = []

    def choose(step: object, most: int) -> int:
        assert callable(step)
        step()
        measured.append(most)
        return 2

    monkeypatch.setattr(threads, "MEASURED_FROM", 10)
    monkeypatch.setattr(threads, "MEASURED_STEPS", 1)
    monkeypatch.setattr(threads, "fastest_threads", choose)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield measured
    torch.set_num_threads(before)


def test_choice_is_kept_and_used_again(tmp_path: Path, two_cores: list[int]) -> None:
    factory, recipe = configure("gcn", GRAPH, epochs=3)
    folder = RunFolder.create(tmp_path / "run", {})
    used: list[int] = []
    fit(factory, GRAPH, "random-60", recipe, folder=folder, watch=lambda _: used.append(torch.get_num_threads()))
    assert (two_cores, set(used)) == ([2], {2})
    assert [entry["threads"] for entry in RunFolder.open(folder.path).execution] == [2]

    class StoppedError(Exception):
        pass

    def stop(_: object) -> None:
        raise StoppedError

    unfinished = RunFolder.create(tmp_path / "other", {})
    with pytest.raises(StoppedError):  # killed in the first epoch, before there is a run or a checkpoint
        fit(factory, GRAPH, "random-60", recipe, folder=unfinished, watch=stop)
    fit(factory, GRAPH, "random-60", recipe, folder=RunFolder.open(unfinished.path))
    assert len(two_cores) == 2  # the resumed training does not measure again


def test_fewer_cores_than_stored(tmp_path: Path, two_cores: list[int]) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    folder.note_execution(10, 64)
    used: list[int] = []
    recipe = Recipe(epochs=1)
    fit("gcn", GRAPH, "random-60", recipe, folder=folder, watch=lambda _: used.append(torch.get_num_threads()))
    assert used == [2]
    assert two_cores == []


def test_given_number_is_not_measured(two_cores: list[int]) -> None:
    used: list[int] = []
    fit("gcn", GRAPH, "random-60", Recipe(epochs=1, threads=1), watch=lambda _: used.append(torch.get_num_threads()))
    assert (used, two_cores) == ([1], [])
    assert torch.get_num_threads() == 2


def test_measuring_changes_no_figure(two_cores: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    def always_one(step: object, most: int) -> int:
        assert callable(step)
        step()
        return 1

    monkeypatch.setattr(threads, "fastest_threads", always_one)
    measured = fit("gcn", GRAPH, "random-60", Recipe(epochs=3))
    given = fit("gcn", GRAPH, "random-60", Recipe(epochs=3, threads=1))
    assert [run.curves for run in measured] == [run.curves for run in given]


def paced(number: int, *seconds: float) -> list[str]:
    """Return the warnings of a training whose epochs take these times."""
    clock = FakeClock()
    pace = Pace(number, clock)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pace.note("training")
        for duration in seconds:
            clock.now += duration
            pace.note("training")
    assert all(one.category is NlgnnWarning for one in told)
    return [str(one.message) for one in told]


def test_slow_epochs_are_told_once() -> None:
    fast, slow = [1.0] * PACE_EPOCHS, [5.0] * PACE_EPOCHS
    (message,) = paced(2, *fast, *slow, *slow)
    assert "5 times" in message
    assert "--threads 1" in message
    assert paced(2, *fast, *fast, *slow[:3], *fast) == []  # a short disturbance
    assert paced(1, *fast, *slow) == []  # nothing to advise
    assert paced(2, *slow, *fast) == []


def test_phases_are_not_compared() -> None:
    clock = FakeClock()
    pace = Pace(2, clock)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for phase, duration in (("pre-training", 1.0), ("training", 9.0)):
            for _ in range(3 * PACE_EPOCHS):
                clock.now += duration
                pace.note(phase)
