r"""Orders: what nodes are sorted by.

:class:`ScoreOrder` is that of Liu, Wang and Ji (TPAMI 2021): a learned score :math:`a_v = c^T z_v`, by which nodes are
sorted and embeddings are multiplied. :class:`RandomOrder` is its control. The order along a learned space is in
:mod:`nlgnn.nn.learned_order`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, checked, reset
from nlgnn.nn.kernels.function import full_precision
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.nn.kernels.sorted_conv import stable_order

# From local logits without dropout, labels and training nodes to a term of the loss.
Penalty = Callable[[Tensor, Tensor, Tensor], Tensor]


class Ranking(NamedTuple):
    """Sort keys and factors of all nodes.

    Args:
        keys: What nodes are sorted by.
        scale: What embeddings are multiplied by; None for nothing.
        penalty: A term of the training loss, as a function of local logits without dropout, labels and training nodes;
            None for nothing. An order that returns one sets `reads_logits`.
    """

    keys: Float[Tensor, " n"]
    scale: Float[Tensor, " n"] | None = None
    penalty: Penalty | None = None

    def order(self, batch: Int[Tensor, " n"] | None = None) -> Int[Tensor, " n"]:
        """Return the nodes in sorted order, graph after graph: position p holds node `order[p]`; ties by number."""
        order = stable_order(self.keys)
        return order if batch is None else order[batch[order].argsort(stable=True)]

    def scaled(self, z: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        """Return embeddings times their factors."""
        return z if self.scale is None else self.scale.unsqueeze(1) * z


class Order(nn.Module, ABC):
    """Base class of orders.

    Attributes:
        stackable: Whether `torch.func.vmap` may train several at once.
        identifies_nodes: Whether the order knows nodes by their number.
        reads_logits: Whether rankings have a penalty, which reads the local embedding as logits.
    """

    stackable: bool = True
    identifies_nodes: bool = False
    reads_logits: bool = False

    @abstractmethod
    def forward(
        self, z: Float[Tensor, "n f"], inputs: tuple[Any, ...], batch: Int[Tensor, " n"] | None = None
    ) -> Ranking:
        """Return the ranking of all nodes.

        Args:
            z: The local embedding of every node.
            inputs: What `prepare` returned.
            batch: The number of its graph for every node, where there are several graphs.
        """

    def reset_parameters(self) -> None:
        """Draw all parameters again."""
        for child in self.children():
            reset(child)

    def parameter_groups(self) -> list[dict[str, Any]]:
        """Return parameter groups as `torch.optim` takes them."""
        return [{"params": list(self.parameters())}]

    def prepare(self, graph: Graph, prepared: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs of the local model, with what the order needs added at the end."""
        return prepared

    def local_inputs(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the inputs without what `prepare` added."""
        return inputs

    def start(self, inputs: tuple[Any, ...], known: Int[Tensor, " n"]) -> None:
        """Initialise from data, once, on fresh weights; `known` has the labels of training nodes, and -1 elsewhere."""


class ScoreOrder(Order):
    r"""The order of the paper: nodes are sorted by a learned score, and embeddings are multiplied by it.

    .. math:: a_v = c^T z_v

    Args:
        channels: Width of the embeddings.
        bias: Whether the score has a bias. It changes the factor, not the order.
        multiply: Whether embeddings are multiplied by the score; without it the score gets no gradient.
        standardise: Whether the factor is the standardised score.
        score: A module from `[n, channels]` to `[n]` or `[n, 1]` that replaces the linear score.
    """

    @checked
    def __init__(
        self,
        channels: Count,
        *,
        bias: bool = False,
        multiply: bool = True,
        standardise: bool = False,
        score: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.multiply, self.standardise, self.stackable = multiply, standardise, score is None
        self.score: nn.Module = nn.Linear(channels, 1, bias=bias) if score is None else score

    def forward(
        self, z: Float[Tensor, "n f"], inputs: tuple[Any, ...] = (), batch: Int[Tensor, " n"] | None = None
    ) -> Ranking:
        with full_precision(z) as z:  # bfloat16 has too few bits to tell nodes apart
            scores = self.score(z).reshape(-1)
        return Ranking(self.keys(scores), self.factors(scores, batch))

    def keys(self, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return what nodes are sorted by."""
        return scores.detach()

    def factors(self, scores: Float[Tensor, " n"], batch: Int[Tensor, " n"] | None) -> Float[Tensor, " n"] | None:
        """Return what embeddings are multiplied by."""
        if not self.multiply or not self.standardise:
            return scores if self.multiply else None
        if (ranks := active_ranks()) is not None:
            centred = scores - ranks.total(scores.sum()) / ranks.num_nodes
            return centred / ((ranks.total(centred.square().sum()) / ranks.num_nodes).sqrt() + 1e-6)
        if batch is None:
            return (scores - scores.mean()) / (scores.std(correction=0) + 1e-6)
        sizes = torch.bincount(batch).clamp(min=1).to(scores.dtype)
        centred = scores - (torch.zeros_like(sizes).index_add(0, batch, scores) / sizes)[batch]
        variances = torch.zeros_like(sizes).index_add(0, batch, centred.square()) / sizes
        return centred / (variances[batch].sqrt() + 1e-6)


class RandomOrder(ScoreOrder):
    """A control: nodes are sorted at random, the same way on every call; embeddings are multiplied by the score."""

    def keys(self, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        if (ranks := active_ranks()) is not None:
            return _random_keys(ranks.num_nodes, scores.device)[ranks.first : ranks.stop]
        return _random_keys(len(scores), scores.device)


@lru_cache(maxsize=8)
def _random_keys(num_nodes: int, device: torch.device) -> Tensor:
    """Return the same keys on every device. They are not torch's, whose random numbers belong to training."""
    return torch.from_numpy(np.random.default_rng(0).random(num_nodes)).to(device)
