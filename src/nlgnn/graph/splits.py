"""Split: the training, validation and test nodes of a graph, and the protocols that draw them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError, OptionError, nearest

if TYPE_CHECKING:
    from nlgnn.graph.graph import Graph

MOST_RUNS = 10_000
# Tenths of every class for training and validation; the rest is for test.
RANDOM_PROTOCOLS = {"random-60": (6, 2), "random-10": (1, 1)}
TIME, GROUP = "time", "group"  # see nlgnn.graph.column_splits
VALIDATION_SHARE = 0.25  # of the labelled nodes in `learning_splits`, which have no test nodes; the others train
OWN_PROTOCOLS = (TIME, GROUP, "column")  # of users' tables, the first of which that a graph has is its default
FIXED_PROTOCOLS = ("geom-gcn", "heterophilous", "linkx", "ogb", *OWN_PROTOCOLS)


@dataclass(frozen=True, eq=False, init=False)
class Split:
    """A split of nodes into three disjoint boolean masks.

    Args:
        train: The mask of training nodes, `[num_nodes]`.
        val: The mask of validation nodes.
        test: The mask of test nodes.
        protocol: The name of the protocol of the split.
        index: The number of the split within its protocol.

    Raises:
        DataError: If the masks overlap or are not masks of equal length.

    Example:
        >>> Split([1, 0, 0], [0, 1, 0], [0, 0, 1]).train.tolist()
        [True, False, False]
    """

    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]
    protocol: str
    index: int

    # Written out because arguments are converted: any sequence of zeros and ones is a mask.
    def __init__(self, train: object, val: object, test: object, protocol: str = "column", index: int = 0) -> None:
        object.__setattr__(self, "protocol", protocol)  # the class is frozen
        object.__setattr__(self, "index", index)
        for part, values in [("train", train), ("val", val), ("test", test)]:
            mask = np.asarray(values)
            if mask.ndim != 1 or (mask.dtype != bool and not np.isin(mask, (0, 1)).all()):
                raise DataError(
                    f"split {index} of {protocol!r}: the {part} mask of shape {mask.shape} is not one 0 or 1 per node.",
                    "Give one Split per split, and use Split.from_indices for lists of node numbers.",
                )
            object.__setattr__(self, part, mask.astype(bool))
        lengths = sorted({len(self.train), len(self.val), len(self.test)})
        if len(lengths) > 1:
            what = f"split {index} of {protocol!r}: masks of different lengths {lengths}."
            raise DataError(what, "Give each mask one entry per node.")
        twice = np.flatnonzero(self.train.astype(int) + self.val + self.test > 1)
        if len(twice):
            raise DataError(
                f"split {index} of {protocol!r}: node {twice[0]} is in more than one part ({len(twice)} such nodes).",
                "Remove the node from all parts but one.",
            )

    @classmethod
    def from_indices(
        cls, num_nodes: int, train: object, val: object, test: object, protocol: str = "column", index: int = 0
    ) -> Split:
        """Return a split from lists of node numbers.

        Args:
            num_nodes: The number of nodes of the graph.
            train: The training nodes.
            val: The validation nodes.
            test: The test nodes.
            protocol: The name of the protocol of the split.
            index: The number of the split within its protocol.

        Returns:
            The split.

        Raises:
            DataError: If a list does not hold node numbers of this graph.

        Example:
            >>> Split.from_indices(4, [0], [1], [2, 3]).test.tolist()
            [False, False, True, True]
        """
        masks = np.zeros((3, num_nodes), bool)
        for mask, part, nodes in zip(masks, ("train", "val", "test"), (train, val, test), strict=True):
            numbers = np.asarray(nodes)
            if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
                raise DataError(
                    f"split {index} of {protocol!r}: the {part} list is of type {numbers.dtype} and shape "
                    f"{numbers.shape}.",
                    "Give node numbers; for masks use Split(train, val, test).",
                )
            outside = numbers[(numbers < 0) | (numbers >= num_nodes)]
            if len(outside):
                raise DataError(
                    f"split {index} of {protocol!r}: the {part} list names node {outside[0]}, "
                    f"but nodes are numbered 0 to {num_nodes - 1}.",
                    "Use a split of this graph: this one belongs to another graph or version.",
                )
            mask[numbers.astype(np.int64)] = True
        return cls(masks[0], masks[1], masks[2], protocol=protocol, index=index)

    def check_length(self, num_nodes: int, where: str) -> None:
        """Raise an error unless the split has one entry per node."""
        if len(self.train) != num_nodes:
            raise DataError(
                f"{where}: the split has {len(self.train)} entries, the graph {num_nodes} nodes.",
                "Use a split of this graph: this one belongs to another graph or version.",
            )


def random_split(y: NDArray[np.int64], protocol: str, index: int, seed: int = 0) -> Split:
    """Draw a stratified random split. Nodes of unknown label are in no part.

    Args:
        y: The labels, `[num_nodes]`.
        protocol: A name in `RANDOM_PROTOCOLS`, which gives the shares of training and validation nodes per class.
        index: The number of the split, which also seeds the draw.
        seed: The seed of all splits.

    Returns:
        The split.

    Raises:
        OptionError: If the protocol is unknown.

    Example:
        >>> random_split(np.array([0] * 10 + [1] * 10), "random-60", index=0).train.sum()
        np.int64(12)
    """
    if protocol not in RANDOM_PROTOCOLS:
        raise OptionError(f"{protocol!r} is not a random protocol.", nearest(protocol, list(RANDOM_PROTOCOLS)))
    train_tenths, val_tenths = RANDOM_PROTOCOLS[protocol]
    rng = np.random.default_rng([seed, index])
    masks = np.zeros((3, len(y)), bool)
    for label in range(int(y.max(initial=-1)) + 1):
        nodes = rng.permutation(np.flatnonzero(y == label))
        train_end = len(nodes) * train_tenths // 10
        val_end = len(nodes) * (train_tenths + val_tenths) // 10
        for mask, part in zip(masks, np.split(nodes, [train_end, val_end]), strict=True):
            mask[part] = True
    return Split(masks[0], masks[1], masks[2], protocol=protocol, index=index)


def make_splits(graph: Graph, protocol: str, runs: int | None = None, seed: int = 0) -> list[Split]:
    """Return one split per run.

    Random protocols draw a new split per run. Fixed protocols use the splits that came with the graph and start again
    when there are more runs than splits; such runs only differ in their seed.

    Args:
        graph: The graph.
        protocol: A name in `RANDOM_PROTOCOLS`, or a key of `graph.splits`.
        runs: The number of runs; by default ten of a random protocol, and one per split of a fixed protocol.
        seed: The seed of random protocols.

    Returns:
        The splits.

    Raises:
        OptionError: If the graph has no such splits.

    Example:
        >>> from nlgnn.datasets import load_graph
        >>> len(make_splits(load_graph("mushroom-body"), "random-60", runs=3))
        3
    """
    if runs is not None and runs < 1:
        raise OptionError(f"runs={runs} is not positive.", "Ask for at least one run.")
    if runs is not None and runs > MOST_RUNS:
        raise OptionError(f"runs={runs} is more than {MOST_RUNS:,}.", "Ask for fewer runs.")
    if protocol in RANDOM_PROTOCOLS:
        return [random_split(graph.y, protocol, index, seed) for index in range(10 if runs is None else runs)]
    check_protocol(protocol, graph.name, [name for name, splits in graph.splits.items() if splits])
    fixed = graph.splits[protocol]
    return [fixed[run % len(fixed)] for run in range(len(fixed) if runs is None else runs)]


def check_protocol(protocol: str, graph_name: str, fixed: Iterable[str]) -> None:
    """Raise an `OptionError` unless a protocol is random or one of the fixed protocols of the graph."""
    available = [*RANDOM_PROTOCOLS, *fixed]
    if protocol not in available:
        known = f"It has: {', '.join(available)}."
        raise OptionError(
            f"graph {graph_name!r} has no splits {protocol!r}.",
            known if protocol in FIXED_PROTOCOLS else nearest(protocol, available),
        )


def own_splits(graph: Graph) -> tuple[Split, ...]:
    """Return the splits that came with a user's tables; an empty tuple if there are none."""
    return next((graph.splits[protocol] for protocol in OWN_PROTOCOLS if protocol in graph.splits), ())


