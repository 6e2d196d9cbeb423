"""Evaluation metrics of logits, in percent. A larger value is better for every metric.

The positive class of f1, roc-auc and average-precision is class 1. Log-loss is negated and multiplied by 100.
"""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import f1_score, recall_score
from torch import Tensor
from torch.nn import functional as F

from nlgnn.errors import OptionError, nearest
from nlgnn.training.recipe import METRICS

TWO_CLASSES = ("f1", "roc-auc", "average-precision")


def measure(metric: str, logits: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> float:
    """Return a metric of some nodes.

    Args:
        metric: One of `METRICS`.
        logits: Logits, or logarithms of probabilities.
        y: The labels.

    Returns:
        The metric in percent; for log-loss the negative loss times 100. ROC-AUC is 50 if only one class occurs, and
        average precision is 0 if class 1 does not occur.

    Raises:
        OptionError: If the metric is unknown or needs two classes.
    """
    check_metric(metric, logits.shape[1])
    if metric == "accuracy":
        return 100 * (logits.argmax(1) == y).double().mean().item()
    if metric == "log-loss":
        return -100 * F.cross_entropy(logits.double(), y).item()
    truth = y.cpu().numpy()
    if metric in ("roc-auc", "average-precision"):
        margins = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
        return float(_roc_auc(margins, truth)) if metric == "roc-auc" else _average_precision(margins, truth)
    predicted = logits.argmax(1).cpu().numpy()
    if metric == "balanced-accuracy":
        return 100 * float(recall_score(truth, predicted, labels=np.unique(truth), average="macro"))
    average = "binary" if metric == "f1" else "macro"
    return 100 * float(f1_score(truth, predicted, average=average, zero_division=0))


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
    positive, negative = truth.sum(-1), (1 - truth).sum(-1)
    smaller = (rankdata(margins, axis=-1) * truth).sum(-1) - positive * (positive + 1) / 2
    pairs = positive * negative
    auc: NDArray[np.float64] = np.where(pairs == 0, 50.0, 100 * smaller / np.maximum(pairs, 1))
    return auc


def _average_precision(margins: NDArray[np.float64], truth: NDArray[np.int64]) -> float:
    """Return the mean precision over nodes of class 1, each at the lowest margin that includes it.

    scikit-learn's function computes the same, and checks its input for most of the time.
    """
    at_least = rankdata(-margins, method="max").astype(np.int64)  # the number of nodes with this margin or a larger one
    positive = truth == 1
    if not positive.any():
        return 0.0
    found = np.searchsorted(np.sort(at_least[positive]), at_least[positive], side="right")
    return 100 * float((found / at_least[positive]).mean())


def measure_all(logits: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> dict[str, float]:
    """Return every metric that applies; none if there are no nodes."""
    if len(y) == 0:
        return {}
    names = [name for name in METRICS if logits.shape[1] == 2 or name not in TWO_CLASSES]
    return {name: measure(name, logits, y) for name in names}


def check_metric(metric: str, num_classes: int) -> None:
    """Raise an `OptionError` if a metric is unknown or does not apply to a number of classes."""
    if metric not in METRICS:
        raise OptionError(f"metric={metric!r} is unknown.", nearest(metric, METRICS))
    if metric in TWO_CLASSES and num_classes != 2:
        raise OptionError(
            f"{metric} needs two classes, this graph has {num_classes}.",
            "Use accuracy, balanced-accuracy, macro-f1 or log-loss.",
        )
