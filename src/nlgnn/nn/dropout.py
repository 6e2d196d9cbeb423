"""Dropout that gives each of several models trained at once the mask that it would draw alone."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nlgnn.nn.kernel import Kernel


class Stream(NamedTuple):
    """Where one replica's masks come from: its rate and its random numbers."""

    rate: float
    generator: torch.Generator | None  # None = torch's own


class Dropout(nn.Dropout):
    """Inverted dropout.

    Under `torch.func.vmap`, one module stands for several replicas: whoever calls it says in `streams` what each of
    them draws with, since torch's own dropout has one rate and one source of random numbers for all.
    """

    streams: list[Stream] | None = None
    replica: Tensor | None = None  # any tensor that differs between replicas, for torch.func to know that masks do too

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return input
        if self.streams is None:
            return input * self.mask(input)
        dropped: Tensor = _Masked.apply(input, self.replica, _Mask(self.mask(input)))
        return dropped

    def mask(self, like: Tensor) -> Tensor:
        """Zeros, and the factor that makes up for them, for a tensor like this one; a mask for each replica."""
        if self.streams is None:
            return draw_masks([Stream(self.p, None)], like)[0]
        return draw_masks(self.streams, like)


def draw_masks(streams: list[Stream], like: Tensor) -> Tensor:
    """A mask for each stream: 16 random bits an entry, to which rates are rounded, since torch's own draw takes four
    times as long on a CPU."""
    size = like.numel()
    words = torch.empty(len(streams), -(-size // 4), dtype=torch.int64, device=like.device)
    for row, stream in zip(words, streams, strict=True):
        if 0 < stream.rate < 1:  # else nothing is random
            row.random_(-(2**63), None, generator=stream.generator)
    dropped = [round(stream.rate * 2**16) for stream in streams]  # of 2¹⁶ numbers
    thresholds = torch.tensor([[count - 2**15] for count in dropped], dtype=torch.int32, device=like.device)
    factors = torch.tensor([[2**16 / max(1, 2**16 - count)] for count in dropped], dtype=like.dtype, device=like.device)
    masks = (words.view(torch.int16)[:, :size] >= thresholds).to(like.dtype).mul_(factors)
    return masks.view(len(streams), *like.shape)


class _Mask:
    """Hides the mask from torch.func, which would take it for one that all replicas share."""

    def __init__(self, values: Tensor) -> None:
        self.values = values


class _Masked(Kernel):
    @staticmethod
    def forward(input: Tensor, replica: Tensor | None, mask: _Mask) -> Tensor:
        return input * mask.values

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None, _Mask], output: Tensor) -> None:
        ctx.mask = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * ctx.mask.values, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int, None], input: Tensor, replica: Tensor, mask: _Mask
    ) -> tuple[Tensor, int]:
        input = input if in_dims[0] is None else input.movedim(in_dims[0], 0)
        return _Masked.apply(input, None, mask), 0
