"""Timing, by a clock that goes on only when work is done."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from benchmarks.timing import (
    MIN_ROUNDS,
    Quartiles,
    Usage,
    compare,
    cores_of_others,
    paired_ratio,
    quartiles,
    sampled,
    side_by_side,
    stopwatch,
    threads_in_use,
    usage,
)


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def work(self, *seconds: float) -> Callable[[], None]:
        """Takes these seconds, call after call, and the last of them from then on."""
        left = list(seconds)

        def work() -> None:
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return work


def test_sides_take_turns_and_warm_up_is_not_kept() -> None:
    clock, order = FakeClock(), []

    def side(name: str, *seconds: float) -> Callable[[], float]:
        timed = stopwatch(clock.work(*seconds), clock=clock)

        def noting() -> float:
            order.append(name)
            return timed()

        return noting

    sides = {"A": side("A", 90, 70, 1, 2, 3), "B": side("B", 80, 60, 4, 5, 6)}
    assert side_by_side(sides, rounds=3, warm_up=2, clock=clock) == {"A": [1, 2, 3], "B": [4, 5, 6]}
    assert order == ["A", "B"] * 5


@pytest.mark.parametrize(("seconds", "rounds"), [(0, MIN_ROUNDS), (14.5, 8), (1000, 10)])
def test_no_round_begins_after_so_many_seconds(seconds: float, rounds: int) -> None:
    clock = FakeClock()
    side = stopwatch(clock.work(1), clock=clock)
    times = side_by_side({"A": side, "B": side}, rounds=10, seconds=seconds, warm_up=50, clock=clock)
    assert [len(values) for values in times.values()] == [rounds, rounds]


def test_quartiles() -> None:
    assert quartiles([5, 1, 3, 2, 4]) == Quartiles(2, 3, 4)
    assert quartiles([7]) == Quartiles(7, 7, 7)


def test_ratio_is_taken_round_by_round() -> None:
    assert paired_ratio([2, 2, 40], [1, 2, 4]) == Quartiles(1.5, 2, 6)  # of the medians it would be 1
    with pytest.raises(ValueError, match="shorter"):
        paired_ratio([1, 2], [1])


def test_short_work_is_repeated() -> None:
    clock = FakeClock()
    side = stopwatch(clock.work(1, 3, 2, 2, 7), seconds=3.5, clock=clock)
    assert [side(), side(), side()] == [2, 2, 7]


def test_sample_is_scaled_up_and_goes_on() -> None:
    clock = FakeClock()
    side = sampled(clock.work(1, 3, 2, 2, 2, 9), total=10, seconds=3.5, clock=clock)
    assert side() == (1 + 3) / 2 * 10
    assert side() == (2 + 2) / 2 * 10
    assert side() == (2 + 9) / 2 * 10


def test_sample_is_at_least_one_piece_and_at_most_the_whole() -> None:
    clock = FakeClock()
    assert sampled(clock.work(2, 9), total=5, seconds=0, clock=clock)() == 10
    assert sampled(clock.work(1, 1, 1, 9), total=3, seconds=100, clock=clock)() == 3


def test_comparison() -> None:
    result = compare({"ours": [1.0, 1.0], "a": [4.0, 2.0], "b": [1.0, 1.0]}, "how")
    assert result["seconds"]["a"] == {"low": 2.5, "median": 3, "high": 3.5}
    assert result["ratios"] == {
        "a": {"low": 2.5, "median": 3, "high": 3.5},
        "b": {"low": 1, "median": 1, "high": 1},
    }
    assert (result["means"]["a"], result["rounds"], result["protocol"]) == (3, 2, "how")
    assert result["threads"] == torch.get_num_threads()


def test_threads_are_given_back() -> None:
    before = torch.get_num_threads()

    def interrupted() -> None:
        with threads_in_use(before + 1):
            assert torch.get_num_threads() == before + 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.get_num_threads() == before


def test_cores_of_others() -> None:
    """Ten seconds, in which all processes used 16 seconds, and this one 9 of them."""
    before = Usage(100.0, 1000.0, 50.0)
    assert cores_of_others(before, Usage(110.0, 1016.0, 59.0)) == 0.7
    assert cores_of_others(before, Usage(110.0, 1008.0, 59.0)) == 0  # coarse ticks
    assert cores_of_others(None, before) is None
    assert cores_of_others(before, before) is None


def test_usage_counts_own_work() -> None:
    before = usage()
    if before is None:
        pytest.skip("the system does not count CPU time")
    sum(range(10**6))
    after = usage()
    assert after is not None
    assert after.clock > before.clock
    assert after.machine >= before.machine > 0
    assert after.own >= before.own > 0
