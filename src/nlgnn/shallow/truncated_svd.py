"""Truncated singular value decomposition of wide matrices in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.features import FeaturesOnDisk, row_chunks

Matrix: TypeAlias = NDArray[np.float32] | sparse.csr_array | FeaturesOnDisk
EXTRA = 16  # more vectors than are asked for, so that the last of them converge too
ITERATIONS = 8
SPARSE_ROWS = 100_000


def right_singular_vectors(matrix: Matrix, rank: int) -> Float[np.ndarray, "columns rank"]:
    """Return the first right singular vectors of a matrix, by block power iteration.

    The matrix is read in chunks of rows. Signs are fixed such that the entry of largest absolute value is positive, and
    the result does not depend on the order of rows up to rounding.

    Args:
        matrix: The matrix, `[rows, columns]`.
        rank: The number of vectors. It is reduced to the number of rows or columns if that is smaller.

    Returns:
        The vectors, which are orthonormal, in the order of their singular values.

    Example:
        >>> abs(right_singular_vectors(np.array([[0.0, -3.0], [1.0, 0.0]], np.float32), 1).round(3)).tolist()
        [[0.0], [1.0]]
    """
    num_rows, num_columns = matrix.shape
    rank = min(rank, num_rows, num_columns)
    block = np.random.default_rng(0).standard_normal((num_columns, min(rank + EXTRA, num_columns)))
    for _ in range(ITERATIONS):
        vectors = np.linalg.qr(block)[0]
        block = gram_product(matrix, vectors)
    values, rotation = np.linalg.eigh(vectors.T @ block)
    first = vectors @ rotation[:, np.argsort(-values)[:rank]]
    largest = np.abs(first).argmax(0)
    signs = np.where(first[largest, np.arange(first.shape[1])] < 0, -1, 1)
    return np.asarray(first * signs + 0.0, np.float32)  # + 0.0 turns -0 into 0


def project(matrix: Matrix, vectors: Float[np.ndarray, "columns rank"]) -> Float[np.ndarray, "rows rank"]:
    """Return the product of a matrix and some vectors, computed in chunks of rows."""
    result = np.empty((matrix.shape[0], vectors.shape[1]), np.float32)
    for start, rows in matrix_chunks(matrix):
        result[start : start + rows.shape[0]] = rows @ vectors
    return result


def gram_product(matrix: Matrix, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X'X V."""
    narrow = vectors.astype(np.float32)
    result = np.zeros(vectors.shape)
    for _, rows in matrix_chunks(matrix):
        result += rows.T @ (rows @ narrow)
    return result


def matrix_chunks(matrix: Matrix) -> Iterator[tuple[int, NDArray[np.float32] | sparse.csr_array]]:
    """Yield the number of the first row and some rows, which are valid until the next step."""
    if not isinstance(matrix, sparse.csr_array):
        yield from row_chunks(matrix)
        return
    for start in range(0, matrix.shape[0], SPARSE_ROWS):
        yield start, matrix if matrix.shape[0] <= SPARSE_ROWS else matrix[start : start + SPARSE_ROWS]
