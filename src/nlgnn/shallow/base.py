"""ShallowModel: the contract between a model without gradient training and the trainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.base import TRAIN_ANOTHER

Neighbours = Literal["none", "undirected", "all"]
Group = Literal["own columns", "neighbours' columns", "structure", "labels"]
ABSENT = -30.0  # logit of a class without training nodes
T = TypeVar("T")
FitWatch = Callable[[float | None], bool]
_fit_watch: ContextVar[FitWatch | None] = ContextVar("fit_watch", default=None)


class EndOfRunsError(NlgnnError):
    """Raised by a watch to end a training. Runs that are finished are kept; the others are marked as postponed."""


@contextmanager
def watched_fits(watch: FitWatch) -> Iterator[None]:
    """Have all fits of shallow models in this context call a function from time to time.

    Args:
        watch: Takes the share of a fit that is done, or None during the preparation. Returns True if the fit must end
            with what it has, or raises.
    """
    token = _fit_watch.set(watch)
    try:
        yield
    finally:
        _fit_watch.reset(token)


def must_end(done: float | None) -> bool:
    """Return whether a fit, of which a share is done, must end with what it has.

    A `fit` that takes long calls it between its steps, so that a time limit holds. Before the first step it may call it
    with None, and ignore the answer.
    """
    watch = _fit_watch.get()
    return watch is not None and watch(done)


class Column(NamedTuple):
    """A column that a model looks at.

    Args:
        text: The name of the column, with {} in place of a feature.
        group: The group whose contributions are added up in explanations.
        feature: The number of the feature, if the column is made from one.
    """

    text: str
    group: Group
    feature: int | None = None

    def name(self, feature_names: Sequence[str] = ()) -> str:
        """Return the name of the column; without names of features they are numbered.

        Example:
            >>> Column("mean of {} over neighbours", "neighbours' columns", 0).name(["amount"])
            'mean of `amount` over neighbours'
        """
        if self.feature is None:
            return self.text
        word = f"`{feature_names[self.feature]}`" if feature_names else f"feature {self.feature}"
        return self.text.replace("{}", word)


class Contributions(NamedTuple):
    """Exact contributions of columns to the logits of some nodes.

    Args:
        columns: The columns.
        values: The contributions, `[nodes, classes, columns]`.
        expected: The logits before any column is looked at, `[classes]`. With the sum over columns they give the
            logits, whose softmax is the prediction.
    """

    columns: tuple[Column, ...]
    values: Float[np.ndarray, "k c w"]
    expected: Float[np.ndarray, " c"]

    def by_group(self) -> dict[Group, Float[np.ndarray, "k c"]]:
        """Return the sum of contributions of each group that has columns."""
        groups = np.array([column.group for column in self.columns])
        present = dict.fromkeys(column.group for column in self.columns)
        return {group: self.values[:, :, groups == group].sum(axis=2) for group in present}


class ShallowModel(ABC):
    """Base class of models without gradient training.

    The constructor stores options and does nothing else. Everything that a fitted model knows is in `state_dict`, as
    tensors; text, such as a file of LightGBM, is a tensor of bytes.

    Attributes:
        identifies_nodes: Whether the fitted model knows nodes by their number and can be used on its own graph only.
        reads_labels: Whether training labels are part of the input.
        uses_edges: Whether the model looks at edges.
        uses_edge_weights: Whether edge weights change the result, where a graph has some.
        uses_edge_types: Whether types of edges change the result, where a graph has some.
        recipe_options: The options of a `Recipe` that the trainer sets as attributes of the model before `fit`, such as
            class_weight. It passes on the metric and the seed, scales features and limits threads itself.
        class_weight: "balanced" if all classes have the same weight in training, else "none".

    Example:
        >>> from nlgnn import Logistic, ShallowModel, load_graph, make_splits
        >>> graph = load_graph("mushroom-body")
        >>> model = Logistic()
        >>> model.fit(graph, make_splits(graph, "random-60")[0]).predict(graph).shape
        (209, 4)
        >>> isinstance(model, ShallowModel)
        True
    """

    identifies_nodes: bool = False
    uses_edges: bool = True
    uses_edge_weights: bool = False
    uses_edge_types: bool = False
    reads_labels: bool = False
    recipe_options: frozenset[str] = frozenset()
    class_weight: str = "none"

    @property
    def choices(self) -> dict[str, str | float]:
        """Return the settings that the last `fit` chose by validation, by name."""
        return {}

    @property
    def way_to_new_nodes(self) -> str:
        """Return what to do instead, in a sentence, where the model can be used on its own graph only."""
        return TRAIN_ANOTHER

    @abstractmethod
    def fit(self, graph: Graph, split: Split, metric: str = "accuracy", seed: int = 0) -> ShallowModel:
        """Learn from the labels of training nodes.

        Labels of validation nodes may choose among settings, by `metric`. Labels of test nodes are never read.

        Args:
            graph: The graph, with features as the recipe scales them.
            split: The training, validation and test nodes.
            metric: The name of the metric that validation compares.
            seed: The seed of all random numbers. The same seed gives the same model.

        Returns:
            The model itself.
        """

    @abstractmethod
    def predict(self, graph: Graph) -> Float[np.ndarray, "n c"]:
        """Return the probability of each class for every node."""

    @abstractmethod
    def state_dict(self) -> dict[str, Tensor]:
        """Return everything that the fitted model knows."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Become the fitted model of a `state_dict`.

        Raises:
            DataError: If the state is damaged or belongs to another model.
        """

    def contributions(self, graph: Graph, nodes: NDArray[np.int64]) -> Contributions | None:
        """Return how much each column contributes to the logits of some nodes; None where the model cannot say."""
        return None


Factory = Callable[[], nn.Module | ShallowModel]  # makes a new model


def labelled_parts(graph: Graph, split: Split) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training nodes and the validation nodes whose labels are known.

    Raises:
        DataError: If the split belongs to another graph, or if no training node has a label.
    """
    split.check_length(graph.num_nodes, f"graph {graph.name!r}")
    train, val = (np.flatnonzero(part & graph.labelled) for part in (split.train, split.val))
    if len(train) == 0:
        raise DataError(f"graph {graph.name!r} has no labelled training node.", "Use another split.")
    return train, val


def balanced_weights(y: NDArray[np.int64], num_classes: int = 0) -> NDArray[np.float32]:
    """Return a weight per class with which all classes of some labels count the same, and nodes 1 on average.

    Classes without a label, up to `num_classes`, have weight 0.

    Example:
        >>> balanced_weights(np.array([0, 0, 0, 2])).tolist()
        [0.6666666865348816, 0.0, 2.0]
    """
    sizes = np.bincount(y, minlength=num_classes)
    weights = len(y) / (np.count_nonzero(sizes) * np.maximum(sizes, 1))
    return np.where(sizes > 0, weights, 0).astype(np.float32)


def require_fit(learned: T | None, model: ShallowModel) -> T:
    """Return what a model has learned; raise an error if that is nothing yet."""
    if learned is None:
        raise NlgnnError(f"{type(model).__name__} is not fitted.", "Call fit first.")
    return learned


def bytes_tensor(text: bytes) -> Tensor:
    """Return bytes as a tensor.

    Example:
        >>> bytes_tensor(b"ab")
        tensor([97, 98], dtype=torch.uint8)
    """
    return torch.from_numpy(np.frombuffer(text, np.uint8).copy())


def tensor_bytes(tensor: Tensor) -> bytes:
    """Return the bytes of a tensor."""
    return tensor.detach().cpu().contiguous().flatten().numpy().tobytes()
