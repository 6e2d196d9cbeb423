"""Outages of memory, other packages and databases: two lines, exit code 2, and the way to go on."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from cli_samples import Command
from nlgnn.cli.outages import outage
from nlgnn.training import fit as training

TRAIN = ("train", "mushroom-body", "--model", "mlp", "--runs", "2", "--epochs", "3", "--out", "X")
NO_MEMORY = "[enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9."


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("Unable to allocate 8.00 EiB"), "not enough memory"),
        (RuntimeError(NO_MEMORY), "not enough memory"),
        (RuntimeError("std::bad_alloc"), "not enough memory"),
        (pa.lib.ArrowMemoryError("malloc of size 64 failed"), "not enough memory"),
        (pa.lib.ArrowInvalid("out of bounds timestamp"), "Arrow"),
        (pl.exceptions.ComputeError("overflow"), "polars"),
        (pl.exceptions.PanicException("capacity overflow"), "polars"),
        (sqlite3.DatabaseError("malformed"), "database"),
    ],
)
def test_named(error: BaseException, words: str) -> None:
    found = outage(error)
    assert found is not None
    assert words in found[0]
    assert found[0].count("\n") == found[1].count("\n") == 0


@pytest.mark.parametrize("error", [ValueError("x"), RuntimeError("shape"), KeyboardInterrupt(), KeyError("a")])
def test_others_are_faults_of_the_program(error: BaseException) -> None:
    assert outage(error) is None


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError(NO_MEMORY), pl.exceptions.PanicException("capacity")])
def test_training_that_ends_for_lack_of_memory(
    command: Command, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    finish, calls = training.finish, []

    def fail(*arguments: object) -> None:
        calls.append(arguments)
        if len(calls) == 2:
            raise error
        finish(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "finish", fail)
        outcome = command(*TRAIN)
    assert outcome.code == 2
    first, second = outcome.err.splitlines()
    assert first.startswith("error: ")
    found = re.search(r"Finished runs are kept.*nlgnn (train --resume X)", second)
    assert found
    assert command(*found[1].split()).code == 0


def test_a_report_that_fails_for_lack_of_memory(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("nlgnn.report.run_page.write_run_page", fail)
        outcome = command(*TRAIN)
    assert outcome.code == 0
    assert "no report: There is not enough memory." in outcome.err
    assert command("report", "X").code == 0
    assert Path("X/report.html").is_file()


TUNE = ("tune", "mushroom-body", "--model", "mlp", "--settings", "2", "--search-splits", "1", "--search-epochs", "2")
DAMAGES = [
    "UPDATE trial_user_attributes SET value_json = '{{' ",
    "DELETE FROM trial_user_attributes",
    "DELETE FROM studies",
    "DELETE FROM trial_params",
    """UPDATE trial_params SET distribution_json = '{"name": "x", "attributes": {}}'""",
    "UPDATE trial_values SET value = 'x'",
    "DELETE FROM trial_values",
    "UPDATE trials SET state = 'SLEEPING'",
    "DROP TABLE trial_heartbeats",
    "DELETE FROM study_directions",
    "UPDATE study_user_attributes SET value_json = '3'",
    "UPDATE trial_user_attributes SET value_json = 'null'",
]


@pytest.mark.slow
def test_damaged_studies(command: Command) -> None:
    tune = (*TUNE, "--study", "study.db", "--hidden", "4,8")
    assert command(*tune).code == 0
    content, refused = Path("study.db").read_bytes(), 0
    for change in DAMAGES:
        Path("study.db").write_bytes(content)
        with closing(sqlite3.connect("study.db")) as connection:
            connection.execute(change)
            connection.commit()
        outcome = command(*tune)
        assert outcome.code in (0, 2), outcome.err
        if outcome.code == 2:
            refused += 1
            assert re.search(r"^error: .*study\.db", outcome.err, re.MULTILINE)
    assert refused >= 6
