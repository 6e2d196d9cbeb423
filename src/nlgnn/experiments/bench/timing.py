"""Sides that are timed in turn: A B A B ..., warm-up excluded, compared round by round."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator, Mapping
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch

Clock = Callable[[], float]
Side = Callable[[], float]  # does its work once and says how many seconds that took

MIN_ROUNDS = 5


@contextlib.contextmanager
def threads_in_use(threads: int) -> Iterator[None]:
    """Let torch use so many CPU threads, and as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Quartiles(NamedTuple):
    low: float
    median: float
    high: float


def quartiles(values: list[float]) -> Quartiles:
    return Quartiles(*(float(value) for value in np.percentile(values, [25, 50, 75])))


def paired_ratio(numerators: list[float], denominators: list[float]) -> Quartiles:
    """Of the ratios of each round: what slows a whole round down, slows both sides."""
    return quartiles([a / b for a, b in zip(numerators, denominators, strict=True)])


def stopwatch(work: Callable[[], object], seconds: float = 0.0, clock: Clock = time.perf_counter) -> Side:
    """A side that works once or, where that is short, again and again for so many seconds, and tells the mean."""
    return lambda: _mean_time(work, seconds, math.inf, clock)


def sampled(work: Callable[[], object], total: int, seconds: float, clock: Clock = time.perf_counter) -> Side:
    """A side too long to wait for: as many of its equal pieces as `seconds` allow, scaled up to `total` of them."""
    return lambda: _mean_time(work, seconds, total, clock) * total


def _mean_time(work: Callable[[], object], seconds: float, at_most: float, clock: Clock) -> float:
    started, done = clock(), 0
    while done == 0 or (done < at_most and clock() - started < seconds):
        work()
        done += 1
    return (clock() - started) / done


def side_by_side(
    sides: Mapping[str, Side],
    rounds: int,
    seconds: float = math.inf,
    warm_up: int = 2,
    clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
    """The times of every side, one a round.

    Args:
        rounds: at most so many.
        seconds: no round begins after so long, once there are `MIN_ROUNDS`.
        warm_up: rounds before, which are not kept.
    """
    for _ in range(warm_up):
        for side in sides.values():
            side()
    times: dict[str, list[float]] = {name: [] for name in sides}
    started = clock()
    for done in range(rounds):
        if done >= MIN_ROUNDS and clock() - started > seconds:
            break
        for name, side in sides.items():
            times[name].append(side())
    return times


def compare(times: Mapping[str, list[float]], protocol: str) -> dict[str, Any]:
    """A result, to be written: the first side is ours, and a ratio says how many times as long another one takes."""
    ours, *others = times
    return {
        "seconds": {name: quartiles(values)._asdict() for name, values in times.items()},
        "means": {name: fmean(values) for name, values in times.items()},
        "ratios": {name: paired_ratio(times[name], times[ours])._asdict() for name in others},
        "rounds": len(times[ours]),
        "threads": torch.get_num_threads(),
        "protocol": protocol,
    }
