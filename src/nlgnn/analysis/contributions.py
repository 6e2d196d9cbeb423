"""The logits of nodes, split exactly into what each node near them in the sorted order gives.

With ReLU gates, scores and order held as they are, the logits of a node are a linear function of the sorted rows: one
linear map for each position of its window, which is followed from the head back through the convolutions.
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

from nlgnn.analysis.sequence import non_local, sorting_aggregation
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph, as_integers
from nlgnn.nn.inputs import prepare
from nlgnn.nn.modes import evaluating
from nlgnn.nn.sequence import RowConv, convolve, is_plain
from nlgnn.training.replicas import evaluate

# Nodes that are explained at once, and how many numbers their linear maps may be.
MOST_NODES, MOST_NUMBERS = 4096, 2**22

Figures = NDArray[np.floating[Any]]


class Explanations(NamedTuple):
    """Of k nodes: logits of c classes, and what adds up to them, `own + contributions.sum(1) + bias`.

    The w positions of a window are those within reach of the convolutions, the node itself in the middle; where the
    order ends before the window does, the node is -1 and gives nothing. `own` is what the head makes of the local
    embedding, `bias` what comes from the biases of convolutions and head. `silenced` are the logits with nothing from
    the convolutions, their biases included.
    """

    nodes: NDArray[np.int64]  # [k]
    logits: Figures  # [k, c]
    own: Figures  # [k, c]
    bias: Figures  # [k, c]
    window_nodes: NDArray[np.int64]  # [k, w]
    contributions: Figures  # [k, w, c]
    silenced: Figures  # [k, c]
    position: NDArray[np.int64]  # [k]
    score: Figures  # [k]


def explain_nodes(model: nn.Module, graph: Graph, nodes: Sequence[int] | NDArray[np.int64]) -> Explanations:
    """Split the logits of many nodes, given by their numbers.

    The graph's features must be scaled as in training (`graph.scale_features(recipe.features)`).
    """
    numbers = as_integers(nodes, "nodes")
    outside = numbers[(numbers < 0) | (numbers >= graph.num_nodes)]
    if len(outside):
        raise DataError(
            f"graph {graph.name!r} has no node {outside[0]}.", f"Nodes are numbered 0 to {graph.num_nodes - 1}."
        )
    return SortedPass.of(model, graph).explain(numbers)


def convolutions_to_split(model: nn.Module) -> list[RowConv]:
    """The convolutions of a model that sorts; an error that says why, where there is nothing that can be split."""
    convs = sorting_aggregation(non_local(model)).convs
    if not is_plain(convs):
        raise OptionError(
            "the convolutions of this model are modules from elsewhere, which cannot be split.", "Leave convs out."
        )
    return [module for module in convs.children() if isinstance(module, RowConv)]


def evaluate_on(model: nn.Module, graph: Graph) -> Float[Tensor, "n c"]:
    """Logits of all nodes, without dropout; the model stays in its mode."""
    with evaluating(model):
        return evaluate(model, prepare(model, graph, next(model.parameters()).device))


@dataclass(frozen=True, eq=False)
class SortedPass:
    """One evaluation of a model that sorts: what it computed on the way from embeddings to logits."""

    head: nn.Linear
    convs: list[RowConv]
    logits: Float[Tensor, "n c"]
    own: Float[Tensor, "n c"]
    scores: Float[Tensor, " n"]
    order: Int[Tensor, " n"]
    inputs: list[Tensor]  # of each convolution: rows in sorted order, [n, width]

    @classmethod
    @torch.no_grad()
    def of(cls, model: nn.Module, graph: Graph) -> SortedPass:
        convs, model = convolutions_to_split(model), non_local(model)
        embeddings: list[Tensor] = []
        hook = model.local.register_forward_hook(lambda module, given, z: embeddings.append(z))
        try:
            logits = evaluate_on(model, graph)
        finally:
            hook.remove()
        (z,) = embeddings
        aggregation = sorting_aggregation(model)
        assert model.head is not None
        learned = model.metric is not None
        scores, order = model.sort_order(*prepare(model, graph, z.device)) if learned else aggregation.sort_order(z)
        inputs = [aggregation.scaled(z, scores)[order]]
        for conv in convs[:-1]:
            inputs.append(convolve(inputs[-1], *conv.parameters()).relu())
        own = z if model.residual else F.linear(z, model.head.weight[:, : z.shape[1]])
        return cls(model.head, convs, logits, own, scores, order, inputs)

    @torch.no_grad()
    def explain(self, nodes: NDArray[np.int64]) -> Explanations:
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
        window = around(self.order.unsqueeze(1) + 1, positions, width).squeeze(1) - 1  # nothing is -1
        tensors = (
            *(chosen, self.logits[chosen], own, conv_bias + head_bias, window, contributions),
            *(own + head_bias, positions, self.scores[chosen]),
        )
        return Explanations(*(tensor.cpu().numpy() for tensor in tensors))

    def _split(self, positions: Int[Tensor, " k"]) -> tuple[Float[Tensor, "k w c"], Float[Tensor, "k c"]]:
        """What the rows around positions give to the logits there, and what the convolutions' biases give."""
        # The map from what a convolution gives, at each position of the window so far, to the logits: at first that of
        # the head, at one position.
        to_logits = self.head.weight[:, -self.convs[-1].out_channels :]
        maps = to_logits.expand(len(positions), -1, -1).unsqueeze(3)  # [k, c, f, w]
        bias = torch.zeros_like(maps[:, :, 0, 0])
        for conv, rows in zip(reversed(self.convs), reversed(self.inputs), strict=True):
            bias = bias + torch.einsum("kcfw,f->kc", maps, conv.bias)
            maps = F.conv_transpose1d(maps.flatten(0, 1), conv.weight).unflatten(0, maps.shape[:2])
            seen = around(rows, positions, maps.shape[3]).unsqueeze(1)
            if rows is not self.inputs[0]:  # rows have passed a ReLU, which lets nothing through where they are 0
                maps = maps * (seen > 0)
        return (maps * seen).sum(2).transpose(1, 2), bias


def around(rows: Tensor, positions: Int[Tensor, " k"], width: int) -> Tensor:
    """The rows around positions, `[n, f]` to `[k, f, width]`; zeros where there are none."""
    offsets = torch.arange(width, device=rows.device) - width // 2
    seen = positions.unsqueeze(1) + offsets
    inside = (seen >= 0) & (seen < len(rows))
    return (rows[seen.clamp(0, len(rows) - 1)] * inside.unsqueeze(2)).transpose(1, 2)
