"""Who is heard: the training nodes that voted on a node, what each added, and whether those near it agree with it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from nlgnn.graph.graph import Graph
from nlgnn.nn.inputs import prepare
from nlgnn.nn.modes import evaluating
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.nn.vote import SHARES

Figures = NDArray[np.floating[Any]]


class Votes(NamedTuple):
    """The k training nodes that one node hears, by falling weight.

    With votes of residuals, the logits are `own + contributions.sum(0)`, exactly. With votes of labels they are `own`
    plus the logarithm of what the labels' weights give, which is no sum over nodes: there are no contributions.
    """

    nodes: NDArray[np.int64]  # [k]
    labels: NDArray[np.int64]  # [k], which they vote with
    weights: Figures  # [k]
    own: Figures  # [c], the local logits
    contributions: Figures | None  # [k, c]
    share: float  # how much votes count


@torch.no_grad()
def votes_on(model: NonLocal, graph: Graph, node: int) -> Votes:
    """The graph's features must be scaled as in training; the model stays in its mode."""
    metric, vote = model.metric, model.vote
    assert metric is not None
    assert vote is not None
    with evaluating(model):
        local, e = model.located(*prepare(model, graph, vote.known.device))
        nodes, weights = metric.heard_by(e, node)
    speaking = vote.known[nodes] >= 0
    order = weights[speaking].argsort(descending=True, stable=True)
    nodes, weights = nodes[speaking][order], weights[speaking][order]
    share = SHARES[int(vote.share)]
    contributions = None
    if metric.form == "residual":
        said = metric.messages(local, vote.known)[nodes, :-1]
        factor = share * metric.log_strength.exp() / (metric.eps + weights.sum())
        contributions = (factor * weights.unsqueeze(1) * said).cpu().numpy()
    numbers, labels, by_voter, own = (part.cpu().numpy() for part in (nodes, vote.known[nodes], weights, local[node]))
    return Votes(numbers, labels, by_voter, own, contributions, share)


@torch.no_grad()
def heard_homophily(model: NonLocal, graph: Graph) -> float:
    """The share of what a node hears, were all labelled nodes to say their label, that is its own label.

    The mean over labelled nodes, each by how much it hears: one whose votes `eps` draws to nothing hardly counts. As
    `reconnected_homophily` it looks at all labels: an analysis, never a signal for training. The graph's features must
    be scaled as in training.
    """
    metric = model.metric
    assert metric is not None
    with evaluating(model):
        e = metric(model.raw_input(prepare(model, graph, metric.weight.device)))
        y = torch.from_numpy(graph.y).to(e.device)
        labelled = y >= 0
        heard = metric.heard(e, F.one_hot(y.clamp(min=0)).to(e.dtype) * labelled.unsqueeze(1))[labelled]
    volumes = heard.sum(1)
    own = heard.gather(1, y[labelled].unsqueeze(1)).squeeze(1) / (metric.eps + volumes)
    return float(own.sum() / (volumes / (metric.eps + volumes)).sum().clamp(min=torch.finfo(e.dtype).tiny))
