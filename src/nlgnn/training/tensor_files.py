"""Files of tensors: weights, and checkpoints of unfinished runs with their checksum. Nothing is unpickled."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor

from nlgnn.errors import RunFolderError
from nlgnn.files import sha256_of
from nlgnn.json_files import parse_json
from nlgnn.training.replica import Checkpoint
from nlgnn.training.stored_run import STATES, first_fault


def damaged(path: Path, error: Exception) -> RunFolderError:
    """Return the error for a file that cannot be read."""
    return RunFolderError(f"{path} is damaged: {first_fault(error)}.", "Restore the file or train again.")


def read_tensors(path: Path, checksum: str | None = None) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, after comparing its checksum if one is given.

    Raises:
        RunFolderError: If the file is missing, cannot be read, or has another checksum.
    """
    try:
        found = sha256_of(path)  # fails for special files
        if checksum is not None and checksum != found:
            raise damaged(path, ValueError("its checksum differs from the one that was recorded when it was written"))
        tensors: dict[str, Tensor] = load_file(path)
        return tensors
    except FileNotFoundError:
        raise RunFolderError(f"{path} is missing.", "Restore the file or train again.") from None
    except PermissionError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}.", "Ask its owner to let you read it.") from None
    except (SafetensorError, OSError) as error:
        raise damaged(path, error) from None


def save_tensors(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str] | None = None) -> None:
    """Write tensors to a safetensors file."""
    # Copies, because a model may hold one tensor under two names, which safetensors refuses.
    copies = {name: value.detach().to("cpu", copy=True).contiguous() for name, value in tensors.items()}
    path.write_bytes(save(copies, metadata))  # save_file of safetensors denies other users access


def write_checkpoints(path: Path, replicas: Sequence[Checkpoint]) -> None:
    """Write unfinished runs to a file, with the checksum of its content."""
    tensors: dict[str, Tensor] = {}
    for saved in replicas:
        for part in ("model", "best", "optimizer"):
            tensors |= {f"{saved.index}/{part}/{name}": value for name, value in getattr(saved, part).items()}
    states = json.dumps({saved.index: [saved.seconds, saved.curves] for saved in replicas})
    save_tensors(tensors, path, {"states": states, "sha256": _digest(tensors, states)})


def read_checkpoints(path: Path) -> dict[int, Checkpoint]:
    """Return the unfinished runs of a file by their number.

    Raises:
        RunFolderError: If the file is damaged.
    """
    tensors = read_tensors(path)
    try:
        with safe_open(path, "pt") as file:
            metadata = file.metadata() or {}
        if metadata["sha256"] != _digest(tensors, metadata["states"]):
            raise ValueError("its checksum differs from its content")
        found = {}
        for index, (seconds, curves) in STATES.validate_python(parse_json(metadata["states"])).items():
            parts: dict[str, dict[str, Tensor]] = {"model": {}, "best": {}, "optimizer": {}}
            for part, values in parts.items():
                prefix = f"{index}/{part}/"
                values |= {key[len(prefix) :]: value for key, value in tensors.items() if key.startswith(prefix)}
            found[index] = Checkpoint(index, seconds, curves, **parts)
    except (ValueError, KeyError, TypeError, SafetensorError) as error:
        raise RunFolderError(
            f"{path} is damaged: {first_fault(error)}.",
            "Restore the file, or remove it: finished runs are kept, and unfinished ones start again.",
        ) from None
    return found


def _digest(tensors: Mapping[str, Tensor], states: str) -> str:
    """Return the checksum of names, types, shapes and bytes of tensors, and of the states."""
    found = hashlib.sha256(states.encode())
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        found.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        if value.numel():
            found.update(value.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()
