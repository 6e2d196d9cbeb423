"""SharedStudy: an Optuna study that several processes work on, on one machine or many.

Every change of a trial's state is one transaction that holds the study's lock: failing trials whose worker is gone,
asking for a batch, and telling results. So a setting is in work once at a time, a killed process leaves nothing
half done, and who comes back after its trials were failed is not heard. Times are those of the database.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nlgnn.training import storage
from nlgnn.training.options import KEYWORDS
from nlgnn.training.space import Space, Values, setting_words

if TYPE_CHECKING:
    import optuna
    from sqlalchemy import Connection

KEY = "key"  # of the trial's attribute that names its setting
MOST_NAMED = 3  # options that another search has with other values


class Task(NamedTuple):
    """A setting that this process has taken, and the trial that stands for it."""

    setting: dict[str, Any]
    number: int
    trial_id: int


class Told(NamedTuple):
    """What came of a task: its value, or None where it was dropped, and what else is known."""

    value: float | None
    attributes: dict[str, Any]


class SharedStudy:
    """Use as a context: connections are closed at its end."""

    def __init__(self, path: Path | None, address: str | None, name: str, space: Space, identity: Values) -> None:
        """In a SQLite file, or in the PostgreSQL database at `address`; the first to come makes it.

        Args:
            path: the file, where there is no `address`.
            address: postgresql://...
            name: of the study.
            space: what is searched; its values are the choices of every trial.
            identity: all that decides the figures; a study with another one is refused.
        """
        url = storage.sqlite_url(path) if path else storage.postgresql_url(str(address))
        self.where = str(path) if path else f"the study {name!r} in {url.render_as_string()}"
        self.name, self.space, self.is_file = name, space, path is not None
        with storage.storage_errors(self.where, self.is_file):
            self._storage = storage.open_storage(url, self.is_file, self.where)
            try:
                self._make(identity)
            except BaseException:
                self.__exit__()
                raise

    def __enter__(self) -> SharedStudy:
        return self

    def __exit__(self, *_: object) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def _make(self, identity: Values) -> None:
        import optuna

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = optuna.create_study(
                study_name=self.name, storage=self._storage, direction="maximize", load_if_exists=True
            )
        self.study_id = made._study_id
        identity = json.loads(json.dumps(identity))  # as it will be read
        with self._transaction() as study:
            known = study.user_attrs
            if not known:
                for name, value in identity.items():
                    study.set_user_attr(name, value)
                return
        if differences := _differences(known, identity):
            more = f"; and {len(differences) - MOST_NAMED} more" if len(differences) > MOST_NAMED else ""
            raise storage.StudyError(
                f"{self.where} holds another search: {'; '.join(differences[:MOST_NAMED])}{more}.",
                "Go on with the options that it was begun with, or name another study (--study).",
            )

    @contextmanager
    def _transaction(self) -> Iterator[optuna.Study]:
        """All or nothing, and one process at a time: what Optuna does to the study in here is one transaction."""
        import optuna
        from optuna.storages import RDBStorage
        from sqlalchemy.orm import scoped_session, sessionmaker

        with (
            storage.storage_errors(self.where, self.is_file),
            self._storage.engine.begin() as connection,
            warnings.catch_warnings(),
        ):
            # Optuna says that heartbeats are experimental, and meant for `optimize`; ours are recorded below.
            warnings.simplefilter("ignore")
            _lock(connection, self.study_id, self.is_file)
            joined = object.__new__(RDBStorage)  # copy.copy would connect anew
            vars(joined).update(vars(self._storage))
            joined.scoped_session = scoped_session(
                sessionmaker(bind=connection, join_transaction_mode="create_savepoint")
            )
            yield optuna.load_study(study_name=self.name, storage=joined, sampler=optuna.samplers.RandomSampler(seed=0))

    def take(
        self, settings: Sequence[dict[str, Any]], shape: Callable[[dict[str, Any]], Hashable], most: int
    ) -> tuple[list[Task], int]:
        """Settings of one shape that nobody has, now in work here; and how many others are at."""
        from optuna.storages import fail_stale_trials
        from optuna.trial import TrialState

        choices = self.space.choices()
        with self._transaction() as study:
            fail_stale_trials(study)
            states = {
                trial.user_attrs.get(KEY): trial.state
                for trial in study.get_trials(deepcopy=False)
                if trial.state is not TrialState.FAIL
            }
            free = [setting for setting in settings if setting_words(setting) not in states]
            shapes = [shape(setting) for setting in free]
            tasks = []
            for setting in [setting for setting, form in zip(free, shapes, strict=True) if form == shapes[0]][:most]:
                study.enqueue_trial(setting, user_attrs={KEY: setting_words(setting)})
                trial = study.ask(choices)  # it is the only one that waits
                study._storage.record_heartbeat(trial._trial_id)  # type: ignore[attr-defined]
                tasks.append(Task(setting, trial.number, trial._trial_id))
        wanted = [states.get(setting_words(setting)) for setting in settings]
        return tasks, sum(state is TrialState.RUNNING for state in wanted)

    @contextmanager
    def heartbeats(self, tasks: Sequence[Task]) -> Iterator[None]:
        """Says in the background that this process is alive."""
        from optuna.exceptions import StorageInternalError
        from sqlalchemy.exc import SQLAlchemyError

        over = threading.Event()

        def beat() -> None:
            while not over.wait(storage.HEARTBEAT_SECONDS):
                for task in tasks:
                    with suppress(StorageInternalError, SQLAlchemyError):  # the next one may get through
                        self._storage.record_heartbeat(task.trial_id)
            self._storage.remove_session()

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def report(self, step: int, values: Sequence[tuple[Task, float]]) -> list[float]:
        """Note values on the way, and give those of all settings that were ever noted there."""
        from optuna.trial import TrialState

        with self._transaction() as study:
            ours = self._still_ours(study)
            for task, value in values:
                if task.trial_id in ours:
                    study._storage.set_trial_intermediate_value(task.trial_id, step, value)
            return [
                trial.intermediate_values[step]
                for trial in study.get_trials(deepcopy=False)
                if trial.state is not TrialState.FAIL and step in trial.intermediate_values
            ]

    def tell(self, outcomes: Sequence[tuple[Task, Told]]) -> None:
        """Results, save of trials that were failed meanwhile: their settings are somebody else's."""
        from optuna.trial import TrialState

        with self._transaction() as study:
            ours = self._still_ours(study)
            for task, told in outcomes:
                if task.trial_id in ours:
                    for name, value in told.attributes.items():
                        study._storage.set_trial_user_attr(task.trial_id, name, value)
                    state = TrialState.PRUNED if told.value is None else TrialState.COMPLETE
                    study.tell(task.number, told.value, state)

    def release(self, tasks: Sequence[Task]) -> None:
        """Give back what was not finished, for anyone to take at once."""
        from optuna.trial import TrialState

        with self._transaction() as study:
            for task in tasks:
                if task.trial_id in self._still_ours(study):
                    study.tell(task.number, state=TrialState.FAIL)

    @staticmethod
    def _still_ours(study: optuna.Study) -> set[int]:
        """Trials that run: a trial that was failed never runs again, since another one takes its place."""
        from optuna.trial import TrialState

        return {trial._trial_id for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))}

    def finished(self) -> list[optuna.trial.FrozenTrial]:
        """Every setting that was trained, once."""
        from optuna.trial import TrialState

        with self._transaction() as study:
            return study.get_trials(states=(TrialState.COMPLETE, TrialState.PRUNED))


def _lock(connection: Connection, study_id: int, is_file: bool) -> None:
    from sqlalchemy import text

    if is_file:
        connection.exec_driver_sql("BEGIN IMMEDIATE")  # else reading would not lock, and two could read the same
    else:
        connection.execute(text("SELECT 1 FROM studies WHERE study_id = :id FOR UPDATE"), {"id": study_id})


def _differences(known: Values, identity: Values) -> list[str]:
    """Of a study and of what is asked for, option by option, whether searched over or fixed."""
    was, now = map(_flat, (known, identity))
    differing = [name for name in {**now, **was} if was.get(name) != now.get(name)]
    return [f"{name} was {_shown(was.get(name))}, now {_shown(now.get(name))}" for name in differing]


def _flat(identity: Values) -> dict[str, Any]:
    """Under names that users know; what is searched over is among the options too, with its first value."""
    names = {keyword: name for name, keyword in KEYWORDS.items()}
    others = {name: value for name, value in identity.items() if name not in ("options", "space")}
    fixed = {names.get(name, name): value for name, value in identity.get("options", {}).items()}
    return {**others, **fixed, **identity.get("space", {})}


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else "not set" if value is None else str(value)
