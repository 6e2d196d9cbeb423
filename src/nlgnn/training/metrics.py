"""Evaluation metrics of logits, in percent. A larger value is better for every metric.

The positive class of f1, roc-auc, average-precision and the metrics at k is class 1. Log-loss is negated and multiplied
by 100; lift is multiplied by 100.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from nlgnn.errors import OptionError, nearest
from nlgnn.training.recipe import AT_K, METRICS

SMALLEST = 1e-30  # probability whose logarithm is finite in float32
CONFUSION_METRICS = ("balanced-accuracy", "macro-f1", "f1")
TWO_CLASSES = ("f1", "roc-auc", "average-precision")
KINDS_AT_K = ("precision-at-100", "recall-at-100", "lift-at-100")  # examples, for suggestions


def measure(metric: str, logits: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> float:
    """Return a metric of some nodes.

    Args:
        metric: One of `METRICS`, or a metric at k, such as precision-at-100 or recall-at-0.05.
        logits: Logits, or logarithms of probabilities.
        y: The labels.

    Returns:
        The metric in percent; for log-loss the negative loss times 100. ROC-AUC is 50 if only one class occurs, and
        average precision, recall at k and lift at k are 0 if class 1 does not occur.

    Raises:
        OptionError: If the metric is unknown or needs two classes.
    """
    check_metric(metric, logits.shape[1])
    if metric == "accuracy":
        return 100 * (logits.argmax(1) == y).double().mean().item()
    if metric == "log-loss":
        return -100 * F.cross_entropy(logits.double(), y).item()
    truth = y.cpu().numpy()
    if metric != "f1" and needs_two_classes(metric):
        margins = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
        if at_k := AT_K.fullmatch(metric):
            return 100 * float(getattr(at_top(margins, truth, at_k[2]), at_k[1]))
        return float(_roc_auc(margins, truth)) if metric == "roc-auc" else _average_precision(margins, truth)
    classes = logits.shape[1]
    pairs = np.bincount(truth * classes + logits.argmax(1).cpu().numpy(), minlength=classes**2)
    return of_confusions(metric, pairs.reshape(classes, classes))


def log_probabilities(
    probabilities: Float[Tensor, "*shape"] | Float[np.ndarray, "*shape"],
) -> Float[Tensor, "*shape"]:
    """Return the logarithms of probabilities, which serve as logits. That of 0 is finite.

    Example:
        >>> log_probabilities(torch.tensor([1.0, 0.0]))
        tensor([  0.0000, -69.0776])
    """
    return torch.as_tensor(probabilities).clamp(min=SMALLEST).log()


def validate(
    metric: str, logits: Float[Tensor, "r n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, "r k"]
) -> tuple[list[float], list[float]]:
    """Return the cross entropy and a metric of each of several models, over its own nodes.

    Metrics other than accuracy are NaN if the loss is not finite.
    """
    check_metric(metric, logits.shape[2])
    shape = (len(logits), logits.shape[2], nodes.shape[1])
    # [r, c, k], classes before nodes: see cross_entropy of nn/layers.py
    chosen = logits.mT.gather(2, nodes.unsqueeze(1).expand(shape))
    truth = y[nodes]
    losses = F.log_softmax(chosen, dim=1).gather(1, truth.unsqueeze(1)).squeeze(1).mean(1).neg().tolist()
    if metric == "accuracy":
        return losses, (100 * (chosen.max(1).indices == truth).double().mean(1)).tolist()
    if metric == "log-loss":
        return losses, [-100 * loss for loss in losses]
    if metric == "roc-auc":
        margins = (chosen[:, 1] - chosen[:, 0]).double().cpu().numpy()
        return losses, np.where(np.isfinite(losses), _roc_auc(margins, truth.cpu().numpy()), np.nan).tolist()
    each = zip(chosen, truth, losses, strict=True)
    return losses, [measure(metric, one.t(), y) if math.isfinite(loss) else math.nan for one, y, loss in each]


def _roc_auc(margins: NDArray[np.float64], truth: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the share of pairs of both classes in which class 1 has the larger margin; equal margins count half.

    Ranks give it for all models at once; scikit-learn takes one at a time, and checks its input for longer.
    """
    from scipy.stats import rankdata  # takes half a second

    positive, negative = truth.sum(-1), (1 - truth).sum(-1)
    smaller = (rankdata(margins, axis=-1) * truth).sum(-1) - positive * (positive + 1) / 2
    pairs = positive * negative
    auc: NDArray[np.float64] = np.where(pairs == 0, 50.0, 100 * smaller / np.maximum(pairs, 1))
    return auc


