"""SharedStudy: an Optuna study that several processes work on, on one machine or many.

Every change of the study holds one lock: a lock file next to a SQLite file, an advisory lock in PostgreSQL. The
system releases both when a process dies. Trials are written in an order in which a process may be killed between any
two steps: a trial receives its heartbeat before it runs, and its results before it is finished. Trials whose heartbeat
is too old are failed, and their settings are free again; a process that returns after its trials were failed is
ignored. All times are those of the database.

There is no retry callback. A setting whose trials have all failed is free, and the next process takes it under the
lock; `RetryFailedTrialCallback` would also queue a waiting trial for it, which could not be told from one that a
process left when it was killed while taking settings.
"""

from __future__ import annotations

import hashlib
import json
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import optuna
from optuna.exceptions import OptunaError, StorageInternalError
from optuna.storages import RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, TrialState, create_trial
from pydantic import TypeAdapter
from sqlalchemy import URL, create_engine, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from typing_extensions import TypedDict

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.files import wait_for_lock
from nlgnn.models.options import KEYWORDS, setting_words
from nlgnn.training.stored_run import Number, first_fault
from nlgnn.tuning.space import Space, Values

KEY = "key"  # the trial attribute that names its setting
MOST_NAMED = 3  # differing options that an error names
HEARTBEAT_SECONDS, GRACE_SECONDS = 10, 60
UNFAILED = (TrialState.RUNNING, TrialState.COMPLETE, TrialState.PRUNED)
BUSY_SECONDS = 60  # waiting time for another process's transaction in a SQLite file


class Outcome(TypedDict):
    """The attributes of a finished trial."""

    val: list[Number]
    epochs: Number
    seconds: Number
    failure: str | None


OUTCOME = TypeAdapter(Outcome)


class StudyError(NlgnnError):
    """A study that cannot be opened, or that belongs to another search."""


class Task(NamedTuple):
    """A setting that this process has taken, and its trial."""

    setting: dict[str, Any]
    number: int
    trial_id: int


class Told(NamedTuple):
    """The outcome of a task: its value, or None if it was dropped, and further attributes."""

    value: float | None
    attributes: dict[str, Any]


