"""Reading pickles without trusting them: only arrays, numbers, lists and dictionaries come out."""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from nlgnn.errors import DataError


class PickledMatrix:
    """Stands for a SciPy matrix: keeps the pickled fields, whatever SciPy calls its classes today."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self.fields = fields


ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("scipy.sparse.csr", "csr_matrix"): PickledMatrix,
    ("collections", "defaultdict"): defaultdict,
    ("__builtin__", "list"): list,  # Python 2's name for the module
    ("builtins", "list"): list,
}


class AllowListUnpickler(pickle.Unpickler):
    """Refuses every class and function that the public graph files do not need."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return super().find_class("numpy._core.multiarray", "_reconstruct")
        if (module, name) not in ALLOWED:
            raise DataError(
                f"the pickle asks for {module}.{name}, which no graph needs.",
                "It was refused, since unpickling can run code. Do not use this file.",
            )
        return ALLOWED[module, name]


def unpickle(data: bytes) -> Any:
    # latin1 because the oldest files were written by Python 2, whose strings were bytes.
    return AllowListUnpickler(io.BytesIO(data), encoding="latin1").load()


def unpickle_npy(path: Path) -> Any:
    """The objects in an .npy file that np.load would open with allow_pickle=True only."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) == (1, 0):
            _, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            _, _, dtype = np.lib.format.read_array_header_2_0(file)
        if not dtype.hasobject:
            raise DataError(f"an array of {dtype} instead of pickled objects.", "Is it another file of this name?")
        return unpickle(file.read())
