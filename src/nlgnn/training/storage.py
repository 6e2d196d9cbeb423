"""Where a study is kept: a SQLite file, or a PostgreSQL database that many machines reach."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nlgnn.errors import NlgnnError, OptionError

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from sqlalchemy import URL

HEARTBEAT_SECONDS, GRACE_SECONDS = 10, 60
LOCK_SECONDS = 60  # that one process waits for another's transaction in a SQLite file


class StudyError(NlgnnError):
    """A study that cannot be opened, or that belongs to another search."""


def sqlite_url(path: Path) -> URL:
    from sqlalchemy import URL

    return URL.create("sqlite", database=str(path.absolute()))


def postgresql_url(text: str) -> URL:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or url.get_backend_name() != "postgresql":
        raise OptionError(
            "--storage is not the address of a PostgreSQL database.",
            "Write postgresql://user:password@host/database; without it, a study is a file (--study).",
        )
    return url.set(drivername="postgresql+psycopg") if url.drivername == "postgresql" else url


def open_storage(url: URL, is_file: bool, where: str) -> RDBStorage:
    """Several processes may make the tables at once, which Optuna does not expect: who is second tries again."""
    from optuna.storages import RDBStorage
    from sqlalchemy import create_engine, event, inspect
    from sqlalchemy.exc import SQLAlchemyError

    connect_args: dict[str, Any] = {"timeout": LOCK_SECONDS} if is_file else {"connect_timeout": 10}
    if is_file:
        Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    probe = create_engine(url, connect_args=connect_args)
    try:
        tables = set(inspect(probe).get_table_names())  # whether it can be reached, and is a database at all
    finally:
        probe.dispose()
    if is_file and tables and tables.isdisjoint({"studies", "version_info"}):
        raise StudyError(f"{where} is a database of something else.", "Name another file with --study.")
    address = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")  # Optuna formats it
    for attempt in range(10):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                storage = RDBStorage(
                    address,
                    engine_kwargs={"connect_args": connect_args, "pool_pre_ping": True},
                    heartbeat_interval=HEARTBEAT_SECONDS,
                    grace_period=GRACE_SECONDS,
                )
        except (SQLAlchemyError, RuntimeError):
            if attempt == 9:
                raise
            time.sleep(0.2 * (attempt + 1))
        else:
            break
    if not is_file:  # heartbeats are kept without a time zone: it must be the same for all
        event.listen(storage.engine, "connect", _use_utc)
        storage.engine.dispose()
    return storage


def _use_utc(connection: Any, _: object) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
    connection.commit()


@contextmanager
def storage_errors(where: str, is_file: bool) -> Iterator[None]:
    """Whatever a database may say, as a mistake that the user can mend."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, StorageInternalError, OSError, ImportError, RuntimeError) as error:
        reason = error.__cause__ if isinstance(error, StorageInternalError) and error.__cause__ else error
        words = str(getattr(reason, "orig", None) or reason).strip().splitlines()[0].rstrip(".")
        if is_file:
            how = "Name a file in a folder that can be written (--study), or remove it to begin anew."
        elif isinstance(error, ImportError):
            how = "Install the driver: pip install 'nlgnn[postgres]'."
        else:
            how = "Is the server there, and does the user have the right to make tables? The same command goes on."
        raise StudyError(f"{where} cannot be used: {words}.", how) from error
