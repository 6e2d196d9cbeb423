"""Exact split of logits into the contributions of the nodes near a node in the sorted order.

With ReLU gates, scores and order fixed, the logits of a node are a linear function of the sorted rows: one linear map
per position of its window, computed from the head back through the convolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.analysis.sequence import non_local, sorted_conv
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.arrays import as_integers
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import evaluating, prepare
from nlgnn.nn.kernels.sorted_conv import RowConv, convolve, is_plain
from nlgnn.training.loop import evaluate

# Nodes that are explained at once, and the size of their linear maps.
MOST_NODES, MOST_NUMBERS = 4096, 2**22

Figures = NDArray[np.floating[Any]]


class Explanations(NamedTuple):
    """Logits of k nodes and c classes, and their parts: `logits = own + contributions.sum(1) + bias`.

    A window has the w positions within reach of the convolutions, with the node itself in the middle.

    Attributes:
        nodes: Numbers of the nodes, `[k]`.
        logits: Logits, `[k, c]`.
        own: Part of the local embedding, `[k, c]`.
        bias: Part of the biases of convolutions and head, `[k, c]`.
        window_nodes: Numbers of the nodes in each window, `[k, w]`; -1 beyond the ends of the order.
        contributions: Contribution of each node in the window, `[k, w, c]`.
        silenced: Logits without the output of the convolutions, `[k, c]`.
        position: Position of the node in the order, `[k]`.
        score: Score of the node, `[k]`.
    """

    nodes: NDArray[np.int64]
    logits: Figures
    own: Figures
    bias: Figures
    window_nodes: NDArray[np.int64]
    contributions: Figures
    silenced: Figures
    position: NDArray[np.int64]
    score: Figures


def explain_nodes(model: nn.Module, graph: Graph, nodes: Sequence[int] | NDArray[np.int64]) -> Explanations:
    """Split the logits of many nodes.

    Args:
        model: A non-local model that convolves along an order.
        graph: The graph, with features scaled as in training (`graph.scale_features(recipe.features)`).
        nodes: Numbers of the nodes.

    Returns:
        The logits and their parts.

    Raises:
        DataError: If the graph has no such node.
        OptionError: If the model has no convolutions that can be split.
    """
    numbers = as_integers(nodes, "nodes")
    outside = numbers[(numbers < 0) | (numbers >= graph.num_nodes)]
    if len(outside):
        raise DataError(
            f"graph {graph.name!r} has no node {outside[0]}.", f"Nodes are numbered 0 to {graph.num_nodes - 1}."
        )
    return SortedPass.of(model, graph).explain(numbers)


def convolutions_to_split(model: nn.Module) -> list[RowConv]:
    """Return the convolutions of a model that sorts, or raise an error that says why there are none to split."""
    convs = sorted_conv(non_local(model)).convs
    if not is_plain(convs):
        raise OptionError(
            "the convolutions of this model are the user's own modules, which cannot be split.", "Leave convs out."
        )
    return [module for module in convs.children() if isinstance(module, RowConv)]


def evaluate_on(model: nn.Module, graph: Graph) -> Float[Tensor, "n c"]:
    """Return the logits of all nodes without dropout; the model stays in its mode."""
    with evaluating(model):
        return evaluate(model, prepare(model, graph, next(model.parameters()).device))


@dataclass(frozen=True, eq=False)
class SortedPass:
    """Intermediate results of one evaluation of a model that sorts.

    `inputs` holds the input of each convolution, in sorted order, `[n, width]`.
    """

    head: nn.Linear
    convs: list[RowConv]
    logits: Float[Tensor, "n c"]
    own: Float[Tensor, "n c"]
    scores: Float[Tensor, " n"]
    order: Int[Tensor, " n"]
    inputs: list[Tensor]

    @classmethod
    @torch.no_grad()
    def of(cls, model: nn.Module, graph: Graph) -> SortedPass:
        """Evaluate a model on a graph."""
        convs, model = convolutions_to_split(model), non_local(model)
        embeddings: list[Tensor] = []
        hook = model.local.register_forward_hook(lambda module, given, z: embeddings.append(z))
        try:
            logits = evaluate_on(model, graph)
        finally:
            hook.remove()
        (z,) = embeddings
        with evaluating(model):
            ranking = model.order(z, prepare(model, graph, z.device))
        scores, order = ranking.keys, ranking.order()
        inputs = [ranking.scaled(z)[order]]
        for conv in convs[:-1]:
            inputs.append(convolve(inputs[-1], *conv.parameters()).relu())
        own = z if model.residual else F.linear(z, model.head.weight[:, : z.shape[1]])
        return cls(model.head, convs, logits, own, scores, order, inputs)

    @torch.no_grad()
    def explain(self, nodes: NDArray[np.int64]) -> Explanations:
        """Split the logits of some nodes."""
        places = torch.empty_like(self.order)
        places[self.order] = torch.arange(len(places), device=places.device)
        chosen = torch.tensor(nodes, device=places.device)
        positions, own = places[chosen], self.own[chosen]
        head_bias = torch.zeros_like(own) if self.head.bias is None else self.head.bias.expand_as(own)
        width = 1 + sum(conv.kernel_size[0] - 1 for conv in self.convs)
        widest = max(conv.in_channels for conv in self.convs)
        at_once = max(1, min(MOST_NODES, MOST_NUMBERS // (own.shape[1] * widest * width)))
        parts = [self._split(some) for some in positions.split(at_once)]
        contributions, conv_bias = (torch.cat(part) for part in zip(*parts, strict=True))
        window = around(self.order.unsqueeze(1) + 1, positions, width).squeeze(1) - 1  # -1 beyond the ends
        tensors = (
            *(chosen, self.logits[chosen], own, conv_bias + head_bias, window, contributions),
            *(own + head_bias, positions, self.scores[chosen]),
        )
        return Explanations(*(tensor.cpu().numpy() for tensor in tensors))

    def _split(self, positions: Int[Tensor, " k"]) -> tuple[Float[Tensor, "k w c"], Float[Tensor, "k c"]]:
        """Return the contributions of the rows around positions, and those of the convolutions' biases."""
        # The map from the output of a convolution, at each position of the window so far, to the logits. The first one
        # is that of the head, at one position.
        to_logits = self.head.weight[:, -self.convs[-1].out_channels :]
        maps = to_logits.expand(len(positions), -1, -1).unsqueeze(3)  # [k, c, f, w]
        bias = torch.zeros_like(maps[:, :, 0, 0])
        for conv, rows in zip(reversed(self.convs), reversed(self.inputs), strict=True):
            bias = bias + torch.einsum("kcfw,f->kc", maps, conv.bias)
            maps = F.conv_transpose1d(maps.flatten(0, 1), conv.weight).unflatten(0, maps.shape[:2])
            seen = around(rows, positions, maps.shape[3]).unsqueeze(1)
            if rows is not self.inputs[0]:  # Rows have passed a ReLU.
                maps = maps * (seen > 0)
        return (maps * seen).sum(2).transpose(1, 2), bias


def around(rows: Tensor, positions: Int[Tensor, " k"], width: int) -> Tensor:
    """Return the rows around positions, `[n, f]` to `[k, f, width]`, with zeros beyond the ends."""
    offsets = torch.arange(width, device=rows.device) - width // 2
    seen = positions.unsqueeze(1) + offsets
    inside = (seen >= 0) & (seen < len(rows))
    return (rows[seen.clamp(0, len(rows) - 1)] * inside.unsqueeze(2)).transpose(1, 2)
