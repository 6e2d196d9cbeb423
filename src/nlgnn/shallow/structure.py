"""Structural columns: degrees, PageRank and clustering of each node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.shallow.neighbour_statistics import edge_chunks, neighbour_means
from nlgnn.tables.structural import log_degree, sampled_clustering

EXACT_PATHS = 10**9  # with more paths of two edges, the clustering is estimated from random pairs of neighbours
PATHS_AT_ONCE = 1 << 23
PAGERANK_STEPS, DAMPING = 30, 0.85


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


def clustering(adjacency: sparse.csr_array) -> NDArray[np.float64]:
    """Return the share of pairs of neighbours that are linked; 0 with fewer than two neighbours.

    Edges are directed from the smaller to the larger degree. No node then has many out-edges, which keeps the number of
    paths of two edges low. A triangle u → v, v → w, u → w is counted at u by the first product, and at v and w by
    the second.
    """
    degree = np.diff(adjacency.indptr).astype(np.int64)
    order = np.argsort(degree, kind="stable")
    upper = sparse.csr_array(sparse.triu(adjacency[order][:, order], format="csr"))
    lower = sparse.csr_array(upper.T)
    num_out = np.diff(upper.indptr).astype(np.int64)
    paths = np.concatenate([[0], np.cumsum(num_out[upper.indices])])[upper.indptr]
    paths += np.concatenate([[0], np.cumsum(num_out[lower.indices])])[lower.indptr]
    if paths[-1] > EXACT_PATHS:
        return sampled_clustering(adjacency)
    triangles = np.zeros(len(degree))
    for start, stop in edge_chunks(paths, PATHS_AT_ONCE):
        rows = upper[start:stop]
        triangles[start:stop] += (rows @ upper).multiply(rows).sum(axis=1)
        closed = (lower[start:stop] @ upper).multiply(rows)
        triangles[start:stop] += closed.sum(axis=1)
        triangles += closed.sum(axis=0)
    shares = np.empty(len(degree))
    shares[order] = triangles
    return np.asarray(2 * shares / np.maximum(degree * (degree - 1), 1))
