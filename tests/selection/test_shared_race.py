"""A race whose entries several processes share by the folder of the leaderboard."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from experiment_samples import small_graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.selection import leaderboard as leaderboard_module
from nlgnn.selection.clock import Clock
from nlgnn.selection.leaderboard import Leaderboard, Row, read_leaderboard
from nlgnn.selection.portfolio import Entry
from nlgnn.selection.race import run_race
from nlgnn.training.fit import fit
from nlgnn.training.trained import Member

ENTRIES = [
    Entry("logistic", "logistic"),
    Entry("mlp", "mlp", {"epochs": 3, "hidden": 4}),
    Entry("trees", "trees", {"rounds": 3}),
]
HOLD = """
import sys, time
from pathlib import Path
from nlgnn.files import claim
with claim(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaderboard_module, "SECONDS_BETWEEN_TRIES", 0.02)


class Worker:
    """A process of a race, whose trainings are fast; `trained` holds the names of its entries."""

    def __init__(self, folder: Path, pause: float = 0.0) -> None:
        self.graph, self.trained, self.pause = small_graph(), list[str](), pause
        self.splits = make_splits(self.graph, "geom-gcn")
        self.board = Leaderboard("texas", "geom-gcn", "accuracy", folder=folder)

    def train(self, entry: Entry, watch: Any) -> Member:
        self.trained.append(entry.name)
        time.sleep(self.pause)
        factory, recipe = configure(entry.model, self.graph, **entry.options)
        return Member(factory, recipe, fit(factory, self.graph, self.splits, recipe, progress=False))

    def run(self, clock: Clock | None = None) -> None:
        run_race(ENTRIES, self.graph, 3, self.board, clock or Clock(None), self.train, {})


def test_each_entry_is_trained_by_one_process(tmp_path: Path) -> None:
    workers = [Worker(tmp_path, pause=0.1) for _ in range(2)]
    threads = [threading.Thread(target=worker.run) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    trained = [name for worker in workers for name in worker.trained]
    assert len(trained) == len(set(trained))
    assert {entry.name for entry in ENTRIES} < set(trained)  # and the non-local version
    assert all(worker.trained for worker in workers)
    written = read_leaderboard(tmp_path)
    assert written is not None
    for worker in workers:
        assert {row.entry.name for row in worker.board.rows} == set(trained)
        assert worker.board.best is not None
        assert worker.board.best == written.best
    assert sorted(path.name for path in tmp_path.iterdir()) == ["leaderboard.csv", "leaderboard.json"]


def test_the_entry_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / f".{ENTRIES[1].folder}.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        worker = Worker(tmp_path)
        thread = threading.Thread(target=worker.run)
        thread.start()
        while "trees" not in worker.trained:
            time.sleep(0.02)
        assert "mlp" not in worker.trained
        other.kill()
        thread.join()
    assert worker.trained[:3] == ["logistic", "trees", "mlp"]


def test_the_end_of_the_time_ends_the_wait(tmp_path: Path) -> None:
    class Ended(Clock):
        """A clock whose time is over once an entry is trained."""

        @property
        def left(self) -> float:
            return -1.0 if worker.trained else 100.0

    worker = Worker(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path / f".{ENTRIES[1].folder}.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "True\n"
        worker.run(Ended(1e3))
        other.kill()
    assert worker.trained == ["logistic"]
    assert "mlp" not in worker.board


def test_rows_of_two_boards_are_merged(tmp_path: Path) -> None:
    first, second = (Leaderboard("texas", "geom-gcn", "accuracy", folder=tmp_path) for _ in range(2))
    first.add(Row(ENTRIES[0], "failed", "no luck"), 5.0)
    second.add(Row(ENTRIES[1], "stopped", "no time"), 3.0)
    first.refresh()
    assert [row.entry.name for row in first.rows] == ["logistic", "mlp"]
    written = read_leaderboard(tmp_path)
    assert written is not None
    assert (len(written.rows), written.seconds) == (2, 5.0)
