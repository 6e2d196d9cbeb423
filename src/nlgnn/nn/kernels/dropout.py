"""Dropout and other random draws in training, keyed by where they are used.

A draw depends only on the seed of the run, the epoch, the random module, the call within it, the row and the position
in the row. It does not depend on the number of models that are trained at once, the number of threads, or the rows that
are drawn together. A checkpoint therefore needs no state of a random number generator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.nn.kernels.function import Kernel
from nlgnn.nn.kernels.ranks import first_row

# Maximum number of entries drawn from one seed. A reader of some of the rows draws whole blocks.
BLOCK_ENTRIES = 2**18


class Draws:
    """Random numbers of one model, from a generator that is seeded for every draw.

    Args:
        seed: The seed of the run.
        device: The device of the numbers.
        epoch: The number of completed epochs. The training loop sets it.
    """

    def __init__(self, seed: int, device: torch.device, epoch: int = 0) -> None:
        self.seed, self.epoch = seed, epoch
        self._generator = torch.Generator(device)

    def generator(self, *place: int) -> torch.Generator:
        """Return the generator, seeded for a module, a call within it and a block of rows.

        All numbers are combined into one seed, by a multiplication and a shift per number.
        """
        mixed = 0
        for number in (self.seed, self.epoch, *place):
            mixed = ((mixed ^ number) * 0x9E3779B97F4A7C15 + 1) & (2**64 - 1)
            mixed ^= mixed >> 32
        return self._generator.manual_seed(mixed)


class Stream(NamedTuple):
    """Dropout rate and random numbers of one replica."""

    rate: float
    draws: Draws


class RandomModule(nn.Module):
    """Base class of modules that draw random numbers in training.

    `connect` sets the source of the numbers. Without it, every call takes a new seed from the global generator of
    torch. Under `torch.func.vmap` one module serves several replicas, each with its own numbers.
    """

    number: int = 0  # index among the random modules of the model
    streams: Sequence[Stream] | None = None
    replica: Tensor | None = None  # any tensor that differs between replicas, to tell torch.func that draws differ

    @property
    def is_random(self) -> bool:
        return True

    def rate(self) -> float:
        """Return the share of dropped entries, which is 0 for modules that drop none."""
        return 0.0

    def own_streams(self, device: torch.device) -> Sequence[Stream]:
        """Return one stream for each replica."""
        if self.streams is not None:
            return self.streams
        return [Stream(self.rate(), Draws(int(torch.randint(2**62, ())), device))]


def connect(model: nn.Module, replicas: Sequence[nn.Module], draws: Sequence[Draws]) -> list[RandomModule]:
    """Connect the random modules of a model to the rates and random numbers of its replicas.

    Args:
        model: The module that is called: the only replica, or the one that represents all under `torch.func.vmap`.
        replicas: Models of the same structure.
        draws: The random numbers of each replica.

    Returns:
        The random modules of `model`.
    """
    connected: list[RandomModule] = []
    for name, module in model.named_modules():
        if isinstance(module, RandomModule):
            module.number = len(connected)
            rates = [replica.get_submodule(name).rate() for replica in replicas]  # type: ignore[operator]
            module.streams = [Stream(*pair) for pair in zip(rates, draws, strict=True)]
            if isinstance(module, Dropout):
                module.p = max(rates)
            connected.append(module)
    return connected


class Dropout(RandomModule, nn.Dropout):
    """Inverted dropout.

    A model that calls one module several times per pass must give each call its own `place`, or masks would repeat.
    """

    @property
    def is_random(self) -> bool:
        return self.p > 0

    def rate(self) -> float:
        return self.p

    def forward(self, input: Tensor, *place: int, columns: Columns | None = None, first: int | None = None) -> Tensor:
        if not self.training or not self.is_random:
            return input
        mask = self.mask(input, *place, columns=columns, first=first)
        if self.replica is None:
            return input * mask
        dropped: Tensor = _Masked.apply(input, self.replica, _Hidden(mask))
        return dropped

    def masks(self, like: Tensor, *place: int) -> Masks | None:
        """Return the masks of a tensor, to be drawn in blocks of rows; None if nothing is dropped."""
        if not self.training or not self.is_random:
            return None
        return Masks(self.own_streams(like.device), (self.number, *place))

    def factors(self, like: Tensor, *place: int, first: int | None = None) -> Tensor | None:
        """Return what dropout multiplies the entries of a tensor by, or None if it drops nothing."""
        if not self.training or not self.is_random:
            return None
        mask = self.mask(like, *place, first=first)
        factors: Tensor = mask if self.replica is None else _PerReplica.apply(self.replica, _Hidden(mask))
        return factors

    def mask(self, like: Tensor, *place: int, columns: Columns | None = None, first: int | None = None) -> Tensor:
        """Return a mask in the shape of a tensor: zeros, and the scale of inverted dropout elsewhere.

        Args:
            like: A tensor of the required shape, type and device. Its first axis is that of the rows.
            place: Numbers that distinguish the calls of this module in one pass.
            columns: The position of `like` in a wider tensor. By default, `like` has all columns.
            first: The number of the first row of `like` in a longer tensor, such as that of all ranks. By default it is
                the first node of this rank, which is 0 in one process.

        Returns:
            The mask. Under `torch.func.vmap` there is one per replica, `[replicas, *like.shape]`.
        """
        streams = self.own_streams(like.device)
        first = first_row() if first is None else first
        if first:
            masks = draw_rows(streams, like, (self.number, *place), first)
        elif columns is None:
            masks = draw_masks(streams, like, (self.number, *place))
        else:
            masks = _draw_columns(streams, like, (self.number, *place), columns)
        return masks[0] if self.replica is None else masks


class Masks(NamedTuple):
    """Masks of a matrix `[n, f]`, or of the matrices of several replicas next to each other, `[n, replicas * f]`."""

    streams: Sequence[Stream]
    place: tuple[int, ...]

    def of(self, replica: int) -> Masks:
        """Return the masks of one replica. Without streams of their own, replicas have the same masks."""
        return self if len(self.streams) == 1 else self._replace(streams=self.streams[replica : replica + 1])

    def drop_(self, h: Float[Tensor, "n columns"]) -> None:
        """Multiply by the masks in place, in blocks of rows that stay in the cache."""
        replicas = h.unflatten(1, (len(self.streams), -1)).movedim(1, 0)
        in_block = rows_in_block(replicas.shape[2])
        for block, rows in enumerate(replicas.split(in_block, dim=1) if len(h) > in_block else [replicas]):
            rows.mul_(draw_masks(self.streams, rows[0], self.place, block))

    def factors(self, columns: Float[Tensor, " columns"]) -> Tensor | float:
        """Return what kept entries are multiplied by, for each column."""
        factors = [scale(stream.rate) for stream in self.streams]
        if len(set(factors)) == 1:
            return factors[0]
        return columns.new_tensor(factors).repeat_interleave(len(columns) // len(factors))


class Columns(NamedTuple):
    """Adjacent columns of a wider matrix."""

    first: int
    width: int  # of the whole matrix


def rows_in_block(width: int) -> int:
    """Return the number of rows drawn from one seed, a power of two of at least 4 for any number of rows."""
    return max(4, 1 << (BLOCK_ENTRIES // max(1, width)).bit_length() >> 1)


def dropped_numbers(rate: float) -> int:
    """Return how many of 2¹⁶ numbers mean that an entry is dropped."""
    return round(rate * 2**16)


def scale(rate: float) -> float:
    """Return what kept entries are multiplied by."""
    return 2**16 / max(1, 2**16 - dropped_numbers(rate))


def draw_masks(streams: Sequence[Stream], like: Tensor, place: tuple[int, ...], first_block: int = 0) -> Tensor:
    """Return one mask per stream, from 16 random bits per entry.

    Rates are rounded to 16 bits. The dropout of torch takes four times as long on a CPU.

    Args:
        streams: Rates and random numbers.
        like: A tensor of the required shape, type and device.
        place: The random module and the call within it.
        first_block: The index of the block that starts with the first row.
    """
    size, device = like.numel(), like.device
    words = torch.empty(len(streams), -(-size // 4), dtype=torch.int64, device=device)
    width = size // max(1, len(like))
    words_in_block = max(1, rows_in_block(width) * width // 4)
    for row, stream in zip(words, streams, strict=True):
        if 0 < stream.rate < 1:  # otherwise nothing is random
            parts = [row] if len(row) <= words_in_block else row.split(words_in_block)
            for block, part in enumerate(parts, start=first_block):
                part.random_(-(2**63), None, generator=stream.draws.generator(*place, block))
    dropped = [dropped_numbers(stream.rate) for stream in streams]
    bits = words.view(torch.int16)[:, :size]
    masks = torch.empty(bits.shape, dtype=like.dtype, device=device)  # compared into: converting a bool takes longer
    if len(set(dropped)) == 1 and dropped[0] < 2**16:  # with one rate, plain numbers are faster than tensors
        torch.ge(bits, dropped[0] - 2**15, out=masks).mul_(scale(streams[0].rate))
    else:
        thresholds = torch.tensor([[count - 2**15] for count in dropped], dtype=torch.int32, device=device)
        factors = torch.tensor([[scale(stream.rate)] for stream in streams], dtype=like.dtype, device=device)
        torch.ge(bits, thresholds, out=masks).mul_(factors)
    return masks.view(len(streams), *like.shape)


def draw_rows(
    streams: Sequence[Stream], rows: Float[Tensor, k * d], place: tuple[int, ...], first: int
) -> Float[Tensor, "streams k *d"]:
    """Return masks of adjacent rows of a larger matrix, equal to those rows of the result of `draw_masks`.

    Args:
        streams: Rates and random numbers.
        rows: A tensor of the required shape, type and device.
        place: The random module and the call within it.
        first: The index of the first row in the larger matrix.
    """
    in_block = rows_in_block(math.prod(rows.shape[1:]))
    before = first % in_block
    whole = rows.new_empty(()).expand(before + len(rows), *rows.shape[1:])
    return draw_masks(streams, whole, place, first // in_block)[:, before:]


def _draw_columns(streams: Sequence[Stream], like: Tensor, place: tuple[int, ...], columns: Columns) -> Tensor:
    """Return some columns of the masks of a wider matrix without storing the whole masks."""
    masks = like.new_empty(len(streams), *like.shape)
    in_block = rows_in_block(columns.width)
    for block, rows in enumerate(masks.split(in_block, dim=1)):
        wide = like.new_empty(()).expand(rows.shape[1], columns.width)
        rows.copy_(draw_masks(streams, wide, place, block)[:, :, columns.first : columns.first + like.shape[1]])
    return masks


class RandomSubset(RandomModule):
    """Random subset of indices, drawn without replacement: another one in every epoch, or call if not connected.

    Args:
        size: The number of indices that are drawn. If there are fewer, all are returned.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, below: int, like: Tensor) -> Int[Tensor, " k"]:
        """Return a random subset of `range(below)`, on the device of `like`."""
        if below <= self.size:
            return torch.arange(below, device=like.device)
        streams = self.own_streams(like.device)
        drawn = [
            torch.randperm(below, generator=stream.draws.generator(self.number), device=like.device)[: self.size]
            for stream in streams
        ]
        return _per_replica(self.replica, drawn)


