"""SharedResults: results and locks in a PostgreSQL database that several machines share."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Column, Connection, MetaData, String, Table, Text, create_engine, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from nlgnn.errors import NlgnnError
from nlgnn.tuning.study import postgresql_url

RESULTS = Table(
    "nlgnn_results",
    MetaData(),
    Column("space", String(200), primary_key=True),
    Column("name", String(500), primary_key=True),
    Column("content", Text, nullable=False),
)
# The server notices within about a minute that a machine is gone, and then releases its locks.
KEEPALIVE = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}


class SharedResults:
    """Texts by name in a database, and locks that belong to a connection.

    The server releases the locks of a process that ends in any way, including `kill -9`.

    Args:
        address: The address, such as postgresql://user@host/database.
        space: The name of the set of results; results of other sets are not seen.

    Raises:
        NlgnnError: If the database cannot be used.
    """

    def __init__(self, address: str, space: str) -> None:
        url = postgresql_url(address)
        self.where, self.space = url.render_as_string(), space
        with self._errors():
            arguments = {"connect_timeout": 10, **KEEPALIVE}
            # Each connection is closed after use, so that no lock outlives its context.
            self._engine = create_engine(url, connect_args=arguments, poolclass=NullPool, isolation_level="AUTOCOMMIT")
            with self._engine.connect() as connection, self._locked(connection, "tables"):
                RESULTS.create(connection, checkfirst=True)

    @contextmanager
    def claim(self, name: str) -> Iterator[bool]:
        """Try to take the lock of a name without waiting, and release it at the end of the context.

        Args:
            name: The name.

        Returns:
            A context manager that gives True if this process has the lock, and False if another one has it.
        """
        with self._errors():
            connection = self._engine.connect()
        try:
            with self._errors():
                for setting, seconds in (("idle", 30), ("interval", 10), ("count", 3)):
                    connection.execute(text(f"SET tcp_keepalives_{setting} = {seconds}"))
                key = {"key": self._key(name)}
                claimed = bool(connection.execute(text("SELECT pg_try_advisory_lock(:key)"), key).scalar())
            yield claimed
        finally:
            connection.close()

    def read(self, name: str) -> str | None:
        """Return the text of a name, or None."""
        with self._errors(), self._engine.connect() as connection:
            found = select(RESULTS.c.content).where(RESULTS.c.space == self.space, RESULTS.c.name == name)
            content: str | None = connection.execute(found).scalar()
            return content

    def write(self, name: str, content: str) -> None:
        """Store the text of a name, in place of an earlier one."""
        row = insert(RESULTS).values(space=self.space, name=name, content=content)
        update = row.on_conflict_do_update(index_elements=["space", "name"], set_={"content": content})
        with self._errors(), self._engine.connect() as connection:
            connection.execute(update)

    def _key(self, name: str) -> int:
        digest = hashlib.sha256(f"nlgnn/{self.space}/{name}".encode()).digest()
        return int.from_bytes(digest[:8], signed=True)

    @contextmanager
    def _locked(self, connection: Connection, name: str) -> Iterator[None]:
        key = {"key": self._key(name)}
        connection.execute(text("SELECT pg_advisory_lock(:key)"), key)
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), key)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ImportError as error:
            how = "Install the driver: pip install 'nlgnn[postgres]'."
            raise NlgnnError(f"{self.where} cannot be used: {error}.", how) from error
        except SQLAlchemyError as error:
            words = str(getattr(error, "orig", None) or error).strip().splitlines()[0].rstrip(".")
            raise NlgnnError(
                f"{self.where} cannot be used: {words}.",
                "Check that the server runs and that the user may create tables, then run the same command.",
            ) from error
