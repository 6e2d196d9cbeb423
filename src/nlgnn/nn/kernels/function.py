"""Base class of operations with a hand-written gradient and a rule for `torch.func.vmap`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class Kernel(torch.autograd.Function):
    """`torch.autograd.Function` with `forward`, `setup_context`, `backward` and `vmap`.

    Outside of the transforms of torch.func it is called directly, because torch otherwise looks up the signature of
    `forward` on every call, which takes longer than the computation on a small graph. Under autocast it computes in
    single precision.
    """

    @classmethod
    def apply(cls, *arguments: Any) -> Any:
        if torch._C._is_any_autocast_enabled():
            first = next(argument for argument in arguments if isinstance(argument, Tensor))
            with full_precision(first):
                return cls.apply(*(widened(value) if isinstance(value, Tensor) else value for value in arguments))
        if torch._C._are_functorch_transforms_active():
            return super().apply(*arguments)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*arguments)  # type: ignore[misc]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep nothing for a backward pass. Kernels that have one override this."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> Any:
        """Apply the kernel to one replica after another. Kernels with a batched operation override this."""
        nested = torch._C._are_functorch_transforms_active()
        apply = cls.apply if nested else super(torch.autograd.Function, cls).apply  # type: ignore[misc]
        results = []
        for replica in range(info.batch_size):
            own = [
                argument if dim is None else argument.select(dim, replica).contiguous()
                for argument, dim in zip(arguments, in_dims, strict=True)
            ]
            results.append(apply(*own))
        if isinstance(results[0], Tensor):
            return torch.stack(results), 0
        stacked = tuple(torch.stack(parts) for parts in zip(*results, strict=True))
        return stacked, (0,) * len(stacked)


@contextmanager
def full_precision(tensor: Tensor) -> Iterator[Tensor]:
    """Disable autocast in this context and yield the tensor, converted from half to single precision."""
    if not torch._C._is_any_autocast_enabled():
        yield tensor
        return
    with torch.autocast(tensor.device.type, enabled=False):
        yield widened(tensor)


def widened(tensor: Tensor) -> Tensor:
    """Convert a tensor from half to single precision. Other tensors are returned unchanged."""
    return tensor.float() if tensor.dtype in (torch.half, torch.bfloat16) else tensor


def in_front(info: Any, in_dims: tuple[Any, ...], tensors: tuple[Any, ...]) -> list[Any]:
    """Move the axis of replicas to the front, for a vmap rule. Tensors that all replicas share are expanded."""
    moved: list[Any] = []
    for tensor, dim in zip(tensors, in_dims, strict=True):
        if tensor is None:  # an omitted argument
            moved.append(None)
        else:
            moved.append(tensor.expand(info.batch_size, *tensor.shape) if dim is None else tensor.movedim(dim, 0))
    return moved