class RandomRows(RandomModule):
    """Random rows, each drawn with the same probability: others in every epoch, or call if not connected.

    Args:
        share: The expected share of rows that are drawn.
    """

    def __init__(self, share: float) -> None:
        super().__init__()
        self.share = share

    def rate(self) -> float:
        return 1 - self.share

    def forward(self, like: Tensor) -> Bool[Tensor, " n"]:
        """Return True for the drawn rows, one entry for each row of `like`, on its device."""
        template = torch.empty(len(like), device=like.device)
        masks = draw_masks(self.own_streams(like.device), template, (self.number,))
        return _per_replica(self.replica, (masks > 0).unbind())


class RandomNormals(RandomModule):
    """Rows of normally distributed numbers: new ones in every epoch of training, fixed ones in evaluation.

    Args:
        rows: The number of rows.
    """

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows

    def forward(self, width: int, like: Tensor) -> Float[Tensor, "h w"]:
        """Return rows of the given width, in the type and on the device of `like`."""
        if not self.training:  # torch's random numbers are reserved for training
            return torch.tensor(_fixed_normals(self.rows, width), dtype=like.dtype, device=like.device)
        drawn = []
        for stream in self.own_streams(like.device):
            generator = stream.draws.generator(self.number)
            drawn.append(torch.randn(self.rows, width, generator=generator, dtype=like.dtype, device=like.device))
        return _per_replica(self.replica, drawn)


