"""The race: entries of the portfolio trained one after another on the same splits, within a time budget."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.selection.clock import Clock, show_seconds
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry, has_non_local_version, non_local_entries
from nlgnn.training.fit import Watch, predict
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Replica, Run

TRIAL_EPOCHS = 5  # after which the time of a training is estimated
REPORT_PREDICTIONS = 2.0  # predictions of the report, in multiples of those of all runs
Trial = tuple[partial[Any], Recipe, Sequence[Run]]
Trainer = Callable[[Entry, Watch], Trial]


class OutOfTimeError(NlgnnError):
    """A training that cannot finish within the budget."""


class TimeLimit:
    """Watch of a training that ends it where it cannot finish in time.

    After a few epochs, or after the first run of a model without gradient training, the whole time is estimated. A
    training of all splits at once that runs out of time ends with the best epochs so far.

    Args:
        clock: The clock of the race.
        runs: The number of runs.
        enforced: False for a training that must finish, because nothing else has.
    """

    def __init__(self, clock: Clock, runs: int, enforced: bool) -> None:
        self.clock, self.runs, self.enforced = clock, runs, enforced
        self.begun = self.first_epoch = time.monotonic()
        self.calls = self.at_once = 0
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
            raise OutOfTimeError(f"out of time after {show_seconds(elapsed)}", "")
        self.remark = f"out of time at epoch {replicas[0].epoch}"
        for replica in replicas:
            replica.dropped = True


def expected_epochs(recipe: Recipe) -> int:
    """Return the number of epochs after which most trainings stop."""
    most = recipe.pretrain_epochs + recipe.epochs
    if recipe.stopping == "never":
        return most
    return min(most, recipe.epochs // 2 if recipe.stopping == "window" else 2 * recipe.patience)


def out_of_time(needed: float, left: float) -> OutOfTimeError:
    """Return the error for a training that would take too long."""
    return OutOfTimeError(f"would take about {show_seconds(needed)}, {show_seconds(left)} left", "")


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
    show: Callable[[Row], object] = lambda row: None,
) -> None:
    """Train entries in order, then the non-local version of the best local model with its control.

    Entries that the leaderboard has already are not trained again.

    Args:
        entries: The entries of the portfolio.
        graph: The graph.
        runs: The number of runs of each entry.
        board: The leaderboard, to which rows are added.
        clock: The clock. Without time, only the first entry that works is trained.
        train: Trains an entry.
        options: Options that the user gave, for the non-local version.
        controls: If True, the non-local version is also trained with a random order.
        show: Called with every new row.
    """

    def enter(entry: Entry) -> None:
        if entry.name not in board:
            board.add(outcome(entry, graph, runs, board, clock, train), clock.used)
            best = board.best
            clock.report = REPORT_PREDICTIONS * runs * (best.predict_seconds or 0.0) if best else 0.0
            show(board.rows[-1])

    clock.later = graph.num_edges > 0
    for entry in entries:
        enter(entry)
    clock.later = False
    local = board.ranked(lambda row: has_non_local_version(row.entry))
    for entry in non_local_entries(local[0].entry, options, controls) if local else []:
        enter(entry)


def outcome(entry: Entry, graph: Graph, runs: int, board: Leaderboard, clock: Clock, train: Trainer) -> Row:
    """Train an entry if it applies and if there is time, and return its row."""
    why = entry.why_not(graph)
    like = board.row(entry.like)
    needed = entry.times * like.fit_seconds if like and like.fit_seconds else 0.0
    something = board.best is not None
    if why is None and something and needed >= clock.left:
        why = "no time is left" if clock.left <= 0 else out_of_time(needed, clock.left).what
    if why is not None:
        return Row(entry, "not started", why)
    limit, started = TimeLimit(clock, runs, enforced=something), time.perf_counter()
    try:
        factory, recipe, found = train(entry, limit)
        seconds = time.perf_counter() - started
        good = [run for run in found if run.failure is None]
        started = time.perf_counter()
        predict(factory, graph, good[:1], recipe)
    except RunFolderError:
        raise
    except OutOfTimeError as error:
        return Row(entry, "stopped", error.what)
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


def peak_memory() -> float | None:
    """Return the largest memory of this process so far in MiB, or None where the system does not tell."""
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
