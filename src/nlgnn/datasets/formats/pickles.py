"""Pickles of public graph files, read without running code: only arrays, numbers, lists and dictionaries."""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from nlgnn.datasets.formats.common import FRESH_COPY
from nlgnn.errors import DataError


class PickledMatrix:
    """The pickled fields of a SciPy matrix, independent of the class names of the installed SciPy."""

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
    """An unpickler that refuses every class and function that the public graph files do not need."""

    def find_class(self, module: str, name: str) -> Any:
        if name == "_reconstruct" and module in ("numpy.core.multiarray", "numpy._core.multiarray"):
            return super().find_class("numpy._core.multiarray", "_reconstruct")
        if (module, name) not in ALLOWED:
            raise DataError(
                f"The pickle asks for {module}.{name}, which no graph needs.",
                "Do not use this file, since unpickling can run code.",
            )
        return ALLOWED[module, name]


def unpickle(data: bytes) -> Any:
    """Return the pickled object."""
    # latin1 because the oldest files were written by Python 2, whose strings were bytes.
    return AllowListUnpickler(io.BytesIO(data), encoding="latin1").load()


def unpickle_npy(path: Path) -> Any:
    """Return the objects in an .npy file that np.load would open only with allow_pickle=True."""
    with path.open("rb") as file:
        if np.lib.format.read_magic(file) == (1, 0):
            _, _, dtype = np.lib.format.read_array_header_1_0(file)
        else:
            _, _, dtype = np.lib.format.read_array_header_2_0(file)
        if not dtype.hasobject:
            raise DataError(f"It holds an array of {dtype} instead of pickled objects.", FRESH_COPY)
        return unpickle(file.read())
