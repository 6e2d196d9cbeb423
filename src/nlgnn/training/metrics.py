"""Accuracy, macro-F1 and ROC-AUC of logits, in percent."""

from __future__ import annotations

import math

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.metrics import f1_score
from torch import Tensor
from torch.nn import functional as F

from nlgnn.errors import OptionError


def measure(metric: str, logits: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> float:
    """Return a metric in percent. ROC-AUC needs two classes, and is 50 if only one of them occurs."""
    if metric == "accuracy":
        return 100 * (logits.argmax(1) == y).double().mean().item()
    truth = y.cpu().numpy()
    if metric == "macro-f1":
        return 100 * float(f1_score(truth, logits.argmax(1).cpu().numpy(), average="macro", zero_division=0))
    if metric == "roc-auc":
        check_metric(metric, logits.shape[1])
        return float(_roc_auc((logits[:, 1] - logits[:, 0]).double().cpu().numpy(), truth))
    raise OptionError(f"metric={metric!r} is unknown.", "Choose accuracy, macro-f1 or roc-auc.")


def validate(
    metric: str, logits: Float[Tensor, "r n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, "r k"]
) -> tuple[list[float], list[float]]:
    """Return the cross entropy and a metric of each of several models, over its own nodes.

    Macro-F1 and ROC-AUC are NaN if the loss is not finite.
    """
    shape = (len(logits), logits.shape[2], nodes.shape[1])
    # [r, c, k], classes before nodes: see cross_entropy of nn/layers.py
    chosen = logits.mT.gather(2, nodes.unsqueeze(1).expand(shape))
    truth = y[nodes]
    losses = F.log_softmax(chosen, dim=1).gather(1, truth.unsqueeze(1)).squeeze(1).mean(1).neg().tolist()
    if metric == "accuracy":
        return losses, (100 * (chosen.max(1).indices == truth).double().mean(1)).tolist()
    if metric == "roc-auc":
        check_metric(metric, chosen.shape[1])
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


def measure_all(logits: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> dict[str, float]:
    """Return every metric that applies; none if there are no nodes."""
    if len(y) == 0:
        return {}
    names = ["accuracy", "macro-f1", *(["roc-auc"] if logits.shape[1] == 2 else [])]
    return {name: measure(name, logits, y) for name in names}


def check_metric(metric: str, num_classes: int) -> None:
    """Raise an `OptionError` if a metric does not apply to a number of classes."""
    if metric == "roc-auc" and num_classes != 2:
        raise OptionError(
            f"roc-auc needs two classes, this graph has {num_classes}.", "Use the metric accuracy or macro-f1."
        )
