"""Features that stay on disk: `x W` and, for its gradient, `xᵀ G`, read from the file a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nlgnn.graph.on_disk import FeaturesOnDisk
from nlgnn.nn.dropout import Dropout
from nlgnn.nn.kernel import Kernel


class Drawn(NamedTuple):
    """Which entries are dropped: the same ones whenever they are drawn again from this seed."""

    seed: int
    rate: float


@dataclass(frozen=True, eq=False)
class StreamedFeatures:
    """Features on disk as a first layer takes them: all that can be done with them is `x @ weight`.

    Args:
        source: the file.
        like: an empty tensor of the device and type that they count as.
        dropped: what is dropped; for as many replicas, what is dropped for each. Nothing where it is empty.
    """

    source: FeaturesOnDisk
    like: Tensor = field(default_factory=lambda: torch.empty(0))
    dropped: tuple[Drawn, ...] = ()

    @property
    def shape(self) -> tuple[int, int]:
        return self.source.shape

    @property
    def device(self) -> torch.device:
        return self.like.device

    @property
    def dtype(self) -> torch.dtype:
        return self.like.dtype

    def to(self, *args: Any, **kwargs: Any) -> StreamedFeatures:
        """Like `Tensor.to`: a device, a floating-point type, or both."""
        return replace(self, like=self.like.to(*args, **kwargs))

    def dropout(self, dropout: Dropout) -> StreamedFeatures:
        """Inverted dropout. Each call draws anew which entries are dropped."""
        if dropout.streams is None:
            return replace(self, dropped=(Drawn(_seed(None, self.device), dropout.p),))
        # Alone, a model without dropout draws nothing.
        seeds = [_seed(stream.generator, self.device) if stream.rate > 0 else 0 for stream in dropout.streams]
        rates = [stream.rate for stream in dropout.streams]
        return replace(self, dropped=tuple(map(Drawn, seeds, rates)))

    def __matmul__(self, weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
        return _product(self, False, weight)


def _seed(generator: torch.Generator | None, device: torch.device) -> int:
    return int(torch.randint(2**62, (), generator=generator, device=device))


def _product(x: StreamedFeatures, transpose: bool, dense: Tensor) -> Tensor:
    product: Tensor = _StreamedProduct.apply(x, transpose, dense)
    return product


class _StreamedProduct(Kernel):
    """`x @ dense` or `xᵀ @ dense`. Where replicas have dropped entries of their own, they come first in `dense`."""

    @staticmethod
    def forward(x: StreamedFeatures, transpose: bool, dense: Tensor) -> Tensor:
        replicas = dense if dense.ndim == 3 else dense[None]
        products = dense.new_zeros(len(replicas), x.shape[1 if transpose else 0], dense.shape[-1])
        for here, rows, factors in _chunks(x.source, dense):
            for product, one, drawn in zip(products, replicas, x.dropped or [None], strict=True):
                kept = _drop(rows, drawn.seed + here.start, drawn.rate) if drawn and drawn.rate > 0 else rows
                if transpose:
                    product.addmm_(kept.t(), one[here] * factors)
                else:
                    torch.mm(kept, one, out=product[here]).mul_(factors)
        return products if dense.ndim == 3 else products[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[StreamedFeatures, bool, Tensor], output: Tensor) -> None:
        ctx.x, ctx.transpose, _ = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _product(ctx.x, not ctx.transpose, gradient)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[Any, ...], x: StreamedFeatures, transpose: bool, dense: Tensor
    ) -> tuple[Tensor, int]:
        """One pass over the file for all replicas."""
        if len(x.dropped) > 1:
            return _product(x, transpose, dense.movedim(in_dims[2], 0)), 0
        side_by_side = dense.movedim(in_dims[2], 1).flatten(1)  # [rows, replicas * columns]
        return _product(x, transpose, side_by_side).unflatten(1, (info.batch_size, -1)), 1


def _chunks(source: FeaturesOnDisk, like: Tensor) -> Iterator[tuple[slice, Tensor, Tensor | float]]:
    """Which rows, the rows as stored, and their factors, in the type and on the device of `like`."""
    for start, rows in source.stored_chunks():
        here = slice(start, start + len(rows))
        factors = 1.0 if source.row_factors is None else torch.from_numpy(source.row_factors[here, None]).to(like)
        yield here, torch.from_numpy(rows).to(like), factors


def _drop(rows: Tensor, seed: int, rate: float) -> Tensor:
    """Inverted dropout, the rate rounded to 16 random bits an entry: torch's own takes five times as long."""
    threshold = round(rate * 2**16)
    if threshold == 2**16:
        return torch.zeros_like(rows)
    bits = np.random.Generator(np.random.SFC64(seed)).bytes(2 * rows.numel())
    kept = np.frombuffer(bits, np.uint16).reshape(rows.shape) >= threshold
    return (rows * torch.from_numpy(kept).to(rows.device)).mul_(1 / (1 - threshold / 2**16))
