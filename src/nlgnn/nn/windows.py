r"""Sums over windows of several orders: every node hears those that stand near it in at least one of them.

With :math:`N(v)` = the nodes within `radius` positions of v in any order, v left out,

.. math::
    s_v = \sum_{u \in N(v)} \exp(-\|e_v - e_u\|^2)\, m_u.

Gradients go to e, through the distances alone: nothing differentiates a sort. In each order the nodes are cut into
blocks; a block and the rows around it make one small matrix of distances, by one product. A node that was near in an
earlier order already is left out, so that nobody counts twice. Distances are computed again for the gradients, some
blocks at a time: of a pair of neighbours in a block one byte is kept, which says whether it counts, 4 h `radius` a node
for radii from 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nlgnn.nn.kernel import Kernel, in_front
from nlgnn.nn.sequence import stable_order

SMALLEST_BLOCK = 16
PAIRS_AT_ONCE = 2**18  # their matrices stay in the cache
PAIRS_ON_A_GPU = 2**24


def window_sums(
    e: Float[Tensor, "n m"], messages: Float[Tensor, "n s"], keys: Float[Tensor, "h n"], radius: int
) -> Float[Tensor, "n s"]:
    """What every node hears. The messages and the keys that nodes are sorted by get no gradient."""
    e, messages = (part.float() if part.dtype in (torch.half, torch.bfloat16) else part for part in (e, messages))
    one = (part.unsqueeze(0) for part in (e, messages.detach(), keys.detach()))
    sums: Tensor = _WindowSums.apply(*one, min(radius, max(1, len(e) - 1)))[0]  # further there is nobody
    return sums.squeeze(0)


class Neighbours(NamedTuple):
    """The nodes near some nodes in any order; a node that is near in several is `counted` once."""

    nodes: Int[Tensor, "k w"]
    counted: Bool[Tensor, "k w"]


def window_neighbours(keys: Float[Tensor, "h n"], nodes: Int[Tensor, " k"], radius: int) -> Neighbours:
    """Node by node, for few nodes."""
    radius = min(radius, max(1, keys.shape[1] - 1))
    orders = stable_order(keys)
    all_places = _places(orders)
    places = all_places[:, nodes]  # [h, k]
    offsets = torch.tensor([offset for offset in range(-radius, radius + 1) if offset], device=keys.device)
    seen = places.unsqueeze(2) + offsets  # [h, k, 2 radius]
    inside = (seen >= 0) & (seen < keys.shape[1])
    found = orders.gather(1, seen.clamp(0, keys.shape[1] - 1).flatten(1)).view_as(seen)
    for order in range(1, len(orders)):
        in_others = all_places[:order, found[order]]  # [order, k, 2 radius]
        inside[order] &= ((in_others - places[:order].unsqueeze(2)).abs() > radius).all(0)
    return Neighbours(found.transpose(0, 1).flatten(1), inside.transpose(0, 1).flatten(1))


class _WindowSums(Kernel):
    """`e` is `[r, n, m]`, `messages` `[r, n, s]`, `keys` `[r, h, n]`: replicas are in front.

    Beside the sums it gives what the gradients need, the orders and which pairs count; not so under `vmap`, inside of
    which there are no gradients to be taken.
    """

    @staticmethod
    def forward(e: Tensor, messages: Tensor, keys: Tensor, radius: int) -> tuple[Tensor, Tensor, Tensor]:
        windows = _Windows(stable_order(keys), radius)
        counted, sums = windows.counted(), torch.zeros_like(messages)
        left, right = _factors(e)
        own_rows, near_rows = _rows(left), _rows(right, messages)
        with _no_short_cuts(e.device):
            for order in range(keys.shape[1]):
                parts = []
                for some, own, near in windows.blocks(order, own_rows, near_rows):
                    weights = _weights(own, near, counted[order, some])
                    parts.append(weights @ near[..., left.shape[2] :])
                sums += windows.back(order, parts)
        return sums, windows.orders, counted

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        e, messages, _, ctx.radius = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(e, messages, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        e, messages, orders, counted = ctx.saved_tensors
        windows = _Windows(orders, ctx.radius)
        left, right = _factors(e)
        width = left.shape[2]
        # The window is symmetric: v hears u where u hears v. With both, every row's gradient is whole.
        own_rows, near_rows = _rows(left, gradient, messages), _rows(right, messages, gradient)
        pulls = torch.zeros_like(right)
        with _no_short_cuts(e.device):
            for order in range(orders.shape[1]):
                parts = []
                for some, own, near in windows.blocks(order, own_rows, near_rows):
                    slopes = _weights(own[..., :width], near, counted[order, some])
                    slopes *= own[..., width:] @ near[..., width:].mT
                    parts.append(slopes @ near[..., :width])
                pulls += windows.back(order, parts)
        toward, slopes_in_all = pulls[..., : e.shape[2]], pulls[..., e.shape[2] : e.shape[2] + 1]
        return 2 * (toward - slopes_in_all * e), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[tuple[Tensor], tuple[int]]:
        *tensors, radius = arguments
        together = (tensor.flatten(0, 1) for tensor in in_front(info, in_dims[:-1], tuple(tensors)))
        sums = _WindowSums.apply(*together, radius)[0]
        return (sums.unflatten(0, (info.batch_size, -1)),), (0,)


class _Windows:
    """Where nodes stand in orders `[r, h, n]`, which are cut into blocks."""

    def __init__(self, orders: Int[Tensor, "r h n"], radius: int) -> None:
        self.orders, self.radius = orders, radius
        self.replicas, _, self.nodes = orders.shape
        self.size = max(SMALLEST_BLOCK, 2 * radius)  # rows a block
        self.filling = -self.nodes % self.size
        self.places = _places(orders)
        # Rows of all replicas stand below each other.
        self.first = torch.arange(0, self.replicas * self.nodes, self.nodes, device=orders.device).unsqueeze(1)

    def blocks(self, order: int, own: Tensor, near: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Of one order some blocks at a time: which they are, their `own` rows `[b, size, ·]`, and of `near` those
        rows with the ones before and after, `[b, size + 2 radius, ·]`."""
        order_of_rows = self.orders[:, order] + self.first
        margin, nobody = self.radius, self.replicas * self.nodes
        inner = F.pad(order_of_rows, (0, self.filling), value=nobody).view(-1, self.size)
        outer = F.pad(order_of_rows, (margin, margin + self.filling), value=nobody)
        outer = outer.unfold(1, self.size + 2 * margin, self.size).flatten(0, 1)
        pairs = PAIRS_AT_ONCE if own.device.type == "cpu" else PAIRS_ON_A_GPU
        at_once = max(1, pairs // (self.size * outer.shape[1]))
        for first in range(0, len(inner), at_once):
            some = slice(first, first + at_once)
            yield some, _taken(own, inner[some]), _taken(near, outer[some])

    def counted(self) -> Bool[Tensor, "h b i j"]:
        """Which pairs count in each order: those in reach that are not in an earlier order."""
        span = torch.arange(self.size + 2 * self.radius, device=self.orders.device)
        apart = (span - self.radius - span[: self.size].unsqueeze(1)).abs()
        in_window = (apart <= self.radius) & (apart != 0)
        short = self.nodes < torch.iinfo(torch.int16).max  # half the time
        rows = _rows(self.places.mT.to(torch.int16 if short else torch.int32))
        blocks = self.replicas * (self.nodes + self.filling) // self.size
        counted = in_window.repeat(self.orders.shape[1], blocks, 1, 1)
        for order in range(1, len(counted)):
            for some, own, near in self.blocks(order, rows, rows):
                for earlier in range(order):
                    between = own[..., earlier].unsqueeze(2) - near[..., earlier].unsqueeze(1)
                    counted[order, some] &= between.abs_() > self.radius
        return counted

    def back(self, order: int, parts: list[Tensor]) -> Float[Tensor, "r n f"]:
        """From blocks to rows in the nodes' own order."""
        places = self.places[:, order] + self.first // self.nodes * (self.nodes + self.filling)
        return _taken(torch.cat(parts).flatten(0, 1), places)


@contextmanager
def _no_short_cuts(device: torch.device) -> Iterator[None]:
    """Whatever a script allows: squared distances of about 1 are differences of numbers up to 1e5 and more."""
    settings = (getattr(torch.backends.cuda, "matmul", None), getattr(torch.backends.mkldnn, "matmul", None))
    allowed = {one: getattr(one, "fp32_precision", "none") for one in settings}  # torch has them from 2.9 on
    allowed = {one: precision for one, precision in allowed.items() if precision not in ("none", "ieee")}
    for one in allowed:
        one.fp32_precision = "ieee"  # type: ignore[union-attr]
    has_autocast = torch.amp.is_autocast_available(device.type)
    try:
        with torch.autocast(device.type, enabled=False) if has_autocast else nullcontext():
            yield
    finally:
        for one, precision in allowed.items():
            one.fp32_precision = precision  # type: ignore[union-attr]


def _factors(e: Float[Tensor, "r n m"]) -> tuple[Float[Tensor, "r n k"], Float[Tensor, "r n k"]]:
    """Whose products are minus the squared distances."""
    lengths, ones = e.square().sum(2, keepdim=True), e.new_ones(*e.shape[:2], 1)
    return torch.cat([2 * e, -lengths, -ones], 2), torch.cat([e, ones, lengths], 2)


def _weights(left: Tensor, right: Tensor, counted: Bool[Tensor, "b i j"]) -> Float[Tensor, "b i j"]:
    """Rounding may make a squared distance a little less than zero."""
    return (left @ right[..., : left.shape[2]].mT).clamp_(max=0).exp_().mul_(counted)


def _rows(*parts: Tensor) -> Tensor:
    """Parts `[r, n, ·]` side by side, all replicas below each other; last a row of zeros, which says nothing."""
    return F.pad(torch.cat(parts, 2).flatten(0, 1), (0, 0, 0, 1))


def _taken(rows: Shaped[Tensor, "k f"], numbers: Int[Tensor, "b i"]) -> Shaped[Tensor, "b i f"]:
    taken: Tensor = rows.index_select(0, numbers.flatten()).unflatten(0, numbers.shape)
    return taken


def _places(orders: Int[Tensor, "*replicas n"]) -> Int[Tensor, "*replicas n"]:
    """Where each node stands in an order."""
    numbers = torch.arange(orders.shape[-1], device=orders.device).expand_as(orders)
    return torch.empty_like(orders).scatter_(-1, orders, numbers)
