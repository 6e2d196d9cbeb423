"""Splits by a column of nodes: by time, so that the test nodes are the latest, and by group."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError
from nlgnn.graph.splits import GROUP, TIME, Split

TRAIN_SHARE, TRAIN_AND_VAL_SHARE = 0.6, 0.8  # of the labelled nodes, in the order of time
FOLDS = 5
FEWEST_GROUPS = 3


def time_split(times: NDArray[np.float64], y: NDArray[np.int64], groups: NDArray[np.int64] | None = None) -> Split:
    """Return the split that trains on the earliest labelled nodes, validates on the next and tests on the latest.

    The parts have about 60, 20 and 20 % of the labelled nodes. Nodes of one time are in one part. Nodes without a time
    or without a label are in no part.

    Args:
        times: The time of each node, `[num_nodes]`, NaN where unknown.
        y: The labels, `[num_nodes]`.
        groups: The number of the group of each node. The whole group has the time of its latest labelled node, so that
            training nodes are never later than validation nodes.

    Returns:
        The split.

    Raises:
        DataError: If the labelled nodes have fewer than three different times.

    Example:
        >>> split = time_split(np.array([5.0, 1, 2, 3, 4]), np.array([0, 1, 0, 1, 0]))
        >>> split.train.tolist(), split.test.tolist()
        ([False, True, True, True, False], [True, False, False, False, False])
    """
    known = np.flatnonzero((y >= 0) & ~np.isnan(times))
    times = times.copy()
    if groups is not None:
        latest = np.full(int(groups.max(initial=-1)) + 1, -np.inf)
        np.maximum.at(latest, groups[known], times[known])
        times[known] = latest[groups[known]]
    distinct, counts = np.unique(times[known], return_counts=True)
    if len(distinct) < FEWEST_GROUPS:
        what = "times" if groups is None else "times of whole groups"
        raise DataError(
            f"the labelled nodes have {len(distinct)} different {what}, which cannot be divided into three parts.",
            "Use a column with at least three different times.",
        )
    shares = np.cumsum(counts) / len(known)
    train_end = int(np.abs(shares[:-2] - TRAIN_SHARE).argmin()) + 1
    val_end = train_end + int(np.abs(shares[train_end:-1] - TRAIN_AND_VAL_SHARE).argmin()) + 1
    parts = np.full(len(y), -1)
    parts[known] = np.searchsorted(distinct[[train_end, val_end]], times[known], side="right")
    return Split(parts == 0, parts == 1, parts == 2, protocol=TIME)


def group_splits(groups: NDArray[np.int64], y: NDArray[np.int64]) -> tuple[Split, ...]:
    """Return splits that keep each group in one part, with similar shares of classes.

    The labelled nodes are divided into five parts, or as many as there are groups. Each part is once for test, and once
    for validation.

    Args:
        groups: The number of the group of each node, `[num_nodes]`.
        y: The labels, `[num_nodes]`. Nodes without a label are in no part.

    Returns:
        The splits.

    Raises:
        DataError: If there are fewer than three groups, or if one is too large for every part.

    Example:
        >>> [split.test.tolist() for split in group_splits(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1]))]
        [[True, True, False, False], [False, False, True, False], [False, False, False, True]]
    """
    from sklearn.model_selection import StratifiedGroupKFold

    known = np.flatnonzero(y >= 0)
    sizes = np.unique(groups[known], return_counts=True)[1]
    how = "Use a column with more and smaller groups."
    if len(sizes) < FEWEST_GROUPS:
        raise DataError(f"the labelled nodes are in {len(sizes)} groups, too few for three parts.", how)
    if sizes.max() > TRAIN_SHARE * len(known):
        raise DataError(
            f"one group holds {sizes.max() / len(known):.0%} of the labelled nodes, more than the training part "
            f"({TRAIN_SHARE:.0%}).",
            how,
        )
    folds = min(FOLDS, len(sizes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of classes with fewer nodes than parts
        try:
            drawn = [
                test for _, test in StratifiedGroupKFold(folds).split(known, _mergeable(y[known], folds), groups[known])
            ]
        except ValueError as error:
            raise DataError(f"the groups cannot be divided: {error}.", how) from None
    if min(map(len, drawn)) == 0:
        raise DataError(f"the groups cannot be divided into {folds} parts, because some are too large.", how)
    part_of = np.full(len(y), -1)
    for number, rows in enumerate(drawn):
        part_of[known[rows]] = number
    splits = []
    for test in range(folds):
        val = (test + 1) % folds
        train = (part_of >= 0) & (part_of != test) & (part_of != val)
        splits.append(Split(train, part_of == val, part_of == test, protocol=GROUP, index=test))
    return tuple(splits)


def _mergeable(labels: NDArray[np.int64], folds: int) -> NDArray[np.int64]:
    """Return labels for the stratification: none matter if all classes have fewer nodes than there are parts."""
    return labels if np.bincount(labels).max() >= folds else np.zeros_like(labels)
