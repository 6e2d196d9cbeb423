"""Interval: how sure a paired difference is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nlgnn.experiments.compare import paired_difference

LEVEL = 0.95


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
        return self.error > 0 and self.low > 0

    @property
    def is_below_zero(self) -> bool:
        return self.error > 0 and self.high < 0

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