def learning_splits(graph: Graph, runs: int, seed: int) -> list[Split]:
    """Divide labelled nodes into training and validation nodes, stratified by class, differently for each run.

    The user's own splits (protocols time, group and column) are used as they are.

    Args:
        graph: The graph.
        runs: The number of splits.
        seed: The seed of the draw.

    Returns:
        One split per run, without test nodes unless it is one of the user's.

    Raises:
        DataError: If fewer than two classes have two labelled nodes.

    Example:
        >>> from nlgnn.datasets import load_graph
        >>> len(learning_splits(load_graph("mushroom-body"), runs=3, seed=0))
        3
    """
    from sklearn.model_selection import StratifiedShuffleSplit  # takes a second

    if fixed := own_splits(graph):
        return [fixed[run % len(fixed)] for run in range(runs)]
    nodes = np.flatnonzero(graph.labelled)
    sizes = np.bincount(graph.y[nodes], minlength=graph.num_classes)
    # The only node of a class goes to training: it cannot be in both parts.
    alone = np.isin(graph.y[nodes], np.flatnonzero(sizes == 1))
    drawn = nodes[~alone]
    if len(np.unique(graph.y[drawn])) < 2:
        raise DataError(f"graph {graph.name!r}: fewer than two classes have two labelled nodes.", "Label more nodes.")
    held_back = max(len(np.unique(graph.y[drawn])), round(VALIDATION_SHARE * len(drawn)))
    lots = StratifiedShuffleSplit(runs, test_size=held_back, random_state=seed).split(drawn, graph.y[drawn])
    return [
        Split.from_indices(
            graph.num_nodes, np.concatenate([drawn[train], nodes[alone]]), drawn[val], [], "column", index
        )
        for index, (train, val) in enumerate(lots)
    ]
