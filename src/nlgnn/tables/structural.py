"""Structural features for nodes without features: degree, clustering and return probabilities of random walks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import sparse

from nlgnn.graph.graph import Graph

STEPS = range(2, 9)  # without loops, no walk is back after one step
# Above this many nodes, or multiplications, probabilities and triangles are estimated from random draws.
EXACT_NODES, EXACT_PRODUCTS = 20_000, 2 * 10**9
EXACT_PATHS = 10**9  # with more paths of two edges, the clustering is estimated from random pairs of neighbours
PATHS_AT_ONCE = 1 << 23
SAMPLED_PAIRS = 16
WALKS = (8, 64)  # least and greatest number per node
WALK_STEPS = 10**8  # in total; bounds the time
ROWS_AT_ONCE = 512
DENSE_FROM = 0.05  # share of entries from which dense products are faster


def structural_table(graph: Graph) -> tuple[pl.DataFrame, str]:
    """Return structural features, one row per node, and a sentence about them.

    Edges count in both directions, except for in-degrees and out-degrees of directed graphs; weights are ignored.
    """
    adjacency = graph.undirected_adjacency
    n, num_links = adjacency.shape[0], adjacency.nnz
    columns = {"log degree": log_degree(adjacency)}
    if graph.directed:
        columns = {
            "log out-degree": log_degree(graph.directed_adjacency),
            "log in-degree": log_degree(graph.directed_adjacency.T.tocsr()),
        }
    exact = n <= EXACT_NODES and n * num_links <= EXACT_PRODUCTS
    returns = exact_returns if exact else walked_returns
    columns["clustering"] = clustering(adjacency) if exact else sampled_clustering(adjacency)
    columns |= {f"return after {step} steps": chance for step, chance in returns(adjacency).items()}
    how = "exactly" if exact else "estimated from random draws, because the graph is large"
    sentence = (
        "Features were made from the links: degree, clustering, and the chance that a random walk is back after "
        f"{STEPS[0]} to {STEPS[-1]} steps ({how})."
    )
    return pl.DataFrame(columns), sentence


def log_degree(adjacency: sparse.csr_array) -> NDArray[np.float64]:
    """Return log(1 + degree)."""
    degree: NDArray[np.int64] = np.diff(adjacency.indptr).astype(np.int64)
    return np.log1p(degree)


def clustering(adjacency: sparse.csr_array) -> NDArray[np.float64]:
    """Return the share of pairs of neighbours that are linked; 0 with fewer than two neighbours.

    Edges are directed from the smaller to the larger degree. No node then has many out-edges, which keeps the number of
    paths of two edges low. A triangle u → v, v → w, u → w is counted at u by the first product, and at v and w by the
    second. With very many paths, the clustering is estimated.
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


def edge_chunks(indptr: NDArray[np.integer], edges_at_once: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with about a given number of entries each; a longer row is a range of its own."""
    start, last = 0, len(indptr) - 1
    while start < last:
        stop = int(np.searchsorted(indptr, indptr[start] + edges_at_once, side="right")) - 1
        stop = min(max(stop, start + 1), last)
        yield start, stop
        start = stop


def sampled_clustering(adjacency: sparse.csr_array) -> NDArray[np.float64]:
    """Estimate the clustering from random pairs of neighbours of each node."""
    rng = np.random.default_rng(0)
    n = adjacency.shape[0]
    degree = np.diff(adjacency.indptr).astype(np.int64)
    nodes = np.flatnonzero(degree > 1)
    start, degree = adjacency.indptr[nodes].astype(np.int64), degree[nodes]
    closed = np.zeros(len(nodes))
    for _ in range(SAMPLED_PAIRS):
        first = rng.integers(degree)
        second = (first + 1 + rng.integers(degree - 1)) % degree  # any but the first
        closed += adjacency[adjacency.indices[start + first], adjacency.indices[start + second]]
    clustering = np.zeros(n)
    clustering[nodes] = closed / SAMPLED_PAIRS
    return clustering


def exact_returns(adjacency: sparse.csr_array) -> dict[int, NDArray[np.float64]]:
    """Return the diagonals of the powers of the random walk matrix.

    The walk is similar to a symmetric matrix S, so that the diagonal of S^(i + j) is the row sum of S^i * S^j: half of
    the powers are enough.
    """
    n = adjacency.shape[0]
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(np.diff(adjacency.indptr), 1)))
    step = (scale @ adjacency @ scale).tocsr()
    returns = {k: np.zeros(n) for k in STEPS}
    for start in range(0, n, ROWS_AT_ONCE):
        block = slice(start, start + ROWS_AT_ONCE)
        power = {1: step[block]}
        for k in range(2, STEPS[-1] // 2 + 1):
            power[k] = power[k - 1] @ step
            if sparse.issparse(power[k]) and power[k].nnz > DENSE_FROM * math.prod(power[k].shape):
                power[k] = power[k].toarray()
        for k in STEPS:
            returns[k][block] = row_products(power[k // 2], power[k - k // 2])
    return returns


def row_products(first: Any, second: Any) -> NDArray[np.float64]:
    """Return the scalar products of equal rows; the second matrix may be dense where the first is sparse."""
    if sparse.issparse(first):
        return np.asarray(first.multiply(second).sum(axis=1))
    return np.asarray(np.einsum("ij,ij->i", first, second))


def walked_returns(adjacency: sparse.csr_array) -> dict[int, NDArray[np.float64]]:
    """Estimate return probabilities from random walks, fewer of them on larger graphs."""
    rng = np.random.default_rng(0)
    degree = np.diff(adjacency.indptr).astype(np.int64)
    nodes = np.flatnonzero(degree)
    num_walks = int(np.clip(WALK_STEPS // (STEPS[-1] * max(1, len(nodes))), *WALKS))
    returns = {k: np.zeros(len(degree)) for k in STEPS}
    for _ in range(num_walks):
        here = nodes
        for k in range(1, STEPS[-1] + 1):
            here = adjacency.indices[adjacency.indptr[here] + rng.integers(degree[here])]
            if k in returns:
                returns[k][nodes] += here == nodes
    return {k: counts / num_walks for k, counts in returns.items()}
