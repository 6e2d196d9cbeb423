"""Cells that several machines share by a database: each is measured by one of them and copied to the others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from nlgnn.errors import NlgnnError
from nlgnn.files import write_text, writing
from nlgnn.paper.cell import Cell, is_older
from nlgnn.tuning.shared_results import SharedResults

shared_results: ContextVar[SharedResults | None] = ContextVar("shared_results", default=None)


@contextmanager
def claim_cell(cell: Cell, path: Path) -> Iterator[bool]:
    """Try to take the lock of a cell in the database, and write a result that is there to the file of the cell.

    Args:
        cell: The cell.
        path: Its file, which is kept if it is as new as the shared result.

    Returns:
        A context manager that gives False if another machine measures the cell, and True without a database.
    """
    shared = shared_results.get()
    if shared is None:
        yield True
        return
    with shared.claim(key(cell)) as claimed:
        if claimed:
            _fetch(cell, path, shared)
        yield claimed


def publish(cell: Cell, text: str) -> None:
    """Store the result of a cell in the database, if there is one."""
    shared = shared_results.get()
    if shared is not None:
        shared.write(key(cell), text)


def key(cell: Cell) -> str:
    """Return the name of a cell in the database."""
    return f"{cell.store}/{cell.name}"


def _fetch(cell: Cell, path: Path, shared: SharedResults) -> None:
    text = shared.read(key(cell))
    if text is None:
        return
    try:
        found = json.loads(text)
    except ValueError as error:
        what = f"The result of {cell.name} in {shared.where} is not JSON."
        raise NlgnnError(what, "Remove its row from the table nlgnn_results.") from error
    if isinstance(found, dict) and not (path.exists() and is_older(found)):
        with writing(path):
            write_text(path, text)
