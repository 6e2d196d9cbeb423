"""Audit of a graph and its splits: counts of irregularities, and warnings about them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.features import row_chunks
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits

IF_RARE = "With --class-weight balanced small classes count more in training."


@dataclass(frozen=True)
class Audit:
    """Counts of irregularities of a graph.

    Args:
        num_nodes: The number of nodes.
        isolated_nodes: The number of nodes without a neighbour other than themselves.
        self_loops: The number of nodes joined to themselves.
        duplicate_edges: The number of edges given again in the same direction.
        unlabelled_nodes: The number of nodes of unknown label.
        singleton_classes: The names of classes of one node.
        absent_classes: The names of classes without nodes.
        zero_feature_rows: The number of nodes whose features are all 0.
        duplicate_feature_rows: The number of nodes whose features equal those of another node.
        twin_nodes: The number of nodes with exactly the neighbours and the label of another node.
        num_splits: The number of splits that were examined.
        twin_leak: The share of test nodes with a twin in train, averaged over splits; None without splits.
        untrained_classes: The names of classes without training nodes in some split.
        unlabelled_in_splits: The number of nodes of unknown label in a part of some split.
        rare_classes: The names of classes with more than one node, but less than a tenth of the largest class.
    """

    num_nodes: int
    isolated_nodes: int
    self_loops: int
    duplicate_edges: int
    unlabelled_nodes: int
    singleton_classes: tuple[str, ...]
    absent_classes: tuple[str, ...]
    zero_feature_rows: int
    duplicate_feature_rows: int
    twin_nodes: int
    num_splits: int = 0
    twin_leak: float | None = None
    untrained_classes: tuple[str, ...] = ()
    unlabelled_in_splits: int = 0
    rare_classes: tuple[str, ...] = ()

    def warnings(self) -> list[str]:
        """Return one sentence per irregularity."""
        leak = self.twin_leak or 0.0
        singleton, absent, rare, untrained = map(
            listed, (self.singleton_classes, self.absent_classes, self.rare_classes, self.untrained_classes)
        )
        findings = {
            f"{_nodes(self.isolated_nodes)} without a neighbour: only features can help there.": self.isolated_nodes,
            f"{_nodes(self.self_loops)} joined to themselves: these loops are dropped.": self.self_loops,
            f"{self.duplicate_edges} repeated edges: each is counted once, and weights add up.": self.duplicate_edges,
            f"{_nodes(self.unlabelled_nodes)} without a label: left out of every figure.": self.unlabelled_nodes,
            f"Classes of a single node, which no split can both learn and test: {singleton}.": singleton,
            f"Classes without any node: {absent}.": absent,
            f"Classes with less than a tenth of the nodes of the largest: {rare}. {IF_RARE}": rare,
            f"{_nodes(self.zero_feature_rows)} with only zeros as features.": self.zero_feature_rows,
            f"{_nodes(self.duplicate_feature_rows)} with the features of another node: features alone cannot tell "
            "them apart.": self.duplicate_feature_rows,
            f"{_nodes(self.twin_nodes)} with exactly the neighbours and the label of another node.": self.twin_nodes,
            f"{leak:.0%} of test nodes have such a twin in train (mean over splits: {self.num_splits}): memorising it "
            "may be enough to classify them.": round(leak, 2),
            f"Classes that some split leaves without a training node: {untrained}.": untrained,
            f"{_nodes(self.unlabelled_in_splits)} without a label, yet in a split: remove them from it.": (
                self.unlabelled_in_splits
            ),
        }
        return [sentence for sentence, found in findings.items() if found]


def audit(graph: Graph, splits: str | Sequence[Split] = ()) -> Audit:
    """Count irregularities of a graph and its splits, in time linear in nodes and edges.

    Args:
        graph: The graph.
        splits: Splits, or the name of a protocol.

    Returns:
        The counts.

    Raises:
        DataError: If a split belongs to another graph.

    Example:
        >>> audit(Graph([[1], [1], [2]], [[0, 0], [1, 1]], [0, 1, -1])).duplicate_edges
        1
    """
    splits = make_splits(graph, splits) if isinstance(splits, str) else splits
    for split in splits:
        split.check_length(graph.num_nodes, f"graph {graph.name!r}, splits {split.protocol!r}, number {split.index}")
    source, target = graph.edge_index
    class_sizes = np.bincount(graph.y[graph.labelled], minlength=graph.num_classes)
    twins = twin_groups(graph)
    in_any_part = np.zeros(graph.num_nodes, bool)
    untrained = np.zeros(graph.num_classes, bool)
    for split in splits:
        in_any_part |= split.train | split.val | split.test
        trained = np.bincount(graph.y[split.train & graph.labelled], minlength=graph.num_classes) > 0
        untrained |= ~trained & (class_sizes > 0)
    return Audit(
        num_nodes=graph.num_nodes,
        isolated_nodes=int((np.diff(graph.undirected_adjacency.indptr) == 0).sum()),
        self_loops=len(np.unique(source[source == target])),
        duplicate_edges=len(source) - len(np.unique(source * graph.num_nodes + target)),
        unlabelled_nodes=int((~graph.labelled).sum()),
        singleton_classes=_class_names(graph, class_sizes == 1),
        absent_classes=_class_names(graph, class_sizes == 0),
        zero_feature_rows=_zero_feature_rows(graph),
        duplicate_feature_rows=int((_group_equal(_feature_rows(graph)) >= 0).sum()),
        twin_nodes=int((twins >= 0).sum()),
        num_splits=len(splits),
        twin_leak=float(np.mean([twin_leak(twins, split) for split in splits])) if splits else None,
        untrained_classes=_class_names(graph, untrained),
        unlabelled_in_splits=int((in_any_part & ~graph.labelled).sum()),
        rare_classes=_class_names(graph, are_rare(class_sizes)),
    )


def are_rare(class_sizes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the classes that a model may ignore in favour of the largest. Single nodes cannot be learned anyway."""
    rare: NDArray[np.bool_] = (class_sizes > 1) & (10 * class_sizes < class_sizes.max(initial=0))
    return rare


