"""Structural columns: degrees, PageRank, clustering and spectral coordinates of each node."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.descriptions import unit_rows, weighted_columns
from nlgnn.shallow.neighbour_statistics import neighbour_means
from nlgnn.shallow.truncated_svd import project, right_singular_vectors
from nlgnn.tables.structural import clustering, log_degree

PAGERANK_STEPS, DAMPING = 30, 0.85
SPECTRAL_COMPONENTS = 32


def structure_columns(
    undirected: sparse.csr_array, outgoing: sparse.csr_array | None = None, incoming: sparse.csr_array | None = None
) -> dict[str, NDArray[np.float32]]:
    """Return structural columns by name.

    Args:
        undirected: The 0/1 matrix of the edges in both directions, without loops.
        outgoing: The matrix of the edges, for graphs with directions; rows are sources.
        incoming: Its transpose.
    """
    degree = log_degree(undirected).astype(np.float32)
    near = neighbour_means(undirected, degree[:, None])
    columns = {
        "log degree": degree,
        "mean log degree of neighbours": near[:, 0],
        "mean log degree at two hops": neighbour_means(undirected, near)[:, 0],
        "log PageRank": log_pagerank(undirected),
        "clustering": clustering(undirected),
    }
    if outgoing is not None and incoming is not None:
        columns["log out-degree"] = log_degree(outgoing)
        columns["log in-degree"] = log_degree(incoming)
        columns["log PageRank along edges"] = log_pagerank(outgoing, incoming)
    return {name: column.astype(np.float32) for name, column in columns.items()}


def log_pagerank(outgoing: sparse.csr_array, incoming: sparse.csr_array | None = None) -> NDArray[np.float64]:
    """Return the logarithm of n times the PageRank, after a fixed number of steps.

    Nodes without out-neighbours pass nothing on, which differs from the usual definition by a common factor only.

    Args:
        outgoing: The 0/1 matrix of the edges, rows are sources.
        incoming: Its transpose; not needed if the matrix is symmetric.
    """
    incoming = outgoing if incoming is None else incoming
    degree = np.maximum(np.diff(outgoing.indptr), 1)
    rank = np.ones(outgoing.shape[0])
    for _ in range(PAGERANK_STEPS):
        rank = (1 - DAMPING) + DAMPING * (incoming @ (rank / degree))
    return np.log(rank)


def spectral_coordinates(directions: dict[str, sparse.csr_array]) -> Float[np.ndarray, "n s"]:
    """Return left singular vectors, times singular values, of adjacency rows of unit length, for each direction.

    Entries of the adjacency matrix are divided by the square root of their column sums before.
    """
    parts = []
    for matrix in directions.values():
        rows = unit_rows(weighted_columns(matrix))
        parts.append(project(rows, right_singular_vectors(rows, SPECTRAL_COMPONENTS)))
    return np.concatenate(parts, axis=1)
