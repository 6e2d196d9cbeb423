"""Outages: errors of memory, of other packages and of databases, in plain words. They are nobody's mistake."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nlgnn.errors import NlgnnError

LESS_MEMORY = "Free memory, or use a smaller model, fewer columns, or --memory."
COPY_TABLES = "Check the tables: copy them again, or save them as CSV."
OTHER_STUDY = "Check the file or the server of the study, or name another study (--study)."
# Words of the errors of torch and of C++ that are of type RuntimeError.
OUT_OF_MEMORY = ("not enough memory", "can't allocate memory", "cannot allocate memory", "out of memory", "bad_alloc")
PACKAGES = {
    "polars": ("polars could not process a table", COPY_TABLES),
    "pyo3_runtime": ("polars could not process a table", COPY_TABLES),
    "pyarrow": ("Arrow could not process a table", COPY_TABLES),
    "sqlalchemy": ("The database cannot be used", OTHER_STUDY),
    "sqlite3": ("The database cannot be used", OTHER_STUDY),
    "optuna": ("The study cannot be used", OTHER_STUDY),
    "safetensors_rust": ("Weights cannot be read or written", "Restore the file, or train again."),
    "lightgbm": ("LightGBM failed", "Look at the features and labels, or train another model."),
}


def outage(error: BaseException) -> tuple[str, str] | None:
    """Return what happened and what to do, as two sentences; None for an error of another kind.

    Example:
        >>> outage(MemoryError())[0]
        'There is not enough memory.'
        >>> outage(KeyError("a")) is None
        True
    """
    text = str(error).strip()
    first = text.splitlines()[0].rstrip(".") if text else type(error).__name__
    is_short = isinstance(error, RuntimeError) and any(words in text.lower() for words in OUT_OF_MEMORY)
    if isinstance(error, MemoryError) or is_short:
        return "There is not enough memory" + (f" ({first})." if text else "."), LESS_MEMORY
    if isinstance(error, RecursionError):
        return "The input is nested too deeply.", "Give tables and settings without nesting."
    for package in (kind.__module__.partition(".")[0] for kind in type(error).__mro__):
        if package in PACKAGES:
            what, how = PACKAGES[package]
            return f"{what} ({first}).", how
    return None


@contextmanager
def keeping(kept: str) -> Iterator[None]:
    """Turn an outage in the context into an `NlgnnError` whose second line says what was kept and how to go on."""
    try:
        yield
    except BaseException as error:
        found = outage(error)
        if found is None:
            raise
        raise NlgnnError(found[0], kept) from error
