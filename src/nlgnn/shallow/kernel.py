r"""KernelClassifier: kernel ridge regression on a sum of kernels between descriptions of nodes.

.. math::
    S = \bar y + K_{\cdot t}\, \alpha, \qquad (K_{tt} + \lambda I)\, \alpha = Y_t - \bar y, \qquad
    p = \mathrm{softmax}(S / T)

with the training nodes :math:`t`, their one-hot labels :math:`Y_t` and the mean :math:`\bar y` of these.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Annotated

import numpy as np
from jaxtyping import Float
from pydantic import Field
from torch import Tensor

from nlgnn.errors import DataError
from nlgnn.graph.descriptions import description_names, listed_descriptions
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.base import Count, Positive, checked
from nlgnn.shallow.base import ShallowModel, balanced_weights, labelled_parts, must_end, require_fit
from nlgnn.shallow.kernel_search import SEARCH_SHARE, Validation, choose_kernels
from nlgnn.shallow.kernel_votes import (
    KernelVotes,
    Nodes,
    add_votes,
    anchor_rows,
    kernel_by_number,
    solve_nystroem,
    solve_ridge,
)
from nlgnn.shallow.similarity import MOST_KERNELS, Kernel, node_chunks, similarities_of

GAMMAS = (1.0, 4.0, 6.0, 16.0)
DEGREE_GAMMA = 2.0
RIDGES = (0.03, 0.1, 0.3, 1.0)
MOST_VALIDATION_NODES = 5_000  # that kernels are compared on
# Not in the default, because they take long and change little.
LEFT_OUT = ("out-two-hop-means", "in-two-hop-means")


class KernelClassifier(ShallowModel):
    """Kernel ridge regression on a sum of kernels between descriptions of nodes.

    This is a non-local method: every training node votes on every other node, weighted by their similarity and
    however far apart they are in the graph. Two nodes are similar if, for instance, they link to the same nodes, or if
    the nodes that they link to have the same features. `nlgnn.graph.descriptions` lists all descriptions. Kernels are
    added greedily by the validation score of the split, as long as it rises; validation also chooses the ridge and
    the temperature of probabilities.

    Links find duplicates. On Chameleon and Squirrel, 67 % and 62 % of test nodes have a training node with the
    identical set of out-neighbours. In the filtered versions of both graphs, whose edges have no direction, 4 % and
    0.4 % have one with the identical set of neighbours, and trees do better there. Report both versions.

    With more than `exact_nodes` training nodes, only `landmarks` of them vote (Nyström); the other training nodes
    still decide how. Memory is O(nodes × columns + landmarks²). With balanced class weights, the squared errors of
    training nodes have these weights.

    A model that chose links knows nodes by their number and can be used on its own graph only. With
    `descriptions="features+means+degrees"` it also predicts nodes of other graphs.

    Args:
        descriptions: Descriptions to choose from, joined by +. For example `features+out-links+degrees`; `all` is all
            that the graph has.
        max_kernels: Largest number of kernels in the sum.
        gamma: Decay γ of each kernel exp(-γ (1 - cosine)). By default validation chooses 1, 4, 6 or 16.
        ridge: Ridge λ. By default validation chooses 0.03, 0.1, 0.3 or 1.
        search_nodes: Number of training nodes on which kernels are compared. All of them are used afterwards.
        exact_nodes: Number of training nodes up to which the solution is exact.
        landmarks: Number of voters beyond that. They are drawn from the training nodes.

    Example:
        >>> from nlgnn.datasets import load_graph
        >>> from nlgnn.graph import make_splits
        >>> graph = load_graph("mushroom-body")
        >>> split = make_splits(graph, "random-60", runs=1)[0]
        >>> KernelClassifier().fit(graph, split).predict(graph).shape == (graph.num_nodes, graph.num_classes)
        True
    """

    identifies_nodes = True
    uses_edge_types = True
    recipe_options = frozenset({"class_weight"})

    @checked
    def __init__(
        self,
        descriptions: str = "all",
        max_kernels: Annotated[int, Field(ge=1, le=MOST_KERNELS)] = MOST_KERNELS,
        gamma: Positive | None = None,
        ridge: Positive | None = None,
        search_nodes: Count = 1_000,
        exact_nodes: Count = 10_000,
        landmarks: Count = 2_000,
    ) -> None:
        self.descriptions, self.max_kernels = descriptions, max_kernels
        self.gamma, self.ridge = gamma, ridge
        self.search_nodes, self.exact_nodes, self.landmarks = search_nodes, exact_nodes, landmarks
        listed_descriptions(descriptions)  # raises for an unknown one
        self._votes: KernelVotes | None = None
        self._graph: weakref.ref[Graph] | None = None

    def fit(self, graph: Graph, split: Split, metric: str = "accuracy", seed: int = 0) -> KernelClassifier:
        """Choose kernels, ridge and temperature by validation, and solve for the votes of training nodes.

        Raises:
            DataError: If no training node or no validation node has a label, or if features are missing.
        """
        train, val = labelled_parts(graph, split)
        if len(val) == 0:
            raise DataError(f"graph {graph.name!r} has no labelled validation node.", "Use another split.")
        rng = np.random.default_rng(seed)
        one_hot = np.eye(graph.num_classes, dtype=np.float32)[graph.y[train]]
        weights = None
        if self.class_weight == "balanced":
            weights = balanced_weights(graph.y[train])[graph.y[train]]
        mean = np.average(one_hot, axis=0, weights=weights)
        targets = one_hot - mean
        similarities = similarities_of(graph)

        some, some_val = _sample(rng, len(train), self.search_nodes), _sample(rng, len(val), MOST_VALIDATION_NODES)
        kernels = choose_kernels(
            similarities,
            train[some],
            targets[some],
            mean,
            val[some_val],
            Validation(metric, graph.y[val[some_val]]),
            self._candidates(graph),
            self.max_kernels,
            self.ridge,
            None if weights is None else weights[some],
        )

        ridges = RIDGES if self.ridge is None else (self.ridge,)
        if len(train) <= self.exact_nodes:
            anchors = train
            compare = kernel_by_number(similarities, kernels, anchors)
            solutions = solve_ridge(compare(train), targets, ridges, weights)
        else:
            anchors = train[_sample(rng, len(train), self.landmarks)]
            compare = kernel_by_number(similarities, kernels, anchors)
            places = node_chunks(np.arange(len(train)), len(anchors))
            roots = np.ones((len(train), 1), np.float32) if weights is None else np.sqrt(weights)[:, None]
            parts = ((compare(train[some]) * roots[some], targets[some] * roots[some]) for some in places)
            solutions = solve_nystroem(compare(anchors), parts, ridges)

        must_end((1 + SEARCH_SHARE) / 2)
        validation = Validation(metric, graph.y[val])
        scores = add_votes(compare, val, solutions) + mean
        best = max(range(len(ridges)), key=lambda place: validation.score(scores[place]))
        self._votes = KernelVotes(
            kernels=tuple(kernels),
            num_nodes=graph.num_nodes,
            anchors=anchors,
            coefficients=solutions[best].astype(np.float32),
            mean=mean,
            ridge=ridges[best],
            temperature=validation.temperature(scores[best]),
            rows=anchor_rows(similarities, kernels, anchors),
        )
        self.identifies_nodes = self._votes.identifies_nodes
        self._graph = weakref.ref(graph)
        return self

    @property
    def votes(self) -> KernelVotes:
        """The chosen kernels and the votes of training nodes, once the model is fitted."""
        return require_fit(self._votes, self)

    @property
    def choices(self) -> dict[str, str | float]:
        votes = self.votes
        terms = (f"{one.weight:g} × {one.description} (γ {one.gamma:g})" for one in votes.kernels)
        return {"kernels": " + ".join(terms), "ridge": votes.ridge, "temperature": votes.temperature}

    @property
    def way_to_new_nodes(self) -> str:
        return 'Train it with descriptions="features+means+degrees".'

    def predict(self, graph: Graph) -> Float[np.ndarray, "n c"]:
        """Return the probability of each class for every node.

        Raises:
            DataError: If the model knows nodes by number and the graph has other nodes, or other columns of features.
        """
        same_graph = self._graph is not None and self._graph() is graph
        return self.votes.probabilities(similarities_of(graph), same_graph)

    def state_dict(self) -> dict[str, Tensor]:
        return self.votes.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._votes = KernelVotes.from_state(state)
        self.identifies_nodes = self._votes.identifies_nodes
        self._graph = None

    def _candidates(self, graph: Graph) -> list[Kernel]:
        """Return the kernels to choose from."""
        if self.descriptions == "all":
            names = [name for name in description_names(graph) if name not in LEFT_OUT] or ["degrees"]
        else:
            names = self.descriptions.split("+")
        gammas = GAMMAS if self.gamma is None else (self.gamma,)
        return [
            Kernel(name, gamma, 1.0) for name in names for gamma in (gammas if name != "degrees" else (DEGREE_GAMMA,))
        ]


def _sample(rng: np.random.Generator, count: int, most: int) -> Nodes:
    """Return at most `most` of the numbers 0 to count - 1, in ascending order."""
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))
