import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from nlgnn.datasets.load import load_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.nn.baselines.cpgcn import estimate_compatibility, fill_unknown_rows, sinkhorn
from nlgnn.nn.kernels.sparse import Operator
from nn_samples import noise, seeds


def adjacency_of(edges, num_nodes):
    graph = Graph(np.zeros((num_nodes, 1)), np.asarray(edges).reshape(2, -1), np.zeros(num_nodes, int))
    return Operator.from_scipy(graph.undirected_adjacency, symmetric=True)


def random_case(num_nodes, num_edges, num_classes, seed):
    """Beliefs, edges and labels, of which about half are known; some nodes have no neighbours, some classes no node."""
    rng = np.random.default_rng(seed)
    beliefs = noise(num_nodes, num_classes, seed=seed).detach().softmax(1)
    adjacency = adjacency_of(rng.integers(max(1, num_nodes - 2), size=(2, num_edges)), num_nodes)
    y = torch.from_numpy(rng.integers(num_classes, size=num_nodes))
    return beliefs, adjacency, y, torch.from_numpy(rng.permutation(num_nodes)[: (num_nodes + 1) // 2])


def literal_estimate(beliefs, adjacency, y, nodes):
    """The equations, one node and one entry after another. For cases in which every class has some row."""
    n, c = beliefs.shape
    a, train = adjacency.matrix.to_dense().double(), set(nodes.tolist())
    believed = [np.eye(c)[y[v]] if v in train else beliefs[v].double().numpy() for v in range(n)]
    m = np.full((c, c), np.nan)
    for label in range(c):
        rows = []
        for v in (v for v in train if y[v] == label):
            neighbours = [believed[u] for u in range(n) if a[v, u] == 1]
            rows.append(sum(neighbours) / len(neighbours) if neighbours else np.zeros(c))
        if rows and np.sum(rows) > 0:
            m[label] = np.mean(rows, axis=0)
    filled = np.where(np.isnan(m), m.T, m)
    for row in filled:
        undefined = np.isnan(row)
        row[undefined] = max(0, 1 - np.nansum(row)) / max(1, undefined.sum())
    h = literal_sinkhorn(filled)
    return torch.from_numpy((h + h.T) / 2 - 1 / c)


def literal_sinkhorn(matrix):
    matrix = matrix.copy()
    for _ in range(3000):
        before = matrix.copy()
        for j in range(len(matrix)):
            matrix[:, j] /= matrix[:, j].sum() or 1
        for i in range(len(matrix)):
            matrix[i] /= matrix[i].sum() or 1
        if np.abs(matrix - before).sum() < 1e-12:
            break
    return matrix


@given(st.integers(1, 14), st.integers(0, 40), st.integers(1, 4), seeds)
def test_the_estimate_equals_a_literal_version(num_nodes, num_edges, num_classes, seed):
    case = random_case(num_nodes, num_edges, num_classes, seed)
    torch.testing.assert_close(estimate_compatibility(*case), literal_estimate(*case), rtol=0, atol=1e-9)


@given(st.integers(1, 8), seeds)
def test_sinkhorn_gives_a_doubly_stochastic_matrix(num_classes, seed):
    result = sinkhorn(noise(num_classes, num_classes, seed=seed).detach().exp())
    ones = torch.ones(num_classes).double()
    for dim in (0, 1):
        torch.testing.assert_close(result.sum(dim), ones, rtol=0, atol=1e-6)


@given(st.integers(1, 6), seeds)
def test_sinkhorn_does_not_see_how_rows_and_columns_are_scaled(num_classes, seed):
    matrix, rows, columns = (noise(num_classes, k, seed=seed + k).detach().exp() for k in (num_classes, 1, 1))
    torch.testing.assert_close(sinkhorn(rows * matrix * columns.t()), sinkhorn(matrix), rtol=0, atol=1e-8)


def test_sinkhorn_of_a_matrix_that_cannot_be_doubly_stochastic_is_finite():
    matrix = torch.tensor([[1.0, 1, 1], [1, 0, 0], [1, 0, 0]]).double()
    torch.testing.assert_close(sinkhorn(matrix).sum(1), torch.ones(3).double())
    assert sinkhorn(torch.tensor([[1.0, 0], [1, 0]]).double()).isfinite().all()  # an empty column


TRUE_LABELS = torch.tensor([0, 0, 0, 1, 1, 1])
BIPARTITE = [[0, 0, 1, 1, 2, 2], [3, 4, 4, 5, 5, 3]]
CLIQUES = [[0, 0, 1, 3, 3, 4], [1, 2, 2, 4, 5, 5]]


@pytest.mark.parametrize(
    ("edges", "expected"), [(BIPARTITE, [[0.0, 1.0], [1.0, 0.0]]), (CLIQUES, [[1.0, 0.0], [0.0, 1.0]])]
)
def test_bipartite_graphs_and_cliques_with_true_beliefs(edges, expected):
    beliefs = torch.eye(2)[TRUE_LABELS]
    estimate = estimate_compatibility(beliefs, adjacency_of(edges, 6), TRUE_LABELS, torch.tensor([0, 2, 4]))
    torch.testing.assert_close(estimate + 1 / 2, torch.tensor(expected).double())


@given(st.integers(4, 14), st.integers(5, 40), st.integers(1, 4), seeds)
def test_rows_and_columns_sum_to_zero(num_nodes, num_edges, num_classes, seed):
    """Positive beliefs of many nodes; only few are in training, so that all classes are seen in each neighbourhood."""
    beliefs, adjacency, y, nodes = random_case(num_nodes, num_edges, num_classes, seed)
    estimate = estimate_compatibility(beliefs, adjacency, y, nodes[:1])
    assert estimate.sum(0).abs().max() < 1e-6
    assert estimate.equal(estimate.t())


def test_counts_that_no_doubly_stochastic_matrix_has():
    """Two classes that meet a third one only: columns of such a matrix cannot all sum to 1, but nothing breaks."""
    adjacency = Operator.from_scipy(sparse.csr_array(np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]], np.float32)), True)
    estimate = estimate_compatibility(torch.full((3, 3), 1 / 3), adjacency, torch.arange(3), torch.arange(3))
    assert estimate.isfinite().all()
    assert estimate.equal(estimate.t())
    assert estimate.abs().max() <= 1
    assert estimate.sum(1).abs().max() > 0.1  # what the docstring says


