"""Reasons for predictions of any model: a part of the input is taken away, and the model predicts again.

The contribution of a part is the probability of a class minus its probability without the part. Every
prediction is one of the whole graph, since most models let distant nodes take part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor, nn

from nlgnn.analysis.columns import MOST_EVALUATED, with_rows
from nlgnn.analysis.explain import NodeFacts, node_facts
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.nn.non_local import NonLocal
from nlgnn.shallow.table_model import CHECKSUM, with_checksum
from nlgnn.training.device import limited_threads, model_like
from nlgnn.training.progress import ProgressBar
from nlgnn.training.train import Trained

OWN, NEIGHBOURS, STRUCTURE = "own columns", "neighbours' columns", "structure and farther nodes"
LABELS, NON_LOCAL = "training labels as input", "non-local part"
MOST_NEIGHBOURS, FEWEST_NEIGHBOURS = 50, 10  # of one node that are removed, on a small graph and on a large one


@dataclass(frozen=True, eq=False)
class Neighbour(NodeFacts):
    """A neighbour and its contribution: what the probability loses without the edges between the two nodes."""

    contribution: float


@dataclass(frozen=True, eq=False)
class Reasons(NodeFacts):
    """Contributions to the probability of a class. Parts overlap, so that they do not add up to it.

    Attributes:
        of_class: The class.
        probability: Its probability.
        parts: The contribution of each part of the input.
        neighbours: The neighbours that were tried, by falling size of their contribution. They are empty if the
            prediction does not depend on any of them.
        num_neighbours: The number of all neighbours.
    """

    of_class: str
    probability: float
    parts: dict[str, float]
    neighbours: tuple[Neighbour, ...]
    num_neighbours: int


class Trial(NamedTuple):
    """A name of what is taken away for one node, and the graph without it."""

    what: str | int
    graph: Graph


def reasons_of(
    trained: Trained,
    graph: Graph,
    nodes: Sequence[int] | NDArray[np.int64],
    run: int | None = None,
    most_neighbours: int | None = None,
    of_class: int | None = None,
    progress: bool = False,
) -> list[Reasons]:
    """Measure what predictions rest on, for any model and for ensembles.

    The columns of a node, and those of its neighbours, are replaced by their averages. `structure and farther nodes` is
    what is lost further if the edges of the node are removed as well. Neighbours are tried one by one. Training labels
    and the non-local part are taken away for all nodes at once, where the model has them.

    Args:
        trained: The training; of an ensemble, all members predict.
        graph: Its graph.
        nodes: The numbers of the nodes.
        run: The number of the run. By default it is the first that did not fail.
        most_neighbours: The number of neighbours of one node to try; by default 50, and fewer on large graphs. Those
            with the largest edge weight come first, then those with the fewest neighbours.
        of_class: The number of the class whose probability is explained; by default the predicted class of each node.
        progress: If True, a progress bar is drawn on terminals after two seconds.

    Returns:
        The reasons of each node.
    """
    alone, average = trained.with_runs([trained.finished_run(run)]), average_row(graph)
    most = max(FEWEST_NEIGHBOURS, min(MOST_NEIGHBOURS, MOST_EVALUATED // (graph.num_nodes * trained.num_models)))
    most = most if most_neighbours is None else most_neighbours
    degrees = np.diff(graph.undirected_adjacency.indptr)
    starts = np.cumsum([0, *(3 + min(most, degrees[node]) for node in nodes)])
    found: list[Reasons] = []
    with limited_threads(alone.recipe.threads, graph), ProgressBar(int(starts[-1]), progress) as bar:
        before = alone.probabilities(graph)[0]
        predictions = before.argmax(1)
        silenced = {name: one.probabilities(graph)[0] for name, one in parts_to_silence(alone).items()}
        for place, node in enumerate(map(int, nodes)):
            own, label = before[node], int(predictions[node]) if of_class is None else of_class
            parts, neighbours = {} if average is None else {OWN: 0.0, NEIGHBOURS: 0.0}, []
            parts[STRUCTURE] = 0.0
            for number, (what, changed) in enumerate(trials(graph, node, average, most)):
                after = alone.probabilities(changed)[0, node]
                if what == STRUCTURE and np.array_equal(after, own):
                    break  # The prediction depends on neither neighbours nor edges.
                lost = float(own[label] - after[label])
                if isinstance(what, str):
                    parts[what] = lost
                else:
                    neighbours.append(Neighbour(**node_facts(graph, predictions, what), contribution=lost))
                if bar.is_due():
                    words = f"explaining node {place + 1} of {len(nodes)}"
                    bar.show(int(starts[place]) + number, words, words)
            parts[STRUCTURE] -= parts.get(NEIGHBOURS, 0.0)
            parts |= {name: float(own[label] - without[node, label]) for name, without in silenced.items()}
            neighbours.sort(key=lambda one: -abs(one.contribution))
            facts = node_facts(graph, predictions, node)
            found.append(
                Reasons(
                    **facts,
                    of_class=graph.class_names[label],
                    probability=float(own[label]),
                    parts=parts,
                    neighbours=tuple(neighbours),
                    num_neighbours=int(degrees[node]),
                )
            )
    return found


def trials(graph: Graph, node: int, average: NDArray[np.float32] | None, most: int) -> Iterator[Trial]:
    """Yield the graphs without each part of the input of one node."""
    if average is not None:
        yield Trial(OWN, with_rows(graph, [node], average))
    neighbours = neighbours_to_try(graph, node)
    if not len(neighbours):
        return
    averaged = graph if average is None else with_rows(graph, neighbours, average)
    yield Trial(STRUCTURE, without_edges(averaged, node, neighbours))
    if average is not None:
        yield Trial(NEIGHBOURS, averaged)
    for other in neighbours[:most].tolist():
        yield Trial(other, without_edges(graph, node, np.array([other])))


def average_row(graph: Graph) -> NDArray[np.float32] | None:
    """Return the average of each feature over the nodes that have it; None for features that are not in memory."""
    if isinstance(graph.x, FeaturesOnDisk):
        return None
    if isinstance(graph.x, sparse.csr_array):
        return np.asarray(graph.x.mean(axis=0), np.float32).ravel()
    present = ~np.isnan(graph.x)
    counts = present.sum(axis=0)
    sums = np.where(present, graph.x, 0).sum(axis=0, dtype=np.float64)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan).astype(np.float32)


def neighbours_to_try(graph: Graph, node: int) -> NDArray[np.int64]:
    """Return all neighbours of a node: the largest edge weight first, then the fewest neighbours of their own."""
    row = graph.undirected_weights[[node]]
    degrees = np.diff(graph.undirected_adjacency.indptr)[row.indices]
    order = np.lexsort((row.indices, degrees, -row.data))
    return np.asarray(row.indices[order], np.int64)


def without_edges(graph: Graph, node: int, others: NDArray[np.int64]) -> Graph:
    """Return the graph without the edges between a node and some others, in both directions."""
    source, target = graph.edge_index
    cut = ((source == node) & np.isin(target, others)) | ((target == node) & np.isin(source, others))
    return graph.with_edges(~cut)


def parts_to_silence(trained: Trained) -> dict[str, Trained]:
    """Return the training without each part of the model that can be silenced for all nodes, by name."""
    found = {}
    for name, change in ((LABELS, without_labels), (NON_LOCAL, without_non_local)):
        changed: list[Trained] = []
        silenced = trained.changed(partial(_noted, change, changed))
        if changed:
            found[name] = silenced
    return found


def _noted(change: Any, changed: list[Trained], trained: Trained) -> Trained:
    """Change one member, and note it if there was something to change."""
    after: Trained = change(trained)
    changed += [after] if after is not trained else []
    return after


def without_labels(trained: Trained) -> Trained:
    """Return a training whose model sees no training labels as input, or the training itself if it never does."""
    runs = [replace(run, state=state_without_labels(run.state)) for run in trained.runs]
    same = all(one.state is other.state for one, other in zip(runs, trained.runs, strict=True))
    return trained if same else replace(trained, runs=runs)


def state_without_labels(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a state in which no training label is known, or the state itself if it holds none."""
    hidden = {name: torch.full_like(value, -1) for name, value in state.items() if name.split(".")[-1] == "known"}
    if not hidden:
        return state
    rest = {name: value for name, value in state.items() if name != CHECKSUM}
    return with_checksum(rest | hidden) if CHECKSUM in state else rest | hidden


def without_non_local(trained: Trained) -> Trained:
    """Return a training whose mixing of distant nodes gives zeros, or the training itself for a local model."""
    if not isinstance(model_like(trained.factory), NonLocal):
        return trained
    return replace(trained, factory=partial(_silenced, trained.factory))


def _silenced(factory: Any) -> nn.Module:
    model: NonLocal = factory()
    model.mixer.register_forward_hook(lambda module, given, mixed: torch.zeros_like(mixed))
    return model
