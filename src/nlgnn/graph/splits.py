"""Split: which nodes train, which validate, which test. And the named protocols that draw them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import DataError, OptionError, nearest

if TYPE_CHECKING:
    from nlgnn.graph.graph import Graph

# Tenths of every class that go to train and to validation; the rest, leftovers included, goes to test.
RANDOM_PROTOCOLS = {"random-60": (6, 2), "random-10": (1, 1)}
FIXED_PROTOCOLS = ("geom-gcn", "heterophilous", "linkx", "ogb", "column")


@dataclass(frozen=True, eq=False, init=False)
class Split:
    """Three disjoint boolean masks over the nodes, and where they come from."""

    train: NDArray[np.bool_]
    val: NDArray[np.bool_]
    test: NDArray[np.bool_]
    protocol: str
    index: int

    # Written out, because it takes more than it stores: any sequence of zeros and ones is a mask.
    def __init__(self, train: object, val: object, test: object, protocol: str = "column", index: int = 0) -> None:
        object.__setattr__(self, "protocol", protocol)  # the class is frozen
        object.__setattr__(self, "index", index)
        for part, values in [("train", train), ("val", val), ("test", test)]:
            mask = np.asarray(values)
            if mask.dtype != bool and not np.isin(mask, (0, 1)).all():
                raise DataError(
                    f"split {self.index} of {self.protocol!r}: the {part} mask holds values other than 0 and 1.",
                    "A mask has one entry a node; for lists of node numbers use Split.from_indices.",
                )
            if mask.ndim != 1:
                raise DataError(
                    f"split {self.index} of {self.protocol!r}: the {part} mask has shape {mask.shape}.",
                    "A mask is [num_nodes]; several splits are several Split objects.",
                )
            object.__setattr__(self, part, mask.astype(bool))
        lengths = {len(self.train), len(self.val), len(self.test)}
        if len(lengths) > 1:
            raise DataError(
                f"split {self.index} of {self.protocol!r}: masks of different lengths {sorted(lengths)}.",
                "Each mask needs one entry a node.",
            )
        twice = np.flatnonzero(self.train.astype(int) + self.val + self.test > 1)
        if len(twice):
            raise DataError(
                f"split {self.index} of {self.protocol!r}: node {twice[0]} is in more than one part "
                f"({len(twice)} such nodes).",
                "Train, validation and test must not overlap.",
            )

    @classmethod
    def from_indices(
        cls, num_nodes: int, train: object, val: object, test: object, protocol: str = "column", index: int = 0
    ) -> Split:
        """Masks from lists of node numbers."""
        masks = np.zeros((3, num_nodes), bool)
        for mask, part, nodes in zip(masks, ("train", "val", "test"), (train, val, test), strict=True):
            numbers = np.asarray(nodes)
            if numbers.size and numbers.dtype.kind not in "iu":
                raise DataError(
                    f"split {index} of {protocol!r}: the {part} list is of type {numbers.dtype}.",
                    "Give node numbers; for masks use Split(train, val, test).",
                )
            outside = numbers[(numbers < 0) | (numbers >= num_nodes)]
            if len(outside):
                raise DataError(
                    f"split {index} of {protocol!r}: the {part} list names node {outside[0]}, "
                    f"but nodes are numbered 0 to {num_nodes - 1}.",
                    "The split belongs to another graph, or to another version of this one.",
                )
            mask[numbers.astype(np.int64)] = True
        return cls(masks[0], masks[1], masks[2], protocol=protocol, index=index)

    def check_length(self, num_nodes: int, where: str) -> None:
        if len(self.train) != num_nodes:
            raise DataError(
                f"{where}: the split has {len(self.train)} entries, the graph {num_nodes} nodes.",
                "The split belongs to another graph, or to another version of this one.",
            )


def random_split(y: NDArray[np.int64], protocol: str, index: int, seed: int = 0) -> Split:
    """Per class: a random permutation, then the protocol's share to train, to validation, and the rest to test.

    Nodes of unknown label are in no part.
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
    """One split a run.

    Random protocols draw a new one for each run (ten by default). Fixed ones go through the splits that came with
    the graph (all of them by default) and start again when there are more runs than splits: those runs differ in
    their seed only.
    """
    if runs is not None and runs < 1:
        raise OptionError(f"runs={runs}.", "Ask for at least one run.")
    if protocol in RANDOM_PROTOCOLS:
        return [random_split(graph.y, protocol, index, seed) for index in range(10 if runs is None else runs)]
    available = list(RANDOM_PROTOCOLS) + list(graph.splits)
    if not graph.splits.get(protocol):
        raise OptionError(
            f"graph {graph.name!r} has no splits {protocol!r}.",
            nearest(protocol, available) if protocol not in FIXED_PROTOCOLS else f"It has: {', '.join(available)}.",
        )
    fixed = graph.splits[protocol]
    return [fixed[run % len(fixed)] for run in range(len(fixed) if runs is None else runs)]
