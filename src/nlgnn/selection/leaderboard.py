"""The leaderboard of an automatic choice: all entries by validation, as a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, Literal

from pydantic import TypeAdapter

from nlgnn.errors import RunFolderError
from nlgnn.files import claim, wait_for_lock, write_whole
from nlgnn.json_files import read_json
from nlgnn.report.table import Section
from nlgnn.selection.controls import Variant
from nlgnn.selection.portfolio import Entry
from nlgnn.selection.statistics import Figures, common_figures, spread
from nlgnn.training.recipe import metric_heading
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.stored_run import first_fault
from nlgnn.training.train import read_plan, unfinished
from nlgnn.training.trained import ENSEMBLE

SECONDS_BETWEEN_TRIES = 0.5  # to have the turn of another process
JSON_FILE, CSV_FILE = "leaderboard.json", "leaderboard.csv"
Status = Literal["finished", "failed", "stopped", "not started"]


@dataclass(frozen=True)
class Row:
    """An entry and the outcome of its training.

    Args:
        entry: The entry.
        status: finished, failed, stopped or not started.
        reason: The reason for a status other than finished, or a remark.
        validation: Every metric on the validation nodes of each run, in percent; empty for a failed run.
        test: Every metric on the test nodes of each run.
        fit_seconds: Seconds from the start to the end of the training of all runs.
        predict_seconds: Seconds that one model needs to predict all nodes.
        memory_mib: Largest memory of the process during the training, in MiB; None if unknown.
        needed_seconds: Seconds that one run would take, for an entry that had no time; None if unknown.
        postponed: The number of runs for which there was no time.
    """

    entry: Entry
    status: Status
    reason: str = ""
    validation: Sequence[dict[str, float]] = ()
    test: Sequence[dict[str, float]] = ()
    fit_seconds: float | None = None
    predict_seconds: float | None = None
    memory_mib: float | None = None
    needed_seconds: float | None = None
    postponed: int = 0

    def figures(self, metric: str, part: str = "validation") -> Figures:
        """Return a metric of each run; None for a failed run."""
        return [run.get(metric) for run in getattr(self, part)]

    def mean(self, metric: str) -> float:
        """Return the mean of a validation metric over the runs that did not fail."""
        return fmean(value for value in self.figures(metric) if value is not None)

    @property
    def runs(self) -> int:
        """Return the number of runs that have figures."""
        return sum(map(bool, self.validation))

    @property
    def seconds_per_run(self) -> float:
        """Return about how many seconds a run takes, or would take; 0 if unknown."""
        return (self.fit_seconds or 0.0) / max(1, self.runs) or self.needed_seconds or 0.0

    @property
    def has_failed_run(self) -> bool:
        """Return True if a run failed that was trained."""
        return self.runs + self.postponed < len(self.validation)

    @property
    def is_complete(self) -> bool:
        """Return True if all runs have figures."""
        return all(self.validation)


@dataclass
class Leaderboard:
    """The rows of a choice on one graph.

    Args:
        graph: The name of the graph.
        protocol: The name of the split protocol.
        metric: The metric that the choice is made by.
        rows: The rows, in the order of training.
        seconds: Seconds used so far.
        folder: The folder that holds `leaderboard.json` and `leaderboard.csv`; None to write nothing.
    """

    graph: str
    protocol: str
    metric: str
    rows: list[Row] = field(default_factory=list)
    seconds: float = 0.0
    folder: Path | None = None

    def __contains__(self, name: str) -> bool:
        return any(row.entry.name == name for row in self.rows)

    def row(self, name: str) -> Row | None:
        """Return the finished row of an entry, or None."""
        return next((row for row in self.rows if row.entry.name == name and row.status == "finished"), None)

    def add(self, row: Row, seconds: float) -> None:
        """Add a row, or put it in the place of an earlier one of the same entry, and write the files."""
        with nullcontext() if self.folder is None else wait_for_lock(self.folder / f".{JSON_FILE}.lock"):
            self.refresh()
            self._put(row)
            self.seconds = max(seconds, self.seconds)
            self.write()

    def _put(self, row: Row) -> None:
        if row.entry.name in self:
            self.rows = [row if one.entry.name == row.entry.name else one for one in self.rows]
        else:
            self.rows.append(row)

    def refresh(self) -> None:
        """Take over the rows that other processes have written to the folder."""
        written = None if self.folder is None else read_leaderboard(self.folder)
        if written is None:
            return
        self.seconds = max(self.seconds, written.seconds)
        for row in written.rows:
            if row.entry.model != ENSEMBLE:  # each process makes its own
                self._put(row)

    @contextmanager
    def turn(self, entry: Entry, wait: Callable[[], bool]) -> Iterator[bool]:
        """Wait for the turn of this process to train an entry, and take over what others have trained until then.

        The operating system ends the turn of a process that is killed.

        Args:
            entry: The entry.
            wait: Whether to go on waiting for another process that has its turn.

        Returns:
            A context manager that gives False if another process still has its turn.
        """
        if self.folder is None:
            yield True
            return
        while True:
            with claim(self.folder / f".{entry.folder}.lock") as ours:
                if ours:
                    self.refresh()
                if ours or not wait():
                    yield ours
                    return
            time.sleep(SECONDS_BETWEEN_TRIES)

    def ranked(self, keep: Callable[[Row], bool] = lambda row: True) -> list[Row]:
        """Return finished rows, the best validation score first; a row with a failed run comes after the others.

        Of equal rows, the one that was trained first comes first.
        """
        finished = [row for row in self.rows if row.status == "finished" and keep(row)]
        return sorted(finished, key=lambda row: (row.has_failed_run, -self.score(row)))

    def score(self, row: Row) -> float:
        """Return the mean of validation that a row is ranked by.

        A row that had no time for some runs is compared on the others: the score is the mean over all runs of the rows
        with the most runs, plus the mean difference from them on the runs that it has.
        """
        own = row.figures(self.metric)
        finished = [one for one in self.rows if one.status == "finished" and one.entry.model != ENSEMBLE]
        most = max((one.runs for one in finished), default=0)
        if not row.postponed or row.runs >= most:
            return row.mean(self.metric)
        others = [one.figures(self.metric) for one in finished if one.runs == most]
        columns = ([figure for figure in column if figure is not None] for column in zip(*others, strict=True))
        usual = [fmean(column) if column else None for column in columns]
        pairs = common_figures(own, usual)
        if not pairs:
            return row.mean(self.metric)
        return fmean(one for one in usual if one is not None) + fmean(a - b for a, b in pairs)

    @property
    def best(self) -> Row | None:
        """Return the first row that may be chosen, or None."""
        return next(iter(self.ranked(lambda row: row.entry.is_single or row.entry.model == ENSEMBLE)), None)

    def section(self, most: int | None = None) -> Section:
        """Return the leaderboard as a table, or only so many of its best rows, without remarks."""
        ranked = self.ranked()[:most]
        some_runs_are_missing = any(row.postponed for row in ranked)
        rows = [
            {
                "rank": str(rank),
                "model": row.entry.name,
                **({"runs": str(row.runs)} if some_runs_are_missing else {}),
                "validation": str(spread(row.figures(self.metric)) or "–"),
                "test": str(spread(row.figures(self.metric, "test")) or "–"),
                "fit s": _seconds(row.fit_seconds),
                "predict s": _seconds(row.predict_seconds),
            }
            for rank, row in enumerate(ranked, 1)
        ]
        title = f"Leaderboard by {metric_heading(self.metric)}"
        if most is not None:
            return Section(title, rows, "")
        runs = max((len(row.validation) for row in ranked), default=0)
        caption = (
            f"Graph {self.graph}, protocol {self.protocol}, {runs} run{'s' * (runs != 1)} per model on the same "
            "splits: mean ± sample standard deviation. Validation alone decides the rank; the best of many is slightly "
            "optimistic in validation, not in test. fit s: training of all runs; predict s: one model, all nodes."
        )
        if some_runs_are_missing:
            caption += " A model without all runs is ranked by its difference from the others on the runs that it has."
        remarks = [f"{row.entry.name}: {row.reason}." for row in ranked if row.reason]
        left_out: dict[str, dict[str, list[str]]] = {}
        for row in self.rows:
            if row.status != "finished":
                left_out.setdefault(row.status, {}).setdefault(row.reason, []).append(row.entry.name)
        for status, reasons in left_out.items():
            named = "; ".join(f"{'; '.join(names)} ({why})" for why, names in reasons.items())
            remarks.append(f"{status.capitalize()}: {named}.")
        return Section(title, rows, caption, "\n\n".join(remarks), text_columns=2)

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per entry, the best first, with the means of all metrics."""
        ranked = self.ranked()
        found = []
        for rank, row in enumerate([*ranked, *(row for row in self.rows if row not in ranked)], 1):
            shown: dict[str, Any] = {
                "rank": rank if row.status == "finished" else None,
                "name": row.entry.name,
                "model": row.entry.model,
                "status": row.status,
                "reason": row.reason,
                "control": row.entry.control,
                "runs": row.runs,
                "postponed": row.postponed,
            }
            for part in ("validation", "test"):
                for metric in {name: None for run in getattr(row, part) for name in run}:
                    mean = spread(row.figures(metric, part))
                    shown[f"{part} {metric}"] = mean and mean.mean
            times = {name: getattr(row, name) for name in ("fit_seconds", "predict_seconds", "memory_mib")}
            found.append({**shown, **times, "options": row.entry.options})
        return found

    def write(self) -> None:
        """Write both files atomically, if there is a folder."""
        if self.folder is None:
            return
        content = {**asdict(replace(self, folder=None)), "ranked": self.to_dicts()}
        for name, text in ((JSON_FILE, json.dumps(content, indent=2)), (CSV_FILE, csv_text(self.to_dicts()))):
            path = self.folder / name
            try:
                write_whole(path, partial(Path.write_text, data=text, encoding="utf-8"))
            except OSError as error:
                raise unwritable(path, error) from error


