"""The graph of similar features and the pairs, beside a version that compares two nodes at a time."""

import math
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from nlgnn.datasets import load_graph
from nlgnn.nn.baselines import simp_gcn as module
from nlgnn.nn.baselines.simp_gcn import EXTREMES, feature_similarity
from nn_samples import seeds


def words(num_nodes, num_features=12, seed=0):
    """Counts of words, most of them zero, with an empty row and two equal ones: many ties."""
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 9, (num_nodes, num_features)) * (rng.random((num_nodes, num_features)) < 0.25)
    x[num_nodes // 2] = 0
    x[-1] = x[0]
    return x.astype(np.float32)


def embeddings(num_nodes, num_features=5, seed=0):
    return np.random.default_rng(seed).normal(size=(num_nodes, num_features)).astype(np.float32)


def cosine(one, other):
    lengths = math.sqrt(sum(a * a for a in one)) * math.sqrt(sum(b * b for b in other))
    return sum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0


def all_cosines(x, binary):
    rows = (np.asarray(x, np.float64) != 0) * 1.0 if binary else np.asarray(x, np.float64)
    return np.array([[cosine(one, other) for other in rows] for one in rows])


def without(row, node):
    return np.delete(row, node)


@given(st.integers(1, 14), st.integers(1, 8), st.booleans(), seeds)
def test_every_node_has_its_most_and_its_least_similar_others(num_nodes, k, binary, seed):
    """Which of equally similar nodes are taken is open; how similar those are is not."""
    x = words(num_nodes, seed=seed) if binary else embeddings(num_nodes, seed=seed)
    neighbours, pairs, cosines = feature_similarity(x, k)
    expected = all_cosines(x, binary)
    kept = neighbours.toarray()
    np.testing.assert_allclose(kept[kept != 0], expected[kept != 0], atol=1e-12)
    np.testing.assert_allclose(cosines, expected[tuple(pairs)], atol=1e-12)
    for node in range(num_nodes):
        ascending = np.sort(without(expected[node], node))
        positive = ascending[::-1][:k][ascending[::-1][:k] > 1e-12]
        np.testing.assert_allclose(np.sort(kept[node][kept[node] != 0])[::-1], positive, atol=1e-12)
        own = np.sort(cosines[(pairs == node).any(0)])  # also of pairs that the other one has chosen
        some = min(EXTREMES, num_nodes - 1)
        np.testing.assert_allclose(own[:some], ascending[:some], atol=1e-12)
        np.testing.assert_allclose(own[len(own) - some :], ascending[num_nodes - 1 - some :], atol=1e-12)


@given(st.integers(1, 40), st.integers(1, 25), seeds)
def test_pairs_are_of_two_nodes_once_and_few(num_nodes, k, seed):
    pairs = feature_similarity(words(num_nodes, seed=seed), k).pairs
    assert (pairs[0] < pairs[1]).all()
    assert len(set(map(tuple, pairs.T))) == pairs.shape[1] <= 11 * num_nodes


def test_neighbours_are_weighted_and_neither_symmetric_nor_loops():
    neighbours = feature_similarity(embeddings(30), 4).neighbours.toarray()
    assert len(np.unique(neighbours[neighbours > 0])) > 30
    assert ((neighbours > 0) != (neighbours > 0).T).any()
    assert (np.diag(neighbours) == 0).all()
    assert (neighbours > 0).sum(1).max() == 4


def test_only_where_features_are_not_zero_counts():
    """Counts and rows that are divided by their sum give the same graph: the cosine is that of ones and zeros."""
    x = words(30)
    scaled = x / np.maximum(1, x.sum(1, keepdims=True))
    for one, other in zip(feature_similarity(x, 5), feature_similarity(scaled.astype(np.float32), 5), strict=True):
        assert_equal(one, other)
    assert_equal(feature_similarity(x, 5).neighbours, feature_similarity((x != 0).astype(np.float32), 5).neighbours)


def test_features_of_which_more_than_half_are_not_zero_are_compared_themselves():
    half = np.array([[1, 0], [-2, 0], [0, 3], [0, 4]], np.float32)  # half is not more than half
    assert feature_similarity(half, 3).neighbours.toarray()[0].tolist() == [0, 1, 0, 0]
    more = np.array([[1, 0], [3, 4], [0, 3], [-4, 3]], np.float32)
    np.testing.assert_allclose(feature_similarity(more, 3).neighbours.toarray()[1], [0.6, 0, 0.8, 0], atol=1e-12)


def test_rows_of_zeros_are_similar_to_none():
    x = words(30)
    x[[3, 4, 15]] = 0
    neighbours, pairs, cosines = feature_similarity(x, 25)
    assert (neighbours.toarray()[[3, 4, 15]] == 0).all()
    assert (neighbours.toarray()[:, [3, 4, 15]] == 0).all()
    assert (cosines[np.isin(pairs, [3, 4, 15]).any(0)] == 0).all()
    nothing = feature_similarity(np.zeros((6, 3), np.float32), 25)
    assert nothing.neighbours.nnz == 0
    assert nothing.pairs.shape == (2, 15)


@pytest.mark.parametrize("make", [words, embeddings])
def test_sparse_features_equal_dense_ones_and_neither_is_written_to(make):
    x = make(50)
    stored = sparse.csr_array(x)
    before = x.copy(), stored.data.copy()
    for one, other in zip(feature_similarity(x, 5), feature_similarity(stored, 5), strict=True):
        assert_equal(one, other)
    assert np.array_equal(x, before[0])
    assert np.array_equal(stored.data, before[1])


@pytest.mark.parametrize("make", [words, embeddings])
def test_blocks_do_not_matter(make, monkeypatch):
    x = make(50)
    whole = feature_similarity(x, 5)
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 1)
    monkeypatch.setattr(module, "FEWEST_ROWS", 7)
    in_blocks = feature_similarity(x, 5)
    assert_equal(whole.neighbours, in_blocks.neighbours, 1e-15)  # rows of a narrow product are rounded otherwise
    assert_equal(whole.pairs, in_blocks.pairs)


