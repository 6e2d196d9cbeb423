"""Fixtures of the tests of searches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_server import postgres_server, server_programs


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a database that a server of our own keeps."""
    pytest.importorskip("psycopg")
    programs = server_programs()
    if programs is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    with postgres_server(programs) as address:
        yield address
