"""ModelFolder: a fitted model on disk, as `model.json` and safetensors files with checksums. Nothing is unpickled."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from nlgnn import __version__
from nlgnn.errors import OptionError, RunFolderError
from nlgnn.files import sha256_of
from nlgnn.training.run_folder import FORMAT_VERSION, make_folder, read_description
from nlgnn.training.tensor_files import damaged, read_tensors, save_tensors


class ModelFolder:
    """The folder of a fitted model, written atomically."""

    @staticmethod
    def write(path: Path, description: Mapping[str, Any], states: Sequence[dict[str, Tensor]]) -> None:
        """Write a model folder.

        Args:
            path: The folder, which must not exist.
            description: JSON values that describe the model.
            states: The weights, one file per state.

        Raises:
            OptionError: If the description holds other values than JSON can.
            RunFolderError: If the folder exists or cannot be written.
        """
        if path.exists():
            raise RunFolderError(f"{path} exists already.", "Name another folder, or remove it.")
        try:
            json.dumps(description)
        except TypeError as error:
            raise OptionError(
                f"the model cannot be saved: {error}.", "Give parameters as plain numbers and text."
            ) from None

        def write_files(part: Path) -> None:
            files = {}
            for number, state in enumerate(states):
                file = part / f"{number:02d}.safetensors"
                save_tensors(state, file)
                files[file.name] = sha256_of(file)
            content = {"format_version": FORMAT_VERSION, "nlgnn": __version__, "files": files, **description}
            (part / "model.json").write_text(json.dumps(content, indent=2), encoding="utf-8")

        make_folder(path, write_files)

    @staticmethod
    def read(path: Path) -> tuple[dict[str, Any], list[dict[str, Tensor]]]:
        """Return the description and the states that `write` was given.

        Raises:
            RunFolderError: If the folder is missing, damaged or was written by a newer version.
        """
        content = read_description(path, "model.json", "model folder")
        files = content["files"] if isinstance(content.get("files"), dict) else {}
        states = []
        for name, checksum in files.items():
            if not re.fullmatch(r"\d+\.safetensors", name):  # nothing outside the folder is opened
                raise damaged(path / "model.json", ValueError(f"{name!r} is not a file of weights"))
            states.append(read_tensors(path / name, str(checksum)))
        return content, states
