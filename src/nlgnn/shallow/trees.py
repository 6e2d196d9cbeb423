r"""Trees: gradient boosting (LightGBM) on a table of neighbour features.

From Ke et al., `"LightGBM: A Highly Efficient Gradient Boosting Decision Tree"
<https://papers.nips.cc/paper/6907-lightgbm-a-highly-efficient-gradient-boosting-decision-tree>`_, NeurIPS 2017. With
the row :math:`t_v` of a node in the table, the learning rate :math:`\eta` and one regression tree :math:`h_{rc}` per
round and class,

.. math::
    p_v = \mathrm{softmax}(F_M(t_v)), \qquad F_r(t)_c = F_{r-1}(t)_c + \eta\, h_{rc}(t).

Two classes share one tree per round, with a sigmoid in place of the softmax. Validation chooses the number of rounds
:math:`M`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import Count, Positive, checked
from nlgnn.shallow.base import (
    ABSENT,
    Contributions,
    Neighbours,
    balanced_weights,
    bytes_tensor,
    must_end,
    tensor_bytes,
)
from nlgnn.shallow.neighbour_table import Blocks, neighbour_table
from nlgnn.shallow.table_model import Rows, TableModel

PositiveShare = Annotated[float, Field(gt=0, le=1)]
LARGEST_LEAF = 0.25  # the largest min_leaf as a share of training nodes: with more, small graphs get no split
PATIENCE = 50  # rounds without improvement on validation nodes


class Trees(TableModel):
    """Gradient boosting (LightGBM) on own columns, neighbours' columns and structure.

    Missing feature values (NaN) are passed to LightGBM. Rounds are chosen by validation: by ROC-AUC if that is the
    metric, and by log-loss otherwise. With balanced class weights, these weights also hold for validation nodes.

    Args:
        learning_rate: Step size of each round.
        num_leaves: Largest number of leaves of a tree.
        rounds: Largest number of rounds.
        column_share: Share of columns that each tree sees.
        min_leaf: Smallest number of training nodes in a leaf. It is at most a quarter of all training nodes.
        neighbours: Directions of neighbours' columns. With "none" no edge is read: the baseline without a graph.
        structure: Whether degrees, PageRank and clustering are columns.
        spectral: Whether spectral coordinates are columns. The model then knows nodes by their number.
        labels: Whether shares of training labels are columns. The model then knows nodes by their number.

    Example:
        >>> from nlgnn import load_graph, make_splits
        >>> graph = load_graph("mushroom-body")
        >>> Trees(rounds=5).fit(graph, make_splits(graph, "random-60", runs=1)[0]).predict(graph).shape[1]
        4
    """

    takes_missing_values = True

    @checked
    def __init__(
        self,
        learning_rate: Positive = 0.05,
        num_leaves: Annotated[int, Field(ge=2)] = 15,
        rounds: Count = 500,
        column_share: PositiveShare = 0.5,
        min_leaf: Count = 20,
        neighbours: Neighbours = "all",
        structure: bool = True,
        spectral: bool = False,
        labels: bool = False,
    ) -> None:
        super().__init__(Blocks(neighbours, structure, spectral), labels)
        self.learning_rate = learning_rate
        self.num_leaves = num_leaves
        self.rounds = rounds
        self.column_share = column_share
        self.min_leaf = min_leaf
        self.booster: Any = None

    def learn(self, train: Rows, val: Rows, num_classes: int, metric: str, seed: int) -> None:
        import lightgbm

        binary = num_classes == 2
        log_loss = "binary_logloss" if binary else "multi_logloss"
        parameters = {
            "objective": "binary" if binary else "multiclass",
            "num_class": 1 if binary else num_classes,
            "metric": "auc" if metric == "roc-auc" and binary else log_loss,
            "learning_rate": self.learning_rate,
            "num_leaves": self.num_leaves,
            "feature_fraction": self.column_share,
            "min_data_in_leaf": min(self.min_leaf, max(1, int(LARGEST_LEAF * len(train.y)))),
            "seed": seed % 2**31,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": torch.get_num_threads(),
            "verbosity": -1,
        }
        weights = balanced_weights(train.y) if self.class_weight == "balanced" else None
        data = lightgbm.Dataset(
            train.x, train.y, weight=None if weights is None else weights[train.y], params=parameters
        )
        expected = max(1, self.rounds // 2)

        def end_in_time(state: Any) -> None:
            if must_end(min(1.0, (state.iteration + 1) / expected)):
                raise lightgbm.callback.EarlyStopException(state.iteration, state.evaluation_result_list or [])

        stopping: dict[str, Any] = {"callbacks": [end_in_time]}
        if len(val.y):
            val_weight = None if weights is None else weights[val.y]
            stopping["valid_sets"] = [lightgbm.Dataset(val.x, val.y, reference=data, weight=val_weight)]
            stopping["callbacks"] += [lightgbm.early_stopping(PATIENCE, verbose=False)]
        booster = lightgbm.train(parameters, data, self.rounds, **stopping)
        # The text has the chosen rounds only, and the same numbers as a model that is loaded later.
        self.booster = parse_booster(booster.model_to_string(num_iteration=booster.best_iteration))

    @property
    def choices(self) -> dict[str, str | float]:
        return {} if self.booster is None else {"rounds": self.booster.current_iteration()}

    def probabilities(self, x: Float[np.ndarray, "k w"]) -> Float[np.ndarray, "k m"]:
        found = self.booster.predict(x, num_threads=torch.get_num_threads())
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else np.asarray(found)

    def learned_state(self) -> dict[str, Tensor]:
        return {"booster": bytes_tensor(self.booster.model_to_string().encode())}

    def load_learned_state(self, state: Mapping[str, Tensor]) -> None:
        if "booster" not in state:
            raise DataError("The state has no trees.", "Restore the file or train the model again.")
        self.booster = parse_booster(tensor_bytes(state["booster"]).decode())

    def contributions(self, graph: Graph, nodes: Int[np.ndarray, " k"]) -> Contributions:
        """Return how much each column contributes to the logits of some nodes.

        Args:
            graph: The graph.
            nodes: The node numbers.

        Returns:
            The contributions, for all classes of the graph. Classes without training nodes have none, and a low
            expected logit.

        Raises:
            NlgnnError: If the model is not fitted.
            DataError: If the graph does not fit the model.
        """
        fitted = self.checked_fit(graph)
        table = neighbour_table(graph, self.blocks, fitted.plan)
        columns = table.columns + (table.label_columns(graph.class_names) if self.labels else ())
        values = np.zeros((len(nodes), fitted.num_classes, len(columns)))
        expected = np.full(fitted.num_classes, ABSENT)
        expected[fitted.classes] = 0
        if len(nodes) and len(fitted.classes) > 1:
            x = self.row_reader(table, fitted)(np.asarray(nodes))
            found = self.booster.predict(x, pred_contrib=True, num_threads=torch.get_num_threads())
            found = found.reshape(len(nodes), -1, len(columns) + 1)
            classes = fitted.classes[-found.shape[1] :]  # the second of two classes
            values[:, classes] = found[:, :, :-1]
            expected[classes] = found[0, :, -1]
        return Contributions(columns, values, expected)


def parse_booster(text: str) -> Any:
    """Return the LightGBM model of a text, whose checksum must be right: a damaged text can end the process."""
    import lightgbm

    try:
        return lightgbm.Booster(model_str=text)
    except lightgbm.basic.LightGBMError as error:
        what = f"LightGBM cannot read its model: {str(error).splitlines()[0]}"
        raise DataError(what, "Restore the file or train the model again.") from error
