"""Means over runs and the 95 % t-interval of paired differences: the only rule for "clearly better"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from nlgnn.report.table import Rows

Figures = Sequence[float | None]  # One figure per run; None stands for a failed run.

LEVEL = 0.95
ROUNDING = 1e-9  # Differences of percentages that vary less than this are equal on paper.


class Spread(NamedTuple):
    """Mean and sample standard deviation over runs; one run has no deviation."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


def spread(values: Figures) -> Spread | None:
    """Return mean and sample standard deviation of the values that are not None.

    Args:
        values: One value per run; None stands for a failed run.

    Returns:
        The spread, or None without any value.

    Example:
        >>> print(spread([1.0, 3.0, None, 5.0]))
        3.0 ± 2.0
    """
    known = [value for value in values if value is not None]
    return Spread(fmean(known), stdev(known) if len(known) > 1 else None) if known else None


class Interval(NamedTuple):
    """Mean of paired differences, its standard error, the 95 % t-interval and the number of pairs."""

    mean: float
    error: float
    low: float
    high: float
    pairs: int

    @property
    def is_above_zero(self) -> bool:
        """Return True if the difference is clearly positive.

        Equal differences are not clear, however large they are: nothing tells how much they vary.
        """
        return self.error > ROUNDING and self.low > 0

    @property
    def is_below_zero(self) -> bool:
        """Return True if the difference is clearly negative."""
        return self.error > ROUNDING and self.high < 0

    @property
    def excludes_zero(self) -> bool:
        """Return True if the difference is clearly positive or clearly negative."""
        return self.is_above_zero or self.is_below_zero

    def __str__(self) -> str:
        return f"{self.mean:+.1f} [{self.low:+.1f}, {self.high:+.1f}]"


def paired_interval(one: Figures, other: Figures) -> Interval | None:
    """Return the 95 % t-interval of `one - other`, paired over runs.

    Args:
        one: One figure per run; None stands for a failed run.
        other: The figures of the same runs, on the same splits and seeds.

    Returns:
        The interval over the pairs in which both have a figure, or None with fewer than two such pairs.

    Example:
        >>> print(paired_interval([80.0, 82.5, 79.0], [75.0, 80.0, 76.0]))
        +3.5 [+0.2, +6.8]
    """
    from scipy.stats import ttest_rel  # takes half a second

    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    if len(pairs) < 2:
        return None
    differences = [a - b for a, b in pairs]
    mean, error = fmean(differences), stdev(differences) / len(differences) ** 0.5
    if error <= ROUNDING:  # SciPy warns of lost precision.
        return Interval(mean, error, mean, mean, len(differences))
    low, high = ttest_rel(*zip(*pairs, strict=True)).confidence_interval(LEVEL)
    return Interval(mean, error, float(low), float(high), len(differences))


def is_clear(difference: Interval | None) -> bool:
    """Return True if a difference is known and clearly positive or clearly negative."""
    return difference is not None and difference.excludes_zero


def compared_rows(
    what: str,
    heading: str,
    figures: Mapping[str, Figures],
    difference_heading: str,
    differences: Mapping[str, Interval | None],
) -> Rows:
    """Return one row per model: the mean with its deviation over runs, and a paired difference.

    Args:
        what: Heading of the first column.
        heading: Heading of the figures.
        figures: The figures of each model, one per run.
        difference_heading: Heading of the differences.
        differences: Paired differences by model. The model that others are compared with has none.

    Returns:
        The rows of a table.
    """
    return [
        {
            what: name,
            heading: str(spread(values) or "–"),
            difference_heading: str(differences[name] or "–") if name in differences else "",
        }
        for name, values in figures.items()
    ]


class Tally(NamedTuple):
    """Number of differences that are clearly positive, clearly negative, neither, or not known yet."""

    above: int
    below: int
    neither: int
    open: int

    @property
    def known(self) -> int:
        """Return the number of known differences."""
        return self.above + self.below + self.neither

    def __str__(self) -> str:
        return f"{self.above} clearly above, {self.below} clearly below, {self.neither} neither"


def tally(differences: Sequence[Interval | None]) -> Tally:
    """Count the differences that are clearly positive, clearly negative, neither, or None."""
    known = [one for one in differences if one is not None]
    above, below = sum(one.is_above_zero for one in known), sum(one.is_below_zero for one in known)
    return Tally(above, below, len(known) - above - below, len(differences) - len(known))
