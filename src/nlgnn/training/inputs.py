"""Inputs of models, as training gives them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare as prepare_inputs
from nlgnn.training.recipe import Recipe


def prepare(
    model: nn.Module, graph: Graph, recipe: Recipe | None = None, device: torch.device | None = None
) -> tuple[Any, ...]:
    """Return the inputs that `fit` gives to a model: features scaled by the recipe, and edges in the form of the model.

    Most models take edges in both directions, and operators that are computed once. With it, a training loop of your
    own computes what `fit` computes.

    Args:
        model: The model, or any module.
        graph: The graph, with unscaled features.
        recipe: How features are scaled; by default as in `Recipe()`.
        device: The device of the result; by default that of the model's first parameter.

    Returns:
        A tuple, for `model(*inputs)`.

    Example:
        >>> import nlgnn
        >>> graph = nlgnn.planted_order_graph(60)
        >>> model = nlgnn.GCN(graph.num_features, 16, graph.num_classes)
        >>> model(*nlgnn.prepare(model, graph)).shape == (graph.num_nodes, graph.num_classes)
        True
    """
    first = next(model.parameters(), None)
    device = device if device is not None or first is None else first.device
    return prepare_inputs(model, graph.scale_features((recipe or Recipe()).features), device)
