"""Interval: how sure a paired difference is; tally: how many are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nlgnn.experiments.compare import paired_difference

LEVEL = 0.95
ROUNDING = 1e-9  # of percentages that are equal on paper


class Interval(NamedTuple):
    """Mean of paired differences, its standard error, and the t-interval of 95 % around it."""

    mean: float
    error: float
    low: float
    high: float
    pairs: int

    @property
    def is_above_zero(self) -> bool:
        """Clearly: not where all differences are equal, which do not tell how sure they are."""
        return self.error > ROUNDING and self.low > 0

    @property
    def is_below_zero(self) -> bool:
        return self.error > ROUNDING and self.high < 0

    @property
    def excludes_zero(self) -> bool:
        return self.is_above_zero or self.is_below_zero

    def __str__(self) -> str:
        return f"{self.mean:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


def paired_interval(one: Sequence[float | None], other: Sequence[float | None]) -> Interval | None:
    """Of `one` minus `other`, over the pairs that both have; None where there are fewer than two."""
    from scipy.stats import t

    difference = paired_difference(list(one), list(other))
    if difference is None or difference.std is None:
        return None
    pairs = sum(a is not None and b is not None for a, b in zip(one, other, strict=True))
    reach = float(t.ppf((1 + LEVEL) / 2, pairs - 1)) * difference.std
    return Interval(difference.mean, difference.std, difference.mean - reach, difference.mean + reach, pairs)


class Tally(NamedTuple):
    """How many differences are clearly above zero, clearly below, or neither; and how many are not known yet."""

    above: int
    below: int
    neither: int
    open: int

    @property
    def known(self) -> int:
        return self.above + self.below + self.neither

    def __str__(self) -> str:
        return f"{self.above} clearly above, {self.below} clearly below, {self.neither} neither"


def tally(differences: Sequence[Interval | None]) -> Tally:
    known = [one for one in differences if one is not None]
    above, below = sum(one.is_above_zero for one in known), sum(one.is_below_zero for one in known)
    return Tally(above, below, len(known) - above - below, len(differences) - len(known))
