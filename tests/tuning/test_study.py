"""A study that several processes share: who takes what, who is heard, what a killed one leaves."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from sqlalchemy import text

from nlgnn.errors import OptionError
from nlgnn.files import claim
from nlgnn.tuning import study as studies
from nlgnn.tuning.space import Space
from nlgnn.tuning.study import SharedStudy, StudyError, Task, Told

SPACE = Space({"hidden": (16, 48), "lr": (0.01, 0.05)}, {})
GRID = SPACE.settings(None)
IDENTITY = {"graph": "easy", "space": {"hidden": (16, 48)}}

Opener = Callable[..., SharedStudy]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def opener(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Opens one study, as often as there are processes."""

    def open_study(**identity: Any) -> SharedStudy:
        given = {**IDENTITY, **identity}
        if request.param == "sqlite":
            return SharedStudy(tmp_path / "new" / "study.db", None, "tune", SPACE, given)
        return SharedStudy(None, request.getfixturevalue("postgres"), tmp_path.name, SPACE, given)

    return open_study


def hidden(setting: dict[str, Any]) -> int:
    return setting["hidden"]


def take(study: SharedStudy, most: int = 10) -> list[Task]:
    return study.take(GRID, hidden, most)[0]


def outlive_grace(study: SharedStudy) -> None:
    """As if the last heartbeats were long ago."""
    with study.storage.engine.begin() as connection:
        connection.execute(text("UPDATE trial_heartbeats SET heartbeat = '2020-01-01 00:00:00'"))


def told(value: float | None = 50.0) -> Told:
    return Told(value, {"by": "me"})


def states(study: SharedStudy) -> Counter[str]:
    return Counter(trial.state.name for trial in study.study.get_trials())


def test_batches_are_of_one_shape_and_no_setting_is_taken_twice(opener: Opener) -> None:
    with opener() as one, opener() as other:
        first, second = take(one), take(other, most=1)
        assert [task.setting for task in first] == GRID[:2]
        assert [task.setting for task in second] == GRID[2:3]
        tasks, elsewhere = one.take(GRID, hidden, 10)
        assert [task.setting for task in tasks] == GRID[3:]
        assert elsewhere == 3
        assert other.take(GRID, hidden, 10) == ([], 4)
        other.tell([(task, told()) for task in [*first, *second, *tasks]])
        assert other.take(GRID, hidden, 10) == ([], 0)
        assert sorted(map(str, GRID)) == sorted(str(trial.params) for trial in other.finished())


def test_dropped_settings_are_pruned_with_their_values_on_the_way(opener: Opener) -> None:
    with opener() as study:
        good, bad = take(study)
        assert study.report(10, [(good, 70.0), (bad, 40.0)]) == [70.0, 40.0]
        study.tell([(good, told(75.0)), (bad, told(None))])
        done = study.finished()
        assert [(trial.state.name, trial.value) for trial in done] == [("COMPLETE", 75.0), ("PRUNED", 40.0)]
        assert [trial.intermediate_values for trial in done] == [{10: 70.0}, {10: 40.0}]
        assert done[0].user_attrs["by"] == "me"


def test_what_a_dead_process_had_is_taken_again(opener: Opener) -> None:
    with opener() as dead, opener() as alive:
        lost = take(dead)
        dead.report(10, [(lost[0], 99.0)])
        outlive_grace(alive)
        again = take(alive)
        assert [task.setting for task in again] == [task.setting for task in lost]
        assert {task.number for task in again}.isdisjoint(task.number for task in lost)
        assert states(alive) == {"FAIL": 2, "RUNNING": 2}
        assert alive.report(10, [(again[0], 50.0)]) == [50.0]  # what the dead one said does not count


def test_a_process_that_was_paused_too_long_is_not_heard(opener: Opener) -> None:
    with opener() as paused, opener() as other:
        late = take(paused)
        outlive_grace(other)
        again = take(other)
        paused.tell([(task, told(99.0)) for task in late])  # before the other is done
        assert paused.report(10, [(late[0], 99.0)]) == []
        other.tell([(task, told(50.0)) for task in again])
        paused.tell([(task, told(99.0)) for task in late])  # and after
        paused.release(late)
        assert [trial.value for trial in other.finished()] == [50.0, 50.0]
        assert states(other) == {"FAIL": 2, "COMPLETE": 2}


def test_what_is_given_back_can_be_taken_at_once(opener: Opener) -> None:
    with opener() as study:
        done, given_up = take(study)
        study.tell([(done, told())])
        study.release([done, given_up])  # what is done stays done
        assert [task.setting for task in take(study, most=1)] == [given_up.setting]
        assert states(study) == {"COMPLETE": 1, "FAIL": 1, "RUNNING": 1}


def test_heartbeats_are_those_of_the_tasks(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "HEARTBEAT_SECONDS", 1)
    with opener() as study, opener() as other:
        tasks = take(study, most=1)
        left = take(study, most=1)  # without heartbeats
        monkeypatch.setattr(studies, "HEARTBEAT_SECONDS", 0.02)
        outlive_grace(study)
        with study.heartbeats(tasks):
            deadline = time.monotonic() + 10
            while recent(other) == 0 and time.monotonic() < deadline:
                time.sleep(0.02)
        assert recent(other) == 1
        assert [task.setting for task in take(other, most=1)] == [left[0].setting]


