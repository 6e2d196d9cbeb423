"""Accuracy, macro-F1 and ROC-AUC of logits, in percent."""

from __future__ import annotations

import math

from jaxtyping import Float, Int
from sklearn.metrics import f1_score, roc_auc_score
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
        margin = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
        return 100 * float(roc_auc_score(truth, margin)) if 0 < truth.mean() < 1 else 50.0
    raise OptionError(f"metric={metric!r} is unknown.", "Choose accuracy, macro-f1 or roc-auc.")


def validate(
    metric: str, logits: Float[Tensor, "r n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, "r k"]
) -> tuple[list[float], list[float]]:
    """Cross entropy and one metric for each of several models, over nodes of its own."""
    shape = (len(logits), logits.shape[2], nodes.shape[1])
    chosen = logits.mT.gather(2, nodes.unsqueeze(1).expand(shape))  # [r, c, k], classes before nodes: see nn/dense.py
    truth = y[nodes]
    losses = F.log_softmax(chosen, dim=1).gather(1, truth.unsqueeze(1)).squeeze(1).mean(1).neg().tolist()
    if metric == "accuracy":
        return losses, (100 * (chosen.max(1).indices == truth).double().mean(1)).tolist()
    # Of logits that are no numbers there is nothing to measure.
    each = zip(chosen, truth, losses, strict=True)
    return losses, [measure(metric, one.t(), y) if math.isfinite(loss) else math.nan for one, y, loss in each]


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
