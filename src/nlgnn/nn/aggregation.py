r"""The non-local step of Liu, Wang and Ji (TPAMI 2021): sort all nodes by a learned score, convolve along the order.

.. math::
    a_v = c^T z_v, \quad \pi = \mathrm{argsort}(a), \quad S_p = a_{\pi(p)} z_{\pi(p)}, \quad
    \hat{z}_{\pi(p)} = \mathrm{conv}_2(\mathrm{relu}(\mathrm{conv}_1(S)))_p, \quad
    \mathrm{logits} = [z \,\|\, \hat{z}] W + b

The permutation is piecewise constant: the score learns through the product :math:`a_v z_v` alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from nlgnn.errors import OptionError
from nlgnn.nn.checks import check_choice, check_rate, check_width
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.model import reset
from nlgnn.nn.sequence import RowConv, convolve_along_order, is_plain, stable_order


class NonLocalAggregation(nn.Module):
    """Sorts nodes by a learned score and convolves along the sorted order.

    Args:
        channels: width of the embeddings that come in and go out.
        kernel_size: positions that one convolution sees, an odd number. 1 mixes no nodes: the control.
        num_convs: how many convolutions, with ReLU and dropout between them.
        dropout: share of units dropped between the convolutions in training.
        score_bias: whether the score has a bias. It changes the product, never the order.
        multiply_score: whether embeddings are multiplied by their score; without, the score never learns.
        standardise_score: whether the factor is the score with its mean taken off, divided by its standard deviation.
        zero_init: whether the last convolution starts at zero.
        order: "score" sorts by the score, "random" by a fixed random key: the other control; "given" by keys that come
            with the embeddings, for which there is no score and nothing that embeddings are multiplied by.
        score: a module from `[n, channels]` to `[n]` or `[n, 1]`, in place of the linear score.
        convs: a module from `[1, channels, n]` to the same shape, in place of the convolutions.
    """

    def __init__(
        self,
        channels: int,
        *,
        kernel_size: int = 5,
        num_convs: int = 2,
        dropout: float = 0.0,
        score_bias: bool = False,
        multiply_score: bool = True,
        standardise_score: bool = False,
        zero_init: bool = False,
        order: Literal["score", "random", "given"] = "score",
        score: nn.Module | None = None,
        convs: nn.Module | None = None,
    ) -> None:
        super().__init__()
        check_width("channels", channels)
        check_choice("order", order, ("score", "random", "given"))
        self.multiply_score, self.standardise_score = multiply_score and order != "given", standardise_score
        self.zero_init, self.order = zero_init, order
        if score is not None and order == "given":
            raise OptionError("a score sorts nothing where the order is given or learned.", "Leave score out.")
        self._foreign = convs is not None  # takes torch's layout, ours takes rows
        self.score: nn.Module | None = score
        if score is None and order != "given":
            self.score = nn.Linear(channels, 1, bias=score_bias)
        self.convs = convolutions(channels, kernel_size, num_convs, dropout) if convs is None else convs
        self._start_at_zero()

    def reset_parameters(self) -> None:
        for module in (self.score, self.convs):
            if module is not None:
                reset(module)
        self._start_at_zero()

    def _start_at_zero(self) -> None:
        if self.zero_init:
            layers = [module for module in self.convs.modules() if isinstance(module, nn.Conv1d)]
            if not layers:
                raise OptionError("zero_init=True, but convs has no Conv1d.", "Start your own module at zero instead.")
            for parameter in layers[-1].parameters():
                nn.init.zeros_(parameter)

    def sort_order(
        self, z: Float[Tensor, "n f"], batch: Int[Tensor, " n"] | None = None, keys: Float[Tensor, " n"] | None = None
    ) -> tuple[Float[Tensor, " n"], Int[Tensor, " n"]]:
        """Every node's score, and the nodes in sorted order: position p holds node `order[p]`; ties by node number."""
        if batch is not None and (batch.shape != z.shape[:1] or batch.is_floating_point()):
            raise OptionError(
                f"batch is of shape {list(batch.shape)} and type {batch.dtype} for {len(z)} nodes.",
                "Give the number of its graph for every node.",
            )
        scores, keys = self._scores_and_keys(z, keys)
        order = stable_order(keys)
        if batch is not None:
            order = order[batch[order].argsort(stable=True)]  # graph after graph, sorted within each
        return scores, order

    def _scores_and_keys(
        self, z: Float[Tensor, "n f"], given: Float[Tensor, " n"] | None
    ) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
        if (given is not None) != (self.order == "given"):
            raise OptionError(
                f"order={self.order!r}, and keys are {'missing' if given is None else 'given'}.",
                "Give keys with order='given', and only there.",
            )
        if self.score is None:
            assert given is not None
            return given, given
        scores = self.score(z).reshape(-1)
        return scores, scores.detach() if self.order == "score" else _random_keys(len(z), z.device)

    def forward(
        self, z: Float[Tensor, "n f"], batch: Int[Tensor, " n"] | None = None, keys: Float[Tensor, " n"] | None = None
    ) -> Float[Tensor, "n f"]:
        if batch is None and is_plain(self.convs):
            scores, keys = self._scores_and_keys(z, keys)
            return convolve_along_order(z, self._factors(scores), keys, self.convs)
        scores, order = self.sort_order(z, batch, keys)
        # Several graphs: each is a sequence of its own. A graph may have no nodes.
        sizes = [len(z)] if batch is None else [size for size in torch.bincount(batch).tolist() if size]
        parts = zip(z[order].split(sizes), scores[order].split(sizes), strict=True)
        mixed = torch.cat([self._convolved(self.scaled(*part)) for part in parts])
        return mixed[order.argsort()]

    def _factors(self, scores: Float[Tensor, " n"]) -> Float[Tensor, " n"] | None:
        """What embeddings are multiplied by."""
        if not self.multiply_score:
            return None
        return (scores - scores.mean()) / (scores.std(correction=0) + 1e-6) if self.standardise_score else scores

    def scaled(self, z: Float[Tensor, "n f"], scores: Float[Tensor, " n"]) -> Float[Tensor, "n f"]:
        """Embeddings times what they are multiplied by."""
        factors = self._factors(scores)
        return z if factors is None else factors.unsqueeze(1) * z

    def _convolved(self, rows: Float[Tensor, "n f"]) -> Float[Tensor, "n f"]:
        convolved: Tensor = self.convs(rows.t().unsqueeze(0)).squeeze(0).t() if self._foreign else self.convs(rows)
        return convolved


def convolutions(channels: int, kernel_size: int, num_convs: int, dropout: float) -> nn.Sequential:
    """Convolutions along rows that keep their number (zero padding), ReLU and dropout between, none after the last."""
    check_width("num_convs", num_convs)
    check_rate("conv_dropout", dropout)
    if kernel_size < 1 or kernel_size % 2 == 0:
        raise OptionError(
            f"kernel_size={kernel_size}: a window needs a middle.", "Give an odd number: 3, 5, 7, or 1 for the control."
        )
    layers: list[nn.Module] = []
    for _ in range(num_convs):
        layers += [RowConv(channels, channels, kernel_size), nn.ReLU(), Dropout(dropout)]
    return nn.Sequential(*layers[:-2])


@lru_cache(maxsize=8)
def _random_keys(num_nodes: int, device: torch.device) -> Tensor:
    """The same on every call and device. Not of torch, whose random numbers belong to training."""
    return torch.from_numpy(np.random.default_rng(0).random(num_nodes)).to(device)
