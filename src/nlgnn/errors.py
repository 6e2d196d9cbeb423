"""Errors and warnings of the package: one sentence on what is wrong, one on how to fix it."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec


class NlgnnError(Exception):
    """A mistake that the user can fix. The command line prints it without a traceback and exits with code 2.

    Args:
        what: A sentence on what is wrong, and where.
        how: A sentence on how to fix it.

    Example:
        >>> raise NlgnnError("No label column was given.", "Pass --label COLUMN.")
        Traceback (most recent call last):
        ...
        nlgnn.errors.NlgnnError: No label column was given.
        Pass --label COLUMN.
    """

    of_process: bool = False  # whether it concerns one of several processes, and not all of them alike

    def __init__(self, what: str, how: str = "") -> None:
        super().__init__(f"{what}\n{how}" if how else what)
        self.what, self.how = what, how


class DataError(NlgnnError, ValueError):
    """A file, graph or split that cannot be used as it is."""


class OptionError(NlgnnError, ValueError):
    """An option that does not exist, or a value that it cannot take."""


class RunFolderError(NlgnnError):
    """A run folder that exists, is incomplete, belongs to another training, or cannot be written."""


class NlgnnWarning(UserWarning):
    """A result that may not be what the user expects. The command line prints it on a line of its own."""


def require_packages(extra: str, *packages: str) -> None:
    """Raise an `NlgnnError` if packages that an extra of this package installs are missing."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        what = f"packages that are needed for {extra} are not installed: {', '.join(missing)}."
        raise NlgnnError(what, f"Install them: pip install 'nlgnn[{extra}]'")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the sentence that follows an unknown name: the nearest known name, or all of them.

    Args:
        name: The unknown name.
        known: The known names.

    Example:
        >>> nearest("kernal_size", ["kernel_size", "hidden"])
        "Did you mean 'kernel_size'?"
    """
    from difflib import get_close_matches

    known = list(known)
    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]!r}?" if close else f"Known names: {', '.join(known)}."
