"""What the tests of the command line share."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Outcome(NamedTuple):
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


def everything() -> dict[Path, bytes]:
    """All that is in the folder that commands run in."""
    return {path: path.read_bytes() if path.is_file() else b"" for path in Path().rglob("*")}


def refused(outcome: Outcome, what: str, how: str = "", after_notes: bool = False) -> None:
    """Two lines and exit code 2; `after_notes`: behind what was said of the tables."""
    assert outcome.code == 2
    assert outcome.out == ""
    *notes, first, second = outcome.err.splitlines()
    assert after_notes or not notes
    assert first.startswith("error: ")
    assert re.search(what, first)
    assert re.search(how, second)
