"""The external sort of edges equals the matrix of the graph, for any number of buckets and any numbering."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from each_of import each_of
from nlgnn.errors import DataError
from nlgnn.graph import edge_sort
from nlgnn.graph.arrays import weight_matrix
from nlgnn.graph.edge_sort import EdgeList, bucket_bounds, sort_edges
from nlgnn.graph.locality import local_order


def sorted_matrix(folder: Path, n: int) -> sparse.csr_array:
    """Return the matrix of the files, rows are sources."""
    indptr, indices = (np.load(folder / f"{name}.npy") for name in ("indptr", "indices"))
    weights = folder / "weights.npy"
    values = np.load(weights) if weights.exists() else np.ones(len(indices), np.float32)
    assert all((np.diff(indices[a:b]) > 0).all() for a, b in pairwise(indptr))
    return sparse.csr_array((values, indices, indptr), shape=(n, n)).T.tocsr()


@each_of(
    ("n", "m", "weighted", "both", "at_once"),
    [
        (50, 600, weighted, both, at_once)
        for weighted in (False, True)
        for both in (False, True)
        for at_once in (1 << 16, 100, 7)
    ]
    + [(5, 0, True, True, 100), (1, 3, True, True, 100), (3, 1, False, False, 2)],
)
def test_equal_to_the_matrix(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    n: int,
    m: int,
    weighted: bool,
    both: bool,
    at_once: int,
) -> None:
    monkeypatch.setattr(edge_sort, "FEWEST_ENTRIES", at_once)
    rng = np.random.default_rng(m + at_once)
    edge_index = np.minimum(rng.integers(n, size=(2, m)), rng.integers(n, size=(2, m)))  # skewed, with loops
    weight = rng.integers(4, size=m).astype(np.float32) if weighted else None
    number_of = rng.permutation(n)
    edges = EdgeList(tmp_path / "edges", n, weighted)
    for part in np.array_split(np.arange(m), 3):
        edges.append(edge_index[:, part], None if weight is None else weight[part])
    found = sort_edges(edges, tmp_path, n, both, memory=1, number_of=number_of)
    matrix = weight_matrix(number_of[edge_index], weight, n, both_directions=both, loops=True)
    assert (sorted_matrix(tmp_path, n) != matrix).nnz == 0
    assert found.entries == matrix.nnz
    assert found.loops == (edge_index[0] == edge_index[1]).sum()
    assert found.zeros == (0 if weight is None else (weight == 0).sum())
    assert not list(tmp_path.glob("bucket*"))


@each_of("counts", [np.array([0, 5, 5, 0, 100, 1, 1, 1, 0]), np.full(100, 3), np.zeros(4, np.int64)])
def test_buckets_cover_all_nodes_and_are_small(counts: np.ndarray) -> None:
    bounds = bucket_bounds(counts, 20, len(counts))
    assert bounds[0] == 0
    assert bounds[-1] == len(counts)
    sizes = np.add.reduceat(counts, bounds[:-1])
    assert sizes.sum() == counts.sum()
    assert sizes.max() <= 20 + counts.max()


def test_too_many_buckets() -> None:
    with pytest.raises(DataError, match="cannot be sorted"):
        bucket_bounds(np.array([10**6]), 1, 1)


def test_a_scrambled_path_is_put_in_order(tmp_path: Path) -> None:
    n = 500
    number = np.random.default_rng(0).permutation(n)
    edges = EdgeList(tmp_path / "edges", n, weighted=False)
    edges.append(np.stack([number[:-1], number[1:]]))
    sort_edges(edges, tmp_path, n, both_directions=True, memory=1 << 20)
    indptr, indices = np.load(tmp_path / "indptr.npy"), np.load(tmp_path / "indices.npy")
    order = local_order(indptr, indices)
    assert sorted(order.tolist()) == list(range(n))
    number_of = np.argsort(order)
    assert (np.abs(np.diff(number_of[number])) == 1).all()
    with pytest.raises(DataError, match="GiB"):
        local_order(indptr, indices, memory=1000)
