"""Metrics of test nodes by period, for a split by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.metrics import log_probabilities, measure

MOST_PERIODS = 5


class Period(NamedTuple):
    """Test nodes of one period: its first and last time, their labels, and the metric of each run."""

    first: float
    last: float
    labels: NDArray[np.int64]
    values: list[float]


def metric_periods(
    times: NDArray[np.float64], probabilities: NDArray[np.floating], graph: Graph, splits: Sequence[Split], metric: str
) -> list[Period]:
    """Divide the test nodes into periods of about equally many nodes; nodes of one time are in one period.

    Args:
        times: The time of each node, NaN where unknown.
        probabilities: The probabilities of each run, `[runs, n, c]`.
        graph: The graph.
        splits: The split of each run, which is the same for all.
        metric: The metric.

    Returns:
        At most five periods, the earliest first.
    """
    tested = np.flatnonzero(splits[0].test & graph.labelled & ~np.isnan(times))
    if len(tested) == 0:
        return []
    cuts = np.quantile(times[tested], np.linspace(0, 1, MOST_PERIODS + 1)[1:-1], method="inverted_cdf")
    number = np.searchsorted(np.unique(cuts), times[tested])
    periods = []
    for one in np.unique(number):
        nodes = tested[number == one]
        labels = torch.tensor(graph.y[nodes])
        values = [measure(metric, log_probabilities(p[nodes]), labels) for p in probabilities]
        periods.append(Period(times[nodes].min(), times[nodes].max(), graph.y[nodes], values))
    return periods