def _average_precision(margins: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """Return the mean precision over nodes of class 1, each at the lowest margin that includes it.

    scikit-learn's function computes the same, and checks its input for most of the time.
    """
    from scipy.stats import rankdata

    at_least = rankdata(-margins, method="max").astype(np.int64)  # the number of nodes with this margin or a larger one
    positive = truth == 1
    if not positive.any():
        return 0.0
    found = np.searchsorted(np.sort(at_least[positive]), at_least[positive], side="right")
    return 100 * float((found / at_least[positive]).mean())


def of_confusions(metric: str, confusions: NDArray[np.int64]) -> float:
    """Return balanced-accuracy, macro-f1 or f1 from a confusion matrix, in a fraction of the time of scikit-learn.

    Args:
        metric: One of `CONFUSION_METRICS`.
        confusions: The number of nodes by label and by prediction, `[classes, classes]`.
    """
    hits, of_truth, of_predicted = confusions.diagonal(), confusions.sum(1), confusions.sum(0)
    if metric == "balanced-accuracy":
        return 100 * float((hits / np.maximum(of_truth, 1))[of_truth > 0].mean())
    f1 = 2 * hits / np.maximum(of_truth + of_predicted, 1)
    return 100 * float(f1[1] if metric == "f1" else f1[of_truth + of_predicted > 0].mean())


class TopK(NamedTuple):
    """Figures of the k nodes with the highest scores: their number, how many are positive, and shares from 0 to 1.

    Lift is the precision divided by the share of the class among all nodes.
    """

    k: int
    hits: float
    precision: float
    recall: float
    lift: float


def at_top(scores: NDArray[np.floating], truth: NDArray[np.integer], k: int | str) -> TopK:
    """Return how many of the highest-scored nodes are of class 1.

    Of nodes with equal scores that are not all among the first k, each counts as often as a random order puts it there.

    Args:
        scores: The score of each node; a constant has no effect.
        truth: The label of each node, 1 or another one.
        k: A number of nodes, or a share of them below 1, of which at least one node is taken; all if there are fewer.

    Example:
        >>> at_top(np.array([0.9, 0.8, 0.2, 0.1]), np.array([1, 0, 1, 0]), 2)
        TopK(k=2, hits=1.0, precision=0.5, recall=0.5, lift=1.0)
    """
    positive, nodes, wanted = truth == 1, len(truth), float(k)
    number = min(nodes, int(wanted) if wanted >= 1 else max(1, round(wanted * nodes)))
    if not number:
        return TopK(0, 0.0, 0.0, 0.0, 0.0)
    last = np.partition(scores, nodes - number)[nodes - number]  # the lowest score among the first
    above, tied = scores > last, scores == last
    share = (number - above.sum()) / max(1, tied.sum())
    hits = float(positive[above].sum() + share * positive[tied].sum())
    total = int(positive.sum())
    return TopK(number, hits, hits / number, hits / max(1, total), hits * nodes / (number * max(1, total)))


def measure_all(logits: Float[Tensor, "n c"], y: Int[Tensor, " n"], asked: str = "accuracy") -> dict[str, float]:
    """Return every metric that applies, and the one that was asked for; none if there are no nodes."""
    if len(y) == 0:
        return {}
    names = [name for name in METRICS if logits.shape[1] == 2 or name not in TWO_CLASSES]
    return {name: measure(name, logits, y) for name in dict.fromkeys([*names, asked])}


def needs_two_classes(metric: str) -> bool:
    """Return whether a metric has a positive class."""
    return metric in TWO_CLASSES or AT_K.fullmatch(metric) is not None


def check_metric(metric: str, num_classes: int) -> None:
    """Raise an `OptionError` if a metric is unknown or does not apply to a number of classes."""
    if metric not in METRICS and not AT_K.fullmatch(metric):
        raise OptionError(f"metric={metric!r} is unknown.", nearest(metric, [*METRICS, *KINDS_AT_K]))
    if needs_two_classes(metric) and num_classes != 2:
        raise OptionError(
            f"{metric} needs two classes, this graph has {num_classes}.",
            "Use accuracy, balanced-accuracy, macro-f1 or log-loss.",
        )
