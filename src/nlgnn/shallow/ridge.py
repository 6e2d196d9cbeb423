r"""Kernel ridge regression of several right-hand sides: exact, and with landmarks (Nyström)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular

from nlgnn.errors import DataError

Floats = NDArray[np.floating[Any]]

JITTERS = np.geomspace(1e-7, 1e-2, 6)  # shares of the mean diagonal entry that a singular kernel may need


def solve_ridge(kernel: Floats, targets: Floats, ridges: Sequence[float]) -> Floats:
    r"""Return the coefficients :math:`(K + \lambda I)^{-1} R` for each ridge.

    Args:
        kernel: The kernel matrix of the training nodes, `[t, t]`.
        targets: The right-hand sides, `[t, c]`.
        ridges: The values of λ, positive.

    Returns:
        The coefficients, `[ridges, t, c]`.
    """
    try:
        return np.stack([_solve(kernel, targets, ridge) for ridge in ridges])
    except np.linalg.LinAlgError:  # a small ridge may be lost in float32
        return np.stack([_solve(kernel.astype(np.float64), targets, ridge) for ridge in ridges])


def _solve(kernel: Floats, targets: Floats, ridge: float) -> Floats:
    matrix = kernel.T.copy(order="F")  # the same matrix, in the order in which Cholesky works in place
    matrix.ravel(order="K")[:: len(kernel) + 1] += ridge
    factor = cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    solution: Floats = cho_solve(factor, targets, check_finite=False)
    return solution


def solve_nystroem(
    landmark_kernel: Floats, parts: Iterable[tuple[Floats, Floats]], ridges: Sequence[float]
) -> NDArray[np.float64]:
    r"""Return the coefficients of landmarks for each ridge.

    They solve :math:`(K_{mt} K_{tm} + \lambda K_{mm})\, \alpha = K_{mt} R`. With :math:`K_{mm} = L L^\top` this is
    ridge regression on the features :math:`\Phi = K_{tm} L^{-\top}`, whose matrix :math:`\Phi^\top \Phi + \lambda I`
    is far from singular.

    Args:
        landmark_kernel: The kernel matrix of the landmarks, `[m, m]`.
        parts: The kernel between some training nodes and the landmarks, `[k, m]`, and the right-hand sides of these
            nodes, `[k, c]`, part by part.
        ridges: The values of λ, positive.

    Returns:
        The coefficients, `[ridges, m, c]`.
    """
    m = len(landmark_kernel)
    products: Floats = np.zeros((m, m))  # K_mt K_tm
    projected: Floats = np.zeros((m, 0))  # K_mt R
    for rows, targets in parts:
        exact = rows.astype(np.float64)  # so that the sum of products is positive definite
        products += exact.T @ exact
        part = exact.T @ targets
        projected = projected + part if projected.size else part
    lower = lower_factor(landmark_kernel.astype(np.float64))
    half = solve_triangular(lower, products, lower=True)
    gram = solve_triangular(lower, half.T, lower=True)  # Φᵀ Φ
    solutions = solve_ridge(gram, solve_triangular(lower, projected, lower=True), ridges)
    return np.stack([solve_triangular(lower, one, lower=True, trans="T") for one in solutions])


def lower_factor(kernel: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the Cholesky factor of a kernel matrix plus the smallest jitter with which it is positive definite.

    A kernel that was computed in float32 has negative eigenvalues if nodes are many and descriptions are short.
    """
    size = np.trace(kernel) / len(kernel)
    for jitter in JITTERS:
        with suppress(np.linalg.LinAlgError):
            return np.linalg.cholesky(kernel + jitter * size * np.eye(len(kernel)))
    raise DataError("The kernel of the landmarks is not positive definite.", "Give fewer landmarks or a larger gamma.")