class SharedStudy:
    """A study in a SQLite file or a PostgreSQL database. It is a context manager that closes its connections.

    Args:
        path: The SQLite file; None if `address` is given.
        address: The address of a PostgreSQL database, such as postgresql://user@host/database.
        name: The name of the study.
        space: The search space, whose values are the choices of every trial.
        identity: Everything that decides the figures. A study with another identity is refused.

    Raises:
        StudyError: If the study cannot be opened, or holds another search.
    """

    def __init__(self, path: Path | None, address: str | None, name: str, space: Space, identity: Values) -> None:
        url = URL.create("sqlite", database=str(path.absolute())) if path else postgresql_url(str(address))
        self.where = str(path) if path else f"the study {name!r} in {url.render_as_string()}"
        self.path, self.name, self.space = path, name, space
        with self._errors():
            self._connect(url)
            try:
                with self.lock():
                    self._open(url, json.loads(json.dumps(identity)))  # compared as it will be read
            except BaseException:
                self.__exit__()
                raise

    def __enter__(self) -> SharedStudy:
        return self

    def __exit__(self, *_: object) -> None:
        if hasattr(self, "storage"):
            self.storage.remove_session()
            self.storage.engine.dispose()
        self._engine.dispose()

    def _connect(self, url: URL) -> None:
        # Heartbeats are stored without a time zone, which must therefore be the same for all processes.
        self._connect_args: dict[str, Any] = (
            {"timeout": BUSY_SECONDS} if self.path else {"connect_timeout": 10, "options": "-c TimeZone=UTC"}
        )
        if self.path:
            self.path.absolute().parent.mkdir(parents=True, exist_ok=True)
        self._engine = create_engine(url, connect_args=self._connect_args)
        tables = set(inspect(self._engine).get_table_names())  # fails for a file that is not a database
        if self.path and tables and tables.isdisjoint({"studies", "version_info"}):
            self._engine.dispose()
            raise StudyError(f"{self.where} is a database of something else.", "Name another file with --study.")

    def _open(self, url: URL, identity: Values) -> None:
        address = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # Optuna formats it
        with _quiet():
            self.storage = RDBStorage(
                address,
                engine_kwargs={"connect_args": self._connect_args, "pool_pre_ping": True},
                heartbeat_interval=HEARTBEAT_SECONDS,
                grace_period=GRACE_SECONDS,
            )
            self.study = optuna.create_study(
                study_name=self.name,
                storage=self.storage,
                sampler=optuna.samplers.RandomSampler(seed=0),
                direction="maximize",
                load_if_exists=True,
            )
        known = self.study.user_attrs.get("identity")
        if known is None:
            self.study.set_user_attr("identity", identity)
        elif differences := _differences(known, identity):
            more = f"; and {len(differences) - MOST_NAMED} more" if len(differences) > MOST_NAMED else ""
            raise StudyError(
                f"{self.where} holds another search: {'; '.join(differences[:MOST_NAMED])}{more}.",
                "Use the options that it was started with, or name another study (--study).",
            )

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Let one process at a time change the study."""
        if self.path:
            with self._errors(), wait_for_lock(self.path.with_name(f".{self.path.name}.lock")), _quiet():
                yield
            return
        key = int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:8], signed=True)
        with self._errors(), self._engine.connect() as connection, _quiet():
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": key})
            try:
                yield
            finally:
                connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": key})

    def take(
        self, settings: Sequence[dict[str, Any]], shape: Callable[[dict[str, Any]], Hashable], most: int
    ) -> tuple[list[Task], int]:
        """Take settings that no process works on.

        Args:
            settings: All settings of the search.
            shape: Gives the shape of a setting. The settings that are taken have the same shape.
            most: The largest number of settings to take.

        Returns:
            The tasks of this process, and the number of settings that other processes work on.
        """
        with self.lock():
            fail_stale_trials(self.study)
            for trial in self._trials(TrialState.WAITING):  # left by a process that was killed in these lines
                self.storage.set_trial_state_values(self._id(trial.number), TrialState.FAIL)
            unfailed = self._trials(*UNFAILED)
            states = {trial.user_attrs[KEY]: trial.state for trial in unfailed}
            free = [setting for setting in settings if setting_words(setting) not in states]
            shapes = [shape(setting) for setting in free]
            batch = [setting for setting, form in zip(free, shapes, strict=True) if form == shapes[0]][:most]
            for setting in batch:
                self.study.add_trial(
                    create_trial(
                        state=TrialState.WAITING,
                        params=setting,
                        distributions=self.space.choices(),
                        user_attrs={KEY: setting_words(setting)},
                    )
                )
            for trial in self._trials(TrialState.WAITING):
                self.storage.record_heartbeat(self._id(trial.number))
            numbers = [self.study.ask().number for _ in batch]  # waiting trials, in their order
        tasks = [Task(setting, number, self._id(number)) for setting, number in zip(batch, numbers, strict=True)]
        wanted = [states.get(setting_words(setting)) for setting in settings]
        return tasks, sum(state is TrialState.RUNNING for state in wanted)

    @contextmanager
    def heartbeats(self, tasks: Sequence[Task]) -> Iterator[None]:
        """Record heartbeats of tasks in the background."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(HEARTBEAT_SECONDS):
                for task in tasks:
                    with suppress(StorageInternalError, SQLAlchemyError):  # the next one may succeed
                        self.storage.record_heartbeat(task.trial_id)
            self.storage.remove_session()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def report(self, step: int, values: Sequence[tuple[Task, float]]) -> list[float]:
        """Record intermediate values, and return those of all settings at this step."""
        with self.lock():
            running = self._running()
            for task, value in values:
                if task.number in running:
                    self.storage.set_trial_intermediate_value(task.trial_id, step, value)
            unfailed = self._trials(*UNFAILED)
        return [trial.intermediate_values[step] for trial in unfailed if step in trial.intermediate_values]

    def tell(self, outcomes: Sequence[tuple[Task, Told]]) -> None:
        """Record results, except those of trials that were failed meanwhile: other processes have their settings."""
        with self.lock():
            running = self._running()
            for task, told in outcomes:
                if task.number in running:
                    for name, value in told.attributes.items():
                        self.storage.set_trial_user_attr(task.trial_id, name, value)
                    state = TrialState.PRUNED if told.value is None else TrialState.COMPLETE
                    self.study.tell(task.number, told.value, state)

    def release(self, tasks: Sequence[Task]) -> None:
        """Give back unfinished settings, so that any process can take them at once."""
        with self.lock():
            for task in tasks:
                self.study.tell(task.number, state=TrialState.FAIL, skip_if_finished=True)

    def finished(self) -> list[FrozenTrial]:
        """Return the trials of all settings that were trained, each once."""
        with self._errors():
            return self._trials(TrialState.COMPLETE, TrialState.PRUNED)

    def outcomes(self) -> list[FrozenTrial]:
        """Return the trials of `finished`, and raise a `StudyError` if the records of one are damaged."""
        found = self.finished()
        for trial in found:
            try:
                OUTCOME.validate_python(trial.user_attrs)
                if trial.params.keys() != self.space.choices().keys():
                    raise ValueError("its setting is incomplete")
            except ValueError as error:
                raise StudyError(
                    f"{self.where} is damaged: trial {trial.number}: {first_fault(error)}.",
                    "Restore it, or name another study (--study).",
                ) from None
        return found

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self.study.get_trials(states=states)

    def _running(self) -> set[int]:
        """Return the numbers of running trials. A failed trial never runs again: another one takes its place."""
        return {trial.number for trial in self._trials(TrialState.RUNNING)}

    def _id(self, number: int) -> int:
        study_id = self.storage.get_study_id_from_name(self.name)
        return self.storage.get_trial_id_from_study_id_trial_number(study_id, number)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of the database into a `StudyError`."""
        try:
            yield
        except NlgnnError:
            raise
        except (  # look-up errors of storages that were damaged
            *(SQLAlchemyError, StorageInternalError, OptunaError, OSError, ImportError, RuntimeError, LookupError),
            *(ValueError, TypeError, AttributeError, AssertionError),
        ) as error:
            reason = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
            words = str(getattr(reason, "orig", None) or reason).strip().splitlines()[0].rstrip(".")
            if self.path:
                how = "Name a file in a folder that can be written (--study), or remove it to start again."
            elif isinstance(error, ImportError):
                how = "Install the driver: pip install 'nlgnn[postgres]'."
            else:
                how = "Check that the server runs and that the user may create tables, then run the same command."
            raise StudyError(f"{self.where} cannot be used: {words}.", how) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Optuna's notices that heartbeats are experimental and meant for `optimize`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def postgresql_url(address: str) -> URL:
    """Return the address of a PostgreSQL database with its driver, and raise an `OptionError` for other text."""
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        url = None
    if url is None or url.get_backend_name() != "postgresql":
        raise OptionError(
            "--storage is not the address of a PostgreSQL database.",
            "Write postgresql://user:password@host/database; without it, a study is a file (--study).",
        )
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def _differences(known: Values, identity: Values) -> list[str]:
    """Return a sentence for each option, searched or fixed, in which two searches differ."""
    was, now = map(_flat, (known, identity))
    differing = [name for name in {**now, **was} if was.get(name) != now.get(name)]
    return [f"{name} was {_shown(was.get(name))}, now {_shown(now.get(name))}" for name in differing]


def _flat(identity: Values) -> dict[str, Any]:
    """Return all options under their short names; searched options replace their first value among the fixed ones."""
    names = {keyword: name for name, keyword in KEYWORDS.items()}
    others = {name: value for name, value in identity.items() if name not in ("options", "space")}
    fixed = {names.get(name, name): value for name, value in identity.get("options", {}).items()}
    return {**others, **fixed, **identity.get("space", {})}


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not set" if value is None else str(value)
