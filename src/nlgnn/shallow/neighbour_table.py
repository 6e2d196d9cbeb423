"""NeighbourTable: own columns, neighbours' columns, structure and label shares, one row per node."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.errors import DataError, NlgnnWarning
from nlgnn.graph.descriptions import adjacency, has_direction, relation_adjacency
from nlgnn.graph.features import FeaturesOnDisk, row_chunks
from nlgnn.graph.graph import Graph
from nlgnn.shallow.base import Column, Group, Neighbours
from nlgnn.shallow.neighbour_statistics import (
    STATISTICS,
    label_names,
    label_shares,
    neighbour_means,
    neighbour_spreads,
)
from nlgnn.shallow.structure import SPECTRAL_COMPONENTS, spectral_coordinates, structure_columns
from nlgnn.shallow.truncated_svd import project, right_singular_vectors

TABLES_PER_GRAPH = 2
COMPONENTS = 64  # singular components that replace a bag of words
BAG_OF_WORDS_SHARE = 0.1  # dense features with fewer values other than 0 are treated as sparse ones
LARGEST_TABLE = 4 * 2**30  # bytes


@dataclass(frozen=True)
class Blocks:
    """The parts of a table, apart from label columns.

    Args:
        neighbours: The directions in which neighbours' columns are averaged. "all" takes out-neighbours, in-neighbours
            and both together if the graph has directions; "undirected" takes both together. With "none" no edge is
            read, and the table has own columns only, whatever the other arguments are.
        structure: Whether degrees, PageRank and clustering are columns.
        spectral: Whether spectral coordinates are columns.
    """

    neighbours: Neighbours = "all"
    structure: bool = True
    spectral: bool = False


@dataclass(frozen=True, eq=False)
class TablePlan:
    """Everything that a table of another graph must have in common with the first one.

    Args:
        num_features: The number of feature columns of the graph.
        by_direction: Whether out-neighbours and in-neighbours have columns of their own.
        spreads: Whether standard deviation, minimum and maximum over neighbours are columns.
        components: The right singular vectors of feature rows of unit length, `[num_features, k]`; None if feature
            columns are used as they are.
        spectral: The spectral coordinates of each node, `[n, s]`; None without this block.
        edge_types: The types of edges over which neighbours have columns of their own.
    """

    num_features: int
    by_direction: bool
    spreads: bool
    components: Float[np.ndarray, "d k"] | None = None
    spectral: Float[np.ndarray, "n s"] | None = None
    edge_types: tuple[str, ...] = ()

    def equals(self, other: TablePlan) -> bool:
        """Return whether both plans give the same table, as the plans of several runs on one graph do."""
        return all(np.array_equal(value, vars(other)[name]) for name, value in vars(self).items())


@dataclass(frozen=True, eq=False)
class NeighbourTable:
    """A table of neighbour features, and the matrices from which label columns of a split are made.

    `neighbour_table` makes one and keeps it for the next split. The table does not refer to its graph.

    Args:
        plan: What the columns depend on, apart from the graph.
        columns: The columns, without label columns.
        values: The table, `[n, w]`.
        directions: The adjacency matrices by direction.
    """

    plan: TablePlan
    columns: tuple[Column, ...]
    values: Float[np.ndarray, "n w"]
    directions: dict[str, sparse.csr_array] = field(repr=False)

    def label_shares(self, known: Int[np.ndarray, " n"], num_classes: int) -> Float[np.ndarray, "n k"]:
        """Return the shares of training labels around each node; `known` is -1 for all nodes but training nodes."""
        return label_shares(self.directions, known, num_classes)

    def label_columns(self, class_names: Sequence[str]) -> tuple[Column, ...]:
        """Return the columns of `label_shares`."""
        return tuple(Column(name, "labels") for name in label_names(self.directions, class_names))


_tables: WeakKeyDictionary[Graph, list[tuple[Blocks, NeighbourTable]]] = WeakKeyDictionary()


def neighbour_table(graph: Graph, blocks: Blocks, plan: TablePlan | None = None) -> NeighbourTable:
    """Return the table of a graph. The last tables of each graph are kept, because they are the same for all splits.

    Bags of words (sparse features of more than 64 columns) are replaced by their first 64 singular components.
    Neighbours' columns are means over one and two hops, and over one hop by each type of edges, and for other features
    also standard deviation, minimum and maximum over one hop. Values of nodes without neighbours are 0. A table of more
    than 4 GiB is reduced, with a warning.

    Args:
        graph: The graph.
        blocks: The parts of the table.
        plan: The plan of an earlier table, whose columns the new one shall have; by default one that suits the graph.

    Returns:
        The table.

    Raises:
        DataError: If the graph does not fit the plan.

    Example:
        >>> table = neighbour_table(Graph([[1], [3]], [[0], [1]], [0, 1]), Blocks(structure=False))
        >>> [column.name() for column in table.columns][:2]
        ['feature 0', 'mean of feature 0 over neighbours']
        >>> table.values[:, :2].tolist()
        [[1.0, 3.0], [3.0, 1.0]]
    """
    kept = _tables.get(graph, [])
    for of_blocks, table in kept:
        if of_blocks == blocks and (plan is None or plan.equals(table.plan)):
            return table
    if plan is None:
        plan = make_plan(graph, blocks)
    else:
        check_plan(graph, plan)
    table = fill_table(graph, blocks, plan)
    _tables[graph] = [(blocks, table), *kept][:TABLES_PER_GRAPH]
    return table


def make_plan(graph: Graph, blocks: Blocks) -> TablePlan:
    """Return the plan of a table that suits a graph, reduced with a warning if the table would be too large."""
    edges = blocks.neighbours != "none"
    by_direction = blocks.neighbours == "all" and has_direction(graph)
    rank = min(COMPONENTS, graph.num_nodes) if is_bag_of_words(graph) else None
    spreads = edges and rank is None
    if spreads and table_bytes(graph, blocks, by_direction, spreads, rank) > LARGEST_TABLE:
        spreads = False
        warn_reduced(graph, "Standard deviation, minimum and maximum over neighbours are left out.")
    if table_bytes(graph, blocks, by_direction, spreads, rank) > LARGEST_TABLE:
        rank = min(rank or graph.num_features, COMPONENTS)
        while rank > 1 and table_bytes(graph, blocks, by_direction, spreads, rank) > LARGEST_TABLE:
            rank //= 2
        warn_reduced(graph, f"The {graph.num_features} feature columns are replaced by {rank} singular components.")
    if rank is not None:  # singular components cannot be computed from missing values
        graph.require_features(f"or keep at most {COMPONENTS} columns, which trees use as they are.")
    return TablePlan(
        num_features=graph.num_features,
        by_direction=by_direction,
        spreads=spreads,
        components=None if rank is None else right_singular_vectors(graph.scale_features("unit-l2").x, rank),
        spectral=spectral_coordinates(directions_of(graph, by_direction)) if edges and blocks.spectral else None,
        edge_types=graph.edge_types if edges else (),
    )


def warn_reduced(graph: Graph, how: str) -> None:
    """Warn that a table has fewer columns than usual."""
    size = f"{LARGEST_TABLE / 2**30:.3g} GiB"
    text = f"The table of neighbour features of graph {graph.name!r} would have more than {size}. {how}"
    warnings.warn(text, NlgnnWarning, stacklevel=2)


def table_bytes(graph: Graph, blocks: Blocks, by_direction: bool, spreads: bool, rank: int | None) -> int:
    """Return the size of a table, without structural and label columns, which are few."""
    own = graph.num_features if rank is None else rank
    directions = 0 if blocks.neighbours == "none" else 3 if by_direction else 1
    relations = len(graph.edge_types) * (0 if blocks.neighbours == "none" else 2 if by_direction else 1)
    columns = (
        own * (1 + relations + directions * (5 if spreads else 2)) + blocks.spectral * SPECTRAL_COMPONENTS * directions
    )
    return 4 * columns * graph.num_nodes


def directions_of(graph: Graph, by_direction: bool) -> dict[str, sparse.csr_array]:
    """Return the 0/1 matrices of neighbours by direction, as `adjacency` names directions."""
    return {direction: adjacency(graph, direction) for direction in (("out-", "in-", "") if by_direction else ("",))}


def relations_of(graph: Graph, plan: TablePlan) -> dict[str, sparse.csr_array]:
    """Return the 0/1 matrices of neighbours by type of edges, under names such as "out-neighbours by `call`"."""
    directions = ("out-", "in-") if plan.by_direction else ("",)
    return {
        f"{direction}neighbours by `{edge_type}`": relation_adjacency(graph, edge_type, direction)
        for edge_type in plan.edge_types
        for direction in directions
    }


def is_bag_of_words(graph: Graph) -> bool:
    """Return whether features are wide and sparse."""
    if graph.num_features <= COMPONENTS:
        return False
    if isinstance(graph.x, sparse.csr_array):
        return True
    filled = sum(int(np.count_nonzero(rows)) for _, rows in row_chunks(graph.x))
    return filled < BAG_OF_WORDS_SHARE * graph.x.size


def check_plan(graph: Graph, plan: TablePlan) -> None:
    """Raise an error if a graph does not fit the plan of a fitted model."""
    if plan.num_features != graph.num_features:
        raise DataError(
            f"graph {graph.name!r} has {graph.num_features} feature columns, but the model was fitted to "
            f"{plan.num_features}.",
            "Encode the features as for training.",
        )
    if plan.spectral is not None and len(plan.spectral) != graph.num_nodes:
        raise DataError(
            f"graph {graph.name!r} has {graph.num_nodes} nodes, but the model knows {len(plan.spectral)} nodes by "
            "their number.",
            "Predict for the graph of the training, or train without spectral coordinates.",
        )


def own_features(graph: Graph, plan: TablePlan) -> Float[np.ndarray, "n d"]:
    """Return the own columns of a plan."""
    if plan.components is not None:
        return project(graph.scale_features("unit-l2").x, plan.components)
    if not isinstance(graph.x, FeaturesOnDisk):
        return graph.dense_features()
    features = np.empty(graph.x.shape, np.float32)
    for start, rows in row_chunks(graph.x):
        features[start : start + len(rows)] = rows
    return features


def fill_table(graph: Graph, blocks: Blocks, plan: TablePlan) -> NeighbourTable:
    """Return the table of a graph by a plan. The array is allocated once and filled block by block."""
    directions = {} if blocks.neighbours == "none" else directions_of(graph, plan.by_direction)
    structural: dict[str, NDArray[np.float32]] = {}
    if directions and blocks.structure:
        structural = structure_columns(directions[""], directions.get("out-"), directions.get("in-"))
    relations = relations_of(graph, plan)
    for name, matrix in relations.items() if blocks.structure else ():
        structural[f"log number of {name}"] = np.log1p(np.diff(matrix.indptr), dtype=np.float32)
    own = own_features(graph, plan)
    width = own.shape[1]
    columns = table_columns(plan, width, list(directions), list(structural), list(relations))
    values = np.zeros((graph.num_nodes, len(columns)), np.float32)
    values[:, :width] = own
    place = width
    for matrix in directions.values():
        means = neighbour_means(matrix, own)
        values[:, place : place + width] = means
        place += width
        if plan.spreads:
            for nodes, spreads in neighbour_spreads(matrix, own, means):
                values[nodes, place : place + 3 * width] = np.concatenate(list(spreads), axis=1)
            place += 3 * width
        values[:, place : place + width] = neighbour_means(matrix, means)
        place += width
    for matrix in relations.values():
        values[:, place : place + width] = neighbour_means(matrix, own)
        place += width
    for column in structural.values():
        values[:, place] = column
        place += 1
    if plan.spectral is not None:
        values[:, place:] = plan.spectral
    return NeighbourTable(plan, columns, values, directions)


def table_columns(
    plan: TablePlan, width: int, directions: Sequence[str], structural: Sequence[str], relations: Sequence[str] = ()
) -> tuple[Column, ...]:
    """Return the columns of a table in their order.

    Args:
        plan: The plan.
        width: The number of own columns.
        directions: The names of the directions.
        structural: The names of the structural columns.
        relations: The names of neighbours by type of edges.
    """
    texts = ["{}"]
    for direction in directions:
        around = f"{direction}neighbours"
        statistics = STATISTICS if plan.spreads else STATISTICS[:1]
        texts += [f"{statistic} of {{}} over {around}" for statistic in statistics]
        texts.append(f"mean of {{}} over {around} of {around}")
    texts += [f"mean of {{}} over {name}" for name in relations]
    columns = []
    for text in texts:
        group: Group = "own columns" if text == "{}" else "neighbours' columns"
        for number in range(width):
            if plan.components is None:
                columns.append(Column(text, group, number))
            else:
                columns.append(Column(text.replace("{}", f"component {number} of the features"), group))
    columns += [Column(name, "structure") for name in structural]
    num_spectral = 0 if plan.spectral is None else plan.spectral.shape[1]
    columns += [Column(f"spectral coordinate {number}", "structure") for number in range(num_spectral)]
    return tuple(columns)
