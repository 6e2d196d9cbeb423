r"""Sums over windows of several orders: every node hears those that stand near it in at least one of them.

With :math:`N(v)` = the nodes within `radius` positions of v in any order, v left out,

.. math::
    s_v = \sum_{u \in N(v)} \exp(-\|e_v - e_u\|^2)\, m_u.

Gradients go to e, through the distances alone: nothing differentiates a sort. In each order nodes stand in line; what
belongs to them is kept one row a dimension, so that all nodes and those at some distance behind them are two slices of
a row. Every pair is looked at once, since what v is to u, u is to v; and a pair that was near in an earlier order has
the weight 0 in later ones, so that nobody counts twice. The weights, h `radius` a node, are kept for the gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nlgnn.nn.kernel import Kernel, in_front
from nlgnn.nn.sequence import stable_order

PAIRS_AT_ONCE = 2**18  # they stay in the cache
PAIRS_ON_A_GPU = 2**24


def window_sums(
    e: Float[Tensor, "n m"], messages: Float[Tensor, "n s"], keys: Float[Tensor, "h n"], radius: int
) -> Float[Tensor, "n s"]:
    """What every node hears. The messages and the keys that nodes are sorted by get no gradient."""
    e, messages = in_full_precision(e), in_full_precision(messages)
    one = (part.unsqueeze(0) for part in (e, messages.detach(), keys.detach()))
    sums: Tensor = _WindowSums.apply(*one, min(radius, max(1, len(e) - 1)))[0]  # further there is nobody
    return sums.squeeze(0)


def in_full_precision(values: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """Half precision is too coarse for distances."""
    return values.float() if values.dtype in (torch.half, torch.bfloat16) else values


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

    Beside the sums it gives what the gradients need, the orders and the weights in each; not so under `vmap`: gradients
    may be taken of what is vectorised, not inside of it.
    """

    @staticmethod
    def forward(e: Tensor, messages: Tensor, keys: Tensor, radius: int) -> tuple[Tensor, Tensor, Tensor]:
        line = _Line(stable_order(keys), radius)
        values, width = _by_dimension(e, messages), e.shape[2]
        sums = torch.zeros_like(values[width:])
        weights = e.new_zeros(keys.shape[1], radius, line.fronts)
        for order in range(keys.shape[1]):
            positions, said = line.sort(order, values).tensor_split([width])
            earlier = line.sort(order, line.earlier_places(order))
            heard = torch.zeros_like(said)
            for some in line.chunks():
                near = weights[order][:, some]
                apart = torch.empty_like(near)
                for own, behind in line.side_by_side(positions, some):
                    torch.sub(behind, own, out=apart)
                    near.addcmul_(apart, apart, value=-1)
                near.exp_()
                for own, behind in line.side_by_side(earlier, some):  # who was near before is not counted again
                    near *= (behind - own).abs_() > radius
                line.exchange(near, said, heard, some)
            sums += line.unsort(order, heard)
        return _by_node(sums), line.orders, weights

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        e, messages, _, ctx.radius = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(e, messages, *output[1:])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        e, messages, orders, weights = ctx.saved_tensors
        line = _Line(orders, ctx.radius)
        values, width = _by_dimension(messages, gradient, e), messages.shape[2]
        pulls = torch.zeros_like(values[2 * width :])
        for order in range(orders.shape[1]):
            sayings, gradients, positions = line.sort(order, values).tensor_split([width, 2 * width])
            pulled = torch.zeros_like(positions)
            for some in line.chunks():
                near = weights[order][:, some]
                slopes = torch.zeros_like(near)
                both = zip(line.side_by_side(sayings, some), line.side_by_side(gradients, some), strict=True)
                for (saying, saying_behind), (slope, slope_behind) in both:  # either hears the other
                    slopes.addcmul_(slope, saying_behind).addcmul_(saying, slope_behind)
                line.attract(slopes.mul_(near), positions, pulled, some)
            pulls += line.unsort(order, pulled)
        return 2 * _by_node(pulls), None, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[tuple[Tensor], tuple[int]]:
        *tensors, radius = arguments
        together = (tensor.flatten(0, 1) for tensor in in_front(info, in_dims[:-1], tuple(tensors)))
        sums = _WindowSums.apply(*together, radius)[0]
        return (sums.unflatten(0, (info.batch_size, -1)),), (0,)


