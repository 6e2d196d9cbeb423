"""Processes that share a search, and are killed at random: in the end every setting is there exactly once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from search_worker import SPACE
from sqlalchemy import create_engine, text

from nlgnn.models.options import setting_words
from nlgnn.tuning.space import read_space

KILLED, WORKERS = 4, 3
LONGEST = 240  # seconds until it is given up


class Workers:
    """Some processes at work on one study."""

    def __init__(self, place: str, name: str) -> None:
        self.place, self.name = place, name
        self.engine = create_engine(
            place.replace("postgresql:", "postgresql+psycopg:")
            if place.startswith("postgresql")
            else f"sqlite:///{place}",
            connect_args={} if place.startswith("postgresql") else {"timeout": 60},
        )
        self.processes: list[subprocess.Popen[str]] = []

    def start(self) -> None:
        command = [sys.executable, str(Path(__file__).with_name("search_worker.py")), self.place, self.name]
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}  # where its helpers are
        self.processes.append(subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True))

    def trials(self) -> list[tuple[str, str]]:
        """Key and state of every trial, as the database has them."""
        query = """
            SELECT value_json, state
            FROM trials JOIN trial_user_attributes USING (trial_id) JOIN studies USING (study_id)
            WHERE key = 'key' AND study_name = :name
        """
        name = self.name if self.place.startswith("postgresql") else "tune"
        try:
            with self.engine.connect() as connection:
                return [(key.strip('"'), state) for key, state in connection.execute(text(query), {"name": name})]
        except Exception:  # there are no tables yet
            return []

    def wait_for_work(self) -> None:
        deadline = time.monotonic() + LONGEST
        while not any(state == "RUNNING" for _, state in self.trials()):
            assert time.monotonic() < deadline, "no worker took anything"
            time.sleep(0.05)

    def finish(self) -> None:
        for process in self.processes:
            _, errors = process.communicate(timeout=LONGEST)
            assert process.returncode == 0, errors


@contextmanager
def workers_on(place: str, name: str) -> Iterator[Workers]:
    workers = Workers(place, name)
    try:
        yield workers
    finally:
        for process in workers.processes:
            process.kill()
            process.communicate()
        workers.engine.dispose()


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["sqlite", "postgresql"])
def test_every_setting_is_there_once_though_workers_are_killed(
    storage: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    place = str(tmp_path / "study.db") if storage == "sqlite" else request.getfixturevalue("postgres")
    draw = random.Random(0)
    with workers_on(place, tmp_path.name) as workers:
        for _ in range(WORKERS):  # all at once: they also make the tables at once
            workers.start()
        for _ in range(KILLED):
            workers.wait_for_work()
            time.sleep(draw.random())
            victim = workers.processes.pop(draw.randrange(len(workers.processes)))
            victim.kill()
            victim.communicate()
            workers.start()
        paused = workers.processes[0]
        paused.send_signal(signal.SIGSTOP)  # it comes back once others have done its work
        time.sleep(6)
        paused.send_signal(signal.SIGCONT)
        workers.start()
        workers.finish()
        trials = workers.trials()
    ended = Counter(key for key, state in trials if state in ("COMPLETE", "PRUNED"))
    assert ended == Counter(setting_words(setting) for setting in read_space("nlmlp", SPACE).settings(None))
    assert {state for _, state in trials} <= {"COMPLETE", "PRUNED", "FAIL"}
