"""The non-local step over several ranks: an exact global sort, and convolutions over equal blocks of the sorted order.

Every rank gets one block of consecutive positions of the order of all nodes. The limits of the blocks are exact, also
where nodes tie: the key at each limit is found eight bits at a time by small sums over ranks, and nodes of this key are
divided by their number. Rows then move once. A convolution of a block reads margins of the blocks around it.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.ranks import Halo, Ranks
from nlgnn.nn.kernels.sorted_conv import RowConv, convolve, convolve_backward, order_of_integers, sortable_integers

KEY_BITS, STEP_BITS = 32, 8


def block_limits(ranks: Ranks) -> Int[Tensor, " r"]:
    """Return the first position of each rank in the sorted order, and the number of positions."""
    return torch.arange(ranks.size + 1) * ranks.num_nodes // ranks.size


def places_of_limits(ranks: Ranks, integers: Int[Tensor, " n"], limits: Int[Tensor, " k"]) -> Int[Tensor, " k"]:
    """Return how many of the sorted keys of this rank come before some positions of the global order.

    Args:
        ranks: The ranks.
        integers: The keys of this rank in ascending order.
        limits: The positions.
    """
    key = torch.full_like(limits, -(2 ** (KEY_BITS - 1)))
    for shift in range(KEY_BITS - STEP_BITS, -1, -STEP_BITS):
        candidates = key.unsqueeze(1) + (torch.arange(1, 2**STEP_BITS) << shift)
        smaller = ranks.add(torch.searchsorted(integers, candidates.flatten()).view(candidates.shape))
        key = key + ((smaller <= limits.unsqueeze(1)).sum(1) << shift)
    low, high = torch.searchsorted(integers, key), torch.searchsorted(integers, key, right=True)
    table = ranks.table(torch.stack([low, high - low]))  # [ranks, 2, limits]
    ties_of_earlier_ranks = table[: ranks.rank, 1].sum(0)  # whose nodes have smaller numbers
    wanted = limits - table[:, 0].sum(0) - ties_of_earlier_ranks
    return low + wanted.clamp(min=0).minimum(high - low)


class Route:
    """The way of rows from their nodes to the sorted order of all ranks, and back.

    Args:
        ranks: The ranks.
        keys: What the nodes of this rank are sorted by.
    """

    def __init__(self, ranks: Ranks, keys: Float[Tensor, " n"]) -> None:
        self.ranks = ranks
        integers = sortable_integers(keys)
        self.leave = order_of_integers(integers)
        integers = integers[self.leave]
        limits = block_limits(ranks)[1:-1]
        ends = [torch.zeros(1).long(), places_of_limits(ranks, integers.long(), limits), torch.tensor([len(keys)])]
        counts = torch.cat(ends).diff()
        self.send: list[int] = counts.tolist()
        self.receive: list[int] = ranks.table(counts)[:, ranks.rank].tolist()
        arrived = ranks.exchange(integers, self.send, self.receive, "keys")
        # Sorted runs arrive in the order of ranks, so that equal keys stay in the order of their nodes.
        self.merge = order_of_integers(arrived)
        self.leave_back, self.merge_back = self.leave.argsort(), self.merge.argsort()

    def to_order(self, rows: Tensor) -> Tensor:
        """Return the rows of this rank's block of the order, given the rows of its nodes."""
        arrived = self.ranks.exchange(rows.index_select(0, self.leave), self.send, self.receive, "routing")
        return arrived.index_select(0, self.merge)

    def to_nodes(self, rows: Tensor) -> Tensor:
        """Return the rows of this rank's nodes, given those of its block."""
        rows = self.ranks.exchange(rows.index_select(0, self.merge_back), self.receive, self.send, "routing")
        return rows.index_select(0, self.leave_back)


def convolve_over_ranks(
    ranks: Ranks,
    rows: Float[Tensor, "n f"],
    factors: Float[Tensor, " n"] | None,
    keys: Float[Tensor, " n"],
    convs: nn.Module,
) -> Float[Tensor, "n f"]:
    """Compute what `convolve_along_order` computes, for the rows of all ranks together."""
    route, first = Route(ranks, keys.detach()), int(block_limits(ranks)[ranks.rank])
    h: Tensor = _Moved.apply(rows if factors is None else rows * factors.unsqueeze(1), route, True)  # type: ignore[no-untyped-call]
    for layer in convs.children():
        if isinstance(layer, RowConv):
            halo = margins(ranks, layer.weight.shape[2] // 2)
            h = _BlockConv.apply(halo.extend(h), layer.weight, layer.bias, halo.before, len(h))  # type: ignore[no-untyped-call]
        elif isinstance(layer, Dropout):
            h = layer(h, first=first)
        else:
            h = layer(h)
    back: Tensor = _Moved.apply(h, route, False)  # type: ignore[no-untyped-call]
    return back


def margins(ranks: Ranks, width: int) -> Halo:
    """Return the rows before and after the block of this rank that a convolution reads."""
    if width not in ranks.margins:
        limits = block_limits(ranks)
        first, stop, whole = int(limits[ranks.rank]), int(limits[ranks.rank + 1]), ranks.num_nodes
        before = torch.arange(max(0, first - width), first) if stop > first else torch.arange(0)
        after = torch.arange(stop, min(stop + width, whole)) if stop > first else torch.arange(0)
        ranks.margins[width] = Halo(ranks, torch.cat([before, after]), limits, len(before), "margins")
    return ranks.margins[width]


class _Moved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, route: Route, to_order: bool) -> Tensor:
        ctx.back = route.to_nodes if to_order else route.to_order
        return route.to_order(rows) if to_order else route.to_nodes(rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return ctx.back(gradient), None, None


class _BlockConv(torch.autograd.Function):
    """Convolution of a block with its margins. The results of the margins are computed and left out."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, before: int, count: int) -> Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.before, ctx.count = before, count
        if count == 0:
            return rows.new_zeros(0, len(weight))
        return convolve(rows, weight, bias)[before : before + count].contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, weight = ctx.saved_tensors
        if ctx.count == 0:  # zeros instead of None, because every rank takes part in every sum
            return torch.zeros_like(rows), torch.zeros_like(weight), weight.new_zeros(len(weight)), None, None
        whole = gradient.new_zeros(len(rows), len(weight))
        whole[ctx.before : ctx.before + ctx.count] = gradient
        return *convolve_backward(whole, weight, rows), None, None
