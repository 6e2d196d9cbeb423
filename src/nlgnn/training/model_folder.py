"""A fitted model as a folder: `model.json` and weights in safetensors, each with its checksum. Nothing is unpickled."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from nlgnn import __version__
from nlgnn.errors import OptionError, RunFolderError
from nlgnn.training.left_behind import half_written, remove_left_behind
from nlgnn.training.run import damaged, read_tensors, save_tensors, sha256_of

FORMAT_VERSION = 1


class ModelFolder:
    """Written under another name and renamed: it is there whole or not at all."""

    @staticmethod
    def write(path: Path, description: Mapping[str, Any], states: Sequence[dict[str, Tensor]]) -> None:
        """`description` must be what JSON can hold; one file of weights a state."""
        if path.exists():
            raise RunFolderError(f"{path} exists already.", "Name another folder, or remove it.")
        try:
            json.dumps(description)
        except TypeError as error:
            raise OptionError(
                f"the model cannot be saved: {error}.", "Give parameters as plain numbers and text."
            ) from None
        half_made = half_written(path)
        try:
            remove_left_behind(path)
            half_made.mkdir(parents=True)
            files = {}
            for number, state in enumerate(states):
                file = half_made / f"{number:02d}.safetensors"
                save_tensors(state, file)
                files[file.name] = sha256_of(file)
            content = {"format_version": FORMAT_VERSION, "nlgnn": __version__, "files": files, **description}
            (half_made / "model.json").write_text(json.dumps(content, indent=2), encoding="utf-8")
            half_made.rename(path)
        except OSError as error:
            raise RunFolderError(
                f"the model folder {path} cannot be written: {error.strerror or error}.", "Make room, or name another."
            ) from error
        finally:  # also after Ctrl-C; once renamed, there is nothing of that name
            shutil.rmtree(half_made, ignore_errors=True)

    @staticmethod
    def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
        """What `write` was given."""
        try:
            content: dict[str, Any] = json.loads((path / "model.json").read_text(encoding="utf-8"))
            version, files = int(content["format_version"]), dict(content["files"])
        except FileNotFoundError:
            raise RunFolderError(
                f"{path} is not a model folder: it has no model.json.", "Give a folder that NodeClassifier.save made."
            ) from None
        except (ValueError, KeyError, TypeError, OSError) as error:
            raise RunFolderError(
                f"{path} cannot be read as a model folder: {error}.", "Restore model.json, or fit again."
            ) from None
        if version > FORMAT_VERSION:
            raise RunFolderError(
                f"{path} was written by a newer version (format {version}).", "Update this package to read it."
            )
        states = []
        for name, checksum in files.items():
            if not re.fullmatch(r"\d+\.safetensors", name):  # nothing outside the folder is opened
                raise damaged(path / "model.json", ValueError(f"{name!r} is no file of weights"))
            states.append(read_tensors(path / name, str(checksum)))
        return content, states
