"""Number of CPU threads of a training: timed at its start on graphs where more than one can pay, and watched later."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import median

import torch

from nlgnn.errors import NlgnnWarning
from nlgnn.graph.graph import Graph
from nlgnn.training.device import stored_entries

Clock = Callable[[], float]

MEASURED_FROM = 500_000  # stored entries (edges and feature values); a step on a smaller graph is too short to divide
MEASURED_STEPS = 50  # a training of fewer steps ends before the measurement has paid
WARM_UP, ROUNDS, SECONDS = 1, 3, 20.0
PACE_EPOCHS, SLOWER = 10, 3.0


def can_matter(graph: Graph, steps: int) -> bool:
    """Return whether a training is long enough, on a graph that is large enough, to measure threads first."""
    return stored_entries(graph) >= MEASURED_FROM and steps >= MEASURED_STEPS


def choose_threads(
    graph: Graph,
    steps: int,
    make_step: Callable[[], Callable[[], object]],
    most: int,
    before: Sequence[Mapping[str, int]],
) -> None:
    """Set the number of threads of a training: that of before if it is resumed, else the faster one if it can matter.

    Args:
        graph: The graph.
        steps: The number of steps of the whole training.
        make_step: Makes a training step that leaves the training as it is.
        most: The largest number of threads.
        before: How the training was executed before it was interrupted, as the run folder has it.
    """
    if before:
        torch.set_num_threads(min(most, before[-1]["threads"]))
    elif most > 1 and can_matter(graph, steps):
        torch.set_num_threads(fastest_threads(make_step(), most))


def fastest_threads(step: Callable[[], object], most: int, clock: Clock | None = None, seconds: float = SECONDS) -> int:
    """Return the faster number of threads for a step: one or `most`.

    Both take turns, so that a process that comes or goes slows both. If another process takes part of a core, several
    threads can be many times as slow as one, because each operation waits for the thread that lost its core.

    Args:
        step: Does one training step.
        most: The largest number of threads.
        clock: Returns the time in seconds; by default `time.perf_counter`.
        seconds: The time after which no round begins, once there is one that counts.

    Returns:
        The number with the shorter median time; one if both take the same.
    """
    clock = clock or time.perf_counter
    times: dict[int, list[float]] = {1: [], most: []}
    started, before = clock(), torch.get_num_threads()
    try:
        for number in range(WARM_UP + ROUNDS):
            if number > WARM_UP and clock() - started > seconds:
                break
            for threads, found in times.items():
                torch.set_num_threads(threads)
                begun = clock()
                step()
                found.append(clock() - begun)
    finally:
        torch.set_num_threads(before)
    return min(times, key=lambda threads: median(times[threads][WARM_UP:]))


class Pace:
    """The time per epoch of a training on several threads; it warns once if epochs become much slower.

    Args:
        threads: The number of threads. With one, nothing is watched.
        clock: Returns the time in seconds; by default `time.perf_counter`.
    """

    def __init__(self, threads: int, clock: Clock | None = None) -> None:
        self.threads, self.clock = threads, clock or time.perf_counter
        self._first: list[float] = []
        self._recent: deque[float] = deque(maxlen=PACE_EPOCHS)
        self._phase: Hashable = None
        self._last: float | None = None
        self._is_told = threads == 1

    def note(self, phase: Hashable) -> None:
        """Note the end of an epoch. Epochs of different phases, such as pre-training, are not compared."""
        if self._is_told:
            return
        now = self.clock()
        if self._last is None or phase != self._phase:
            self._first, self._phase = [], phase
            self._recent.clear()
        elif len(self._first) < PACE_EPOCHS:
            self._first.append(now - self._last)
        else:
            self._recent.append(now - self._last)
        self._last = now
        if len(self._recent) == PACE_EPOCHS and median(self._recent) > SLOWER * median(self._first):
            self._is_told = True
            what = (
                f"epochs take {median(self._recent) / median(self._first):.0f} times as long as at the start, on "
                f"{self.threads} threads. Another process may use the cores; one thread may be faster: --threads 1."
            )
            warnings.warn(what, NlgnnWarning, stacklevel=2)
