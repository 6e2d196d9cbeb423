"""Structural columns: degrees, PageRank and clustering of each node."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.shallow.neighbour_statistics import edge_chunks, neighbour_means
from nlgnn.tables.structural import log_degree, sampled_clustering

# Above this many nodes, or pairs of neighbours, the clustering is estimated from random pairs.
EXACT_NODES, EXACT_PAIRS = 100_000, 10**9
PAIRS_AT_ONCE = 1 << 20
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

    Each edge is directed from the smaller to the larger degree. Every triangle then has one node with two out-edges to
    the others, and no node has many out-edges, which keeps the number of tested pairs low.
    """
    n = adjacency.shape[0]
    degree = np.diff(adjacency.indptr).astype(np.int64)
    order = np.argsort(degree, kind="stable")
    sorted_matrix = adjacency[order][:, order].tocsr()
    upper = sparse.csr_array(sparse.triu(sorted_matrix, format="csr"))
    outgoing = np.diff(upper.indptr).astype(np.int64)
    pairs = outgoing[upper.indices]  # per edge (u, v), the out-neighbours of v are tested
    if n > EXACT_NODES or pairs.sum() > EXACT_PAIRS:
        return sampled_clustering(adjacency)
    triangles = np.zeros(n)
    sources = np.repeat(np.arange(n), outgoing)
    # A row of `linked` has n bytes, and a pair takes about 64 bytes: chunks have a fixed size.
    cost = np.concatenate([[0], np.cumsum(pairs)])[upper.indptr] + np.arange(n + 1) * (n // 64)
    for start, stop in edge_chunks(cost, PAIRS_AT_ONCE):
        edges = slice(upper.indptr[start], upper.indptr[stop])
        linked = np.zeros((stop - start, n), bool)
        linked[sources[edges] - start, upper.indices[edges]] = True
        first, second, count = sources[edges], upper.indices[edges], pairs[edges]
        place = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count - upper.indptr[second], count)
        third = upper.indices[place]
        closed = linked[np.repeat(first - start, count), third]
        triangles += np.bincount(third[closed], minlength=n)
        for ends in (first, second):
            triangles += np.bincount(np.repeat(ends, count)[closed], minlength=n)
    shares = np.zeros(n)
    shares[order] = 2 * triangles / np.maximum(degree * (degree - 1), 1)[order]
    return shares
