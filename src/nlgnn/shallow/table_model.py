"""TableModel: the base of models that read a table of neighbour features."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.shallow.base import ShallowModel, bytes_tensor, labelled_parts, require_fit, tensor_bytes
from nlgnn.shallow.neighbour_table import Blocks, NeighbourTable, TablePlan, neighbour_table

ROWS_AT_ONCE = 1 << 16
CHECKSUM = "checksum"


class Rows(NamedTuple):
    """Some rows of the table, and the place of their labels in the list of classes that have training nodes."""

    x: Float[np.ndarray, "k w"]
    y: Int[np.ndarray, " k"]


class Fitted(NamedTuple):
    """Knowledge of a fitted model in addition to its trees.

    Args:
        plan: The plan of the table.
        num_classes: The number of classes of the graph.
        classes: The classes that have training nodes; all others have probability 0.
        known: The labels of training nodes, and -1 for other nodes, if label shares are columns.
    """

    plan: TablePlan
    num_classes: int
    classes: NDArray[np.int64]
    known: NDArray[np.int64] | None


class TableModel(ShallowModel):
    """Base class of models that classify the rows of a table of neighbour features.

    Args:
        blocks: The parts of the table.
        labels: Whether shares of training labels around a node are columns.
    """

    recipe_options = frozenset({"class_weight"})
    takes_missing_values: bool = False

    def __init__(self, blocks: Blocks, labels: bool) -> None:
        self.blocks = blocks
        self.uses_edges, self.uses_edge_types = blocks.neighbours != "none", True
        self.labels = self.reads_labels = labels and self.uses_edges
        self.identifies_nodes = self.uses_edges and (labels or blocks.spectral)
        self.fitted: Fitted | None = None

    @property
    def way_to_new_nodes(self) -> str:
        parts = {"labels": self.labels, "spectral coordinates": self.blocks.spectral}
        return f"Train it without {' and '.join(name for name, present in parts.items() if present)} as columns."

    @abstractmethod
    def learn(self, train: Rows, val: Rows, num_classes: int, metric: str, seed: int) -> None:
        """Learn from rows of at least two classes, which are numbered from 0 without gaps."""

    @abstractmethod
    def probabilities(self, x: Float[np.ndarray, "k w"]) -> Float[np.ndarray, "k m"]:
        """Return the probability of each class of `learn` for some rows."""

    @abstractmethod
    def learned_state(self) -> dict[str, Tensor]:
        """Return what `learn` has learned."""

    @abstractmethod
    def load_learned_state(self, state: Mapping[str, Tensor]) -> None:
        """Set what `learn` has learned, from a state whose checksum is right."""

    def fit(self, graph: Graph, split: Split, metric: str = "accuracy", seed: int = 0) -> TableModel:
        self.check_features(graph)
        train, val = labelled_parts(graph, split)
        classes = np.unique(graph.y[train])
        val = val[
            np.isin(graph.y[val], classes)
        ]  # other classes are never predicted, so that they cannot choose among rounds
        table = neighbour_table(graph, self.blocks)
        known = None
        if self.labels:
            known = np.full(graph.num_nodes, -1)
            known[train] = graph.y[train]
        self.fitted = Fitted(table.plan, graph.num_classes, classes, known)
        if len(classes) == 1:
            return self  # it has probability 1
        rows = self.row_reader(table, self.fitted)
        if rows(train[:1]).size == 0:
            raise DataError(
                f"graph {graph.name!r} has no features, and the table has no other columns.",
                "Give features, or choose neighbours and structure.",
            )
        parts = [Rows(rows(nodes), np.searchsorted(classes, graph.y[nodes])) for nodes in (train, val)]
        self.learn(parts[0], parts[1], len(classes), metric, seed)
        return self

    def predict(self, graph: Graph) -> Float[np.ndarray, "n c"]:
        fitted = self.checked_fit(graph)
        result = np.zeros((graph.num_nodes, fitted.num_classes), np.float32)
        if len(fitted.classes) == 1:
            result[:, fitted.classes] = 1
            return result
        rows = self.row_reader(neighbour_table(graph, self.blocks, fitted.plan), fitted)
        for start in range(0, graph.num_nodes, ROWS_AT_ONCE):
            nodes = np.arange(start, min(start + ROWS_AT_ONCE, graph.num_nodes))
            result[nodes[:, None], fitted.classes] = self.probabilities(rows(nodes))
        return result

    def check_features(self, graph: Graph) -> None:
        """Raise an error if values are missing and the model does not take missing values."""
        if not self.takes_missing_values:
            graph.require_features()

    def checked_fit(self, graph: Graph) -> Fitted:
        """Return what the model knows; raise an error if it is not fitted or does not know the nodes of a graph."""
        fitted = require_fit(self.fitted, self)
        self.check_features(graph)
        if fitted.known is not None and len(fitted.known) != graph.num_nodes:
            raise DataError(
                f"graph {graph.name!r} has {graph.num_nodes} nodes, but the model knows the labels of "
                f"{len(fitted.known)} nodes by their number.",
                "Predict for the graph of the training, or train without labels as columns.",
            )
        return fitted

    def row_reader(self, table: NeighbourTable, fitted: Fitted) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return a function that returns the rows of some nodes, label shares included."""
        if fitted.known is None:
            return lambda nodes: table.values[nodes]
        shares = table.label_shares(fitted.known, fitted.num_classes)
        return lambda nodes: np.concatenate([table.values[nodes], shares[nodes]], axis=1)

    def state_dict(self) -> dict[str, Tensor]:
        fitted = require_fit(self.fitted, self)
        plan = fitted.plan
        facts = {
            "model": type(self).__name__,
            "blocks": asdict(self.blocks),
            "num_features": plan.num_features,
            "by_direction": plan.by_direction,
            "spreads": plan.spreads,
            "edge_types": list(plan.edge_types),
            "num_classes": fitted.num_classes,
        }
        state = {"facts": bytes_tensor(json.dumps(facts).encode()), "classes": torch.from_numpy(fitted.classes)}
        arrays = {"components": plan.components, "spectral": plan.spectral, "known": fitted.known}
        state |= {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}
        if len(fitted.classes) > 1:
            state |= self.learned_state()
        return with_checksum(state)

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        name = type(self).__name__
        state = without_checksum(state, name)
        facts = json.loads(tensor_bytes(state["facts"])) if "facts" in state else {}
        expected = {"model": name, "blocks": asdict(self.blocks)}
        if {key: facts.get(key) for key in expected} != expected or ("known" in state) != self.labels:
            raise DataError(
                f"The state belongs to another model than this {name}, or to other options.",
                "Build the model with the options of the training.",
            )
        arrays = {key: state[key].cpu().numpy() if key in state else None for key in ("components", "spectral")}
        types = tuple(facts.get("edge_types", ()))
        plan = TablePlan(facts["num_features"], facts["by_direction"], facts["spreads"], **arrays, edge_types=types)
        known = state["known"].cpu().numpy() if self.labels else None
        self.fitted = Fitted(plan, facts["num_classes"], state["classes"].cpu().numpy(), known)
        if len(self.fitted.classes) > 1:
            self.load_learned_state(state)


def with_checksum(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return a state with a checksum of all its tensors."""
    return {**state, CHECKSUM: bytes_tensor(checksum(state))}


def without_checksum(state: Mapping[str, Tensor], model: str) -> dict[str, Tensor]:
    """Return a state without its checksum.

    Args:
        state: The state.
        model: The name of the model, for errors.

    Raises:
        DataError: If the checksum is missing or wrong.
    """
    inner = {name: tensor for name, tensor in state.items() if name != CHECKSUM}
    if CHECKSUM not in state or tensor_bytes(state[CHECKSUM]) != checksum(inner):
        raise DataError(f"The state of this {model} model is damaged.", "Restore the file or train the model again.")
    return inner


def checksum(state: Mapping[str, Tensor]) -> bytes:
    """Return the SHA-256 of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(repr((name, str(tensor.dtype), tuple(tensor.shape))).encode())
        digest.update(tensor_bytes(tensor))
    return digest.digest()
