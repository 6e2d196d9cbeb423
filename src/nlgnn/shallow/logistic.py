"""Logistic: regularised logistic regression on the features of nodes and the means over their neighbours."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import NamedTuple

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
from nlgnn.graph.descriptions import adjacency, has_direction, mean_matrix
from nlgnn.graph.features import row_chunks
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.base import Positive, checked
from nlgnn.shallow.base import (
    ABSENT,
    Column,
    Contributions,
    Neighbours,
    ShallowModel,
    labelled_parts,
    must_end,
    require_fit,
)
from nlgnn.training.metrics import validate

STRENGTHS = (0.01, 0.1, 1.0, 10.0)
USUAL_STRENGTH = 1.0  # without validation nodes
MOST_ITERATIONS = 300
DIRECTIONS = {1: (), 2: ("",), 4: ("", "out-", "in-")}  # by the number of blocks of columns


class Coefficients(NamedTuple):
    """Coefficients of the columns, as blocks of own columns and of means over neighbours in each direction.

    Args:
        weight: The weights of columns that are not scaled, `[classes, blocks, features]`.
        bias: The biases, `[classes]`.
        centre: The means of columns over training nodes, `[blocks, features]`.
    """

    weight: NDArray[np.float64]
    bias: NDArray[np.float64]
    centre: NDArray[np.float64]


class Logistic(ShallowModel):
    r"""Multinomial logistic regression with an L2 penalty.

    .. math:: P(y_i = k) \propto \exp(w_k^\top t_i + b_k)

    The row :math:`t_i` holds the features of node i and their means over the neighbours of i. Dense columns are
    standardised and sparse columns are divided by their largest value, both over the training nodes.

    Args:
        neighbours: Directions of neighbours' columns, which are means. With "none" no edge is read. "undirected" takes
            all neighbours together; "all" also takes out-neighbours and in-neighbours apart if an edge has no reverse.
        strength: Inverse of the L2 penalty, as C of scikit-learn. By default validation chooses 0.01, 0.1, 1 or 10.

    Example:
        >>> from nlgnn import load_graph, make_splits
        >>> graph = load_graph("mushroom-body")
        >>> model = Logistic(neighbours="undirected").fit(graph, make_splits(graph, "random-60")[0])
        >>> model.predict(graph).shape == (graph.num_nodes, graph.num_classes)
        True
    """

    recipe_options = frozenset({"class_weight"})

    @checked
    def __init__(self, neighbours: Neighbours = "all", strength: Positive | None = None) -> None:
        self.neighbours, self.strength = neighbours, strength
        self.uses_edges = self.uses_edge_weights = neighbours != "none"
        self.uses_edge_types = not self.uses_edges  # without edges, no types are ignored
        self.coefficients: Coefficients | None = None
        self.chosen_strength = strength

    @property
    def choices(self) -> dict[str, str | float]:
        return {} if self.chosen_strength is None else {"strength": self.chosen_strength}

    def fit(self, graph: Graph, split: Split, metric: str = "accuracy", seed: int = 0) -> Logistic:
        graph.require_features()
        if graph.num_features == 0:
            raise DataError(f"graph {graph.name!r} has no features.", "Give some, or train another model.")
        train, val = labelled_parts(graph, split)
        blocks = 1 if self.neighbours == "none" else 4 if self.neighbours == "all" and has_direction(graph) else 2
        rows = _rows(graph, train, blocks)
        scaler = MaxAbsScaler() if sparse.issparse(rows) else StandardScaler()
        scaled = scaler.fit_transform(rows)
        usual = STRENGTHS if len(val) else (USUAL_STRENGTH,)
        strengths = usual if self.strength is None else (self.strength,)
        found = self._fit_all(scaled, graph.y[train], graph.num_classes, strengths)
        best = 0
        if len(found) > 1:
            val_rows = scaler.transform(_rows(graph, val, blocks))
            scores = torch.from_numpy(np.stack([val_rows @ weight.T + bias for weight, bias in found]))
            nodes = torch.arange(len(val)).expand(len(found), -1)
            losses, metrics = validate(metric, scores, torch.tensor(graph.y[val]), nodes)
            best = max(range(len(found)), key=lambda number: (metrics[number], -losses[number]))
        self.chosen_strength = strengths[best]
        # Weights of unscaled columns, so that prediction is one product for sparse and dense columns alike.
        weight = found[best][0] / scaler.scale_
        offset = scaler.mean_ if isinstance(scaler, StandardScaler) else 0.0
        self.coefficients = Coefficients(
            weight=weight.reshape(graph.num_classes, blocks, graph.num_features),
            bias=found[best][1] - (weight * offset).sum(1),
            centre=np.asarray(rows.mean(axis=0), np.float64).reshape(blocks, graph.num_features),
        )
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
            if must_end(len(found) / len(strengths)):
                break
        return found

    def _checked_fit(self, graph: Graph) -> Coefficients:
        """Return the coefficients; raise an error if they do not fit a graph."""
        coefficients = require_fit(self.coefficients, self)
        graph.require_features()
        if coefficients.weight.shape[2] != graph.num_features:
            raise DataError(
                f"graph {graph.name!r} has {graph.num_features} features; the model was fitted on others.",
                "Encode new nodes as those of training were encoded.",
            )
        return coefficients

    def predict(self, graph: Graph) -> Float[np.ndarray, "n c"]:
        weight, bias, _ = self._checked_fit(graph)
        scores = _product(graph, weight[:, 0]) + bias
        for matrix, part in zip(_mean_matrices(graph, weight.shape[1]), weight[:, 1:].swapaxes(0, 1), strict=True):
            scores += matrix @ _product(graph, part)  # the mean of products is the product of means, and narrower
        return np.asarray(softmax(scores, axis=1))

    def contributions(self, graph: Graph, nodes: NDArray[np.int64]) -> Contributions:
        """Return coefficients times values, which are centred at the mean of the training nodes."""
        weight, bias, centre = self._checked_fit(graph)
        num_classes, blocks, num_features = weight.shape
        flat = weight.reshape(num_classes, -1)
        rows = _rows(graph, nodes, blocks)
        dense = rows.toarray() if isinstance(rows, sparse.csr_array) else rows
        columns = [Column("{}", "own columns", feature) for feature in range(num_features)]
        for direction in DIRECTIONS[blocks]:
            text = f"mean of {{}} over {direction}neighbours"
            columns += [Column(text, "neighbours' columns", feature) for feature in range(num_features)]
        return Contributions(tuple(columns), flat * (dense - centre.ravel())[:, None], bias + flat @ centre.ravel())

    def state_dict(self) -> dict[str, Tensor]:
        state = require_fit(self.coefficients, self)._asdict()
        return {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        shapes = {name: tuple(value.shape) for name, value in state.items()}
        weight = shapes.get("weight", ())
        wanted = {"weight": weight, "bias": weight[:1], "centre": weight[1:]}
        blocks = {"none": (1,), "undirected": (2,), "all": (2, 4)}[self.neighbours]
        fits = len(weight) == 3 and weight[1] in blocks and shapes == wanted
        if not fits or any(value.dtype != torch.float64 for value in state.values()):
            raise DataError(
                f"{shapes} is not the state of a Logistic with neighbours={self.neighbours!r}.",
                "Use the options of the training, or train the model again.",
            )
        self.coefficients = Coefficients(*(state[name].cpu().numpy() for name in Coefficients._fields))


def _mean_matrices(graph: Graph, blocks: int) -> list[sparse.csr_array]:
    """Return the matrices whose products with columns are the means over neighbours, for a number of blocks."""
    directions = DIRECTIONS[blocks]
    return [mean_matrix(adjacency(graph, direction, weighted=True), np.float64) for direction in directions]


def _rows(graph: Graph, nodes: NDArray[np.int64], blocks: int) -> NDArray[np.float64] | sparse.csr_array:
    """Return own columns and means over neighbours of some nodes, sparse where features are."""
    x = graph.x if isinstance(graph.x, sparse.csr_array) else graph.dense_features()
    parts = [x[nodes].astype(np.float64), *(matrix[nodes] @ x for matrix in _mean_matrices(graph, blocks))]
    return sparse.csr_array(sparse.hstack(parts)) if sparse.issparse(parts[0]) else np.hstack(parts)


def _product(graph: Graph, weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the product of features and weights `[c, d]`, in chunks of rows where features are dense."""
    if isinstance(graph.x, sparse.csr_array):
        return np.asarray(graph.x @ weight.T)
    result = np.empty((graph.num_nodes, len(weight)))
    for start, rows in row_chunks(graph.x):
        result[start : start + len(rows)] = rows @ weight.T
    return result
