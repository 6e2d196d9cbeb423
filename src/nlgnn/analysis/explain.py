"""Explanation of one node: its prediction, its window in the sorted order or its voters, and its neighbours."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn
from torch.nn import functional as F

from nlgnn.analysis.contributions import Explanations, Figures, SortedPass, convolutions_to_split, evaluate_on
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.descriptions import adjacency
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import evaluating, prepare
from nlgnn.nn.neighbour_vote import SHARES, NeighbourVote
from nlgnn.shallow.base import Contributions, ShallowModel
from nlgnn.training.metrics import log_probabilities

MOST_NAMES = 20_000  # Names that are searched for one like a misspelt one, which takes a second.


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """Number, name, label and predicted class of a node; the label is None if it is unknown."""

    node: int
    name: str
    label: str | None
    prediction: str


@dataclass(frozen=True, eq=False)
class WindowNode(NodeFacts):
    """A node near the explained one in the order, and its contribution to the logit of each class."""

    offset: int
    contributions: Figures


@dataclass(frozen=True, eq=False)
class Voter(NodeFacts):
    """A training node that votes on the explained one, and its contribution to the logit of each class.

    Attributes:
        weight: The weight of its vote.
        contributions: What it adds to the logit of each class.
        linked: Whether it is a neighbour of the explained node in the graph.
        shared: The names of the nodes that both link to, by number; neighbours if edges have no direction.
    """

    weight: float
    contributions: Figures
    linked: bool = False
    shared: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Explanation(NodeFacts):
    """Prediction of a node and the parts that it is made of, as in `Explanations`; figures are per class.

    The node itself is in its window, at offset 0. A model that sorts nothing has no window; `why_no_window` says so.

    Attributes:
        other_class: The class of the label if it is not predicted, else the second most probable class.
        voters: Training nodes that voted, by falling weight. The logits are `own` plus their contributions.
        vote_share: The factor of all votes; None for a model without votes.
        num_links: The number of nodes that the node links to; its neighbours if edges have no direction.
        by_column: What each column adds to the scores of this node, for a shallow model that can say.
    """

    class_names: tuple[str, ...]
    logits: Figures
    other_class: int | None
    neighbours: tuple[NodeFacts, ...]
    num_nodes: int
    window: tuple[WindowNode, ...] = ()
    own: Figures | None = None
    bias: Figures | None = None
    silenced: Figures | None = None
    position: int | None = None
    score: float | None = None
    why_no_window: str | None = None
    voters: tuple[Voter, ...] = ()
    vote_share: float | None = None
    num_links: int = 0
    by_column: Contributions | None = None

    @property
    def probabilities(self) -> Figures:
        """Return the probability of each class."""
        return np.asarray(softmax(self.logits))

    @property
    def probability(self) -> float:
        """Return the probability of the predicted class."""
        return float(self.probabilities.max())

    @property
    def silenced_probabilities(self) -> Figures | None:
        """Return the probabilities without the non-local part, or None for a local model."""
        return None if self.silenced is None else np.asarray(softmax(self.silenced))


def explain_node(model: nn.Module | ShallowModel, graph: Graph, node: int | np.integer | str) -> Explanation:
    """Explain the prediction of a node.

    Args:
        model: Any model. Those that sort and convolve have a window to show, and some shallow models the contributions
            of columns.
        graph: The graph, with features scaled as in training (`graph.scale_features(recipe.features)`).
        node: Number of the node, or its name if the graph has names.

    Returns:
        The explanation.

    Raises:
        DataError: If the graph has no such node.

    Example:
        >>> from nlgnn import NLMLP, explain_node, load_graph
        >>> graph = load_graph("mushroom-body")
        >>> found = explain_node(NLMLP(graph.num_features, 8, graph.num_classes), graph, 3)
        >>> [one.offset for one in found.window if one.node == 3]
        [0]
    """
    number = node_number(graph, node)
    split, why_no_window, columns = None, None, None
    if isinstance(model, ShallowModel):
        logits, columns = log_probabilities(model.predict(graph)), model.contributions(graph, np.array([number]))
        if columns is None:
            why_no_window = f"{type(model).__name__} does not tell how much each column contributes."
    else:
        try:
            convolutions_to_split(model)
        except OptionError as error:
            logits, why_no_window = evaluate_on(model, graph), error.what[0].upper() + error.what[1:]
        else:
            passed = SortedPass.of(model, graph)
            logits, split = passed.logits, passed.explain(np.array([number]))
    votes = votes_on(model, graph, number) if isinstance(model, NeighbourVote) else None
    all_logits = logits.cpu().numpy()
    own_logits, predictions = all_logits[number], all_logits.argmax(1)
    neighbours = graph.undirected_adjacency[[number]].indices.astype(np.int64)
    return Explanation(
        **node_facts(graph, predictions, number),
        class_names=graph.class_names,
        logits=own_logits,
        other_class=_other_class(own_logits, int(graph.y[number])),
        neighbours=tuple(NodeFacts(**node_facts(graph, predictions, other)) for other in np.sort(neighbours).tolist()),
        num_nodes=graph.num_nodes,
        why_no_window=why_no_window,
        by_column=columns,
        **_of_split(split, graph, predictions) if split else {},
        **_of_votes(votes, graph, number, predictions) if votes else {},
    )


def node_facts(graph: Graph, predictions: NDArray[np.int64], node: int) -> dict[str, Any]:
    """Return the arguments of `NodeFacts` for one node."""
    return {
        "node": node,
        "name": _name(graph, node),
        "label": graph.class_names[graph.y[node]] if graph.y[node] >= 0 else None,
        "prediction": graph.class_names[predictions[node]],
    }


def _name(graph: Graph, node: int) -> str:
    return str(node) if graph.node_names is None else graph.node_names[node]


def _of_split(split: Explanations, graph: Graph, predictions: NDArray[np.int64]) -> dict[str, Any]:
    reach = split.window_nodes.shape[1] // 2
    nodes = zip(split.window_nodes[0].tolist(), split.contributions[0], strict=True)
    window = tuple(
        WindowNode(**node_facts(graph, predictions, node), offset=offset, contributions=contributions)
        for offset, (node, contributions) in enumerate(nodes, start=-reach)
        if node >= 0
    )
    figures = {"own": split.own[0], "bias": split.bias[0], "silenced": split.silenced[0]}
    return {"window": window, **figures, "position": int(split.position[0]), "score": float(split.score[0])}


def _of_votes(votes: Votes, graph: Graph, node: int, predictions: NDArray[np.int64]) -> dict[str, Any]:
    links, near = adjacency(graph, "out-"), set(adjacency(graph)[[node]].indices.tolist())
    own = links[[node]].indices
    voters = []
    for other, label, weight, added in zip(
        votes.nodes.tolist(), votes.labels.tolist(), votes.weights.tolist(), votes.contributions, strict=True
    ):
        shared = np.intersect1d(own, links[[other]].indices).tolist()
        # The label that the node votes with, also where the graph given does not show it.
        facts = node_facts(graph, predictions, other) | {"label": graph.class_names[label]}
        names = tuple(_name(graph, one) for one in shared)
        voters.append(Voter(**facts, weight=weight, contributions=added, linked=other in near, shared=names))
    figures = {"own": votes.own, "silenced": votes.own}
    return {"voters": tuple(voters), "vote_share": votes.share, "num_links": len(own), **figures}


def _other_class(logits: Figures, label: int) -> int | None:
    predicted = int(logits.argmax())
    if label not in (-1, predicted):
        return label
    others = [number for number in np.argsort(-logits).tolist() if number != predicted]
    return others[0] if others else None


def node_number(graph: Graph, node: int | np.integer | str) -> int:
    """Return the number of a node given by number or name; text that is both is a name."""
    names = graph.node_names or ()
    if isinstance(node, str) and node in names:
        if names.count(node) > 1:
            raise DataError(f"graph {graph.name!r} has {names.count(node)} nodes {node!r}.", "Give its number.")
        return names.index(node)
    try:
        number = int(node) if isinstance(node, str) else operator.index(node)
    except (ValueError, TypeError):
        number = -1
    if 0 <= number < graph.num_nodes:
        return number
    few = isinstance(node, str) and len(names) <= MOST_NAMES
    close = get_close_matches(str(node), names, n=1, cutoff=0.5) if few else []
    how = f"Nodes are numbered 0 to {graph.num_nodes - 1}" + (f", or named, such as {names[0]!r}." if names else ".")
    raise DataError(f"graph {graph.name!r} has no node {str(node)!r}.", f"Did you mean {close[0]!r}?" if close else how)


class Votes(NamedTuple):
    """The k training nodes that vote on one node, by falling weight.

    The logits are `own + contributions.sum(0)`, exactly.

    Attributes:
        nodes: Numbers of the nodes, `[k]`.
        labels: Labels that they vote with, `[k]`.
        weights: Weights of their votes, `[k]`.
        own: Local logits of the node, `[c]`.
        contributions: What each vote adds to the logits, `[k, c]`.
        share: The factor of all votes.
    """

    nodes: NDArray[np.int64]
    labels: NDArray[np.int64]
    weights: Figures
    own: Figures
    contributions: Figures
    share: float


@torch.no_grad()
def votes_on(model: NeighbourVote, graph: Graph, node: int) -> Votes:
    """Return the votes on a node. The graph's features must be scaled as in training."""
    space, known = model.space, model.known_of(graph.num_nodes)
    with evaluating(model):
        inputs = prepare(model, graph, known.device)
        local = model.embed(*inputs)
        nodes, weights = space.neighbours_of(model.positions(*inputs), node)
    voting = known[nodes] >= 0
    order = weights[voting].argsort(descending=True, stable=True)
    nodes, weights = nodes[voting][order], weights[voting][order]
    share = SHARES[int(model.share)]
    factor = share * space.log_strength.exp() / (space.shrinkage + weights.sum())
    contributions = factor * weights.unsqueeze(1) * space.messages(local, known)[nodes, :-1]
    parts = (nodes, known[nodes], weights, local[node], contributions)
    numbers, labels, by_voter, own, added = (part.cpu().numpy() for part in parts)
    return Votes(numbers, labels, by_voter, own, added, share)


@torch.no_grad()
def vote_homophily(model: NeighbourVote, graph: Graph) -> float:
    """Return the mean weight of nodes with a node's own label among all nodes near it in the learned space.

    All labelled nodes vote with their labels, and nodes count by their total weight, so that a node whose neighbours
    are all far away hardly counts. This analysis looks at all labels, as `reconnected_homophily` does, and is not a
    signal for training. The graph's features must be scaled as in training.
    """
    space = model.space
    with evaluating(model):
        e = model.positions(*prepare(model, graph, model.known.device))
        y = torch.from_numpy(graph.y).to(e.device)
        labelled = y >= 0
        sums = space.neighbour_sums(e, F.one_hot(y.clamp(min=0)).to(e.dtype) * labelled.unsqueeze(1))[labelled]
    volumes = sums.sum(1)
    own = sums.gather(1, y[labelled].unsqueeze(1)).squeeze(1) / (space.shrinkage + volumes)
    return float(own.sum() / (volumes / (space.shrinkage + volumes)).sum().clamp(min=torch.finfo(e.dtype).tiny))
