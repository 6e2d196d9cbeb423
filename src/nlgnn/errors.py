"""What a user sees when something is wrong: one sentence of what and where, one of how to mend it."""

from __future__ import annotations


class NlgnnError(Exception):
    """A mistake that the user can mend. The command line prints it without a traceback, exit code 2."""

    def __init__(self, what: str, how: str = "") -> None:
        super().__init__(f"{what}\n{how}" if how else what)
        self.what, self.how = what, how


class DataError(NlgnnError):
    """A file, graph or split that cannot be used as it is."""


class OptionError(NlgnnError):
    """An option that does not exist, or a value that it cannot take."""


class RunFolderError(NlgnnError):
    """A run folder that exists, is incomplete, belongs to something else, or cannot be written."""


class NlgnnWarning(UserWarning):
    """What works, but perhaps not as the user thinks. The command line prints it as a line of its own."""


def nearest(name: str, known: list[str]) -> str:
    """The sentence that follows an unknown name: the nearest known one, or all of them."""
    from difflib import get_close_matches

    close = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return f"Did you mean {close[0]!r}?" if close else f"Known names: {', '.join(known)}."
