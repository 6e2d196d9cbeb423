"""Helpers of several readers: errors that name the file, 0/1 matrices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, NlgnnError

FRESH_COPY = "Replace the file by a fresh copy."
PARTS = ("train", "valid", "test")  # as LINKX and OGB name them
SPARSE_BELOW = 0.1  # share of non-zero entries below which a CSR first layer is faster


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn every error inside the block into a DataError that names the file."""
    try:
        yield
    except NlgnnError as error:
        raise DataError(f"{path}: {error.what}", error.how) from error
    # Parsers of broken bytes raise nearly anything (zlib.error, struct.error, TypeError, EOFError, …).
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{path} cannot be read in the format of its name ({reason}).",
            "It is damaged, incomplete or of another format: replace it by a fresh copy.",
        ) from error


@contextmanager
def reading_npz(path: Path) -> Iterator[Mapping[str, NDArray[np.generic]]]:
    """Open the arrays of an npz file. The file is opened here because np.load leaves a damaged one open."""
    with reading(path), path.open("rb") as file, np.load(file) as arrays:
        yield arrays


def node_order(numbers: NDArray[np.int64], what: str) -> NDArray[np.int64]:
    """Return the rows in the order of their node numbers, and raise an error unless each number occurs once."""
    order = np.argsort(numbers)
    if not np.array_equal(numbers[order], np.arange(len(numbers))):
        raise DataError(f"{what} is not 0 to {len(numbers) - 1}, each once.", FRESH_COPY)
    return order


def binary_rows(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> sparse.csr_array:
    """Return a 0/1 matrix with ones at the given places, which may repeat."""
    matrix = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def one_hot(codes: NDArray[np.int64], slots: int) -> sparse.csr_array:
    """Return a matrix with a 1 in the slot of each code; a row of zeros if the code is negative."""
    has_one = codes >= 0
    ends = np.concatenate([[0], np.cumsum(has_one)])
    return sparse.csr_array((np.ones(ends[-1], np.float32), codes[has_one], ends), shape=(len(codes), slots))
