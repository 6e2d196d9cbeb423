"""The embedding in two dimensions: principal components of what a model's classifier sees of each node."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.inputs import prepare
from nlgnn.nn.modes import evaluating
from nlgnn.nn.nonlocal_ import NonLocal
from nlgnn.training.replicas import logits_of


class Projection(NamedTuple):
    """`nodes` `[k]`, their `points` `[k, 2]`, the share of variance that each axis explains `[2]`, of what it is."""

    nodes: NDArray[np.int64]
    points: NDArray[np.float32]
    explained: NDArray[np.float64]
    of_what: str


def project(model: nn.Module, graph: Graph, limit: int = 10_000) -> Projection:
    """What the model's classifier sees of each node, without dropout, along its two principal components.

    Of a graph with more nodes than `limit` so many are drawn at random, the same ones every time. The graph's features
    must be scaled as in training (`graph.scale_features(recipe.features)`).
    """
    if limit < 1:
        raise OptionError(f"limit={limit} leaves no node to show.", "Give at least 1.")
    nodes = np.arange(graph.num_nodes)
    if limit < len(nodes):
        nodes = np.sort(np.random.default_rng(0).choice(nodes, limit, replace=False))
    embedding, of_what = _what_the_classifier_sees(model, graph, nodes)
    return Projection(nodes, *_principal_components(embedding), of_what)


def _what_the_classifier_sees(
    model: nn.Module, graph: Graph, nodes: NDArray[np.int64]
) -> tuple[NDArray[np.float64], str]:
    with evaluating(model), torch.no_grad():
        inputs = prepare(model, graph, next(model.parameters()).device)
        if isinstance(model, NonLocal) and model.metric is not None:
            parts, of_what = [model.metric(model.raw_input(inputs))], "where nodes stand in the learned metric"
        elif isinstance(model, NonLocal) and model.aggregation is not None:
            z: Tensor = model.local(*inputs)
            parts, of_what = [z, model.aggregation(z)], "node embeddings before and after the non-local step"
        else:
            parts, of_what = [logits_of(model(*inputs))], "logits: a number for each class, of which the highest wins"
        embedding = torch.cat([part[nodes] for part in parts], dim=1).double().cpu().numpy()
    return embedding, of_what


def _principal_components(embedding: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Two coordinates a row, and the variance they explain; 0 where rows do not differ, or in one dimension only."""
    points, explained = np.zeros((len(embedding), 2), np.float32), np.zeros(2)
    if (embedding != embedding[0]).any():
        count = min(2, *embedding.shape)
        # Not the faster way by covariances, which of rows that hardly differ sees no variance at all.
        pca = PCA(count, svd_solver="full")  # signs: the largest weight of a component is positive
        points[:, :count] = pca.fit_transform(embedding)
        explained[:count] = pca.explained_variance_ratio_
    return points, explained
