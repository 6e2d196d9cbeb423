"""Means over runs, the 95 % t-interval of paired differences, and the only rules for "clearly better"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

import torch
from torch import Tensor

from nlgnn.report.table import Rows
from nlgnn.training.metrics import measure

Figures = Sequence[float | None]  # One figure per run; None stands for a failed run.

LEVEL = 0.95
SAMPLES, MOST_DRAWN = 200, 10_000  # of the nodes of a single run, and nodes of a sample
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


def common_figures(one: Figures, other: Figures) -> list[tuple[float, float]]:
    """Return the figures of the runs in which both have one."""
    return [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]


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

    pairs = common_figures(one, other)
    if len(pairs) < 2:
        return None
    differences = [a - b for a, b in pairs]
    mean, error = fmean(differences), stdev(differences) / len(differences) ** 0.5
    if error <= ROUNDING:  # SciPy warns of lost precision.
        return Interval(mean, error, mean, mean, len(differences))
    low, high = ttest_rel(*zip(*pairs, strict=True)).confidence_interval(LEVEL)
    return Interval(mean, error, float(low), float(high), len(differences))


class SingleRun(NamedTuple):
    """The logits of a single run and those of another answer for the same nodes, and the labels of the nodes.

    Args:
        metric: The metric that they are compared by.
        logits: The logits of the run, `[k, c]`.
        other: The logits of the other answer, `[k, c]`.
        y: The labels, `[k]`.
    """

    metric: str
    logits: Tensor
    other: Tensor
    y: Tensor

    @property
    def is_clearly_better(self) -> bool:
        """Return whether the run is better on 97.5 % of 200 samples of the nodes, drawn with replacement (bootstrap).

        A sample has at most 10,000 nodes, so that millions of nodes take no longer. Smaller samples vary more, so that
        a small difference on many nodes may not count as clear.
        """
        generator = torch.Generator().manual_seed(0)
        size, not_better = min(len(self.y), MOST_DRAWN), 0
        for _ in range(SAMPLES):
            drawn = torch.randint(len(self.y), (size,), generator=generator)
            own, other = (measure(self.metric, logits[drawn], self.y[drawn]) for logits in (self.logits, self.other))
            not_better += not own > other
            if not_better > SAMPLES * (1 - LEVEL) / 2:
                return False
        return True


def is_clearly_better(one: Figures, other: Figures, single: SingleRun | None = None) -> bool | None:
    """Return whether a model is clearly better than another answer.

    With two runs or more, the interval of their differences decides. A single run has none; samples of its nodes take
    the place of runs.

    Args:
        one: One figure per run; None stands for a failed run.
        other: The figures of the other answer in the same runs.
        single: The nodes of a single run, if they are known.

    Returns:
        Whether it is clearly better; None if it is better in a single run whose nodes are not known.

    Example:
        >>> is_clearly_better([80.0, 82.5, 79.0], [75.0, 80.0, 76.0])
        True
        >>> is_clearly_better([80.0], [81.0]), is_clearly_better([80.0], [75.0])
        (False, None)
    """
    difference = paired_interval(one, other)
    if difference is not None:
        return difference.is_above_zero
    if single is not None:
        return single.is_clearly_better
    is_better = any(a > b for a, b in common_figures(one, other))
    return None if is_better else False


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
