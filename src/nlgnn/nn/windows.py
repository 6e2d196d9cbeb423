r"""Sums over windows of several orders: every node hears those that stand near it in at least one of them.

With :math:`N(v)` = the nodes within `radius` positions of v in any order, v left out,

.. math::
    s_v = \sum_{u \in N(v)} \exp(-\tau \|e_v - e_u\|^2)\, m_u.

Gradients go to e and :math:`\tau`, through the distances alone: nothing differentiates a sort. In each order the nodes
are cut into blocks; a block and the rows around it make one small matrix of distances, by one product. A node that was
near in an earlier order already is left out, so that nobody counts twice. Distances are computed again for the
gradients, some blocks at a time: what is kept is as large as e and m.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from nlgnn.nn.kernel import Kernel, in_front
from nlgnn.nn.sequence import stable_order

SMALLEST_BLOCK = 16
PAIRS_AT_ONCE = 2**18  # their matrices stay in the cache


def window_sums(
    e: Float[Tensor, "n m"],
    temperature: Float[Tensor, ""],
    messages: Float[Tensor, "n s"],
    keys: Float[Tensor, "h n"],
    radius: int,
) -> Float[Tensor, "n s"]:
    """What every node hears. The messages and the keys that nodes are sorted by get no gradient."""
    radius = min(radius, max(1, len(e) - 1))  # further there is nobody
    sums: Tensor = _WindowSums.apply(_Windows(radius), e, temperature, messages.detach(), keys.detach())
    return sums


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


@dataclass
class _Windows:
    """What one pass works on, with replicas in front: orders and places are `[r, h, n]`."""

    radius: int
    orders: Tensor = field(init=False)
    places: Tensor = field(init=False)

    @property
    def size(self) -> int:
        """Rows a block."""
        return max(SMALLEST_BLOCK, 2 * self.radius)

    def of_blocks(self, values: Tensor) -> Tensor:
        """A number a replica, for every block of it, `[b, 1, 1]`."""
        return values.repeat_interleave(-(-self.orders.shape[2] // self.size)).view(-1, 1, 1)

    def blocks(self, order: int, *rows: Tensor) -> Iterator[tuple[Tensor, list[Tensor], slice]]:
        """Of rows `[r, n, f]`, sorted and cut into blocks, some blocks at a time: which pairs count, `[b, i, j]`, for
        each of the rows those of the blocks and those around them, and which blocks these are."""
        size = self.size
        earlier = self.places[:, :order].mT  # [r, n, order]
        sorted_rows = [_sorted(part, self.orders[:, order]) for part in (earlier, *rows)]
        cut = [(_cut(part, size), _cut_with_margins(part, size, self.radius)) for part in sorted_rows]
        near = torch.arange(size + 2 * self.radius) - self.radius - torch.arange(size).unsqueeze(1)
        in_window = ((near.abs() <= self.radius) & (near != 0)).to(rows[0].device)
        at_once = max(1, PAIRS_AT_ONCE // in_window.numel())
        for first in range(0, len(cut[0][0]), at_once):
            which = slice(first, first + at_once)
            (own_places, other_places), *others = [(own[which], around[which]) for own, around in cut]
            counted = in_window.expand(len(own_places), -1, -1)
            for number in range(order):
                apart = own_places[:, :, number].unsqueeze(2) - other_places[:, :, number].unsqueeze(1)
                counted = counted & (apart.abs() > self.radius)
            yield counted, [part for pair in others for part in pair], which

    def back(self, order: int, parts: list[Tensor], like: Tensor) -> Tensor:
        """From blocks to rows in the nodes' own order."""
        rows = torch.cat(parts).unflatten(0, (len(like), -1)).flatten(1, 2)[:, : like.shape[1]]
        return _sorted(rows, self.places[:, order])