def test_it_is_made_symmetric_after_sinkhorn():
    case = random_case(14, 40, 3, 1)
    neighbours = case[1].matrix.to_dense().double()
    beliefs = case[0].index_put((case[3],), torch.eye(3).double()[case[2][case[3]]])
    means = neighbours @ beliefs / neighbours.sum(1, keepdim=True).clamp(min=1)
    m = torch.stack([means[case[3]][case[2][case[3]] == label].mean(0) for label in range(3)])
    before, after = sinkhorn((m + m.t()) / 2), (sinkhorn(m) + sinkhorn(m).t()) / 2
    assert (before - after).abs().max() > 1e-3
    torch.testing.assert_close(estimate_compatibility(*case), after - 1 / 3, rtol=0, atol=1e-9)


@given(st.integers(4, 14), seeds)
def test_labels_of_other_nodes_do_not_matter(num_nodes, seed):
    beliefs, adjacency, y, nodes = random_case(num_nodes, 30, 3, seed)
    unknown = torch.full_like(y, -1).index_copy(0, nodes, y[nodes])
    shifted = ((y + 1) % 3).index_copy(0, nodes, y[nodes])
    estimates = [estimate_compatibility(beliefs, adjacency, labels, nodes) for labels in (y, unknown, shifted)]
    assert estimates[0].equal(estimates[1])
    assert estimates[0].equal(estimates[2])


