"""TableModel: the base of models that read a table of neighbour features."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.shallow.base import ShallowModel
from nlgnn.shallow.neighbour_table import NeighbourTable, neighbour_table
from nlgnn.shallow.state import bytes_tensor, tensor_bytes, with_checksum, without_checksum
from nlgnn.shallow.table_plan import Blocks, TablePlan

ROWS_AT_ONCE = 1 << 16


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

    def __init__(self, blocks: Blocks, labels: bool) -> None:
        self.blocks = blocks
        self.uses_edges = blocks.neighbours != "none"
        self.labels = labels and self.uses_edges
        self.identifies_nodes = self.uses_edges and (labels or blocks.spectral)
        self.fitted: Fitted | None = None

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

    def check_table(self, graph: Graph, x: Float[np.ndarray, "k w"]) -> None:
        """Raise an error if the model cannot read some rows of the table."""

    def fit(self, graph: Graph, split: Split, metric: str = "accuracy", seed: int = 0) -> TableModel:
        train, val = np.flatnonzero(split.train & graph.labelled), np.flatnonzero(split.val & graph.labelled)
        if len(train) == 0:
            raise DataError(f"graph {graph.name!r} has no labelled training node.", "Use another split.")
        classes = np.unique(graph.y[train])
        val = val[np.isin(graph.y[val], classes)]  # no round could be right about the others
        table = neighbour_table(graph, self.blocks)
        known = None
        if self.labels:
            known = np.full(graph.num_nodes, -1)
            known[train] = graph.y[train]
        self.fitted = Fitted(table.plan, graph.num_classes, classes, known)
        if len(classes) == 1:
            return self  # its probability is 1, whatever the columns are
        rows = self.row_reader(graph, table, self.fitted)
        parts = [Rows(rows(nodes), np.searchsorted(classes, graph.y[nodes])) for nodes in (train, val)]
        self.learn(parts[0], parts[1], len(classes), metric, seed)
        return self

    def predict(self, graph: Graph) -> Float[np.ndarray, "n c"]:
        fitted = self.checked_fit(graph)
        result = np.zeros((graph.num_nodes, fitted.num_classes), np.float32)
        if len(fitted.classes) == 1:
            result[:, fitted.classes] = 1
            return result
        rows = self.row_reader(graph, neighbour_table(graph, self.blocks, fitted.plan), fitted)
        for nodes in node_chunks(graph.num_nodes):
            result[nodes[:, None], fitted.classes] = self.probabilities(rows(nodes))
        return result

    def checked_fit(self, graph: Graph) -> Fitted:
        """Return what the model knows; raise an error if it is not fitted or does not know the nodes of a graph."""
        if self.fitted is None:
            raise NlgnnError(f"{type(self).__name__} is not fitted.", "Call fit first.")
        known = self.fitted.known
        if known is not None and len(known) != graph.num_nodes:
            raise DataError(
                f"graph {graph.name!r} has {graph.num_nodes} nodes, but the model knows the labels of {len(known)} "
                "nodes by their number.",
                "Predict for the graph of the training, or train without labels as columns.",
            )
        return self.fitted

    def row_reader(
        self, graph: Graph, table: NeighbourTable, fitted: Fitted
    ) -> Callable[[NDArray[np.int64]], NDArray[np.float32]]:
        """Return a function that returns the rows of some nodes, label shares included."""
        known, num_classes = fitted.known, fitted.num_classes
        shares = None if known is None else table.label_shares(known, num_classes)

        def rows(nodes: NDArray[np.int64]) -> NDArray[np.float32]:
            x = table.values[nodes]
            self.check_table(graph, x)
            return x if shares is None else np.concatenate([x, shares[nodes]], axis=1)

        return rows

    def state_dict(self) -> dict[str, Tensor]:
        if self.fitted is None:
            raise NlgnnError(f"{type(self).__name__} is not fitted.", "Call fit first.")
        plan = self.fitted.plan
        facts = {
            "model": type(self).__name__,
            "blocks": asdict(self.blocks),
            "num_features": plan.num_features,
            "by_direction": plan.by_direction,
            "spreads": plan.spreads,
            "num_classes": self.fitted.num_classes,
        }
        state = {"facts": bytes_tensor(json.dumps(facts).encode()), "classes": torch.from_numpy(self.fitted.classes)}
        arrays = {"components": plan.components, "spectral": plan.spectral, "known": self.fitted.known}
        state |= {name: torch.from_numpy(array) for name, array in arrays.items() if array is not None}
        if len(self.fitted.classes) > 1:
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
        plan = TablePlan(facts["num_features"], facts["by_direction"], facts["spreads"], **arrays)
        known = state["known"].cpu().numpy() if self.labels else None
        self.fitted = Fitted(plan, facts["num_classes"], state["classes"].cpu().numpy(), known)
        if len(self.fitted.classes) > 1:
            self.load_learned_state(state)


def node_chunks(num_nodes: int) -> Iterator[NDArray[np.int64]]:
    """Yield the numbers of all nodes, some at a time."""
    for start in range(0, num_nodes, ROWS_AT_ONCE):
        yield np.arange(start, min(start + ROWS_AT_ONCE, num_nodes))
