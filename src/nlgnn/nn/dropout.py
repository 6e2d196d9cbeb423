"""What is random in training. Each of several models trained at once draws what it would draw alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.nn.kernel import Kernel


class Stream(NamedTuple):
    """Where one replica's masks come from: its rate and its random numbers."""

    rate: float
    generator: torch.Generator | None  # None = torch's own


class RandomModule(nn.Module):
    """Draws random numbers in training.

    Under `torch.func.vmap`, one module stands for several replicas: whoever calls it says in `streams` what each of
    them draws with, since torch has one source of random numbers, and one rate of dropout, for all.
    """

    streams: list[Stream] | None = None
    replica: Tensor | None = None  # any tensor that differs between replicas, for torch.func to know that draws do too

    @property
    def is_random(self) -> bool:
        return True


class Dropout(RandomModule, nn.Dropout):
    """Inverted dropout."""

    @property
    def is_random(self) -> bool:
        return self.p > 0

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not self.is_random:
            return input
        if self.streams is None:
            return input * self.mask(input)
        dropped: Tensor = _Masked.apply(input, self.replica, _Hidden(self.mask(input)))
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


class RandomSubset(RandomModule):
    """So many numbers below another one, without replacement, drawn anew on every call; all where there are no more."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, below: int, like: Tensor) -> Int[Tensor, " k"]:
        """Args:
        below: the first number that is not drawn.
        like: a tensor on the device that the numbers are wanted on.
        """
        if below <= self.size:
            return torch.arange(below, device=like.device)
        generators = [None] if self.streams is None else [stream.generator for stream in self.streams]
        drawn = torch.stack([self._draw(below, like, generator) for generator in generators])
        if self.streams is None:
            return drawn[0]
        numbers: Tensor = _PerReplica.apply(self.replica, _Hidden(drawn))
        return numbers

    def _draw(self, below: int, like: Tensor, generator: torch.Generator | None) -> Int[Tensor, " k"]:
        return torch.randperm(below, generator=generator, device=like.device)[: self.size]


class RandomNormals(RandomModule):
    """Rows of normal numbers, drawn anew on every call in training, the same ones always in evaluation."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, width: int, like: Tensor) -> Float[Tensor, "h w"]:
        """Args:
        width: numbers a row.
        like: a tensor of the type and on the device that they are wanted in.
        """
        if not self.training:  # not of torch, whose random numbers belong to training
            return torch.tensor(_fixed_normals(self.rows, width), dtype=like.dtype, device=like.device)
        generators = [None] if self.streams is None else [stream.generator for stream in self.streams]
        shape = (self.rows, width)
        drawn = [torch.randn(shape, generator=one, dtype=like.dtype, device=like.device) for one in generators]
        if self.streams is None:
            return drawn[0]
        numbers: Tensor = _PerReplica.apply(self.replica, _Hidden(torch.stack(drawn)))
        return numbers


@lru_cache(maxsize=1)  # they may be as wide as the graph has nodes
def _fixed_normals(rows: int, width: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal((rows, width))


class _Hidden:
    """Hides a draw from torch.func, which would take it for one that all replicas share."""

    def __init__(self, values: Tensor) -> None:
        self.values = values


class _Masked(Kernel):
    @staticmethod
    def forward(input: Tensor, replica: Tensor | None, mask: _Hidden) -> Tensor:
        return input * mask.values

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor | None, _Hidden], output: Tensor) -> None:
        ctx.mask = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * ctx.mask.values, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int, None], input: Tensor, replica: Tensor, mask: _Hidden
    ) -> tuple[Tensor, int]:
        input = input if in_dims[0] is None else input.movedim(in_dims[0], 0)
        return _Masked.apply(input, None, mask), 0


class _PerReplica(Kernel):
    """Tells torch.func that a hidden draw has an axis of replicas in front."""

    @staticmethod
    def forward(replica: Tensor, drawn: _Hidden) -> Tensor:
        return drawn.values

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, _Hidden], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        return None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int, None], replica: Tensor, drawn: _Hidden) -> tuple[Tensor, int]:
        return drawn.values, 0