def test_labels_of_training_nodes_and_beliefs_of_others_do_matter():
    beliefs, adjacency, y, nodes = random_case(14, 40, 3, 0)
    estimate = estimate_compatibility(beliefs, adjacency, y, nodes)
    in_training = torch.zeros(14, 1, dtype=torch.bool).index_fill(0, nodes, True)
    assert estimate_compatibility(torch.where(in_training, 1 / 3, beliefs), adjacency, y, nodes).equal(estimate)
    assert not estimate_compatibility(torch.where(in_training, beliefs, 1 / 3), adjacency, y, nodes).allclose(estimate)
    assert not estimate_compatibility(beliefs, adjacency, (y + 1) % 3, nodes).allclose(estimate)


def test_beliefs_are_left_as_they_are():
    beliefs, *rest = random_case(9, 20, 3, 0)
    before = beliefs.clone()
    estimate_compatibility(beliefs, *rest)
    assert beliefs.equal(before)


def test_it_is_computed_in_float64():
    beliefs, *rest = random_case(9, 20, 3, 0)
    single = beliefs.float()
    assert estimate_compatibility(single, *rest).equal(estimate_compatibility(single.double(), *rest))


@pytest.mark.parametrize(
    ("matrix", "expected"),
    [
        ([[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0, 0, 0]], [[0.5, 0.3, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]]),
        ([[0.5, 0.3, 0.2], [0, 0, 0], [0, 0, 0]], [[0.5, 0.3, 0.2], [0.3, 0.35, 0.35], [0.2, 0.4, 0.4]]),
        # More than 1 is said of the last class already: nothing is missing.
        ([[0.1, 0.1, 0.8], [0.2, 0.1, 0.7], [0, 0, 0]], [[0.1, 0.1, 0.8], [0.2, 0.1, 0.7], [0.8, 0.7, 0]]),
        ([[0.5, 0.5], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]),
        ([[0, 0], [0, 0]], [[0.5, 0.5], [0.5, 0.5]]),
    ],
)
def test_unknown_rows_are_filled_from_their_columns(matrix, expected):
    filled = fill_unknown_rows(torch.tensor(matrix).double())
    torch.testing.assert_close(filled, torch.tensor(expected).double())


def test_a_class_of_lonely_training_nodes_is_like_one_without_any():
    beliefs, adjacency, y, _ = random_case(14, 40, 3, 0)
    y = torch.where(y == 2, 0, y)
    nodes, lonely = torch.arange(6), torch.tensor([12, 13])
    assert adjacency.pointers.diff()[lonely].sum() == 0
    without = estimate_compatibility(beliefs, adjacency, y, nodes)
    with_them = estimate_compatibility(beliefs, adjacency, y.index_fill(0, lonely, 2), torch.cat([nodes, lonely]))
    torch.testing.assert_close(with_them, without, rtol=0, atol=1e-9)
    assert without.abs().max() > 0.01
    assert without.sum(0).abs().max() < 1e-6


def test_without_edges_nothing_is_known():
    beliefs, _, y, nodes = random_case(9, 0, 3, 0)
    assert estimate_compatibility(beliefs, adjacency_of([[], []], 9), y, nodes).abs().max() < 1e-15


def test_one_class_is_as_compatible_with_itself_as_with_all():
    assert estimate_compatibility(*random_case(9, 20, 1, 0)).equal(torch.zeros(1, 1).double())


@pytest.mark.usefixtures("data_root")
def test_texas_whose_one_node_class_may_be_without_training_node():
    graph = load_graph("texas")
    adjacency = Operator.from_scipy(graph.undirected_adjacency, symmetric=True)
    y = torch.from_numpy(graph.y)
    beliefs = noise(graph.num_nodes, graph.num_classes).detach().softmax(1)
    missing = 0
    for split in make_splits(graph, "geom-gcn"):
        nodes = torch.from_numpy(split.train.nonzero()[0])
        estimate = estimate_compatibility(beliefs, adjacency, y, nodes)
        assert estimate.isfinite().all()
        assert estimate.sum(0).abs().max() < 1e-3
        missing += len(set(y[nodes].tolist())) < graph.num_classes
    assert 0 < missing < 10
