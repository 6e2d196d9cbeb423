"""Greedy choice of a sum of kernels by validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nlgnn.shallow.base import must_end
from nlgnn.shallow.kernel_votes import Floats, solve_ridge
from nlgnn.shallow.similarity import Kernel, Similarities, kernel_values
from nlgnn.training.metrics import measure

OTHER_WEIGHTS = (0.5, 1.5)  # of a further kernel; 1 is tried first
SEARCH_RIDGE = 0.3
USUAL_KERNELS = 3  # in a sum, for the share of the search that is done
SEARCH_SHARE = 0.6  # of the time of a fit, about; the solution takes the rest
TEMPERATURES = np.geomspace(0.01, 10, 31)


class Score(NamedTuple):
    """A validation score, and the mean log-likelihood that decides between equal scores."""

    metric: float
    likelihood: float


class Validation(NamedTuple):
    """The labels of validation nodes and the metric that compares scores of these nodes.

    Args:
        metric: The name of the metric.
        labels: The labels of the validation nodes, `[v]`.
    """

    metric: str
    labels: NDArray[np.int64]

    def score(self, scores: Floats) -> Score:
        """Return the validation score of the scores of validation nodes, `[v, c]`."""
        likelihood = float(self._likelihoods(scores).max())
        if self.metric == "log-loss":  # of the probabilities that are predicted, which depend on the temperature
            return Score(100 * likelihood, likelihood)
        return Score(measure(self.metric, torch.from_numpy(scores), torch.from_numpy(self.labels)), likelihood)

    def temperature(self, scores: Floats) -> float:
        """Return the temperature whose probabilities softmax(scores / T) have the largest likelihood."""
        return float(self._temperatures[self._likelihoods(scores).argmax()])

    @property
    def _temperatures(self) -> NDArray[np.float64]:
        """The temperatures to choose from; only 1 for labels of one class, which would make every model certain."""
        return TEMPERATURES if np.ptp(self.labels) > 0 else np.ones(1)

    def _likelihoods(self, scores: Floats) -> NDArray[np.float64]:
        """Return the mean log-likelihood for each temperature."""
        below = scores - scores.max(axis=1, keepdims=True)  # at most 0, so that exp does not overflow
        own = below[np.arange(len(below)), self.labels].mean(dtype=np.float64)
        tried = self._temperatures
        normalisers = [np.log(np.exp(below / np.float32(t)).sum(axis=1)).mean(dtype=np.float64) for t in tried]
        likelihoods: NDArray[np.float64] = own / tried - np.array(normalisers)
        return likelihoods


def choose_kernels(
    similarities: Similarities,
    train: NDArray[np.int64],
    targets: Floats,
    mean: Floats,
    val: NDArray[np.int64],
    validation: Validation,
    candidates: Sequence[Kernel],
    most: int,
    ridge: float | None = None,
    weights: Floats | None = None,
) -> list[Kernel]:
    """Return the kernels of a sum, added one at a time as long as the validation score rises.

    Each step tries every candidate of a description that is not in the sum yet, with weight 1, and the best of them
    with other weights as well.

    Args:
        similarities: The kernels between nodes.
        train: The training nodes.
        targets: The one-hot labels of training nodes minus `mean`, `[t, c]`.
        mean: The share of each class among training nodes, `[c]`.
        val: The validation nodes.
        validation: Their labels and the metric.
        candidates: The kernels to choose from, with weight 1.
        most: The largest number of kernels.
        ridge: The ridge of all solutions; by default 0.3.
        weights: The weights of training nodes, as for `solve_ridge`.

    Returns:
        The chosen kernels, at least one.
    """
    nodes = np.concatenate([train, val])
    names = dict.fromkeys(kernel.description for kernel in candidates)
    close = {}
    for name in names:
        close[name] = similarities.closeness(name, nodes, train)
        must_end(None)
    ridges = [SEARCH_RIDGE if ridge is None else ridge]
    chosen: list[Kernel] = []
    total = np.zeros((len(nodes), len(train)), np.float32)
    best: Score | None = None

    def with_kernel(kernel: Kernel) -> NDArray[np.float32]:
        values = kernel_values(close[kernel.description], kernel)
        values += total
        return values

    def trial(kernel: Kernel) -> tuple[Score, Kernel]:
        values = with_kernel(kernel)
        coefficients = solve_ridge(values[: len(train)], targets, ridges, weights)[0]
        return validation.score(values[len(train) :] @ coefficients + mean), kernel

    while len(chosen) < most:
        used = {kernel.description for kernel in chosen}
        trials = []
        for number, kernel in enumerate(candidates):
            if kernel.description not in used:
                trials.append(trial(kernel))
            searched = (len(chosen) + number / len(candidates)) / min(most, USUAL_KERNELS)
            if must_end(SEARCH_SHARE * min(1.0, searched)):
                most = len(chosen) + 1
                break
        if not trials:
            break
        score, kernel = max(trials, key=lambda one: one[0])
        if chosen:  # the weight of a single kernel only changes the meaning of the ridge
            others = [trial(kernel._replace(weight=weight)) for weight in OTHER_WEIGHTS]
            score, kernel = max([(score, kernel), *others], key=lambda one: one[0])
        if best is not None and score <= best:
            break
        best, total = score, with_kernel(kernel)
        chosen.append(kernel)
    return chosen
