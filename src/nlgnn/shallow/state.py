"""States of fitted models: text as tensors, and a checksum that is compared before anything is parsed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from nlgnn.errors import DataError

CHECKSUM = "checksum"


def bytes_tensor(text: bytes) -> Tensor:
    """Return bytes as a tensor.

    Example:
        >>> bytes_tensor(b"ab")
        tensor([97, 98], dtype=torch.uint8)
    """
    return torch.from_numpy(np.frombuffer(text, np.uint8).copy())


def tensor_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor."""
    return tensor.detach().cpu().contiguous().flatten().numpy().tobytes()


def with_checksum(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state with a checksum of all its tensors."""
    return {**state, CHECKSUM: bytes_tensor(checksum(state))}


def without_checksum(state: Mapping[str, Tensor], model: str) -> dict[str, Tensor]:
    """Return a state without its checksum.

    Args:
        state: The state.
        model: The name of the model, for errors.

    Raises:
        DataError: If the checksum is missing or wrong.
    """
    inner = {name: tensor for name, tensor in state.items() if name != CHECKSUM}
    if CHECKSUM not in state or tensor_bytes(state[CHECKSUM]) != checksum(inner):
        raise DataError(f"The state of this {model} model is damaged.", "Restore the file or train the model again.")
    return inner


def checksum(state: Mapping[str, Tensor]) -> bytes:
    """Return the SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor_bytes(tensor))
    return digest.digest()
