"""The race: entries of the portfolio trained one after another on the same splits, within a time budget."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from nlgnn.errors import NlgnnError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.selection.clock import Clock
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry, has_non_local_version, is_random, non_local_entries
from nlgnn.selection.time_limit import OutOfTimeError, TimeLimit, out_of_time
from nlgnn.shallow.base import watched_fits
from nlgnn.training.fit import Watch, predict
from nlgnn.training.trained import ENSEMBLE, Member

ENTRY_SHARE = 0.1  # of the budget for an entry at first; the rest of its runs are trained if it is among the best
# The most that the first run of an entry takes: a share of the time that is left. An entry that is always trained may
# also take a share of the budget, as long as no more is left than that.
LEFT_SHARE, ALWAYS_SHARE = 0.5, 0.05
SEEDED, MOST_SEEDS = 3, 2  # the best entries, and how often each is repeated with another seed
REPORT_PREDICTIONS = 2.0  # predictions of the report, in multiples of those of all runs
# Number of members of an ensemble for whose predictions time is kept: that of the smallest measured ensemble
# (results/auto: 4 to 16). A larger one is left out if there is no time for it.
MEMBERS = 4
Trainer = Callable[[Entry, Watch], Member]


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
    ensemble: bool = False,
    seeds: bool = False,
    show: Callable[[Row], object] = lambda row: None,
) -> None:
    """Train entries in order, then the non-local version of the best local model with its control.

    At first an entry takes a share of the budget. One that takes longer is trained on some of the splits, on which it
    is compared with the others. Then the best of them are trained on the rest. Time that is left after that goes to
    entries that had none before and, if asked for, to other seeds of the best.

    Entries that the leaderboard has already are not trained again. If it has a folder, several processes share the
    entries: each is trained by one of them, and the others take its row over.

    Args:
        entries: The entries of the portfolio.
        graph: The graph.
        runs: The number of runs of each entry.
        board: The leaderboard, to which rows are added.
        clock: The clock. Without time, only entries that are always trained and the first that works are trained.
        train: Trains an entry. It is called again for the runs of an entry that were postponed.
        options: Options that the user gave, for the non-local version.
        controls: If True, the non-local version is also trained with a random order.
        ensemble: If True, time is kept for the predictions of an ensemble.
        seeds: If True, the best models are repeated with other seeds, as members of an ensemble.
        show: Called with every new row.
    """

    def add(row: Row) -> None:
        board.add(row, clock.used)
        best = board.ranked(may_be_member)[: MEMBERS if ensemble else 1]
        clock.report = seconds_of_report(best, max((row.runs for row in best), default=0))
        show(row)

    def is_time() -> bool:
        return clock.left > 0

    def enter(entry: Entry, again: bool = False, wait: Callable[[], bool] = is_time) -> bool:
        """Train an entry; return False if another process still trains it."""
        with board.turn(entry, wait) as ours:
            if ours and (entry.name not in board or (again and had_no_time(entry, graph, board, clock))):
                add(outcome(entry, graph, runs, board, clock, train, whole=again))
            return ours

    def complete(most: int) -> None:
        """Train postponed runs of the best entries until so many of them have all runs."""
        tried = set[str]()
        while True:
            best = board.ranked(lambda row: row.entry.model != ENSEMBLE)[:most]
            row = next((row for row in best if row.postponed and row.entry.name not in tried), None)
            if row is None:
                return
            tried.add(row.entry.name)
            clock.report = max(clock.report, seconds_of_report([row], runs))
            with board.turn(row.entry, is_time) as ours:
                row = board.row(row.entry.name) or row  # another process may have trained them meanwhile
                if ours and row.postponed and row.seconds_per_run < clock.left:
                    found = outcome(row.entry, graph, runs, board, clock, train, row.postponed)
                    if found.status == "finished":
                        add(joined(row, found))

    clock.prepared()
    clock.later = True
    for entry in [entry for entry in entries if not enter(entry, wait=lambda: False)]:
        enter(entry)
    clock.later = False
    complete(1)
    local = board.ranked(lambda row: row.entry.is_single and has_non_local_version(row.entry))
    for entry in non_local_entries(local[0].entry, options, controls) if local else []:
        enter(entry)
    for entry in entries:
        if had_no_time(entry, graph, board, clock):
            enter(entry, again=True)
    complete(1)
    complete(len(board.rows))
    best = board.ranked(lambda row: row.entry.is_single and is_random(row.entry))[: SEEDED if seeds else 0]
    for number in range(1, MOST_SEEDS + 1):
        for row in best:
            if row.is_complete and (row.fit_seconds or 0.0) < clock.left:
                enter(row.entry.with_seed(number, runs))


def may_be_member(row: Row) -> bool:
    """Return whether a row may be a member of an ensemble: it is neither a control nor an ensemble."""
    return row.entry.model != ENSEMBLE and not row.entry.control


def seconds_of_report(members: Sequence[Row], runs: int) -> float:
    """Return about how long predictions and report take of some runs of an entry, or of the members of an ensemble."""
    times = REPORT_PREDICTIONS + (len(members) > 1)
    return times * runs * sum(row.predict_seconds or 0.0 for row in members)


def joined(before: Row, after: Row) -> Row:
    """Return a row with the seconds and the memory of both trainings of an entry."""
    memory = [row.memory_mib for row in (before, after) if row.memory_mib is not None]
    seconds = (before.fit_seconds or 0.0) + (after.fit_seconds or 0.0)
    return replace(after, fit_seconds=seconds, memory_mib=max(memory, default=None))


def had_no_time(entry: Entry, graph: Graph, board: Leaderboard, clock: Clock) -> bool:
    """Return whether an entry was not trained for lack of time, of which there is enough now."""
    row = next((row for row in board.rows if row.entry.name == entry.name), None)
    if row is None or row.status not in ("stopped", "not started") or entry.why_not(graph) is not None:
        return False
    return clock.left > (row.needed_seconds or expected_seconds(entry, board))


def expected_seconds(entry: Entry, board: Leaderboard) -> float:
    """Return about how long a run takes, from the time of the entry that it is like; 0 if that is unknown."""
    like = next((row for row in board.rows if row.entry.name == entry.like), None)
    return entry.times * like.seconds_per_run if like else 0.0


def outcome(
    entry: Entry,
    graph: Graph,
    runs: int,
    board: Leaderboard,
    clock: Clock,
    train: Trainer,
    missing: int | None = None,
    whole: bool = False,
) -> Row:
    """Train an entry if it applies and if there is time, and return its row.

    Args:
        entry: The entry.
        graph: The graph.
        runs: The number of runs.
        board: The leaderboard.
        clock: The clock.
        train: Trains the entry.
        missing: The number of runs that are not finished, for an entry of which some are.
        whole: If True, the entry may take all the time that is left, not only a share of it.
    """
    why = entry.why_not(graph)
    needed = expected_seconds(entry, board) if missing is None else 0.0
    something, always = board.best is not None, entry.always and missing is None
    whole = whole or missing is not None or clock.budget is None
    most = math.inf if whole else LEFT_SHARE * clock.left
    if why is None and something and needed >= min(most, clock.left) and not always:
        why = out_of_time(needed, clock.left).what
    if why is not None:
        return Row(entry, "not started", why, needed_seconds=needed or None)
    until = None
    if always:
        spare = min(ALWAYS_SHARE * (clock.budget or 0.0), (clock.budget or math.inf) - clock.used)
        until = time.monotonic() + max(LEFT_SHARE * clock.left, spare, 0.0)
    allowance = math.inf if whole else ENTRY_SHARE * (clock.budget or math.inf)
    limit = TimeLimit(clock, missing or runs, something, until, allowance, most, shortened=missing is None)
    started = time.perf_counter()
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
    trained = {run.index: run for run in found if not run.is_postponed}
    postponed = runs - len(trained)
    partly = f"{len(trained)} of {runs} runs: no time for the others" if postponed else ""
    failure = next((run.failure for run in trained.values() if run.failure), "")
    return Row(
        entry,
        "finished",
        failure or "; ".join(filter(None, [limit.remark, partly])),
        [trained[index].val if index in trained else {} for index in range(runs)],
        [trained[index].test if index in trained else {} for index in range(runs)],
        seconds,
        time.perf_counter() - started,
        peak_memory(),
        postponed=postponed,
    )


def reset_peak_memory() -> None:
    """Let `peak_memory` measure from now on, where the system can (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", "utf-8")


def peak_memory() -> float | None:
    """Return the largest memory of this process since the reset in MiB, or None where the system does not tell.

    Systems without a reset measure from the start of the process.
    """
    with suppress(OSError):
        found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("utf-8"))
        if found:
            return int(found[1]) / 2**10
    if sys.platform == "win32":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)