def recent(study: SharedStudy) -> int:
    with study.storage.engine.begin() as connection:
        counted = connection.execute(text("SELECT count(*) FROM trial_heartbeats WHERE heartbeat > '2021-01-01'"))
        return int(counted.scalar_one())


def test_heartbeats_survive_an_error_of_the_database(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    from optuna.exceptions import StorageInternalError

    with opener() as study:
        tasks, calls = take(study, most=1), []

        def fail_at_first(trial_id: int) -> None:
            calls.append(trial_id)
            if len(calls) == 1:
                raise StorageInternalError("locked")

        monkeypatch.setattr(studies, "HEARTBEAT_SECONDS", 0.01)
        monkeypatch.setattr(study.storage, "record_heartbeat", fail_at_first)
        with study.heartbeats(tasks):
            deadline = time.monotonic() + 10
            while len(calls) < 3 and time.monotonic() < deadline:
                time.sleep(0.01)
        assert len(calls) >= 3


@pytest.mark.parametrize("step", ["add_trial", "record_heartbeat", "ask"])
def test_a_process_that_dies_while_it_takes_settings(
    opener: Opener, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """At the second call of each step: what was begun is failed by the next process, and taken again."""
    with opener() as dead, opener() as alive:
        owner = dead.storage if step == "record_heartbeat" else dead.study
        original, calls = getattr(owner, step), []

        def die(*arguments: Any) -> Any:
            calls.append(step)
            return 1 / 0 if len(calls) == 2 else original(*arguments)

        monkeypatch.setattr(owner, step, die)
        with pytest.raises(ZeroDivisionError):
            take(dead)
        outlive_grace(alive)
        assert [task.setting for task in take(alive)] == GRID[:2]
        assert states(alive)["RUNNING"] == 2
        assert states(alive)["WAITING"] == 0


def test_only_one_process_at_a_time_changes_a_study(opener: Opener) -> None:
    with opener() as one, opener() as other:
        assert not is_locked(other)
        with one.lock():
            assert is_locked(other)
        assert not is_locked(other)


def is_locked(study: SharedStudy) -> bool:
    """Whether another process that asks for the lock has to wait."""
    if study.path:
        with claim(study.path.with_name(f".{study.path.name}.lock")) as claimed:
            return not claimed
    with study.storage.engine.connect() as connection:
        held = connection.execute(text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted"))
        return bool(held.scalar_one())


def test_a_study_of_another_search_is_refused(opener: Opener) -> None:
    with opener(), pytest.raises(StudyError, match="holds another search: graph was easy, now other"):
        opener(graph="other")
    opener().__exit__()  # the same again is welcome


def test_what_differs_is_named_option_by_option(opener: Opener) -> None:
    # What is searched over is among the options too, by its keyword.
    opener(options={"order": "score", "hidden_channels": 16, "lr": 0.1}, space={"hidden": (16, 48)}).__exit__()
    with pytest.raises(StudyError) as caught:
        opener(options={"order": "metric", "lr": 0.1, "hidden_channels": 5}, space={})
    assert caught.value.what.endswith("holds another search: order was score, now metric; hidden was 16, 48, now 5.")
    assert "(--study)" in caught.value.how
    words = r"a was not set, now 1; b was not set, now 2; \w+ was .*, now not set; and 2 more"
    with pytest.raises(StudyError, match=words):
        opener(options={"a": 1, "b": 2}, space={})


def test_a_study_whose_maker_was_killed_is_taken_over(opener: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(optuna.Study, "set_user_attr", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            opener()
    with opener() as study:
        assert len(take(study)) == 2
    with pytest.raises(StudyError, match="graph was easy"):
        opener(graph="other")


def test_only_files_that_are_studies_are_written_to(tmp_path: Path) -> None:
    def refused(path: Path) -> str:
        before = path.read_bytes() if path.is_file() else None
        with pytest.raises(StudyError) as error:
            SharedStudy(path, None, "tune", SPACE, IDENTITY)
        assert before is None or path.read_bytes() == before
        return error.value.what

    (tmp_path / "text.db").write_text("no database at all")
    assert refused(tmp_path / "text.db").endswith("text.db cannot be used: file is not a database.")
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    assert "is a database of something else" in refused(tmp_path / "other.db")
    assert "cannot be used" in refused(tmp_path)
    assert "cannot be used" in refused(tmp_path / "text.db" / "study.db")


def test_names_of_files_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a?b #c%20{d}.db"
    with SharedStudy(path, None, "tune", SPACE, IDENTITY) as study:
        assert len(take(study)) == 2
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("address", ["mysql://user@host/database", "nonsense", "sqlite:///file.db"])
def test_other_databases_are_refused(address: str) -> None:
    with pytest.raises(OptionError, match="not the address of a PostgreSQL database"):
        SharedStudy(None, address, "tune", SPACE, IDENTITY)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StudyError, match="cannot be used: connection failed") as error:
        SharedStudy(None, "postgresql://me:secret@127.0.0.1:1/none", "tune", SPACE, IDENTITY)
    assert "secret" not in str(error.value)
