"""The race: entries of the portfolio trained one after another on the same splits, within a time budget."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.selection.clock import Clock, show_seconds
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry, has_non_local_version, is_random, non_local_entries
from nlgnn.shallow.base import watched_fits
from nlgnn.training.fit import Watch, predict
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Replica
from nlgnn.training.trained import Member

TRIAL_EPOCHS = 5  # after which the time of a training is estimated
TRIAL_SECONDS = 0.5  # after which the time of a run without gradient training is estimated
# Time of an entry that is always trained: a share of the time that is left, and at least one of the budget.
LEFT_SHARE, ALWAYS_SHARE = 0.4, 0.1
SEEDED, MOST_SEEDS = 3, 2  # the best entries, and how often each is repeated with another seed
REPORT_PREDICTIONS = 2.0  # predictions of the report, in multiples of those of all runs
Trainer = Callable[[Entry, Watch], Member]


class OutOfTimeError(NlgnnError):
    """A training that cannot finish within the budget.

    Args:
        what: What is wrong.
        needed: The seconds that the training would take, if they are known.
    """

    def __init__(self, what: str, needed: float | None = None) -> None:
        super().__init__(what, "")
        self.needed = needed


class TimeLimit:
    """Watch of a training that ends it where it cannot finish in time.

    After a few epochs, or after the first run of a model without gradient training, the whole time is estimated. A
    training of all splits at once that runs out of time ends with the best epochs so far.

    Args:
        clock: The clock of the race.
        runs: The number of runs.
        enforced: False for a training that must finish, because nothing else has.
        until: For an entry that is always trained: when it must end with what it has, by `time.monotonic`.
    """

    def __init__(self, clock: Clock, runs: int, enforced: bool, until: float | None = None) -> None:
        self.clock, self.runs, self.enforced, self.until = clock, runs, enforced, until
        self.begun = self.first_epoch = self.run_begun = time.monotonic()
        self.calls = self.at_once = 0
        self.first_step: tuple[float, float] | None = None  # when it ended, and the share of the run that was done
        self.remark = ""

    def __call__(self, replicas: Sequence[Replica]) -> None:
        """Note an epoch of the replicas in training, or a finished run if there are none.

        Raises:
            OutOfTimeError: If the training cannot finish in time.
        """
        self.calls += 1
        self.at_once = max(self.at_once, len(replicas))
        if replicas and self.calls == 1:
            self.first_epoch = time.monotonic()  # which takes longer than the others
        if not replicas:
            self.run_begun, self.first_step = time.monotonic(), None
        if self.until is not None:
            if replicas and time.monotonic() > self.until:
                self._end(replicas)
            return
        if not self.enforced:
            return
        steps = expected_epochs(replicas[0].recipe) * -(-self.runs // self.at_once) if replicas else self.runs
        elapsed, left = time.monotonic() - self.begun, self.clock.left
        if self.calls == (TRIAL_EPOCHS if replicas else 1):
            step = (time.monotonic() - self.first_epoch) / (TRIAL_EPOCHS - 1) if replicas else elapsed
            needed = step * max(0, steps - self.calls)
            if needed > left:
                raise out_of_time(elapsed + needed, left)
        if left > 0 or (not replicas and self.calls == self.runs):
            return
        if self.at_once < self.runs:
            raise OutOfTimeError(f"out of time after {show_seconds(elapsed)}")
        self._end(replicas)

    def _end(self, replicas: Sequence[Replica]) -> None:
        self.remark = f"out of time at epoch {replicas[0].epoch}"
        for replica in replicas:
            replica.dropped = True

    def within_run(self, done: float) -> bool:
        """Note the share of a run without gradient training that is done.

        Returns:
            True if the run must end with what it has.

        Raises:
            OutOfTimeError: If the training cannot finish in time.
        """
        now = time.monotonic()
        runs_left = max(1, self.runs - self.calls)
        if self.until is not None:
            if now - self.run_begun > max(0.0, self.until - self.run_begun) / runs_left:
                self.remark = "out of time: some runs ended early"
                return True
        elif self.enforced:
            self.first_step = self.first_step or (now, done)
            since, before = self.first_step
            remaining = (now - since) / (done - before) * (1 - done) if done > before else 0.0
            needed = remaining + (runs_left - 1) * (now - self.run_begun + remaining)
            left = self.clock.left
            if left <= 0 or (now - since > TRIAL_SECONDS and needed > left):
                raise out_of_time(now - self.begun + needed, left)
        return False


def expected_epochs(recipe: Recipe) -> int:
    """Return the number of epochs after which most trainings stop."""
    most = recipe.pretrain_epochs + recipe.epochs
    if recipe.stopping == "never":
        return most
    return min(most, recipe.epochs // 2 if recipe.stopping == "window" else 2 * recipe.patience)


def out_of_time(needed: float, left: float) -> OutOfTimeError:
    """Return the error for a training that would take too long."""
    return OutOfTimeError(f"would take about {show_seconds(needed)}, {show_seconds(left)} left", needed)


def run_race(
    entries: Sequence[Entry],
    graph: Graph,
    runs: int,
    board: Leaderboard,
    clock: Clock,
    train: Trainer,
    options: Mapping[str, Any],
    *,
    controls: bool = False,
    seeds: bool = False,
    show: Callable[[Row], object] = lambda row: None,
) -> None:
    """Train entries in order, then the non-local version of the best local model with its control.

    Time that is left after that goes to entries that had none before and, if asked for, to other seeds of the best.

    Entries that the leaderboard has already are not trained again.

    Args:
        entries: The entries of the portfolio.
        graph: The graph.
        runs: The number of runs of each entry.
        board: The leaderboard, to which rows are added.
        clock: The clock. Without time, only entries that are always trained and the first that works are trained.
        train: Trains an entry.
        options: Options that the user gave, for the non-local version.
        controls: If True, the non-local version is also trained with a random order.
        seeds: If True, the best models are repeated with other seeds, as members of an ensemble.
        show: Called with every new row.
    """

    def enter(entry: Entry, again: bool = False) -> None:
        if again or entry.name not in board:
            board.add(outcome(entry, graph, runs, board, clock, train), clock.used)
            best = board.best
            clock.report = REPORT_PREDICTIONS * runs * (best.predict_seconds or 0.0) if best else 0.0
            show(board.rows[-1])

    clock.later = graph.num_edges > 0
    for entry in entries:
        enter(entry)
    clock.later = False
    local = board.ranked(lambda row: row.entry.is_single and has_non_local_version(row.entry))
    for entry in non_local_entries(local[0].entry, options, controls) if local else []:
        enter(entry)
    for entry in entries:
        if had_no_time(entry, graph, board, clock):
            enter(entry, again=True)
    best = board.ranked(lambda row: row.entry.is_single and is_random(row.entry))[: SEEDED if seeds else 0]
    for number in range(1, MOST_SEEDS + 1):
        for row in best:
            if row.is_complete and (row.fit_seconds or 0.0) < clock.left:
                enter(row.entry.with_seed(number, runs))


def had_no_time(entry: Entry, graph: Graph, board: Leaderboard, clock: Clock) -> bool:
    """Return whether an entry was not trained for lack of time, of which there is enough now."""
    row = next(row for row in board.rows if row.entry.name == entry.name)
    if row.status not in ("stopped", "not started") or entry.why_not(graph) is not None:
        return False
    return clock.left > (row.needed_seconds or expected_seconds(entry, board))


def expected_seconds(entry: Entry, board: Leaderboard) -> float:
    """Return about how long an entry takes, from the time of the one that it is like; 0 if that is unknown."""
    like = next((row for row in board.rows if row.entry.name == entry.like), None)
    return entry.times * (like.fit_seconds or like.needed_seconds or 0.0) if like else 0.0


def outcome(entry: Entry, graph: Graph, runs: int, board: Leaderboard, clock: Clock, train: Trainer) -> Row:
    """Train an entry if it applies and if there is time, and return its row."""
    why = entry.why_not(graph)
    needed = expected_seconds(entry, board)
    something = board.best is not None
    if why is None and something and needed >= clock.left and not entry.always:
        why = "no time is left" if clock.left <= 0 else out_of_time(needed, clock.left).what
    if why is not None:
        return Row(entry, "not started", why, needed_seconds=needed or None)
    until = None
    if entry.always:
        until = time.monotonic() + max(LEFT_SHARE * clock.left, ALWAYS_SHARE * (clock.budget or 0.0))
    limit, started = TimeLimit(clock, runs, something, until), time.perf_counter()
    reset_peak_memory()
    try:
        with watched_fits(limit.within_run):
            factory, recipe, found = train(entry, limit)
        seconds = time.perf_counter() - started
        good = [run for run in found if run.failure is None]
        started = time.perf_counter()
        predict(factory, graph, good[:1], recipe)
    except RunFolderError:
        raise
    except OutOfTimeError as error:
        return Row(entry, "stopped", error.what, needed_seconds=error.needed)
    except (NlgnnError, MemoryError, RuntimeError, ValueError) as error:
        reason = error.what if isinstance(error, NlgnnError) else f"{type(error).__name__}: {error}"
        return Row(entry, "failed", reason.splitlines()[0].rstrip("."))
    return Row(
        entry,
        "finished",
        limit.remark or next((run.failure for run in found if run.failure), ""),
        [run.val for run in found],
        [run.test for run in found],
        seconds,
        time.perf_counter() - started,
        peak_memory(),
    )


def reset_peak_memory() -> None:
    """Let `peak_memory` measure from now on, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> float | None:
    """Return the largest memory of this process since the reset in MiB, or None where the system does not tell.

    Systems without a reset measure from the start of the process.
    """
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
        if found:
            return int(found[1]) / 2**10
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
