"""Losses and metrics over the nodes of several ranks, by sums where sums suffice."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from nlgnn.nn.kernels.ranks import Ranks
from nlgnn.training.metrics import CONFUSION_METRICS, check_metric, measure, of_confusions


def validate_over_ranks(
    ranks: Ranks, metric: str, logits: Float[Tensor, "1 n c"], y: Int[Tensor, " n"], nodes: Int[Tensor, "1 k"]
) -> tuple[list[float], list[float]]:
    """Return what `validate` returns for one model, over the nodes of all ranks.

    Args:
        ranks: The ranks.
        metric: The metric.
        logits: The logits of the nodes of this rank.
        y: Their labels.
        nodes: The validation nodes among them.
    """
    classes = logits.shape[2]
    check_metric(metric, classes)
    chosen, truth = logits[0].index_select(0, nodes[0]), y.index_select(0, nodes[0])
    loss_sum = F.cross_entropy(chosen, truth, reduction="sum").double()
    pairs = torch.bincount(truth * classes + chosen.argmax(1), minlength=classes**2)
    sums = ranks.add(torch.cat([loss_sum.view(1), pairs.double()]))
    confusions = sums[1:].view(classes, classes).long()
    count = max(1, int(confusions.sum()))
    loss = float(sums[0]) / count
    if metric == "accuracy":
        return [loss], [100 * int(confusions.diagonal().sum()) / count]
    if metric == "log-loss":
        return [loss], [-100 * loss]
    if metric in CONFUSION_METRICS:
        return [loss], [of_confusions(metric, confusions.numpy()) if math.isfinite(loss) else math.nan]
    # The other metrics sort the nodes by the difference of two logits.
    margins = ranks.gather((chosen[:, 1] - chosen[:, 0]).double())
    truth = ranks.gather(truth)
    two_logits = torch.stack([torch.zeros_like(margins), margins], 1)
    return [loss], [measure(metric, two_logits, truth) if math.isfinite(loss) else math.nan]
