"""Kernel: an operation with a hand-written gradient and a rule for many replicas."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class Kernel(torch.autograd.Function):
    """`torch.autograd.Function` with `forward`, `setup_context`, `backward` and `vmap`.

    Outside of torch.func's transforms it is called directly: torch otherwise looks up the signature of `forward` on
    every call, which takes longer than the work on a small graph.
    """

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        if torch._C._are_functorch_transforms_active():
            return super().apply(*arguments)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*arguments)  # type: ignore[misc]


def in_front(info: Any, in_dims: tuple[Any, ...], tensors: tuple[Any, ...]) -> list[Any]:
    """For a vmap rule: the axis of replicas first in every tensor, also in those that all replicas share."""
    moved: list[Any] = []
    for tensor, dim in zip(tensors, in_dims, strict=True):
        if tensor is None:  # an argument that is left out
            moved.append(None)
        else:
            moved.append(tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0))
    return moved


def one_by_one(
    function: type[Kernel], info: Any, in_dims: tuple[Any, ...], arguments: tuple[Any, ...]
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """For a vmap rule: a loop over replicas, where torch has none, as for a sparse matrix with other values in each."""
    results = []
    for replica in range(info.batch_size):
        own = [
            argument if dim is None else argument.select(dim, replica).contiguous()
            for argument, dim in zip(arguments, in_dims, strict=True)
        ]
        results.append(function.apply(*own))
    stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
    return stacked, (0,) * len(stacked)
