"""Timing of sides in turn (A B A B ...), compared round by round, and the machine that it happens on."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import metadata
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
import torch

from nlgnn import __version__
from nlgnn.training.device import CORES, processor, text_of

Clock = Callable[[], float]
Side = Callable[[], float]  # does its work once and returns the seconds

MIN_ROUNDS = 5
GIB = 1024**3
LARGE_GRAPH_THREADS = min(2, CORES)


@contextlib.contextmanager
def threads_in_use(threads: int) -> Iterator[None]:
    """Set the number of CPU threads of torch, and restore it afterwards."""
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
    """Return the quartiles of the ratios of each round. Whatever slows a round down slows both sides."""
    return quartiles([a / b for a, b in zip(numerators, denominators, strict=True)])


def stopwatch(work: Callable[[], object], seconds: float = 0.0, clock: Clock = time.perf_counter) -> Side:
    """Return a side that works once, or repeatedly for some seconds, and gives the mean time."""
    return lambda: _mean_time(work, seconds, math.inf, clock)


def sampled(work: Callable[[], object], total: int, seconds: float, clock: Clock = time.perf_counter) -> Side:
    """Return a side that runs equal pieces for some seconds and scales the time up to `total` pieces."""
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
    """Return the times of every side, one per round.

    Args:
        sides: The sides by name.
        rounds: The largest number of rounds.
        seconds: The time after which no round begins, once there are `MIN_ROUNDS`.
        warm_up: The number of rounds before, which are not kept.
        clock: Returns the time in seconds.
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
    """Return a result to be written. The first side is ours; ratios are those of the others to it."""
    ours, *others = times
    return {
        "seconds": {name: quartiles(values)._asdict() for name, values in times.items()},
        "means": {name: fmean(values) for name, values in times.items()},
        "ratios": {name: paired_ratio(times[name], times[ours])._asdict() for name in others},
        "rounds": len(times[ours]),
        "threads": torch.get_num_threads(),
        "protocol": protocol,
    }


def environment() -> dict[str, Any]:
    """Return date, machine, load and versions, which are part of every result."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": CORES,
        "load": round(os.getloadavg()[0], 2)
        if hasattr(os, "getloadavg")
        else None,  # of the minute before: what else the machine was doing
        "versions": {
            "nlgnn": __version__,
            "torch": torch.__version__,
            "torch_geometric": next((d.version for d in metadata.distributions(name="torch_geometric")), None),
            "python": platform.python_version(),
        },
    }


QUIET = 0.25  # cores in use by other processes, up to which a result is one of a quiet machine
TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


class Usage(NamedTuple):
    """Seconds since some moment: on the clock, of all cores in use, and of this process with its children."""

    clock: float
    machine: float
    own: float


def usage() -> Usage | None:
    """Return the seconds used so far, or None where the system does not count them."""
    found = re.match(r"cpu +(.+)", text_of("/proc/stat"))
    if found is None:
        return None
    user, nice, system, _, _, interrupts, soft, *_ = (int(part) / TICKS for part in found[1].split())
    times = os.times()
    own = times.user + times.system + times.children_user + times.children_system
    return Usage(time.perf_counter(), user + nice + system + interrupts + soft, own)


def cores_of_others(before: Usage | None, after: Usage | None) -> float | None:
    """Return the mean number of cores that other processes used between two moments."""
    if before is None or after is None or after.clock <= before.clock:
        return None
    used = (after.machine - before.machine) - (after.own - before.own)
    return round(max(0.0, used / (after.clock - before.clock)), 2)


def others_during(result: Mapping[str, Any]) -> float | None:
    """Return the cores that others used while a result was measured; for older results, estimate it from the load."""
    if "cores of others" in result:
        found: float | None = result["cores of others"]
        return found
    load = result.get("load")
    return None if load is None else max(0.0, load - result["threads"])


def is_quiet(result: Mapping[str, Any]) -> bool:
    """Return whether a result is known to be measured on a quiet machine."""
    others = others_during(result)
    return others is not None and others <= QUIET


def peak_memory() -> int:
    """Return the peak memory of this process in bytes. On Linux `ru_maxrss` of a child includes that of its parent."""
    found = re.search(r"VmHWM:\s*(\d+) kB", text_of("/proc/self/status"))
    if found:
        return int(found[1]) * 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_machine(threads: int, megabytes: int, width: int, repetitions: int) -> dict[str, Any]:
    """Measure memory bandwidth as STREAM does, and the rate of float32 matrix products.

    Args:
        threads: The number of threads.
        megabytes: The size of one array, far larger than the cache.
        width: The width of the square matrices.
        repetitions: The number of repetitions, of which medians are taken.
    """
    count = megabytes * 2**20 // 4
    a, b, c = torch.zeros(count), torch.ones(count), torch.ones(count)
    square = torch.rand(width, width)
    tall, narrow = torch.rand(count // 1024, 256), torch.rand(256, 48)  # as a first layer of dense features
    works: dict[str, tuple[Callable[[], object], int, str]] = {
        "copy": (lambda: a.copy_(b), 2 * 4 * count, "GB/s"),
        "triad": (lambda: torch.add(b, c, alpha=3.0, out=a), 3 * 4 * count, "GB/s"),
        "square product": (lambda: square @ square, 2 * width**3, "GFLOP/s"),
        "tall product": (lambda: tall @ narrow, 2 * tall.numel() * 48, "GFLOP/s"),
    }
    rates = {}
    with threads_in_use(threads):
        for name, (work, amount, unit) in works.items():
            work()
            times = [stopwatch(work)() for _ in range(repetitions)]
            rates[f"{name}, {unit}"] = round(amount / quartiles(times).median / 1e9, 2)
    return {
        "rates": rates,
        "threads": threads,
        "protocol": f"Medians of {repetitions}; arrays of {megabytes} MiB, square matrices of {width} rows, "
        f"a tall one of {len(tall)} × 256 times 256 × 48; float32",
    }