BOARD = TypeAdapter(Leaderboard)


def read_leaderboard(folder: Path) -> Leaderboard | None:
    """Read the leaderboard of an automatic choice, or return None if the folder has none.

    Raises:
        RunFolderError: If the file is damaged.
    """
    path = folder / JSON_FILE
    try:
        found = read_json(path)
        rows = [Row(**{**row, "entry": Entry(**row["entry"])}) for row in found.pop("rows")]
        found.pop("ranked")
        return BOARD.validate_python({**found, "rows": list(map(asdict, rows)), "folder": folder})
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise RunFolderError(
            f"{path} cannot be read: {first_fault(error)}.", "Restore the file or train again."
        ) from None


def board_of(folder: Path) -> Leaderboard:
    """Return the leaderboard of an automatic choice, or one with a single row for another run folder.

    Raises:
        RunFolderError: If the folder is damaged or holds no finished run.
    """
    board = read_leaderboard(folder)
    if board is not None:
        return board
    opened = RunFolder.open(folder)
    plan, runs = read_plan(opened), opened.finished_runs()
    if all(run.failure for run in runs):
        raise unfinished(folder)
    label = Variant(plan.model, plan.options).label
    seconds = sum(run.seconds for run in runs)
    figures = [run.val for run in runs], [run.test for run in runs]
    row = Row(Entry(label, plan.model, plan.options), "finished", "", *figures, seconds)
    metric = opened.config.get("recipe", {}).get("metric", "accuracy")
    return Leaderboard(plan.graph, plan.protocol, metric, [row])


def unwritable(path: Path, error: OSError) -> RunFolderError:
    """Return the error for a file of an automatic choice that cannot be written."""
    return RunFolderError(
        f"{path} cannot be written: {error.strerror}.",
        f"Free some space or change the permissions, then continue with: nlgnn train --resume {path.parent}",
    )


def csv_text(dicts: Sequence[dict[str, Any]]) -> str:
    """Return flat dictionaries as CSV, with a column for every key of any of them."""
    columns = list(dict.fromkeys(name for one in dicts for name in one))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({**one, "options": json.dumps(one["options"])} for one in dicts)
    return text.getvalue()


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}" if value >= 0.1 else "<0.1"
