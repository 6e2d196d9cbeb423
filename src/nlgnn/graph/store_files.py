"""The files of a graph store: sizes, types and checksums, which are checked before anything is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from nlgnn.errors import DataError

HEADER, IDS, ENCODER = "store.json", "ids.parquet", "encoder.json"
ARRAYS = ("x.npy", "y.npy", "indptr.npy", "indices.npy", "split.npy", "weights.npy")
LARGEST_HEADER = 1 << 24
INTEGERS = (np.int32, np.int64)
TRAIN, VAL, TEST, NO_PART = 0, 1, 2, -1  # of a split
HOW = "Write the store again."

Count = Annotated[int, Field(ge=0, le=1 << 62)]
Name = Annotated[str, Field(max_length=1000)]


class Header(BaseModel):
    """The sizes of a store, which `store.json` holds.

    Args:
        format: The name of the format.
        version: The version of the format. Other versions are refused.
        name: The name of the graph.
        nodes: The number of nodes.
        edges: The number of stored entries of the adjacency. An undirected edge is two entries.
        features: The number of features.
        classes: The names of the classes.
        directed: Whether the direction of edges has a meaning.
        splits: The number of splits.
        protocols: The protocol and the number of each split.
        row_norm: The common norm of rows, see `Graph`.
        source: How the store was made.
        sha256: The checksum of each file.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
    format: Literal["nlgnn-store"] = "nlgnn-store"
    version: Literal[1] = 1
    name: Name = "graph"
    nodes: Annotated[int, Field(ge=1, le=1 << 48)]
    edges: Count
    features: Annotated[int, Field(ge=0, le=1 << 31)]
    classes: Annotated[tuple[Name, ...], Field(max_length=1 << 20)]
    directed: bool = False
    splits: Annotated[int, Field(ge=0, le=10_000)] = 0
    protocols: Annotated[tuple[tuple[Name, Count], ...], Field(max_length=10_000)] = ()
    row_norm: Annotated[FiniteFloat, Field(gt=0)] | None = None
    source: dict[Name, Any] = Field(default_factory=dict)
    sha256: dict[Name, Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = Field(default_factory=dict)

    def arrays(self) -> dict[str, tuple[tuple[DTypeLike, ...], tuple[int, ...]]]:
        """Return the types that each file may have, and its shape."""
        n = self.nodes
        arrays: dict[str, tuple[tuple[DTypeLike, ...], tuple[int, ...]]] = {
            "x.npy": ((np.float32,), (n, self.features)),
            "y.npy": ((np.int64,), (n,)),
            "indptr.npy": ((np.int64,), (n + 1,)),
            "indices.npy": (INTEGERS, (self.edges,)),
            "split.npy": ((np.int8,), (self.splits, n)),
        }
        if "weights.npy" in self.sha256:
            arrays["weights.npy"] = ((np.float32,), (self.edges,))
        return arrays


class StoredArray(NamedTuple):
    """An array in a file, whose header was checked.

    Attributes:
        path: The file.
        offset: The number of bytes before the first number.
        dtype: The type of the numbers.
        shape: The shape.
    """

    path: Path
    offset: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def read(self, start: int = 0, stop: int | None = None) -> NDArray[Any]:
        """Read some rows into memory."""
        stop = self.shape[0] if stop is None else stop
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        count, skipped = (stop - start) * width, self.offset + start * width * self.dtype.itemsize
        try:
            values = np.fromfile(self.path, self.dtype, count, offset=skipped)
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror}.", "Restore the file.") from error
        if len(values) < count:
            raise DataError(f"{self.path} is shorter than it was.", "Restore the whole file.")
        return values.reshape(stop - start, *self.shape[1:])

    def mapped(self, start: int, stop: int) -> NDArray[Any]:
        """Return some rows as a memory map; an array in memory if they are none, which cannot be mapped."""
        shape = (stop - start, *self.shape[1:])
        if 0 in shape:
            return np.zeros(shape, self.dtype)
        row = self.dtype.itemsize * int(np.prod(self.shape[1:], dtype=np.int64))
        return np.memmap(self.path, self.dtype, "r", self.offset + start * row, shape)


def is_store(path: str | Path) -> bool:
    """Return whether a path is a folder with `store.json`."""
    try:
        return (Path(path) / HEADER).is_file()
    except (OSError, ValueError):  # such as a name that is too long
        return False


def read_header(folder: Path) -> Header:
    """Read `store.json`."""
    if not folder.is_dir():
        raise DataError(f"{folder} is not a folder.", "Name a folder that `nlgnn store` wrote.")
    path = folder / HEADER
    check_regular(path)
    try:
        with path.open("rb") as file:
            text = file.read(LARGEST_HEADER + 1)
        if len(text) > LARGEST_HEADER:
            raise damaged(folder, f"{HEADER} is too large")
        header = Header.model_validate_json(text)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        if first["loc"] == ("version",):
            what = f"{folder} was written by another version of nlgnn."
            raise DataError(what, "Write the store again, or use that version.") from None
        raise damaged(folder, f"{HEADER} is not that of a store: {first['msg']}{f' ({where})' * bool(where)}") from None
    if len(header.protocols) != header.splits:
        raise damaged(folder, f"{HEADER} names {len(header.protocols)} of {header.splits} splits")
    unknown = header.sha256.keys() - {*header.arrays(), IDS, ENCODER}
    if unknown:
        raise damaged(folder, f"{HEADER} names the unknown file {min(unknown)!r}")
    return header


def check_regular(path: Path) -> os.stat_result:
    """Return the status of a file, and raise an error unless it is a regular file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise DataError(f"{path.parent} lacks {path.name}.", "It is not a whole store: write it again.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    if not stat.S_ISREG(status.st_mode):
        raise DataError(f"{path} is not a regular file.", HOW)
    return status


def stored_array(path: Path, types: Sequence[DTypeLike], shape: tuple[int, ...]) -> StoredArray:
    """Return the array of a file, and raise an error unless it has one of some types, and the shape."""
    size = check_regular(path).st_size
    try:
        with path.open("rb") as file:
            found, fortran, dtype = read_array_header(file)
            offset = file.tell()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    except (ValueError, EOFError):
        raise DataError(f"{path} is not an array in NumPy's format.", HOW) from None
    wanted = " or ".join(np.dtype(type).name for type in types)
    if dtype not in [np.dtype(type) for type in types] or found != shape or (fortran and len(shape) > 1):
        order = ", column by column" * fortran
        raise DataError(
            f"{path} holds {dtype} of shape {found}{order}, but {HEADER} states {wanted} of shape {shape}.", HOW
        )
    expected = offset + dtype.itemsize * int(np.prod(shape, dtype=np.int64))
    if size != expected:
        raise DataError(f"{path} has {size:,} bytes instead of {expected:,}.", "It was cut off: copy it again.")
    return StoredArray(path, offset, dtype, shape)


def read_array_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of an array in NumPy's format."""
    major, _ = np.lib.format.read_magic(file)
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(major)
    if read is None:
        raise ValueError("unknown version")
    return read(file)


def damaged(folder: Path, what: str) -> DataError:
    """Return the error about a store that cannot be used."""
    return DataError(f"{folder} is damaged: {what}.", HOW)
