import tracemalloc

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csgraph
from scipy.spatial.distance import pdist, squareform

from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn.baselines import geom_gcn as latent_space
from nlgnn.nn.baselines.geom_gcn import close_pairs, hop_distances, isomap, isomap_relations, quadrants
from nn_samples import seeds


def graph_of(edges, num_nodes):
    return Graph(np.zeros((num_nodes, 1)), np.array(edges, int).reshape(-1, 2).T, np.zeros(num_nodes, int))


def random_graph(num_nodes, num_edges, seed=0):
    """A random tree and some edges more: connected, with leaves that have one and the same neighbour."""
    rng = np.random.default_rng(seed)
    tree = [(node, rng.integers(node)) for node in range(1, num_nodes)]
    return graph_of([*tree, *rng.integers(num_nodes, size=(num_edges, 2))], num_nodes)


def path(num_nodes):
    return graph_of([(node, node + 1) for node in range(num_nodes - 1)], num_nodes)


def literal_isomap(graph):
    """All distances, the whole matrix, all of its eigenvectors."""
    distances = csgraph.shortest_path(graph.undirected_adjacency, unweighted=True)
    centring = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = np.linalg.eigh(-centring @ distances**2 @ centring / 2)
    return vectors[:, [-1, -2]] * np.sqrt(values[[-1, -2]])