class _Line:
    """Nodes in line, in one of several orders `[r, h, n]`; after those of each replica come `radius` places of nobody.

    `fronts` counts the places that have `radius` others behind them.
    """

    def __init__(self, orders: Int[Tensor, "r h n"], radius: int) -> None:
        self.orders, self.radius = orders, radius
        self.replicas, _, self.nodes = orders.shape
        self.places = _places(orders)
        self.fronts = self.replicas * (self.nodes + radius) - radius

    def sort(self, order: int, values: Shaped[Tensor, "f r n"]) -> Shaped[Tensor, "f l"]:
        """From nodes to places."""
        numbers = self.orders[:, order].expand_as(values)
        return F.pad(values.gather(2, numbers), (0, self.radius)).flatten(1)

    def unsort(self, order: int, values: Float[Tensor, "f l"]) -> Float[Tensor, "f r n"]:
        """From places to nodes."""
        values = values.unflatten(1, (self.replicas, -1))
        return values.gather(2, self.places[:, order].expand(len(values), -1, -1))

    def chunks(self) -> Iterator[slice]:
        """Some places at a time."""
        pairs = PAIRS_AT_ONCE if self.orders.device.type == "cpu" else PAIRS_ON_A_GPU
        at_once = max(1, pairs // self.radius)
        for first in range(0, self.fronts, at_once):
            yield slice(first, min(first + at_once, self.fronts))

    def side_by_side(self, values: Shaped[Tensor, "f l"], some: slice) -> Iterator[tuple[Tensor, Tensor]]:
        """Of every row what is at some places `[k]`, and 1, 2, ... places behind each of them `[radius, k]`."""
        behind = values[:, some.start + 1 : some.stop + self.radius].unfold(1, some.stop - some.start, 1)
        return zip(values[:, some], behind, strict=True)

    def earlier_places(self, order: int) -> Int[Tensor, "h r n"]:
        """Where nodes stand in the orders before this one."""
        short = self.nodes < torch.iinfo(torch.int16).max  # half the time
        return self.places[:, :order].transpose(0, 1).to(torch.int16 if short else torch.int32)

    def exchange(self, weights: Tensor, said: Tensor, heard: Tensor, some: slice) -> None:
        """Adds what those at some places hear from those behind them, and these from them."""
        for distance, weight in enumerate(weights, 1):
            behind = slice(some.start + distance, some.stop + distance)
            heard[:, some].addcmul_(weight, said[:, behind])
            heard[:, behind].addcmul_(weight, said[:, some])

    def attract(self, slopes: Tensor, positions: Tensor, pulled: Tensor, some: slice) -> None:
        """Adds how far those at some places are pulled to those behind them, and these to them."""
        for distance, slope in enumerate(slopes, 1):
            behind = slice(some.start + distance, some.stop + distance)
            pull = (positions[:, behind] - positions[:, some]).mul_(slope)
            pulled[:, some] += pull
            pulled[:, behind] -= pull


def _by_dimension(*parts: Float[Tensor, "r n _"]) -> Float[Tensor, "f r n"]:
    return torch.cat(parts, 2).permute(2, 0, 1).contiguous()


def _by_node(values: Float[Tensor, "f r n"]) -> Float[Tensor, "r n f"]:
    return values.permute(1, 2, 0).contiguous()


def _places(orders: Int[Tensor, "*replicas n"]) -> Int[Tensor, "*replicas n"]:
    """Where each node stands in an order."""
    numbers = torch.arange(orders.shape[-1], device=orders.device).expand_as(orders)
    return torch.empty_like(orders).scatter_(-1, orders, numbers)
