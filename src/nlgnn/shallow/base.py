"""ShallowModel: the contract between a model without gradient training and the trainer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float
from torch import Tensor

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split


class ShallowModel(ABC):
    """Base class of models without gradient training.

    The constructor stores options and does nothing else. Everything that a fitted model knows is in `state_dict`, as
    tensors; text, such as a file of LightGBM, is a tensor of bytes.

    Attributes:
        identifies_nodes: Whether the fitted model knows nodes by their number and is of use on its own graph only.
        uses_edges: Whether the model looks at edges.
        uses_edge_weights: Whether edge weights change the result, where a graph has some.
    """

    identifies_nodes: bool = False
    uses_edges: bool = True
    uses_edge_weights: bool = False

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
