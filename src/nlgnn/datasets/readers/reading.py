"""What all readers share: errors that name the file, 0/1 matrices, the choice between sparse and dense features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import io, sparse

from nlgnn.errors import DataError, NlgnnError

SPARSE_BELOW = 0.1  # share of non-zero entries under which a CSR first layer is clearly faster


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Inside this block every failure is the file's: it leaves as a DataError that names the file."""
    try:
        yield
    except NlgnnError as error:
        raise DataError(f"{path}: {error.what}", error.how) from error
    # Parsers of broken bytes raise nearly anything (zlib.error, struct.error, TypeError, EOFError, …).
    except Exception as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError(
            f"{path} cannot be read as what its name says ({reason}).",
            "It is damaged, incomplete or of another kind: replace it by a fresh copy.",
        ) from error


@contextmanager
def reading_npz(path: Path) -> Iterator[Mapping[str, NDArray[np.generic]]]:
    """The arrays of an npz file. We open the file, because np.load leaves a damaged one open."""
    with reading(path), path.open("rb") as file, np.load(file) as arrays:
        yield arrays


def read_mat(path: Path) -> dict[str, Any]:
    """The variables of a MATLAB file."""
    with reading(path), path.open("rb") as file:
        variables: dict[str, Any] = io.loadmat(file)
        return variables


def binary_rows(rows: NDArray[np.int64], columns: NDArray[np.int64], shape: tuple[int, int]) -> sparse.csr_array:
    """A 0/1 matrix with ones at the given places, each place counted once."""
    matrix = sparse.csr_array((np.ones(len(rows), np.float32), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def sparse_if_mostly_zero(x: NDArray[np.float32]) -> NDArray[np.float32] | sparse.csr_array:
    return sparse.csr_array(x) if np.count_nonzero(x) < SPARSE_BELOW * x.size else x
