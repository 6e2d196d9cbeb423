"""The order into which a non-local model sorts the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.inputs import prepare
from nlgnn.nn.modes import evaluating
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.training.run import Run


class SortedSequence(NamedTuple):
    """Along the sorted order: the node at each position, its score and its label."""

    nodes: NDArray[np.int64]
    scores: NDArray[np.floating]
    labels: NDArray[np.int64]


def sorted_sequence(model: NonLocal, graph: Graph) -> SortedSequence:
    """The order into which a model sorts a graph's nodes, without dropout.

    The graph's features must be scaled as in training (`graph.scale_features(recipe.features)`).
    """
    with evaluating(model), torch.no_grad():
        parameter = next(model.parameters())
        inputs = prepare(model, graph, parameter.device)
        scores, order = (values.cpu().numpy() for values in model.sort_order(*inputs))
    return SortedSequence(order, scores[order], graph.y[order])


def order_before_and_after(
    factory: Callable[[], nn.Module], graph: Graph, run: Run
) -> tuple[SortedSequence, SortedSequence]:
    """The order of a run before training, and that of its chosen epoch. Features must be scaled as in training."""
    before, after = models_before_and_after(factory, graph, run)
    return sorted_sequence(before, graph), sorted_sequence(after, graph)


def models_before_and_after(factory: Callable[[], nn.Module], graph: Graph, run: Run) -> tuple[NonLocal, NonLocal]:
    """The model of a run before training, and that of its chosen epoch. Features must be scaled as in training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        before = non_local(factory())
    with torch.no_grad():
        before.before_training(prepare(before, graph), torch.full((graph.num_nodes,), -1))
    after = non_local(factory())
    after.load_state_dict(run.state)
    return before, after


def kernel_sizes(model: nn.Module) -> list[int]:
    """Kernel of every convolution: what `reconnected_homophily` needs to know how far a node sees."""
    return [
        module.kernel_size[0]
        for module in sorting_aggregation(non_local(model)).modules()
        if isinstance(module, nn.Conv1d)
    ]


def non_local(model: nn.Module) -> NonLocal:
    """The model, if it is a non-local one."""
    if not isinstance(model, NonLocal):
        raise OptionError(f"{type(model).__name__} sorts nothing: it is a local model.", "Give a non-local one.")
    return model


def sorting_aggregation(model: NonLocal) -> NonLocalAggregation:
    """What convolves along the order, if anything does."""
    if model.vote is not None:
        raise OptionError("this model convolves nothing: nodes vote on each other.", "Use readout='conv'.")
    if not isinstance(model.aggregation, NonLocalAggregation):
        raise OptionError("this model sorts nothing: it attends to all nodes.", "Use aggregation='sort'.")
    return model.aggregation