@lru_cache(maxsize=2)  # rows may be as wide as the number of nodes
def _fixed_normals(rows: int, width: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).standard_normal((rows, width))


def _per_replica(replica: Tensor | None, drawn: Sequence[Tensor]) -> Tensor:
    """Return the only draw or, under `torch.func.vmap`, the draws of all replicas."""
    if replica is None:
        return drawn[0]
    numbers: Tensor = _PerReplica.apply(replica, _Hidden(torch.stack(list(drawn))))
    return numbers


class _Hidden:
    """Wrapper that hides a draw from torch.func, which would treat it as shared by all replicas."""

    def __init__(self, values: Tensor) -> None:
        self.values = values


class _Masked(Kernel):
    @staticmethod
    def forward(input: Tensor, replica: Tensor, mask: _Hidden) -> Tensor:
        return input * mask.values

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, _Hidden], output: Tensor) -> None:
        ctx.mask = inputs[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient * ctx.mask.values, None, None

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, int, None], input: Tensor, replica: Tensor, mask: _Hidden
    ) -> tuple[Tensor, int]:
        return (input if in_dims[0] is None else input.movedim(in_dims[0], 0)) * mask.values, 0


class _PerReplica(Kernel):
    """Kernel that returns a hidden draw, whose first axis is that of the replicas."""

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
