"""Two principal components of the node embeddings that a model classifies."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from torch import Tensor, nn

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import evaluating, logits_of, prepare
from nlgnn.nn.learned_order import LearnedOrder
from nlgnn.nn.neighbour_vote import NeighbourVote
from nlgnn.nn.non_local import NonLocal


class Projection(NamedTuple):
    """Points of nodes in two dimensions.

    Attributes:
        nodes: Numbers of the nodes, `[k]`.
        points: Their coordinates, `[k, 2]`.
        explained: Share of variance that each axis explains, `[2]`.
        of_what: Description of the embedding.
    """

    nodes: NDArray[np.int64]
    points: NDArray[np.float32]
    explained: NDArray[np.float64]
    of_what: str


def project(model: nn.Module, graph: Graph, limit: int = 10_000) -> Projection:
    """Project the input of the model's classifier, without dropout, onto its two principal components.

    Args:
        model: Any model. Models without a non-local part are projected by their logits.
        graph: The graph, with features scaled as in training (`graph.scale_features(recipe.features)`).
        limit: The largest number of nodes. From larger graphs nodes are drawn at random, always the same ones.

    Returns:
        The projection.
    """
    nodes = np.arange(graph.num_nodes)
    if limit < len(nodes):
        nodes = np.sort(np.random.default_rng(0).choice(nodes, limit, replace=False))
    embedding, of_what = _classifier_input(model, graph, nodes)
    return Projection(nodes, *_principal_components(embedding), of_what)


def _classifier_input(model: nn.Module, graph: Graph, nodes: NDArray[np.int64]) -> tuple[NDArray[np.float64], str]:
    with evaluating(model), torch.no_grad():
        inputs = prepare(model, graph, next(model.parameters()).device)
        if isinstance(model, NeighbourVote):
            parts, of_what = [model.positions(*inputs)], "positions of nodes in the learned space"
        elif isinstance(model, NonLocal) and isinstance(model.order, LearnedOrder):
            space = model.order
            parts, of_what = [space.positions(space.raw_input(inputs))], "positions of nodes in the learned space"
        elif isinstance(model, NonLocal):
            z = model.embed(*inputs)
            mixed: Tensor = model.mixer(z, model.order(z, inputs))
            parts, of_what = [z, mixed], "node embeddings before and after the non-local step"
        else:
            parts, of_what = [logits_of(model(*inputs))], "logits"
        embedding = torch.cat([part[nodes] for part in parts], dim=1).double().cpu().numpy()
    return embedding, of_what


def _principal_components(embedding: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return two coordinates per row and their shares of variance; zeros for axes along which rows do not differ."""
    points, explained = np.zeros((len(embedding), 2), np.float32), np.zeros(2)
    if (embedding != embedding[0]).any():
        count = min(2, *embedding.shape)
        # The faster solver by covariances finds no variance at all in rows that hardly differ.
        pca = PCA(count, svd_solver="full")
        points[:, :count] = pca.fit_transform(embedding)
        explained[:count] = pca.explained_variance_ratio_
    return points, explained
