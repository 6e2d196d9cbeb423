"""Who voted on a node: the training nodes near it in a learned metric, their weights, and what each adds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from nlgnn.graph.graph import Graph
from nlgnn.nn.inputs import prepare
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.nn.vote import SHARES

Figures = NDArray[np.floating[Any]]


class Votes(NamedTuple):
    """The k training nodes that one node hears, by falling weight.

    With votes of residuals, the logits are `own + contributions.sum(0)`, exactly. With votes of labels they are `own`
    plus the logarithm of what the labels' weights give, which is no sum over nodes: there are no contributions.
    """

    nodes: NDArray[np.int64]  # [k]
    weights: Figures  # [k]
    own: Figures  # [c], the local logits
    contributions: Figures | None  # [k, c]
    share: float  # how much votes count


@torch.no_grad()
def votes_on(model: NonLocal, graph: Graph, node: int) -> Votes:
    """The graph's features must be scaled as in training; the model stays in its mode."""
    metric, vote, was_training = model.metric, model.vote, model.training
    assert metric is not None
    assert vote is not None
    model.eval()
    local, e = model.located(*prepare(model, graph, vote.known.device))
    nodes, weights = metric.heard_by(e, node)
    model.train(was_training)
    speaking = vote.known[nodes] >= 0
    order = weights[speaking].argsort(descending=True, stable=True)
    nodes, weights = nodes[speaking][order], weights[speaking][order]
    share = SHARES[int(vote.share)]
    contributions = None
    if metric.form == "residual":
        said = metric.messages(local, vote.known)[nodes, :-1]
        factor = share * metric.log_strength.exp() / (metric.eps + weights.sum())
        contributions = (factor * weights.unsqueeze(1) * said).cpu().numpy()
    return Votes(nodes.cpu().numpy(), weights.cpu().numpy(), local[node].cpu().numpy(), contributions, share)
