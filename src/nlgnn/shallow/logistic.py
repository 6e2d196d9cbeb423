"""Logistic: regularised logistic regression on the features of nodes and the means over their neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from torch import Tensor

from nlgnn.errors import DataError
from nlgnn.graph.features import row_chunks
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.base import Positive, checked
from nlgnn.shallow.base import Column, Contributions, ShallowModel
from nlgnn.training.metrics import validate

STRENGTHS = (0.01, 0.1, 1.0, 10.0)
MOST_ITERATIONS = 300
ABSENT = -30.0  # score of a class without training nodes; the scores of the others sum to zero
MEANS = ("mean of {} over neighbours", "mean of {} over out-neighbours", "mean of {} over in-neighbours")


class Logistic(ShallowModel):
    r"""Multinomial logistic regression with an L2 penalty.

    .. math:: P(y_i = k) \propto \exp(w_k^\top t_i + b_k)

    The row :math:`t_i` holds the features of node i and, as an option, their means over the neighbours of i. Dense
    columns are standardised and sparse columns are divided by their largest value, both over the training nodes.

    Args:
        neighbours: Directions of neighbours' columns, which are means. With "none" no edge is read. "undirected" takes
            all neighbours together; "all" also takes out-neighbours and in-neighbours apart if the graph has
            directions.
        strength: Inverse of the L2 penalty, as C of scikit-learn. None: one of a few values, chosen by validation.

    Example:
        >>> from nlgnn import load_graph, make_splits
        >>> graph = load_graph("mushroom-body")
        >>> model = Logistic(neighbours="undirected").fit(graph, make_splits(graph, "random-60")[0])
        >>> model.predict(graph).shape == (graph.num_nodes, graph.num_classes)
        True
    """

    recipe_options = frozenset({"class_weight"})

    @checked
    def __init__(
        self, neighbours: Literal["none", "undirected", "all"] = "none", strength: Positive | None = None
    ) -> None:
        self.neighbours, self.strength = neighbours, strength
        self.uses_edges = self.uses_edge_weights = neighbours != "none"

    def fit(self, graph: Graph, split: Split, metric: str = "accuracy", seed: int = 0) -> Logistic:
        graph.require_features("logistic regression")
        if graph.num_features == 0:
            raise DataError(f"graph {graph.name!r} has no features.", "Give some, or train another model.")
        train, val = np.flatnonzero(split.train), np.flatnonzero(split.val)
        rows = self._rows(graph, train)
        scaler = MaxAbsScaler() if sparse.issparse(rows) else StandardScaler()
        scaled, val_scaled = scaler.fit_transform(rows), scaler.transform(self._rows(graph, val))
        strengths = STRENGTHS if self.strength is None else (self.strength,)
        found = self._fit_all(scaled, graph.y[train], graph.num_classes, strengths)
        if len(found) > 1:
            scores = torch.from_numpy(np.stack([val_scaled @ weight.T + bias for weight, bias in found]))
            nodes = torch.arange(len(val)).expand(len(found), -1)
            losses, metrics = validate(metric, scores, torch.tensor(graph.y[val]), nodes)
            best = max(range(len(found)), key=lambda number: (metrics[number], -losses[number]))
        else:
            best = 0
        weight, bias = found[best]
        # Weights of unscaled columns, so that prediction is one product for sparse and dense columns alike.
        self.weight = weight / scaler.scale_
        offset = scaler.mean_ if isinstance(scaler, StandardScaler) else 0.0
        self.bias = bias - (self.weight * offset).sum(1)
        self.centre = np.asarray(rows.mean(axis=0), np.float64).ravel()
        return self

    def _fit_all(
        self,
        rows: NDArray[np.float64] | sparse.csr_array,
        y: NDArray[np.int64],
        num_classes: int,
        strengths: tuple[float, ...],
    ) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Return weights `[c, d]` and biases `[c]` of each strength."""
        classes = np.unique(y)
        model = LogisticRegression(
            warm_start=True,  # each strength starts from the weights of the one before
            max_iter=MOST_ITERATIONS,
            class_weight="balanced" if self.class_weight == "balanced" else None,
        )
        found = []
        for strength in strengths:
            weight, bias = np.zeros((num_classes, rows.shape[1])), np.full(num_classes, ABSENT)
            bias[classes] = 0.0
            if len(classes) > 1:
                model.set_params(C=strength)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.fit(rows, y)
                coefficients, intercepts = model.coef_, model.intercept_
                if len(classes) == 2:  # scikit-learn keeps the difference between the two
                    coefficients = np.concatenate([-coefficients, coefficients]) / 2
                    intercepts = np.concatenate([-intercepts, intercepts]) / 2
                weight[classes], bias[classes] = coefficients, intercepts
            found.append((weight, bias))
        return found

    def _rows(self, graph: Graph, nodes: NDArray[np.int64]) -> NDArray[np.float64] | sparse.csr_array:
        """Return own columns and means over neighbours of some nodes, sparse where features are."""
        x = graph.x if isinstance(graph.x, sparse.csr_array) else graph.dense_features()
        parts = [x[nodes].astype(np.float64), *(matrix[nodes] @ x for matrix in self._averages(graph))]
        return sparse.csr_array(sparse.hstack(parts)) if sparse.issparse(parts[0]) else np.hstack(parts)

    def _averages(self, graph: Graph) -> list[sparse.csr_array]:
        """Return the matrices whose products with columns are the means over neighbours."""
        if self.neighbours == "none":
            return []
        together = _row_mean(graph.undirected_weights)
        if self.neighbours == "undirected" or not graph.directed:
            return [together]
        directed = graph.directed_weights
        return [together, _row_mean(directed), _row_mean(sparse.csr_array(directed.T))]

    def predict(self, graph: Graph) -> Float[np.ndarray, "n c"]:
        graph.require_features("logistic regression")
        averages = self._averages(graph)
        if self.weight.shape[1] != graph.num_features * (1 + len(averages)):
            raise DataError(
                f"graph {graph.name!r} has {graph.num_features} features; the model was fitted on others.",
                "Encode new nodes as those of training were encoded.",
            )
        own, *others = np.split(self.weight, 1 + len(averages), axis=1)
        scores = _product(graph, own) + self.bias
        for matrix, weight in zip(averages, others, strict=True):
            scores += matrix @ _product(graph, weight)  # the mean of products is the product of means, and narrower
        return np.asarray(softmax(scores, axis=1))

    def contributions(self, graph: Graph, nodes: NDArray[np.int64]) -> Contributions:
        """Return coefficients times values, which are centred at the mean of the training nodes."""
        rows = self._rows(graph, nodes)
        dense = rows.toarray() if isinstance(rows, sparse.csr_array) else rows
        values = self.weight * (dense - self.centre)[:, None]
        features = range(graph.num_features)
        own = [Column("{}", "own columns", feature) for feature in features]
        means = MEANS[: len(self._averages(graph))]
        others = [Column(words, "neighbours' columns", feature) for words in means for feature in features]
        return Contributions((*own, *others), values, self.bias + self.weight @ self.centre)

    def state_dict(self) -> dict[str, Tensor]:
        state = {"weight": self.weight, "bias": self.bias, "centre": self.centre}
        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        weight = shapes.get("weight", ())
        wanted = {"weight": weight, "bias": weight[:1], "centre": weight[1:]}
        if len(weight) != 2 or shapes != wanted or any(value.dtype != torch.float64 for value in state.values()):
            raise DataError(f"{shapes} is not the state of a Logistic.", "Train the model again.")
        self.weight, self.bias, self.centre = (state[name].numpy() for name in ("weight", "bias", "centre"))


def _row_mean(matrix: sparse.csr_array) -> sparse.csr_array:
    """Return a matrix with rows that sum to 1; rows of zeros stay zero."""
    sums = matrix.sum(axis=1, dtype=np.float64)
    return sparse.csr_array(sparse.diags_array(1 / np.where(sums > 0, sums, 1)) @ matrix)


def _product(graph: Graph, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of features and weights `[c, d]`, in chunks of rows where features are dense."""
    if isinstance(graph.x, sparse.csr_array):
        return np.asarray(graph.x @ weight.T)
    result = np.empty((graph.num_nodes, len(weight)))
    for start, rows in row_chunks(graph.x):
        result[start : start + len(rows)] = rows @ weight.T
    return result