def twin_groups(graph: Graph) -> NDArray[np.int64]:
    """Return groups of nodes with exactly the same neighbours and label.

    Neighbours are those of the symmetrised graph without loops. Isolated and unlabelled nodes have no twin. Leaves of
    one hub with one label are twins too, so that a correct citation graph has many.

    Args:
        graph: The graph.

    Returns:
        The number of the group of each node, `[num_nodes]`; -1 for nodes without a twin.

    Example:
        >>> twin_groups(Graph([[1]] * 4, [[0, 1, 2], [3, 3, 3]], [0, 0, 1, 1])).tolist()
        [0, 0, -1, -1]
    """
    adjacency = graph.undirected_adjacency
    candidates = np.flatnonzero(graph.labelled & (np.diff(adjacency.indptr) > 0))
    neighbours = _rows(adjacency, adjacency.indices)
    groups = np.full(graph.num_nodes, -1)
    groups[candidates] = _group_equal((neighbours[node], int(graph.y[node])) for node in candidates)
    return groups


def twin_leak(twins: NDArray[np.int64], split: Split) -> float:
    """Return the share of test nodes with a twin among the training nodes."""
    test_twins = twins[split.test]
    leaking = (test_twins >= 0) & np.isin(test_twins, twins[split.train])
    return float(leaking.mean()) if len(test_twins) else 0.0


def _group_equal(keys: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return a number per distinct key; -1 for keys that occur once."""
    number_of: dict[Hashable, int] = {}
    groups = np.array([number_of.setdefault(key, len(number_of)) for key in keys], np.int64)
    groups[np.bincount(groups, minlength=1)[groups] == 1] = -1
    return groups


def _zero_feature_rows(graph: Graph) -> int:
    if isinstance(graph.x, sparse.csr_array):  # zeros are not stored
        return int((np.diff(graph.x.indptr) == 0).sum())
    return sum(int((~rows.any(axis=1)).sum()) for _, rows in row_chunks(graph.x))


def _feature_rows(graph: Graph) -> list[bytes]:
    """Return a hash of each feature row."""
    x = graph.x
    if isinstance(x, sparse.csr_array):
        columns, values = _rows(x, x.indices), _rows(x, x.data)
        return [a + b for a, b in zip(columns, values, strict=True)]
    # Adding 0 turns -0.0 into 0.0, which has other bytes.
    return [_digest(row + 0) for _, rows in row_chunks(x) for row in rows]


def _rows(matrix: sparse.csr_array, values: NDArray[Any]) -> list[bytes]:
    """Return a hash of each row of a CSR matrix, of its column numbers or of its data."""
    return [_digest(values[start:end]) for start, end in pairwise(matrix.indptr.tolist())]


def _digest(values: NDArray[Any]) -> bytes:
    # 128 bits: different rows do not collide in practice.
    return blake2b(values.tobytes(), digest_size=16).digest()


def _class_names(graph: Graph, chosen: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(graph.class_names[label] for label in np.flatnonzero(chosen))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def listed(names: Iterable[str]) -> str:
    """Return the first five names and the number of the others."""
    names = list(names)
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
