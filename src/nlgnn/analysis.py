"""What a trained non-local model did: the order it sorted the nodes into, and how far neighbours there agree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import reconnected_homophily
from nlgnn.nn.aggregation import NonLocalAggregation
from nlgnn.nn.inputs import prepare
from nlgnn.nn.nonlocal_ import NonLocal

__all__ = ["SortedSequence", "kernel_sizes", "reconnected_homophily", "sorted_sequence"]


class SortedSequence(NamedTuple):
    """Along the sorted order: the node at each position, its score and its label."""

    nodes: NDArray[np.int64]
    scores: NDArray[np.floating]
    labels: NDArray[np.int64]


def sorted_sequence(model: NonLocal, graph: Graph) -> SortedSequence:
    """The order into which a model sorts a graph's nodes, without dropout.

    The graph's features must be scaled as in training (`graph.scale_features(recipe.features)`).
    """
    aggregation = _aggregation(model)
    was_training = model.training
    model.eval()
    with torch.no_grad():
        parameter = next(model.parameters())
        z: Tensor = model.local(*prepare(model, graph, parameter.device))
        scores, order = (values.cpu().numpy() for values in aggregation.sort_order(z))
    model.train(was_training)
    return SortedSequence(order, scores[order], graph.y[order])


def kernel_sizes(model: NonLocal) -> list[int]:
    """Kernel of every convolution: what `reconnected_homophily` needs to know how far a node sees."""
    return [module.kernel_size[0] for module in _aggregation(model).modules() if isinstance(module, nn.Conv1d)]


def _aggregation(model: NonLocal) -> NonLocalAggregation:
    if not isinstance(model.aggregation, NonLocalAggregation):
        raise OptionError("this model sorts nothing: it attends to all nodes.", "Use aggregation='sort'.")
    return model.aggregation
