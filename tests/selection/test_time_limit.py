"""Time limits of the trainings of a race."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from experiment_samples import Countdown
from nlgnn.selection.time_limit import TRIAL_EPOCHS, OutOfTimeError, TimeLimit, expected_epochs
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run


def test_number_of_runs_that_there_is_time_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of models that are trained at once, the first are kept; of others, as many as fit into the allowance."""
    now = 100.0
    monkeypatch.setattr("nlgnn.selection.time_limit.time.monotonic", lambda: now)
    recipe = Recipe(epochs=105, stopping="never")

    def kept(limit: TimeLimit, step: float) -> int:
        nonlocal now
        replicas: Any = [
            SimpleNamespace(run=Run(index, index, "random-60", index), recipe=recipe, epoch=1) for index in range(10)
        ]
        for _ in range(TRIAL_EPOCHS):
            limit(replicas)
            now += step
        return sum(replica.run.failure is None for replica in replicas)

    assert kept(TimeLimit(Countdown(1000), 10, True, allowance=100), 0.5) == 10
    assert kept(TimeLimit(Countdown(1000), 10, True, allowance=60), 1.0) == 5  # 10 s per run, after 4 s
    assert kept(TimeLimit(Countdown(1000), 10, True, allowance=20), 1.0) == 3
    assert kept(TimeLimit(Countdown(1000), 10, True, allowance=2, most=30), 1.0) == 1
    with pytest.raises(OutOfTimeError, match="a run would take about 14 s, 17 min left"):
        kept(TimeLimit(Countdown(1000), 10, True, allowance=2, most=9), 1.0)
    with pytest.raises(OutOfTimeError):
        kept(TimeLimit(Countdown(9), 10, True), 1.0)

    limit = TimeLimit(Countdown(1000), 10, True, allowance=20)
    now += 12  # preparation
    assert not limit.within_run(0.0)
    for seconds in (3, 10, 10):  # the second and the third run may take 40 s together
        now += seconds
        limit([]) if now - limit.begun < 35 else None
    with pytest.raises(OutOfTimeError):
        limit([])
    prepared = TimeLimit(Countdown(1000), 10, True, most=9)
    now += 8
    assert not prepared.within_run(None)
    assert prepared.first_step is None
    now += 2
    with pytest.raises(OutOfTimeError):
        prepared.within_run(None)
    late = TimeLimit(Countdown(9, -1), 3, True)
    now += 1
    with pytest.raises(OutOfTimeError, match="no time is left"):
        [late([]) for _ in range(2)]


def test_a_run_that_would_take_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time of a run without gradients is estimated from its steps, without what comes before the first one."""
    now = 100.0
    monkeypatch.setattr("nlgnn.selection.time_limit.time.monotonic", lambda: now)
    limit = TimeLimit(Countdown(8), runs=2, enforced=True)
    now = 110.0  # preparation
    assert not limit.within_run(0.0)
    now = 111.0
    with pytest.raises(OutOfTimeError, match="would take about 20 s"):  # 11 s until now, 9 s for the rest
        limit.within_run(0.1)
    assert not TimeLimit(Countdown(30), runs=1, enforced=True).within_run(0.1)
    assert not TimeLimit(Countdown(-1), runs=1, enforced=False).within_run(0.1)
    with pytest.raises(OutOfTimeError):
        TimeLimit(Countdown(-1), runs=1, enforced=True).within_run(0.9)


def test_expected_epochs() -> None:
    assert expected_epochs(Recipe(epochs=100, stopping="never")) == 100
    assert expected_epochs(Recipe(epochs=1000, stopping="patience", patience=60)) == 120
    assert expected_epochs(Recipe(epochs=100, stopping="patience", patience=60)) == 100
