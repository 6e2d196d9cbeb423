from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from random_graphs import graph_parts, neighbour_sets
from scipy import sparse

from nlgnn.errors import DataError
from nlgnn.graph import Graph, Split, audit, twin_groups

# Nodes 0 and 1 both know 2 and 3 and have one label: twins. Node 4 knows 2 and 3 too, but has another label.
# Nodes 5 and 6 are alone; 6 has no label. The class "d" has no node, "c" one.
ODD = Graph(
    x=np.array([[1, 2], [1, 2], [0, 0], [0, 0], [3, 0], [4, 0], [5, 0]], np.float32),
    edge_index=np.array([[0, 0, 1, 3, 4, 4, 0, 5], [2, 3, 2, 1, 2, 3, 2, 5]]),
    y=np.array([0, 0, 1, 1, 1, 2, -1]),
    class_names=("a", "b", "c", "d"),
)


def test_everything_odd_is_counted_and_said() -> None:
    splits = [
        Split.from_indices(7, train=[0, 2], val=[3], test=[1, 4]),
        Split.from_indices(7, train=[2, 5], val=[0], test=[1, 6]),
    ]
    found = audit(ODD, splits)
    assert found.isolated_nodes == 2
    assert found.self_loops == 1
    assert found.duplicate_edges == 1
    assert found.unlabelled_nodes == 1
    assert found.singleton_classes == ("c",)
    assert found.absent_classes == ("d",)
    assert found.zero_feature_rows == 2
    assert found.duplicate_feature_rows == 4
    assert found.twin_nodes == 2 + 2  # 2 and 3 also share neighbours and label
    assert found.twin_leak == pytest.approx((1 / 2 + 0) / 2)
    assert found.untrained_classes == ("a", "c")
    assert found.unlabelled_in_splits == 1
    warnings = "\n".join(found.warnings())
    assert len(found.warnings()) == 12
    assert "1 node joined to themselves" in warnings
    assert "4 nodes with exactly the neighbours and the label of another node." in warnings
    assert "25% of test nodes have such a twin in train (mean over splits: 2)" in warnings
    assert "without a training node: a, c." in warnings


def test_an_ordinary_graph_gives_no_warning() -> None:
    path = Graph(np.eye(4), np.array([[0, 1, 2], [1, 2, 3]]), np.array([0, 0, 1, 1]))
    found = audit(path, [Split.from_indices(4, [0, 2], [1], [3])])
    assert found.warnings() == []
    assert audit(path).twin_leak is None


def test_rare_classes_are_named_with_what_helps() -> None:
    labels = np.repeat([0, 1, 2, 3], [21, 2, 3, 1])
    found = audit(Graph(np.arange(27.0)[:, None], np.zeros((2, 0), int), labels, class_names=tuple("abcd")))
    assert found.rare_classes == ("b",)  # a tenth is not less; of a single node nothing is learned anyhow
    words = "Classes with less than a tenth of the nodes of the largest: b. With --class-weight balanced "
    assert any(sentence.startswith(words) for sentence in found.warnings())


def test_both_directions_of_an_edge_are_no_duplicates() -> None:
    assert audit(Graph(np.eye(2), np.array([[0, 1], [1, 0]]), np.array([0, 1]))).duplicate_edges == 0


def test_sparse_and_dense_features_give_one_audit() -> None:
    x = np.array([[0, 0], [-0.0, 0], [1, 0], [0, 1], [1, 0]], np.float32)
    found = [
        audit(Graph(form(x), np.empty((2, 0), np.int64), np.zeros(5, np.int64)))
        for form in (np.asarray, sparse.csr_array)
    ]
    assert found[0] == found[1]
    assert (found[0].zero_feature_rows, found[0].duplicate_feature_rows) == (2, 4)


@given(graph_parts(some_label=False))
def test_twins_equal_their_loop(parts: dict) -> None:
    graph = Graph(**parts)
    neighbours, groups = neighbour_sets(graph), twin_groups(graph)
    for u in range(graph.num_nodes):
        twins = {
            v
            for v in range(graph.num_nodes)
            if v != u and graph.y[v] == graph.y[u] >= 0 and neighbours[v] == neighbours[u] != set()
        }
        assert twins == {v for v in range(graph.num_nodes) if v != u and groups[v] == groups[u] >= 0}


@given(graph_parts(some_label=False))
def test_counts_equal_their_loops(parts: dict) -> None:
    graph = Graph(**parts)
    found, edges = audit(graph), [tuple(edge) for edge in graph.edge_index.T.tolist()]
    assert found.isolated_nodes == sum(not others for others in neighbour_sets(graph))
    assert found.self_loops == len({u for u, v in edges if u == v})
    assert found.duplicate_edges == len(edges) - len(set(edges))
    rows = graph.x.tolist()
    assert found.duplicate_feature_rows == sum(rows.count(row) > 1 for row in rows)
    assert found.zero_feature_rows == rows.count([0.0])


def test_splits_of_another_graph_are_refused() -> None:
    with pytest.raises(DataError, match="the split has 3 entries, the graph 7 nodes"):
        audit(ODD, [Split.from_indices(3, [0], [1], [2])])


@pytest.mark.parametrize(("name", "twins", "leak"), [("chameleon", 1291, 0.50), ("squirrel", 2573, 0.40)])
def test_twins_of_real_graphs(real_graph: Callable[[str], Graph], name: str, twins: int, leak: float) -> None:
    graph = real_graph(name)
    found = audit(graph, graph.splits["geom-gcn"])
    assert found.num_splits == 10
    assert found.twin_nodes == twins
    assert found.twin_leak is not None
    assert round(found.twin_leak, 2) == leak


def test_texas_has_a_class_of_one_node(real_graph: Callable[[str], Graph]) -> None:
    graph = real_graph("texas")
    found = audit(graph, graph.splits["geom-gcn"])
    assert len(found.singleton_classes) == 1
    assert found.untrained_classes == found.singleton_classes
    assert found.self_loops == 16
