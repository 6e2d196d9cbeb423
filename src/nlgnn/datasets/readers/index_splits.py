"""Splits as lists of node numbers, as LINKX and OGB keep them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nlgnn.datasets.readers.pickles import unpickle_npy
from nlgnn.datasets.readers.reading import reading
from nlgnn.errors import DataError
from nlgnn.graph.splits import Split

PARTS = ("train", "valid", "test")


def node_numbers(values: object, num_nodes: int, what: str) -> NDArray[np.int64]:
    """Checked, because NumPy would take -1 for the last node."""
    numbers = np.asarray(values)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise DataError(f"{what} is not a list of node numbers.", "The split belongs to something else.")
    outside = numbers[(numbers < 0) | (numbers >= num_nodes)]
    if len(outside):
        raise DataError(
            f"{what} names node {outside[0]}, but nodes are numbered 0 to {num_nodes - 1}.",
            "The split belongs to another graph, or to another version of this one.",
        )
    return numbers.astype(np.int64)


def index_split(parts: Mapping[str, object], num_nodes: int, protocol: str, index: int = 0) -> Split:
    """From the parts train, valid and test."""
    train, val, test = (node_numbers(parts[part], num_nodes, f"split {index}, part {part!r},") for part in PARTS)
    return Split.from_indices(num_nodes, train, val, test, protocol=protocol, index=index)


def read_linkx_splits(path: Path, num_nodes: int) -> tuple[Split, ...]:
    """A pickled array of dictionaries."""
    with reading(path):
        return tuple(index_split(parts, num_nodes, "linkx", index) for index, parts in enumerate(unpickle_npy(path)))
