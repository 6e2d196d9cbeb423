r"""Forest: extra trees (scikit-learn) on a table of neighbour features, stored as arrays of tree nodes.

From Geurts, Ernst and Wehenkel, `"Extremely randomized trees" <https://doi.org/10.1007/s10994-006-6226-1>`_, Machine
Learning 2006. With the row :math:`t_v` of a node in the table and the class shares :math:`h_r(t)` of the training nodes
in the leaf that a row reaches in tree r of T,

.. math::
    p_v = \frac{1}{T} \sum_{r=1}^{T} h_r(t_v).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from nlgnn.errors import DataError
from nlgnn.nn.base import Count, checked
from nlgnn.shallow.base import Neighbours, balanced_weights, must_end
from nlgnn.shallow.neighbour_table import Blocks
from nlgnn.shallow.table_model import Rows, TableModel
from nlgnn.shallow.trees import PositiveShare

ROWS_AT_ONCE = 512  # rows of all trees that are followed together
LARGEST_SAMPLE = 100_000  # training nodes per tree
TREES_AT_ONCE = 25  # between two looks at the clock


class TreeNodes(NamedTuple):
    """The nodes of all trees.

    Args:
        roots: The root of each tree, `[trees]`.
        children: The left and right child of each node, `[nodes, 2]`; of a leaf, its row in `values` twice.
        feature: The column that a node compares, `[nodes]`; -1 for a leaf.
        threshold: Rows with at most this value go to the left child, `[nodes]`.
        values: The class shares of each leaf, `[leaves, classes]`.
    """

    roots: NDArray[np.int64]
    children: NDArray[np.int32]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    values: NDArray[np.float32]


class Forest(TableModel):
    """Extremely randomised trees (scikit-learn) on own columns, neighbours' columns and structure.

    With more than 100,000 training nodes each tree is fitted to a random sample of that size.

    Args:
        trees: Number of trees.
        column_share: Share of columns that are compared for each split of a tree.
        min_leaf: Smallest number of training nodes in a leaf.
        neighbours: Directions of neighbours' columns. With "none" no edge is read: the baseline without a graph.
        structure: Whether degrees, PageRank and clustering are columns.
        spectral: Whether spectral coordinates are columns. The model then knows nodes by their number.
        labels: Whether shares of training labels are columns. The model then knows nodes by their number.

    Example:
        >>> from nlgnn import load_graph, make_splits
        >>> graph = load_graph("mushroom-body")
        >>> Forest(trees=5).fit(graph, make_splits(graph, "random-60", runs=1)[0]).predict(graph).shape[1]
        4
    """

    @checked
    def __init__(
        self,
        trees: Count = 400,
        column_share: PositiveShare = 0.25,
        min_leaf: Count = 2,
        neighbours: Neighbours = "all",
        structure: bool = True,
        spectral: bool = False,
        labels: bool = False,
    ) -> None:
        super().__init__(Blocks(neighbours, structure, spectral), labels)
        self.trees = trees
        self.column_share = column_share
        self.min_leaf = min_leaf
        self.nodes: TreeNodes | None = None

    def learn(self, train: Rows, val: Rows, num_classes: int, metric: str, seed: int) -> None:
        from sklearn.ensemble import ExtraTreesClassifier

        large, class_weight = len(train.y) > LARGEST_SAMPLE, None
        if self.class_weight == "balanced":
            class_weight = dict(enumerate(balanced_weights(train.y)))
        forest = ExtraTreesClassifier(
            self.trees,
            max_features=self.column_share,
            min_samples_leaf=self.min_leaf,
            bootstrap=large,
            max_samples=LARGEST_SAMPLE if large else None,
            class_weight=class_weight,
            random_state=seed % 2**32,
            n_jobs=torch.get_num_threads(),
            warm_start=True,  # the same trees in several calls
        )
        for number in range(min(TREES_AT_ONCE, self.trees), self.trees + TREES_AT_ONCE, TREES_AT_ONCE):
            forest.set_params(n_estimators=min(number, self.trees)).fit(train.x, train.y)
            if must_end(len(forest.estimators_) / self.trees) or len(forest.estimators_) == self.trees:
                break
        self.nodes = tree_nodes([estimator.tree_ for estimator in forest.estimators_])

    def probabilities(self, x: Float[np.ndarray, "k w"]) -> Float[np.ndarray, "k m"]:
        assert self.nodes is not None
        chunks = [x[start : start + ROWS_AT_ONCE] for start in range(0, len(x), ROWS_AT_ONCE)]
        return np.concatenate([mean_leaf_values(self.nodes, chunk) for chunk in chunks])

    def learned_state(self) -> dict[str, Tensor]:
        assert self.nodes is not None
        return {name: torch.from_numpy(array) for name, array in self.nodes._asdict().items()}

    def load_learned_state(self, state: Mapping[str, Tensor]) -> None:
        if not set(TreeNodes._fields) <= set(state):
            raise DataError("The state has no trees.", "Restore the file or train the model again.")
        self.nodes = TreeNodes(*(state[name].cpu().numpy() for name in TreeNodes._fields))


def tree_nodes(trees: list[Any]) -> TreeNodes:
    """Return the nodes of scikit-learn's trees, numbered through."""
    counts = np.array([tree.node_count for tree in trees])
    roots = np.cumsum(counts) - counts
    left = np.concatenate([tree.children_left + root for tree, root in zip(trees, roots, strict=True)])
    right = np.concatenate([tree.children_right + root for tree, root in zip(trees, roots, strict=True)])
    leaf = np.concatenate([tree.children_left < 0 for tree in trees])
    left[leaf] = right[leaf] = np.arange(leaf.sum())
    feature = np.concatenate([tree.feature for tree in trees])
    values = np.concatenate([tree.value[tree.children_left < 0, 0] for tree in trees])
    return TreeNodes(
        roots=roots.astype(np.int64),
        children=np.stack([left, right], axis=1).astype(np.int32),
        feature=np.where(leaf, -1, feature).astype(np.int32),
        threshold=round_down(np.concatenate([tree.threshold for tree in trees])),
        values=(values / values.sum(axis=1, keepdims=True)).astype(np.float32),
    )


def round_down(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the largest float32 up to each number, with which float32 values compare in the same way."""
    rounded = numbers.astype(np.float32)
    return np.where(rounded > numbers, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def mean_leaf_values(nodes: TreeNodes, x: Float[np.ndarray, "k w"]) -> Float[np.ndarray, "k m"]:
    """Return the mean over trees of the class shares in the leaf of each row.

    All rows go down all trees together, one level at a time, until all are in leaves.
    """
    place = np.tile(nodes.roots, len(x))
    row = np.repeat(np.arange(len(x)), len(nodes.roots))
    moving = np.flatnonzero(nodes.feature[place] >= 0)
    while len(moving):
        here = place[moving]
        is_right = x[row[moving], nodes.feature[here]] > nodes.threshold[here]
        place[moving] = nodes.children[here, is_right.astype(np.int8)]
        moving = moving[nodes.feature[place[moving]] >= 0]
    leaves = nodes.values[nodes.children[place, 0]]
    return np.asarray(leaves.reshape(len(x), len(nodes.roots), -1).mean(axis=1, dtype=np.float64))
