"""Time budgets: how they are written, and how much of one is left."""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass, field

from nlgnn.errors import OptionError

DEFAULT_BUDGET = "10m"
UNITS = {"s": 1, "m": 60, "h": 3600}
RESERVED_SHARE, RESERVED_SECONDS = 0.08, 4.0  # kept for the start of the program, the decision and the report
START_SHARE = 0.5  # what comes after the race takes about this share of what came before it
LATER_SHARE = 0.2  # kept for the other runs of the best entry, and for the non-local version, which is known last
LONGEST = 366 * 86_400.0  # seconds


def parse_budget(text: str) -> float | None:
    """Return a time budget such as 90s, 5m or 1.5h in seconds, or None for "none".

    Raises:
        OptionError: If the text is not a positive duration with a unit.

    Example:
        >>> parse_budget("5m"), parse_budget("none")
        (300.0, None)
    """
    if text == "none":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh])", text.strip().lower())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not 0 < seconds <= LONGEST:
        raise OptionError(
            f"{text!r} is not a time budget.",
            "Give seconds, minutes or hours, such as 90s, 5m or 1h, up to a year; or none.",
        )
    return seconds


def show_seconds(seconds: float) -> str:
    """Return a duration for a sentence.

    Example:
        >>> show_seconds(3.21), show_seconds(240)
        ('3.2 s', '4 min')
    """
    if seconds < 10:
        return f"{max(0.0, seconds):.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


@dataclass
class Clock:
    """The time that a command has used since it started, and what is left of its budget.

    Args:
        budget: The budget in seconds; None for no limit.
        used_before: Seconds that were used before an interruption.
        started: When the command started, by `time.monotonic`.
        report: Seconds that the report is known to take at least.
        later: True while a share of the budget is kept for trainings that come later.
        preparation: Seconds from the start of the command to the first training.
    """

    budget: float | None = None
    used_before: float = 0.0
    started: float = field(default_factory=time.monotonic)
    report: float = 0.0
    later: bool = False
    preparation: float = 0.0

    def prepared(self) -> None:
        """Note that the program is loaded and the graph is read, which takes longer on a busy machine."""
        self.preparation = time.monotonic() - self.started

    @property
    def used(self) -> float:
        """Return the seconds used so far, also before an interruption."""
        return self.used_before + time.monotonic() - self.started

    @property
    def remaining(self) -> float:
        """Return the seconds until the end of the budget, with those that are reserved."""
        return math.inf if self.budget is None else self.budget - self.used

    @property
    def left(self) -> float:
        """Return the seconds left for training. A part of the budget is reserved for what comes after it."""
        if self.budget is None:
            return math.inf
        least = max(RESERVED_SECONDS, RESERVED_SHARE * self.budget, START_SHARE * self.preparation)
        reserved = min(self.budget / 2, least + self.report)
        return self.budget * (1 - LATER_SHARE * self.later) - reserved - self.used
