r"""Weighted sums over the nodes that are near in at least one of several orders.

Let :math:`N(v)` be the nodes within `radius` positions of v in any order, without v. The sums are

.. math::
    s_v = \sum_{u \in N(v)} \exp(-\|e_v - e_u\|^2)\, m_u.

Gradients reach e only through the distances, because the sort has no gradient. In each order, the values of the sorted
nodes are stored in one row per dimension, so that all nodes and those at some distance behind them are two slices of a
row. Every pair is computed once, because weights are symmetric. A pair that was near in an earlier order has weight 0
in later ones, so that no pair counts twice. The weights, h `radius` per node, are kept for the gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nlgnn.nn.kernels.function import Kernel, in_front, widened
from nlgnn.nn.kernels.sorted_conv import stable_order

PAIRS_AT_ONCE = 2**18  # pairs that fit into the cache
PAIRS_ON_A_GPU = 2**24
HALVINGS = 30  # bisection steps of the search for a scale


def window_sums(
    e: Float[Tensor, "n m"], messages: Float[Tensor, "n s"], keys: Float[Tensor, "h n"], radius: int
) -> Float[Tensor, "n s"]:
    """Return the weighted sums of all nodes. Messages and sort keys get no gradient."""
    e, messages = widened(e), widened(messages)
    one = (part.unsqueeze(0) for part in (e, messages.detach(), keys.detach()))
    sums: Tensor = _WindowSums.apply(*one, min(radius, max(1, len(e) - 1)))[0]  # the largest possible distance
    return sums.squeeze(0)


class Neighbours(NamedTuple):
    """Nodes that are near some nodes in any order. A node that is near in several orders is `counted` once."""

    nodes: Int[Tensor, "k w"]
    counted: Bool[Tensor, "k w"]


def window_neighbours(keys: Float[Tensor, "h n"], nodes: Int[Tensor, " k"], radius: int) -> Neighbours:
    """Return the explicit lists of neighbours of a few nodes."""
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
    """Kernel for `e` of shape `[r, n, m]`, `messages` `[r, n, s]` and `keys` `[r, h, n]` with r replicas.

    It returns the sums and, for the gradients, the orders and their weights. Under `vmap` it returns only the sums, so
    that gradients of the vectorised function are supported, but not gradients inside of it.
    """

    @staticmethod
    def forward(e: Tensor, messages: Tensor, keys: Tensor, radius: int) -> tuple[Tensor, Tensor, Tensor]:
        line = _Line(stable_order(keys), radius)
        values, width = _by_dimension(e, messages), e.shape[2]
        sums = torch.zeros_like(values[width:])
        weights = e.new_zeros(keys.shape[1], radius, line.fronts)
        for order in range(keys.shape[1]):
            positions, sent = line.sort(order, values).tensor_split([width])
            earlier = line.sort(order, line.earlier_places(order))
            received = torch.zeros_like(sent)
            for some in line.chunks():
                near = weights[order][:, some]
                apart = torch.empty_like(near)
                for own, behind in line.side_by_side(positions, some):
                    torch.sub(behind, own, out=apart)
                    near.addcmul_(apart, apart, value=-1)
                near.exp_()
                for own, behind in line.side_by_side(earlier, some):  # pairs that were near in an earlier order
                    near *= (behind - own).abs_() > radius
                line.exchange(near, sent, received, some)
            sums += line.unsort(order, received)
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
            sent, gradients, positions = line.sort(order, values).tensor_split([width, 2 * width])
            pulled = torch.zeros_like(positions)
            for some in line.chunks():
                near = weights[order][:, some]
                slopes = torch.zeros_like(near)
                both = zip(line.side_by_side(sent, some), line.side_by_side(gradients, some), strict=True)
                for (own, behind), (slope, slope_behind) in both:  # both directions
                    slopes.addcmul_(slope, behind).addcmul_(own, slope_behind)
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
    """Sorted nodes of several orders `[r, h, n]`, with `radius` empty positions after each replica.

    `fronts` is the number of positions that are followed by at least `radius` others.
    """

    def __init__(self, orders: Int[Tensor, "r h n"], radius: int) -> None:
        self.orders, self.radius = orders, radius
        self.replicas, _, self.nodes = orders.shape
        self.places = _places(orders)
        self.fronts = self.replicas * (self.nodes + radius) - radius

    def sort(self, order: int, values: Shaped[Tensor, "f r n"]) -> Shaped[Tensor, "f l"]:
        """Convert values per node to values per position."""
        numbers = self.orders[:, order].expand_as(values)
        return F.pad(values.gather(2, numbers), (0, self.radius)).flatten(1)

    def unsort(self, order: int, values: Float[Tensor, "f l"]) -> Float[Tensor, "f r n"]:
        """Convert values per position to values per node."""
        values = values.unflatten(1, (self.replicas, -1))
        return values.gather(2, self.places[:, order].expand(len(values), -1, -1))

    def chunks(self) -> Iterator[slice]:
        """Yield slices of positions whose pairs fit into the cache."""
        pairs = PAIRS_AT_ONCE if self.orders.device.type == "cpu" else PAIRS_ON_A_GPU
        at_once = max(1, pairs // self.radius)
        for first in range(0, self.fronts, at_once):
            yield slice(first, min(first + at_once, self.fronts))

    def side_by_side(self, values: Shaped[Tensor, "f l"], some: slice) -> Iterator[tuple[Tensor, Tensor]]:
        """Return, per row, the entries at some positions `[k]` and 1, 2, ... positions later `[radius, k]`."""
        behind = values[:, some.start + 1 : some.stop + self.radius].unfold(1, some.stop - some.start, 1)
        return zip(values[:, some], behind, strict=True)

    def earlier_places(self, order: int) -> Int[Tensor, "h r n"]:
        """Return the positions of nodes in the orders before this one."""
        short = self.nodes < torch.iinfo(torch.int16).max  # takes half the time
        return self.places[:, :order].transpose(0, 1).to(torch.int16 if short else torch.int32)

    def exchange(self, weights: Tensor, sent: Tensor, received: Tensor, some: slice) -> None:
        """Add the weighted messages between some positions and the following ones, in both directions."""
        for distance, weight in enumerate(weights, 1):
            behind = slice(some.start + distance, some.stop + distance)
            received[:, some].addcmul_(weight, sent[:, behind])
            received[:, behind].addcmul_(weight, sent[:, some])

    def attract(self, slopes: Tensor, positions: Tensor, pulled: Tensor, some: slice) -> None:
        """Add the gradients between some positions and the following ones, in both directions."""
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
    """Return the position of each node in an order."""
    numbers = torch.arange(orders.shape[-1], device=orders.device).expand_as(orders)
    return torch.empty_like(orders).scatter_(-1, orders, numbers)


def perplexity_scale(perplexity: float, distances: Float[Tensor, "k w"], counted: Bool[Tensor, "k w"]) -> float:
    """Return the scale at which the weights of neighbours have this perplexity, in the median over some nodes.

    Neighbours at distance 0 are not counted, because they have weight 1 at any scale. If too few others remain, the
    scale makes the median distance 1.
    """
    distances = distances.double()
    counted = counted & (distances > 1e-9 * distances.max())
    if not counted.any():
        return 1.0
    usual = distances[counted].median()
    low, high = math.log(1e-4 / usual.sqrt()), math.log(1e4 / usual.sqrt())
    lowest, highest = low, high
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        chances = (-math.exp(2 * middle) * distances).masked_fill(~counted, -torch.inf).softmax(1)
        if torch.special.entr(chances).sum(1).nanmedian() > math.log(perplexity):
            low = middle
        else:
            high = middle
    return float(usual.rsqrt()) if lowest == low or highest == high else math.exp((low + high) / 2)
