"""A device for tests that computes on the CPU, and refuses operations between its tensors and those of the CPU.

Code that forgets to move a tensor fails here as it does on a GPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

_NAME = "elsewhere"
MOVES = {torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default}


def other_device() -> torch.device:
    """Return the device, which is registered once per process."""
    if torch._C._get_privateuse1_backend_name() != _NAME:
        _setup_privateuseone_for_python_backend(_NAME)
    return torch.device(_NAME, 0)


class MixedDevicesError(RuntimeError):
    """An operation between tensors of two devices."""


class Elsewhere(Tensor):
    """A tensor of the device, which holds its values in a tensor of the CPU."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> Elsewhere:
        places = {}
        if values.layout == torch.strided:
            places = {"strides": values.stride(), "storage_offset": values.storage_offset()}
        made = Tensor._make_wrapper_subclass(
            cls, values.shape, dtype=values.dtype, layout=values.layout, device=other_device(), **places
        )
        made.values = values
        return made

    def __init__(self, values: Tensor) -> None:
        pass

    def __repr__(self) -> str:
        return f"Elsewhere({self.values!r})"

    @classmethod
    def __torch_dispatch__(cls, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(operation, args, kwargs or {})


class ElsewhereMode(TorchDispatchMode):
    """Makes new tensors on the device where it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        return compute(operation, args, kwargs or {})


class MadeOnTheCPU(TorchFunctionMode):
    """Makes tensors of lists, and lists of tensors, on the CPU: the dispatcher is not asked for them."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function is torch.tensor and kwargs.get("device") is not None:
            device = torch.device(kwargs.pop("device"))
            return torch.tensor(*args, **kwargs).to(device)
        if function is Tensor.tolist and isinstance(args[0], Elsewhere):
            return args[0].values.tolist()
        return function(*args, **kwargs)


class Generator(torch.Generator):
    """Makes generators of the CPU for the device."""

    def __new__(cls, device: torch.device | str = "cpu") -> torch.Generator:
        return torch.random.default_generator.__class__("cpu" if torch.device(device).type == _NAME else device)


def compute(operation: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the values of its tensors, and put the result where its tensors are.

    Raises:
        MixedDevicesError: If tensors of both devices meet. Single numbers of the CPU are allowed, as on a GPU.
    """
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    ours = [one for one in tensors if isinstance(one, Elsewhere)]
    others = [one for one in tensors if not isinstance(one, Elsewhere) and one.dim() > 0]
    if ours and others and operation not in MOVES:
        shapes = [tuple(one.shape) for one in others]
        raise MixedDevicesError(f"{operation} with tensors of the CPU of shape {shapes}")
    asked = kwargs.get("device")
    there = bool(ours) if asked is None else torch.device(asked).type == _NAME
    plain_args, plain_kwargs = tree_map_only(Elsewhere, lambda one: one.values, (args, kwargs))
    if asked is not None:
        plain_kwargs["device"] = torch.device("cpu")
    result = operation(*plain_args, **plain_kwargs)
    if operation is torch.ops.aten.copy_.default:
        return args[0]
    known = {id(one.values): one for one in ours}  # in-place operations return their argument
    if not there:
        return result
    return tree_map_only(Tensor, lambda one: known[id(one)] if id(one) in known else Elsewhere(one), result)


@contextmanager
def elsewhere() -> Iterator[ElsewhereMode]:
    """Compute on the device within the context."""
    other_device()
    with MadeOnTheCPU(), ElsewhereMode() as mode, patch.object(torch, "Generator", Generator):
        yield mode
