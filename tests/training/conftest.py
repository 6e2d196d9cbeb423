"""Fixtures of the tests of run folders."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_server import postgres_server, server_programs
from training_samples import fit_module, quiet_train, small_plan

from nlgnn.training.train import Trained


@pytest.fixture
def checkpoint_every_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "CHECKPOINT_SECONDS", -1.0)


@pytest.fixture(scope="package")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """What an uninterrupted training of the small plan gives."""
    return quiet_train(small_plan(), tmp_path_factory.mktemp("whole") / "run")


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a database that a server of our own keeps."""
    pytest.importorskip("psycopg")
    programs = server_programs()
    if programs is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    with postgres_server(programs) as address:
        yield address
