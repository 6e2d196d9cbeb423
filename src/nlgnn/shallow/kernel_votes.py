"""KernelVotes: the votes of training nodes, which kernel ridge regression solves for (exactly, or with landmarks)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import softmax
from torch import Tensor

from nlgnn.errors import DataError
from nlgnn.graph.descriptions import identifies_nodes, is_description
from nlgnn.shallow.base import bytes_tensor, tensor_bytes
from nlgnn.shallow.similarity import Kernel, Similarities, closeness, kernel_values, node_chunks

Nodes = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]

JITTERS = np.geomspace(1e-7, 1e-2, 6)  # shares of the mean diagonal entry that a singular kernel may need


@dataclass(frozen=True)
class KernelVotes:
    """The votes of some training nodes, called anchors.

    Args:
        kernels: The kernels of the sum.
        num_nodes: The number of nodes of the graph.
        anchors: The numbers of the nodes that vote, `[m]`.
        coefficients: The vote of each anchor for each class, `[m, c]`.
        mean: The share of each class among training nodes, `[c]`.
        ridge: The ridge of the solution.
        temperature: The temperature of probabilities.
        rows: The descriptions of anchors, for nodes of other graphs; empty if a description knows nodes by number.
    """

    kernels: tuple[Kernel, ...]
    num_nodes: int
    anchors: Nodes
    coefficients: NDArray[np.float32]
    mean: NDArray[np.float32]
    ridge: float
    temperature: float
    rows: Mapping[str, NDArray[np.float32]]

    @property
    def identifies_nodes(self) -> bool:
        """Return whether a description has nodes as columns, whose numbers have a meaning in their own graph only."""
        return any(identifies_nodes(kernel.description) for kernel in self.kernels)

    def probabilities(self, similarities: Similarities, same_graph: bool) -> NDArray[np.float32]:
        """Return the probability of each class for every node of a graph, `[n, c]`.

        Args:
            similarities: The similarities of the graph.
            same_graph: Whether it is the graph of the anchors.

        Raises:
            DataError: If the graph cannot be compared with that of the anchors.
        """
        if not (same_graph or self.identifies_nodes):
            compared = self._kernel_by_rows(similarities)
        elif similarities.num_nodes == self.num_nodes:
            compared = kernel_by_number(similarities, self.kernels, self.anchors)
        else:
            raise DataError(
                f"This model knows the {self.num_nodes} nodes of its graph by number, and the given graph has "
                f"{similarities.num_nodes} nodes.",
                "Train with descriptions='features+means+degrees' to predict nodes of other graphs.",
            )
        nodes = np.arange(similarities.num_nodes)
        scores = add_votes(compared, nodes, self.coefficients[None])[0] + self.mean
        probabilities: NDArray[np.float32] = softmax(scores / np.float32(self.temperature), axis=1)
        return probabilities

    def _kernel_by_rows(self, similarities: Similarities) -> Callable[[Nodes], Floats]:
        """Return the function that compares nodes of another graph with the stored rows of anchors."""
        for name, stored in self.rows.items():
            width = similarities.rows(name).shape[1]
            if width != stored.shape[1]:
                raise DataError(
                    f"This model was trained with {stored.shape[1]} feature columns, and the given graph has {width}.",
                    "Give the same columns as in training.",
                )

        def compare(nodes: Nodes) -> Floats:
            return sum_kernels(
                self.kernels, lambda name: closeness(name, similarities.rows(name)[nodes], self.rows[name])
            )

        return compare

    def state_dict(self) -> dict[str, Tensor]:
        """Return everything as tensors; names of descriptions are bytes, one name per line."""
        names = "\n".join(kernel.description for kernel in self.kernels)
        numbers = [[kernel.gamma, kernel.weight] for kernel in self.kernels]
        return {
            "descriptions": bytes_tensor(names.encode()),
            "gammas_weights": torch.tensor(numbers, dtype=torch.float64),
            "num_nodes": torch.tensor(self.num_nodes),
            "anchors": torch.from_numpy(self.anchors.copy()),
            "coefficients": torch.from_numpy(self.coefficients.copy()),
            "mean": torch.from_numpy(self.mean.copy()),
            "ridge": torch.tensor(self.ridge, dtype=torch.float64),
            "temperature": torch.tensor(self.temperature, dtype=torch.float64),
            **{f"rows.{name}": torch.from_numpy(rows.copy()) for name, rows in self.rows.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Tensor]) -> KernelVotes:
        """Return the votes of a `state_dict`.

        Raises:
            DataError: If the state is damaged or belongs to another model.
        """
        try:
            names = tensor_bytes(state["descriptions"]).decode().split("\n")
            numbers = state["gammas_weights"].tolist()
            votes = cls(
                kernels=tuple(Kernel(name, *pair) for name, pair in zip(names, numbers, strict=True)),
                num_nodes=int(state["num_nodes"]),
                anchors=state["anchors"].numpy(),
                coefficients=state["coefficients"].numpy(),
                mean=state["mean"].numpy(),
                ridge=float(state["ridge"]),
                temperature=float(state["temperature"]),
                rows={
                    key.removeprefix("rows."): rows.numpy() for key, rows in state.items() if key.startswith("rows.")
                },
            )
            fits = votes._parts_fit()
        except (KeyError, ValueError, TypeError, RuntimeError, AttributeError, IndexError):
            fits = False
        if not fits:
            raise DataError("The stored kernel model is damaged or belongs to another model.", "Train it again.")
        return votes

    def _parts_fit(self) -> bool:
        """Return whether all parts fit each other, as those of an undamaged state do."""
        names = {kernel.description for kernel in self.kernels}
        m, c = self.coefficients.shape
        numbers = np.array([[kernel.gamma, kernel.weight] for kernel in self.kernels])
        finite = [self.coefficients, self.mean, *self.rows.values(), numbers]
        return (
            all(map(is_description, names))
            and self.anchors.dtype == np.int64
            and self.anchors.shape == (m,)
            and self.mean.shape == (c,)
            and m > 0
            and 0 <= self.anchors.min() <= self.anchors.max() < self.num_nodes
            and 0 < self.temperature < np.inf
            and all(bool(np.isfinite(values).all()) for values in finite)
            and set(self.rows) == (set() if self.identifies_nodes else names)
            and all(rows.ndim == 2 and len(rows) == m for rows in self.rows.values())
        )


def anchor_rows(
    similarities: Similarities, kernels: Sequence[Kernel], anchors: Nodes
) -> dict[str, NDArray[np.float32]]:
    """Return the descriptions of anchors, or nothing if one of them knows nodes by number."""
    names = [kernel.description for kernel in kernels]
    if any(map(identifies_nodes, names)):
        return {}
    rows = {name: similarities.rows(name)[anchors] for name in names}
    return {name: one.toarray() if isinstance(one, sparse.csr_array) else one for name, one in rows.items()}


def sum_kernels(kernels: Sequence[Kernel], close: Callable[[str], NDArray[np.float32]]) -> NDArray[np.float32]:
    """Return the weighted sum of kernels, given the closeness by each description."""
    total = kernel_values(close(kernels[0].description), kernels[0])
    for kernel in kernels[1:]:
        total += kernel_values(close(kernel.description), kernel)
    return total


def kernel_by_number(
    similarities: Similarities, kernels: Sequence[Kernel], anchors: Nodes
) -> Callable[[Nodes], NDArray[np.float32]]:
    """Return the function that compares nodes of a graph with anchors of the same graph, `[nodes, m]`."""
    return lambda nodes: sum_kernels(kernels, lambda name: similarities.closeness(name, nodes, anchors))


def add_votes(compare: Callable[[Nodes], Floats], nodes: Nodes, coefficients: Floats) -> NDArray[np.float32]:
    """Return the sum of votes for each node, with several sets of coefficients at once.

    Args:
        compare: The kernel between nodes and anchors, `[nodes, m]`.
        nodes: The nodes.
        coefficients: The coefficients of anchors, `[s, m, c]`.

    Returns:
        The votes, `[s, nodes, c]`.
    """
    s, m, c = coefficients.shape
    side_by_side = coefficients.transpose(1, 0, 2).reshape(m, s * c).astype(np.float32)
    votes = np.concatenate([compare(some) @ side_by_side for some in node_chunks(nodes, m)])
    return votes.reshape(len(nodes), s, c).transpose(1, 0, 2)


def solve_ridge(kernel: Floats, targets: Floats, ridges: Sequence[float], weights: Floats | None = None) -> Floats:
    r"""Return the coefficients :math:`(K + \lambda W^{-1})^{-1} R` for each ridge.

    Args:
        kernel: The kernel matrix of the training nodes, `[t, t]`.
        targets: The right-hand sides, `[t, c]`.
        ridges: The values of λ, positive.
        weights: The diagonal of W: the weights of the training nodes in the loss, `[t]`; by default 1.

    Returns:
        The coefficients, `[ridges, t, c]`.
    """
    diagonals = [ridge if weights is None else ridge / weights for ridge in ridges]
    try:
        return np.stack([_solve(kernel, targets, diagonal) for diagonal in diagonals])
    except np.linalg.LinAlgError:  # a small ridge may be lost in float32
        return np.stack([_solve(kernel.astype(np.float64), targets, diagonal) for diagonal in diagonals])


def _solve(kernel: Floats, targets: Floats, diagonal: float | Floats) -> Floats:
    matrix = kernel.T.copy(order="F")  # the same matrix, in the order in which Cholesky works in place
    matrix.ravel(order="K")[:: len(kernel) + 1] += diagonal
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