class _WindowSums(Kernel):
    """`e` is `[n, m]`, `messages` `[n, s]`, `keys` `[h, n]`; for replicas each with one more axis in front."""

    @staticmethod
    def forward(windows: _Windows, e: Tensor, temperature: Tensor, messages: Tensor, keys: Tensor) -> Tensor:
        if e.ndim == 2:
            alone = (tensor.unsqueeze(0) for tensor in (e, temperature, messages, keys))
            return _WindowSums.forward(windows, *alone).squeeze(0)
        windows.orders = stable_order(keys)
        windows.places = _places(windows.orders).int()
        sums, per_block = torch.zeros_like(messages), windows.of_blocks(temperature)
        for order in range(keys.shape[1]):
            parts = []
            for counted, (own, others, _, heard), which in windows.blocks(order, e, messages):
                weights = torch.exp(-per_block[which] * _distances(own, others)) * counted
                parts.append(weights @ heard)
            sums += windows.back(order, parts, e)
        return sums

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.windows = inputs[0]
        ctx.save_for_backward(*inputs[1:4])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        windows: _Windows = ctx.windows
        e, temperature, messages = ctx.saved_tensors
        alone = e.ndim == 2
        if alone:
            e, temperature, messages, gradient = (part.unsqueeze(0) for part in (e, temperature, messages, gradient))
        to_e, to_temperature = torch.zeros_like(e), torch.zeros_like(temperature)
        per_block = windows.of_blocks(temperature)
        for order in range(windows.orders.shape[1]):
            parts, of_temperature = [], []
            for counted, rows, which in windows.blocks(order, e, messages, gradient):
                own, others, own_messages, heard, of_own, of_others = rows
                distances = _distances(own, others)
                weights = torch.exp(-per_block[which] * distances) * counted
                # The window is symmetric: v hears u where u hears v. With both, every row's gradient is whole.
                to_weights = torch.baddbmm(of_own @ heard.mT, own_messages, of_others.mT)
                slopes = weights.mul_(to_weights)
                of_temperature.append(-0.5 * (distances * slopes).sum((1, 2)))
                slopes = slopes.mul_(-2 * per_block[which])
                parts.append(slopes.sum(2, keepdim=True) * own - slopes @ others)
            to_e += windows.back(order, parts, e)
            to_temperature += torch.cat(of_temperature).view(len(e), -1).sum(1)
        if alone:
            to_e, to_temperature = to_e.squeeze(0), to_temperature.squeeze(0)
        return None, to_e, to_temperature, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], windows: _Windows, *tensors: Tensor) -> tuple[Tensor, int]:
        return _WindowSums.apply(windows, *in_front(info, in_dims[1:], tensors)), 0


def _places(orders: Int[Tensor, "*replicas n"]) -> Int[Tensor, "*replicas n"]:
    """Where each node stands in an order."""
    numbers = torch.arange(orders.shape[-1], device=orders.device).expand_as(orders)
    return torch.empty_like(orders).scatter_(-1, orders, numbers)


def _sorted(rows: Tensor, order: Int[Tensor, "r n"]) -> Tensor:
    """Rows `[r, n, f]` in an order of each replica."""
    first = torch.arange(0, order.numel(), order.shape[1], device=order.device).unsqueeze(1)
    return rows.flatten(0, 1).index_select(0, (order + first).flatten()).view(rows.shape)


def _cut(rows: Tensor, size: int) -> Tensor:
    """`[r, n, f]` to `[r * blocks, size, f]`, the last block filled with zeros."""
    blocks: Tensor = F.pad(rows, (0, 0, 0, -rows.shape[1] % size)).unflatten(1, (-1, size)).flatten(0, 1)
    return blocks


def _cut_with_margins(rows: Tensor, size: int, margin: int) -> Tensor:
    """The same with the rows before and after each block. Zeros hear nothing and say nothing."""
    padded = F.pad(rows, (0, 0, margin, margin + -rows.shape[1] % size))
    return padded.unfold(1, size + 2 * margin, size).flatten(0, 1).mT


def _distances(own: Float[Tensor, "b i m"], others: Float[Tensor, "b j m"]) -> Float[Tensor, "b i j"]:
    """Squared. Rounding may make them a little less than zero."""
    lengths = (own * own).sum(2, keepdim=True) + (others * others).sum(2).unsqueeze(1)
    return torch.baddbmm(lengths, own, others.mT, alpha=-2).clamp_(min=0)
