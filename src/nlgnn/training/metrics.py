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
    """One metric over the nodes given. ROC-AUC needs two classes; it is 50 where only one of them occurs."""
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
    """Cross entropy and one metric for each of several models, over nodes of its own.

    Of logits that are no numbers there is nothing to measure: macro-F1 and ROC-AUC are none either.
    """
    shape = (len(logits), logits.shape[2], nodes.shape[1])
    chosen = logits.mT.gather(2, nodes.unsqueeze(1).expand(shape))  # [r, c, k], classes before nodes: see nn/dense.py
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
    """The share of pairs of both classes in which the node of class 1 has the larger margin; equal ones count half.

    By ranks, for all models at once: scikit-learn takes one at a time, and longer to check it than to measure it.
    """
    positive, negative = truth.sum(-1), (1 - truth).sum(-1)
    smaller = (rankdata(margins, axis=-1) * truth).sum(-1) - positive * (positive + 1) / 2
    pairs = positive * negative
    auc: NDArray[np.float64] = np.where(pairs == 0, 50.0, 100 * smaller / np.maximum(pairs, 1))
    return auc


def measure_all(logits: Float[Tensor, "n c"], y: Int[Tensor, " n"]) -> dict[str, float]:
    """Every metric that applies; none of no nodes."""
    if len(y) == 0:
        return {}
    names = ["accuracy", "macro-f1", *(["roc-auc"] if logits.shape[1] == 2 else [])]
    return {name: measure(name, logits, y) for name in names}


def check_metric(metric: str, num_classes: int) -> None:
    if metric == "roc-auc" and num_classes != 2:
        raise OptionError(
            f"roc-auc needs two classes, this graph has {num_classes}.", "Use the metric accuracy or macro-f1."
        )