@pytest.mark.parametrize("make", [words, embeddings])
def test_not_all_similarities_are_in_memory_at_once(make, monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 2**16)
    x = make(2000)
    tracemalloc.start()
    feature_similarity(x, 20)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2000**2 / 2  # half of them in float32


def test_ties_are_decided_by_lot_not_by_number():
    """In all of 300 equal nodes: a file sorted by class must not tell classes, and no node is everybody's neighbour."""
    same = np.ones((300, 2), np.float32)
    neighbours, pairs, _ = feature_similarity(same, 20)
    assert_equal(neighbours, feature_similarity(same, 20).neighbours)
    distances = abs(neighbours.tocoo().row - neighbours.tocoo().col)
    assert distances.mean() == pytest.approx(100, abs=4)  # of two random numbers; 300/√18/√6000 is a standard error
    assert np.bincount(neighbours.indices, minlength=300).max() < 50
    assert np.bincount(pairs.ravel(), minlength=300).max() < 50


@pytest.mark.usefixtures("data_root")
@pytest.mark.parametrize(("name", "empty", "sampled"), [("texas", 0, False), ("chameleon", 233, True)])
def test_real_graphs(name, empty, sampled):
    graph = load_graph(name)
    neighbours, pairs, cosines = feature_similarity(graph.x, 20)
    degrees = np.diff(neighbours.indptr)
    assert (degrees <= 20).all()
    assert (degrees == 0).sum() == empty
    assert (pairs.shape[1] > 10_000) == sampled
    assert pairs.shape[1] <= 11 * graph.num_nodes
    assert np.isfinite(cosines).all()


def assert_equal(one, other, tolerance=0.0):
    if sparse.issparse(one):
        assert_equal(one.indices, other.indices)
        one, other = one.toarray(), other.toarray()
    np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)
