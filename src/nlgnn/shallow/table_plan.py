"""Blocks and TablePlan: which columns a table of neighbour features has, and what they are made from."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy import sparse

from nlgnn.errors import DataError, NlgnnWarning
from nlgnn.graph.descriptions import adjacency, has_direction, unit_rows, weighted_columns
from nlgnn.graph.features import row_chunks
from nlgnn.graph.graph import Graph
from nlgnn.shallow.base import Neighbours
from nlgnn.shallow.truncated_svd import project, right_singular_vectors

COMPONENTS, SPECTRAL_COMPONENTS = 64, 32
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
    """

    num_features: int
    by_direction: bool
    spreads: bool
    components: Float[np.ndarray, "d k"] | None = None
    spectral: Float[np.ndarray, "n s"] | None = None


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
    if rank is not None and graph.has_missing_features:
        raise DataError(
            f"graph {graph.name!r} has missing values in {graph.num_features} feature columns, which are too many to "
            "use as they are.",
            "Fill missing values, such as by 0, or keep fewer columns.",
        )
    return TablePlan(
        num_features=graph.num_features,
        by_direction=by_direction,
        spreads=spreads,
        components=None if rank is None else right_singular_vectors(graph.scale_features("unit-l2").x, rank),
        spectral=spectral_coordinates(directions_of(graph, by_direction)) if edges and blocks.spectral else None,
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
    columns = own * (1 + directions * (5 if spreads else 2)) + blocks.spectral * SPECTRAL_COMPONENTS * directions
    return 4 * columns * graph.num_nodes


def directions_of(graph: Graph, by_direction: bool) -> dict[str, sparse.csr_array]:
    """Return the 0/1 matrices of neighbours by direction, as `adjacency` names directions."""
    return {direction: adjacency(graph, direction) for direction in (("out-", "in-", "") if by_direction else ("",))}


def is_bag_of_words(graph: Graph) -> bool:
    """Return whether features are wide and sparse."""
    if graph.num_features <= COMPONENTS:
        return False
    if isinstance(graph.x, sparse.csr_array):
        return True
    filled = sum(int(np.count_nonzero(rows)) for _, rows in row_chunks(graph.x))
    return filled < BAG_OF_WORDS_SHARE * graph.x.size


def spectral_coordinates(directions: dict[str, sparse.csr_array]) -> Float[np.ndarray, "n s"]:
    """Return left singular vectors, times singular values, of adjacency rows of unit length, for each direction.

    Entries of the adjacency matrix are divided by the square root of their column sums before.
    """
    parts = []
    for matrix in directions.values():
        rows = unit_rows(weighted_columns(matrix))
        parts.append(project(rows, right_singular_vectors(rows, SPECTRAL_COMPONENTS)))
    return np.concatenate(parts, axis=1)
