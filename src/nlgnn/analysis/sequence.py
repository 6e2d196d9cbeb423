"""Sorted order of the nodes in a non-local model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import reconnected_homophily as reconnected_homophily
from nlgnn.nn.base import evaluating, prepare
from nlgnn.nn.mixing import GlobalAttention, SortedConv
from nlgnn.nn.neighbour_vote import NeighbourVote
from nlgnn.nn.non_local import NonLocal
from nlgnn.training.replica import Run


class SortedSequence(NamedTuple):
    """Nodes, scores and labels along the sorted order."""

    nodes: NDArray[np.int64]
    scores: NDArray[np.floating]
    labels: NDArray[np.int64]


def sorted_sequence(model: NonLocal | NeighbourVote, graph: Graph) -> SortedSequence:
    """Return the order into which a model sorts the nodes of a graph, without dropout.

    Args:
        model: A non-local model.
        graph: The graph, with features scaled as in training (`graph.scale_features(recipe.features)`).

    Returns:
        The sorted sequence.

    Example:
        >>> from nlgnn import NLMLP, load_graph, sorted_sequence
        >>> graph = load_graph("mushroom-body")
        >>> found = sorted_sequence(NLMLP(graph.num_features, 8, graph.num_classes), graph)
        >>> sorted(found.nodes.tolist()) == list(range(graph.num_nodes))
        True
    """
    with evaluating(sorting_model(model)), torch.no_grad():
        inputs = prepare(model, graph, next(model.parameters()).device)
        scores, order = (values.cpu().numpy() for values in model.sort_order(*inputs))
    return SortedSequence(order, scores[order], graph.y[order])


def order_before_and_after(
    factory: Callable[[], nn.Module], graph: Graph, run: Run
) -> tuple[SortedSequence, SortedSequence]:
    """Return the orders of a run before training and at its chosen epoch. Features must be scaled as in training."""
    before, after = models_before_and_after(factory, graph, run)
    return sorted_sequence(before, graph), sorted_sequence(after, graph)


def models_before_and_after(factory: Callable[[], nn.Module], graph: Graph, run: Run) -> tuple[Any, Any]:
    """Return the models of a run before training and at its chosen epoch. Features must be scaled as in training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.seed)
        before = sorting_model(factory())
    with torch.no_grad():
        before.start(prepare(before, graph), torch.full((graph.num_nodes,), -1))
    after = sorting_model(factory())
    after.load_state_dict(run.state)
    return before, after


def kernel_sizes(model: nn.Module) -> list[int]:
    """Return the kernel size of every convolution, as `reconnected_homophily` takes them."""
    return [
        module.kernel_size[0] for module in sorted_conv(non_local(model)).modules() if isinstance(module, nn.Conv1d)
    ]


def sorting_model(model: nn.Module) -> NonLocal | NeighbourVote:
    """Return the model, or raise if it does not sort nodes."""
    return model if isinstance(model, NeighbourVote) else non_local(model)


def non_local(model: nn.Module) -> NonLocal:
    """Return the model, or raise if it is not a non-local one."""
    if isinstance(model, NeighbourVote):
        raise OptionError("this model has no convolutions: training nodes vote.", "Use a model such as nlgcn.")
    if not isinstance(model, NonLocal):
        raise OptionError(f"{type(model).__name__} sorts nothing: it is a local model.", "Give a non-local one.")
    if isinstance(model.mixer, GlobalAttention):
        raise OptionError("this model sorts nothing: it attends to all nodes.", "Use the mixer SortedConv.")
    return model


def sorted_conv(model: NonLocal) -> SortedConv:
    """Return the convolutions along the order, or raise if there are none."""
    if not isinstance(model.mixer, SortedConv):
        raise OptionError(
            "this model has no convolutions along its order: its mixer is another one.", "Use the mixer SortedConv."
        )
    return model.mixer