@pytest.mark.parametrize("num_nodes", [30, latent_space.DENSE_EIGENVECTORS + 50])
def test_isomap_is_classical_scaling_of_hop_distances(num_nodes):
    graph = random_graph(num_nodes, num_nodes // 2)
    positions, expected = isomap(graph.undirected_adjacency), literal_isomap(graph)
    expected *= np.sign((expected**3).sum(0))
    np.testing.assert_allclose(positions, expected, atol=1e-6)


@pytest.mark.parametrize("graph", [random_graph(150, 100), path(latent_space.MANY_HOPS + 50)], ids=["random", "path"])
def test_hop_distances(graph):
    """From more sources than are searched from at once, in any order; also over more hops than are gone one by one."""
    sources = np.random.default_rng(0).permutation(graph.num_nodes)[:100]
    expected = csgraph.shortest_path(graph.undirected_adjacency, unweighted=True)[:, sources]
    assert np.array_equal(hop_distances(graph.undirected_adjacency, sources), expected)


@given(st.integers(5, 40), st.integers(0, 30), seeds)
def test_numbering_does_not_matter(num_nodes, num_edges, seed):
    graph = random_graph(num_nodes, num_edges, seed)
    exact = literal_isomap_values(graph)
    assume(exact[0] - exact[1] > 1e-3 and exact[1] - exact[2] > 1e-3)  # else there are several Isomaps
    assume(not graph_is_mirrored(graph))
    new_number = np.random.default_rng(seed).permutation(num_nodes)
    moved = graph_of(new_number[graph.edge_index].T, num_nodes)
    positions = isomap(graph.undirected_adjacency)
    assert np.ptp(positions, axis=0).min() > 0.1
    np.testing.assert_array_equal(isomap(moved.undirected_adjacency)[new_number], positions)
    first, second, latent, quadrant = isomap_relations(graph)
    expected = {*zip(new_number[first], new_number[second], latent, quadrant, strict=True)}
    assert {*zip(*isomap_relations(moved), strict=True)} == expected


def literal_isomap_values(graph):
    distances = csgraph.shortest_path(graph.undirected_adjacency, unweighted=True)
    centring = np.eye(len(distances)) - 1 / len(distances)
    return np.linalg.eigvalsh(-centring @ distances**2 @ centring / 2)[::-1]


def graph_is_mirrored(graph):
    """Whether an axis looks the same in both directions."""
    return np.abs((isomap(graph.undirected_adjacency) ** 3).sum(0)).min() < 1e-3


def test_nodes_with_the_same_neighbours_are_in_one_place():
    graph = random_graph(200, 20)
    neighbours = graph.undirected_adjacency.toarray()
    positions = isomap(graph.undirected_adjacency)
    twins = [(u, v) for u in range(200) for v in range(u) if np.array_equal(neighbours[u], neighbours[v])]
    assert len(twins) > 10
    for u, v in twins:
        np.testing.assert_array_equal(positions[u], positions[v])


def test_a_line_has_no_second_axis_and_a_direction_of_its_own():
    positions = isomap(path(9).undirected_adjacency)
    np.testing.assert_array_equal(positions[:, 1], 0)
    np.testing.assert_array_equal(
        positions[:, 0], np.arange(4, -5, -1)
    )  # both directions look the same: the first wins


def test_axes_point_to_the_long_tail():
    broom = graph_of([*((node, node + 1) for node in range(6)), *((0, leaf) for leaf in range(7, 20))], 20)
    positions = isomap(broom.undirected_adjacency)
    assert positions[6, 0] == positions[:, 0].max() > -positions[:, 0].min() > 0


@pytest.mark.parametrize("edges", [[], [(0, 0)]])
@pytest.mark.parametrize("num_nodes", [1, 4])
def test_no_edges(edges, num_nodes):
    graph = graph_of(edges, num_nodes)
    assert np.isnan(isomap(graph.undirected_adjacency)).all()
    assert [len(part) for part in isomap_relations(graph)] == [0] * 4


def test_two_nodes():
    first, second, latent, quadrant = isomap_relations(graph_of([(0, 1)], 2))
    assert sorted(zip(first, second, quadrant, strict=True)) == [(0, 1, 3), (1, 0, 2)]  # on a line: always above
    assert not latent.any()  # no pair is closer than the closest


@pytest.mark.parametrize("num_nodes", [3, 4, 7])
def test_complete_graphs(num_nodes):
    """All eigenvalues are the same; whatever is taken, it is finite."""
    graph = graph_of([(u, v) for u in range(num_nodes) for v in range(u)], num_nodes)
    assert np.isfinite(isomap(graph.undirected_adjacency)).all()
    assert len(isomap_relations(graph).first) >= 2 * graph.num_edges


def test_only_the_largest_component_has_a_place():
    inside = random_graph(12, 8)
    triangle, alone = [(12, 13), (13, 14), (14, 12)], 15
    graph = graph_of([*inside.edge_index.T, *triangle], alone + 1)
    positions = isomap(graph.undirected_adjacency)
    np.testing.assert_array_equal(positions[:12], isomap(inside.undirected_adjacency))
    assert np.isnan(positions[12:]).all()
    first, second, latent, quadrant = isomap_relations(graph)
    assert max(first[latent].max(), second[latent].max()) < 12
    outside = second >= 12
    assert outside.sum() == 6  # its edges are there, as if all were in one place
    assert set(quadrant[outside]) == {3}


def test_more_edges_than_pairs_inside():
    """Four triangles and a path of four: all of its pairs, since even they are fewer than edges."""
    triangles = [(3 * k + a, 3 * k + b) for k in range(4) for a, b in ((0, 1), (1, 2), (2, 0))]
    graph = graph_of([*triangles, (12, 13), (13, 14), (14, 15)], 16)
    relations = isomap_relations(graph)
    assert relations.latent.sum() == 4 * 3
    assert set(relations.first[relations.latent]) == {12, 13, 14, 15}


@each_of(
    ("other", "quadrant"),
    [
        ((-1, -1), 0),
        ((1, -1), 1),
        ((-1, 1), 2),
        ((1, 1), 3),
        ((0, -1), 1),  # neither left nor right: right
        ((-1, 0), 2),  # neither below nor above: above
        ((0, 1), 3),
        ((1, 0), 3),
        ((0, 0), 3),
        ((np.nan, np.nan), 3),
    ],
)
def test_quadrants(other, quadrant):
    centre = np.array([[0.5, -2.0]])
    assert quadrants(centre, centre + other).tolist() == [quadrant]


def test_opposite_quadrants_add_up_to_three():
    one, other = np.random.default_rng(0).normal(size=(2, 50, 2))
    np.testing.assert_array_equal(quadrants(one, other), 3 - quadrants(other, one))


def test_relations_say_where_the_second_sees_the_first():
    graph = random_graph(40, 30)
    positions = isomap(graph.undirected_adjacency)
    first, second, latent, quadrant = isomap_relations(graph)
    np.testing.assert_array_equal(quadrant, quadrants(positions[second], positions[first]))
    in_graph = {*zip(first[~latent], second[~latent], strict=True)}
    assert in_graph == {*zip(*graph.undirected_adjacency.nonzero(), strict=True)}
    in_latent_space = [*zip(first[latent], second[latent], strict=True)]
    assert {(v, u) for u, v in in_latent_space} == {*in_latent_space}
    assert len({*in_latent_space}) == len(in_latent_space) > 0
    assert not isomap_relations(graph, latent=False).latent.any()


def pairs_of(pairs):
    return {frozenset(pair) for pair in pairs.T.tolist()}


@given(st.integers(1, 25), st.integers(0, 320), st.booleans(), seeds)
def test_close_pairs_equal_a_look_at_all_pairs(num_nodes, number, on_a_grid, seed):
    rng = np.random.default_rng(seed)
    positions = rng.integers(4, size=(num_nodes, 2)).astype(float) if on_a_grid else rng.normal(size=(num_nodes, 2))
    distances = squareform(pdist(positions))
    pairs = [(u, v) for u in range(num_nodes) for v in range(u)]
    in_order = sorted(distances[pair] for pair in pairs)
    expected = set()
    if number > len(pairs):
        expected = {frozenset(pair) for pair in pairs}
    elif number:
        rho = in_order[number - 1]
        expected = {frozenset(pair) for pair in pairs if distances[pair] < rho or rho == distances[pair] == 0}
    found = close_pairs(positions, number)
    assert pairs_of(found) == expected
    assert found.shape[1] == len(expected)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_where_the_closest_pairs_are_in_one_place_these_are_taken(number):
    positions = np.array([[0, 0], [5, 5], [0, 0], [5, 5], [9, 9]], float)
    assert pairs_of(close_pairs(positions, number)) == {frozenset({0, 2}), frozenset({1, 3})}


def test_very_many_pairs_at_one_distance_are_not_listed():
    """Two places with thirty nodes each: only pairs in one place are closer than those between the two."""
    positions = np.repeat([[0.0, 0.0], [1.0, 0.0]], 30, axis=0)
    in_one_place = 30 * 29
    found = close_pairs(positions, in_one_place + 1)
    assert found.shape[1] == in_one_place
    assert ((found[0] < 30) == (found[1] < 30)).all()


def test_a_crowd_in_one_place_is_refused_before_it_fills_the_memory():
    leaves = range(40, 40 + 4 * latent_space.MANY_IN_ONE_PLACE)
    tails = [(0, 1), (0, 20), *((node, node + 1) for node in [*range(1, 19), *range(20, 39)])]
    crowd = graph_of([*tails, *((0, leaf) for leaf in leaves)], leaves.stop)
    with pytest.raises(DataError, match=r"(?s)one place each.*neighbourhood=graph"):
        isomap_relations(crowd)
    assert len(isomap_relations(crowd, latent=False).first) == 2 * crowd.num_edges


def test_all_nodes_as_landmarks_are_no_landmarks(monkeypatch):
    graph = random_graph(60, 40)
    expected = isomap(graph.undirected_adjacency)
    monkeypatch.setattr(latent_space, "MOST_LANDMARKS", 10)
    monkeypatch.setattr(latent_space, "FEW_LANDMARKS", 60)
    np.testing.assert_allclose(isomap(graph.undirected_adjacency), expected, atol=2e-6)  # both are rounded


def test_landmarks_place_all_nodes_nearly_as_all_distances_do(monkeypatch):
    nodes = np.arange(700).reshape(35, 20)
    steps = [(nodes[1:], nodes[:-1]), (nodes[:, 1:], nodes[:, :-1])]
    grid = graph_of(np.concatenate([np.stack(step, -1).reshape(-1, 2) for step in steps]), 700).undirected_adjacency
    expected = isomap(grid)
    monkeypatch.setattr(latent_space, "MOST_LANDMARKS", 100)
    monkeypatch.setattr(latent_space, "FEW_LANDMARKS", 100)
    tracemalloc.start()
    positions = isomap(grid)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * expected.itemsize * 700**2  # nothing is nearly as large as all distances
    for axis in range(2):  # a grid has no direction
        assert abs(np.corrcoef(positions[:, axis], expected[:, axis])[0, 1]) > 0.99
    np.testing.assert_array_equal(isomap(grid), positions)


@pytest.mark.parametrize(("name", "fewer"), [("chameleon", 2), ("wisconsin", 24)])
def test_both_neighbourhoods_are_of_one_mean_size(name, fewer, data_root):
    """But for pairs at the very distance, which are not closer than it."""
    graph = load_graph(name)
    relations = isomap_relations(graph)
    assert graph.num_edges - fewer <= relations.latent.sum() // 2 < graph.num_edges


def test_on_cornell_the_closest_pairs_are_in_one_place(data_root):
    """43 pages have one and the same neighbour; they are more pairs than the graph has edges."""
    graph = load_graph("cornell")
    first, second, latent, quadrant = isomap_relations(graph)
    positions = isomap(graph.undirected_adjacency)
    np.testing.assert_array_equal(positions[first[latent]], positions[second[latent]])
    assert latent.sum() // 2 == 925
    assert set(quadrant[latent]) == {3}
