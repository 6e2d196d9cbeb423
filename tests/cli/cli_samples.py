"""What the tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]
