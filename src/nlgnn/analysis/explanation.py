"""Why one node came out as it did: what a model says of it, its window in the sorted order, its neighbours."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from torch import nn

from nlgnn.analysis.contributions import Explanations, Figures, SortedPass, convolutions_to_split, evaluate_on
from nlgnn.analysis.voters import Votes, votes_on
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.nonlocal_ import NonLocal

MOST_NAMES = 20_000  # that are searched for one like a misspelt one, which takes a second


@dataclass(frozen=True, eq=False)
class NodeFacts:
    """A node as tables show it; its label is None where unknown."""

    node: int
    name: str
    label: str | None
    prediction: str


@dataclass(frozen=True, eq=False)
class WindowNode(NodeFacts):
    """A node near the explained one in the order, and what it gives to the logit of each class."""

    offset: int
    contributions: Figures


@dataclass(frozen=True, eq=False)
class Voter(NodeFacts):
    """A training node that votes on the explained one, and what it adds to the logit of each class; None where votes
    do not add up node by node."""

    weight: float
    contributions: Figures | None


@dataclass(frozen=True, eq=False)
class Explanation(NodeFacts):
    """What a model says of a node, and what that is made of, as in `Explanations`: figures are one a class.

    The node itself is in its window, at offset 0. Models that sort nothing have no window, and nothing that goes with
    it; `why_no_window` says so. Where nodes vote on each other, `voters` are those that did, by falling weight, and
    `vote_share` is how much votes count: then the logits are `own` plus what they add. `other_class` is that of the
    label where it is not predicted, else the runner-up.
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

    @property
    def probabilities(self) -> Figures:
        return np.asarray(softmax(self.logits))

    @property
    def probability(self) -> float:
        """Of the prediction."""
        return float(self.probabilities.max())

    @property
    def silenced_probabilities(self) -> Figures | None:
        return None if self.silenced is None else np.asarray(softmax(self.silenced))


def explain_node(model: nn.Module, graph: Graph, node: int | np.integer | str) -> Explanation:
    """Why a model says what it says of a node.

    Args:
        model: any; those that sort and convolve have a window to show.
        graph: its features must be scaled as in training (`graph.scale_features(recipe.features)`).
        node: its number, or its name where the graph has names.
    """
    number = node_number(graph, node)
    split, why_no_window = None, None
    try:
        convolutions_to_split(model)
    except OptionError as error:
        logits, why_no_window = evaluate_on(model, graph), error.what[0].upper() + error.what[1:]
    else:
        passed = SortedPass.of(model, graph)
        logits, split = passed.logits, passed.explain(np.array([number]))
    votes = votes_on(model, graph, number) if isinstance(model, NonLocal) and model.vote is not None else None
    all_logits = logits.cpu().numpy()
    own_logits, predictions = all_logits[number], all_logits.argmax(1)
    neighbours = graph.undirected_adjacency[[number]].indices.astype(np.int64)
    return Explanation(
        **_facts(graph, predictions, number),
        class_names=graph.class_names,
        logits=own_logits,
        other_class=_other_class(own_logits, int(graph.y[number])),
        neighbours=tuple(NodeFacts(**_facts(graph, predictions, other)) for other in np.sort(neighbours).tolist()),
        num_nodes=graph.num_nodes,
        why_no_window=why_no_window,
        **_of_split(split, graph, predictions) if split else {},
        **_of_votes(votes, graph, predictions) if votes else {},
    )


def _facts(graph: Graph, predictions: NDArray[np.int64], node: int) -> dict[str, Any]:
    return {
        "node": node,
        "name": str(node) if graph.node_names is None else graph.node_names[node],
        "label": graph.class_names[graph.y[node]] if graph.y[node] >= 0 else None,
        "prediction": graph.class_names[predictions[node]],
    }


def _of_split(split: Explanations, graph: Graph, predictions: NDArray[np.int64]) -> dict[str, Any]:
    reach = split.window_nodes.shape[1] // 2
    window = tuple(
        WindowNode(**_facts(graph, predictions, node), offset=offset, contributions=contributions)
        for offset, (node, contributions) in enumerate(
            zip(split.window_nodes[0].tolist(), split.contributions[0], strict=True), start=-reach
        )
        if node >= 0
    )
    return {
        "window": window,
        "own": split.own[0],
        "bias": split.bias[0],
        "silenced": split.silenced[0],
        "position": int(split.position[0]),
        "score": float(split.score[0]),
    }


def _of_votes(votes: Votes, graph: Graph, predictions: NDArray[np.int64]) -> dict[str, Any]:
    added = [None] * len(votes.nodes) if votes.contributions is None else list(votes.contributions)
    facts = [
        _facts(graph, predictions, node) | {"label": graph.class_names[label]}
        for node, label in zip(votes.nodes.tolist(), votes.labels.tolist(), strict=True)
    ]
    voters = tuple(
        Voter(**fact, weight=weight, contributions=contributions)
        for fact, weight, contributions in zip(facts, votes.weights.tolist(), added, strict=True)
    )
    return {"voters": voters, "vote_share": votes.share, "own": votes.own, "silenced": votes.own}


def _other_class(logits: Figures, label: int) -> int | None:
    predicted = int(logits.argmax())
    if label not in (-1, predicted):
        return label
    others = [number for number in np.argsort(-logits).tolist() if number != predicted]
    return others[0] if others else None


def node_number(graph: Graph, node: int | np.integer | str) -> int:
    """The number of a node given by number or name. Text that is both is a name."""
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
