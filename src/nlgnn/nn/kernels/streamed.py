"""Features on disk, multiplied as `x W` and, for the gradient, `xᵀ G`, while reading a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.nn.kernels.dropout import Dropout, Stream, draw_rows
from nlgnn.nn.kernels.function import Kernel
from nlgnn.nn.kernels.ranks import first_row


@dataclass(frozen=True, eq=False)
class StreamedFeatures:
    """Features on disk as input of a first layer. They only support `x @ weight`.

    Args:
        source: The file.
        like: An empty tensor of the device and type of the products.
        dropped: The dropout rate and random numbers of each replica. If it is empty, nothing is dropped.
        place: The random module of the dropout, and the call within it.
    """

    source: FeaturesOnDisk
    like: Tensor = field(default_factory=lambda: torch.empty(0))
    dropped: tuple[Stream, ...] = ()
    place: tuple[int, ...] = ()

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
        """Move to a device, a floating-point type, or both, like `Tensor.to`."""
        return replace(self, like=self.like.to(*args, **kwargs))

    def dropout(self, dropout: Dropout, *place: int) -> StreamedFeatures:
        """Return the features with inverted dropout, which is drawn whenever rows are read."""
        return replace(self, dropped=tuple(dropout.own_streams(self.device)), place=(dropout.number, *place))

    def __matmul__(self, weight: Float[Tensor, "d f"]) -> Float[Tensor, "n f"]:
        return _product(self, False, weight)


def _product(x: StreamedFeatures, transpose: bool, dense: Tensor) -> Tensor:
    product: Tensor = _StreamedProduct.apply(x, transpose, dense)
    return product


class _StreamedProduct(Kernel):
    """Product `x @ dense` or `xᵀ @ dense`. Replicas with different dropout are the first axis of `dense`."""

    @staticmethod
    def forward(x: StreamedFeatures, transpose: bool, dense: Tensor) -> Tensor:
        replicas = dense if dense.ndim == 3 else dense[None]
        products = dense.new_zeros(len(replicas), x.shape[1 if transpose else 0], dense.shape[-1])
        for here, rows, factors in _chunks(x.source, dense):
            for product, one, stream in zip(products, replicas, x.dropped or [None], strict=True):
                kept = rows
                if stream is not None and stream.rate > 0:
                    kept = rows * draw_rows([stream], rows, x.place, first_row() + here.start)[0]
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
        """Multiply for all replicas in one pass over the file."""
        if len(x.dropped) > 1:
            return _product(x, transpose, dense.movedim(in_dims[2], 0)), 0
        side_by_side = dense.movedim(in_dims[2], 1).flatten(1)  # [rows, replicas * columns]
        return _product(x, transpose, side_by_side).unflatten(1, (info.batch_size, -1)), 1


def _chunks(source: FeaturesOnDisk, like: Tensor) -> Iterator[tuple[slice, Tensor, Tensor | float]]:
    """Yield the slice of rows, the stored rows and their factors, in the type and on the device of `like`."""
    for start, rows in source.stored_chunks():
        here = slice(start, start + len(rows))
        factors = 1.0 if source.row_factors is None else torch.from_numpy(source.row_factors[here, None]).to(like)
        yield here, torch.from_numpy(rows).to(like), factors
