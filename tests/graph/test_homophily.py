"""Every measure against a slow loop that is written as the equation reads, and against published figures."""

from collections import Counter
from collections.abc import Callable
from itertools import permutations
from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_graphs import graph_parts, neighbour_sets

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph import (
    Graph,
    adjusted_homophily,
    adjusted_homophily_among,
    chance_homophily,
    chance_table,
    class_insensitive_homophily,
    compatibility_matrix,
    edge_homophily,
    edge_label_informativeness,
    homophily_by_class,
    homophily_by_degree,
    homophily_table,
    node_homophily,
    node_label_informativeness,
    reconnected_homophily,
)


class Loops:
    """The measures, literally. Only labelled nodes exist here."""

    def __init__(self, graph: Graph) -> None:
        self.y = graph.y.tolist()
        self.nodes = [v for v in range(graph.num_nodes) if self.y[v] >= 0]
        self.neighbours = {v: [u for u in neighbour_sets(graph)[v] if self.y[u] >= 0] for v in self.nodes}
        self.ends = [(v, u) for v in self.nodes for u in self.neighbours[v]]  # both directions of every edge
        self.sizes = Counter(self.y[v] for v in self.nodes)
        self.p_bar = {c: n / len(self.ends) for c, n in Counter(self.y[v] for v, _ in self.ends).items()}

    def node_homophily(self) -> float:
        shares = [
            sum(self.y[u] == self.y[v] for u in self.neighbours[v]) / len(self.neighbours[v])
            if self.neighbours[v]
            else 0
            for v in self.nodes
        ]
        return sum(shares) / len(self.nodes)

    def edge_homophily(self) -> float:
        return sum(self.y[u] == self.y[v] for u, v in self.ends) / len(self.ends) if self.ends else 0

    def class_insensitive_homophily(self) -> float:
        if len(self.sizes) == 1:
            return 0
        total = 0.0
        for c, size in self.sizes.items():
            leaving = [self.y[u] for v, u in self.ends if self.y[v] == c]
            if leaving:
                total += max(0, leaving.count(c) / len(leaving) - size / len(self.nodes))
        return total / (len(self.sizes) - 1)

    def adjusted_homophily(self) -> float:
        if len(self.p_bar) < 2:
            return 0
        expected = sum(p**2 for p in self.p_bar.values())
        return (self.edge_homophily() - expected) / (1 - expected)

    def informativeness(self, joint: Counter, own: dict[int, float]) -> float:
        if len(own) < 2:
            return 0
        information = sum(p * log(p / (own[c] * self.p_bar[d])) for (c, d), p in joint.items())
        return information / -sum(p * log(p) for p in own.values())

    def edge_label_informativeness(self) -> float:
        joint: Counter = Counter()
        for v, u in self.ends:
            joint[self.y[v], self.y[u]] += 1 / len(self.ends)
        return self.informativeness(joint, self.p_bar)

    def node_label_informativeness(self) -> float:
        joint: Counter = Counter()
        own: Counter = Counter()
        connected = [v for v in self.nodes if self.neighbours[v]]
        for v in connected:
            own[self.y[v]] += 1 / len(connected)
            for u in self.neighbours[v]:
                joint[self.y[v], self.y[u]] += 1 / (len(connected) * len(self.neighbours[v]))
        return self.informativeness(joint, own)

    def chance_homophily(self) -> float:
        pairs = list(permutations(self.nodes, 2))
        return sum(self.y[u] == self.y[v] for u, v in pairs) / len(pairs) if pairs else 0


@given(graph_parts())
def test_every_measure_equals_its_loop(parts: dict) -> None:
    graph = Graph(**parts)
    loops = Loops(graph)
    for name, value in homophily_table(graph).items():
        assert value == pytest.approx(getattr(loops, name)(), abs=1e-12), name


@given(graph_parts())
def test_compatibility_equals_its_loop(parts: dict) -> None:
    graph = Graph(**parts)
    loops, matrix = Loops(graph), compatibility_matrix(graph)
    for c in range(4):
        leaving = [loops.y[u] for v, u in loops.ends if loops.y[v] == c]
        assert matrix[c].tolist() == [leaving.count(d) / max(len(leaving), 1) for d in range(4)]


@given(graph_parts())
def test_direction_repetition_and_unlabelled_nodes_change_nothing(parts: dict) -> None:
    graph = Graph(**parts)
    more_edges = np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1)
    n = graph.num_nodes
    stranger = np.stack([np.arange(n), np.full(n, n)])  # a node of unknown label that everyone knows
    other = Graph(
        x=np.zeros((n + 1, 1)),
        edge_index=np.concatenate([more_edges, stranger], axis=1),
        y=np.append(graph.y, -1),
        directed=True,
        class_names=graph.class_names,
    )
    assert homophily_table(other) == homophily_table(graph)


def reconnected_loop(order: list[int], y: list[int], reach: int) -> float:
    shares = []
    for p, v in enumerate(order):
        window = [order[q] for q in range(max(0, p - reach), min(len(order), p + reach + 1)) if q != p]
        known = [u for u in window if y[u] >= 0]
        if y[v] >= 0:
            shares.append(sum(y[u] == y[v] for u in known) / len(known) if known else 0)
    return sum(shares) / len(shares)


@given(graph_parts(), st.lists(st.sampled_from([1, 3, 5, 7]), max_size=3), st.randoms())
def test_reconnected_equals_its_loop(parts: dict, kernel_sizes: list[int], random) -> None:
    graph = Graph(**parts)
    order = random.sample(range(graph.num_nodes), graph.num_nodes)
    reach = sum((k - 1) // 2 for k in kernel_sizes)
    expected = reconnected_loop(order, graph.y.tolist(), reach)
    assert reconnected_homophily(np.array(order), graph.y, kernel_sizes) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(("kernel", "expected"), [(1, 0), (3, 25 / 72), (5, 13 / 30)])
def test_reconnected_worked_examples(kernel: int, expected: float) -> None:
    order = np.array([3, 1, 0, 5, 4, 2])
    y = np.empty(6, np.int64)
    y[order] = [0, 0, 1, 1, 0, 1]  # labels along the sorted order
    assert reconnected_homophily(order, y, [kernel, kernel]) == pytest.approx(expected)


def test_reconnected_of_one_node_is_zero() -> None:
    assert reconnected_homophily(np.array([0]), np.array([0]), [5, 5]) == 0


def test_chance_is_the_mean_over_all_orders() -> None:
    y = np.array([0, 0, 1, 1, 1])
    graph = Graph(np.zeros((5, 1)), np.empty((2, 0), np.int64), y)
    values = [reconnected_homophily(np.array(order), y, [3]) for order in permutations(range(5))]
    assert np.mean(values) == pytest.approx(chance_homophily(graph)) == pytest.approx(0.4)


def test_reconnected_refuses_what_it_cannot_use() -> None:
    y = np.array([0, 1, 0])
    for order in ([0, 1], [0, 1, 1], [0, 1, 3]):
        with pytest.raises(DataError, match="not a permutation of the 3 nodes"):
            reconnected_homophily(np.array(order), y, [3])
    with pytest.raises(OptionError, match="Kernel size 4"):
        reconnected_homophily(np.arange(3), y, [3, 4])
    with pytest.raises(DataError, match="No node has a label"):
        reconnected_homophily(np.arange(3), np.full(3, -1), [3])


@each_of("measure", [node_homophily, chance_homophily, compatibility_matrix, homophily_table])
def test_without_any_label_there_is_nothing_to_say(measure) -> None:
    graph = Graph(np.zeros((2, 1)), np.array([[0], [1]]), np.array([-1, -1]))
    with pytest.raises(DataError, match="No node has a label"):
        measure(graph)


def test_without_edges_all_but_chance_is_zero() -> None:
    table = homophily_table(Graph(np.zeros((3, 1)), np.empty((2, 0), np.int64), np.array([0, 1, 1])))
    assert table.pop("chance_homophily") == pytest.approx(1 / 3)
    assert set(table.values()) == {0.0}


def test_two_sides_that_only_meet_each_other() -> None:
    """No neighbour agrees, yet a neighbour's label tells everything."""
    graph = Graph(np.zeros((4, 1)), np.array([[0, 0, 1, 1], [2, 3, 2, 3]]), np.array([0, 0, 1, 1]))
    assert node_homophily(graph) == edge_homophily(graph) == class_insensitive_homophily(graph) == 0
    assert adjusted_homophily(graph) == -1
    assert edge_label_informativeness(graph) == pytest.approx(1)
    assert node_label_informativeness(graph) == pytest.approx(1)
    assert compatibility_matrix(graph).tolist() == [[0, 1], [1, 0]]


def test_informativeness_of_the_example_in_the_documentation_of_dgl() -> None:
    """The authors of the measure wrote DGL's version, whose documentation prints these (with an epsilon of 1e-8)."""
    edges = np.array([[0, 1, 2, 2, 3, 4], [1, 2, 0, 3, 4, 5]])
    graph = Graph(np.zeros((6, 1)), edges, np.array([0, 0, 0, 0, 1, 1]))
    assert edge_label_informativeness(graph) == pytest.approx(0.25177597999572754, abs=1e-6)
    assert node_label_informativeness(graph) == pytest.approx(0.3381872773170471, abs=1e-6)


def test_node_informativeness_of_a_star_exceeds_one() -> None:
    star = Graph(np.zeros((9, 1)), np.stack([np.zeros(8, int), np.arange(1, 9)]), np.array([0] + [1] * 8))
    assert node_label_informativeness(star) > 1
    assert edge_label_informativeness(star) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("cora", 0.83),
        ("citeseer", 0.71),
        ("pubmed", 0.79),
        ("chameleon", 0.25),
        ("squirrel", 0.22),
        ("cornell", 0.11),
        ("texas", 0.06),
        ("wisconsin", 0.16),
    ],
)
def test_homophily_as_the_paper_prints_it(real_graph: Callable[[str], Graph], name: str, printed: float) -> None:
    assert round(node_homophily(real_graph(name)), 2) == printed


@pytest.mark.parametrize(
    ("name", "adjusted", "informativeness"), [("minesweeper", 0.01, 0.00), ("tolokers", 0.09, 0.01)]
)
def test_measures_as_their_authors_print_them(
    real_graph: Callable[[str], Graph], name: str, adjusted: float, informativeness: float
) -> None:
    assert round(adjusted_homophily(real_graph(name)), 2) == adjusted
    assert round(edge_label_informativeness(real_graph(name)), 2) == informativeness


@pytest.mark.parametrize(
    ("name", "chance"),
    [
        ("actor", 0.213),
        ("cornell", 0.283),
        ("texas", 0.370),
        ("wisconsin", 0.321),
        ("chameleon", 0.201),
        ("squirrel", 0.2),
    ],
)
def test_chance_of_real_graphs(real_graph: Callable[[str], Graph], name: str, chance: float) -> None:
    assert round(chance_homophily(real_graph(name)), 3) == chance


@given(graph_parts())
def test_groups_equal_their_loops(parts: dict) -> None:
    graph = Graph(**parts)
    loops = Loops(graph)
    shares = {
        v: sum(loops.y[u] == loops.y[v] for u in near) / max(len(near), 1) for v, near in loops.neighbours.items()
    }
    by_class = homophily_by_class(graph)
    assert [row.group for row in by_class] == ["abcd"[c] for c in sorted(loops.sizes)]
    for row in by_class:
        own = [v for v in loops.nodes if "abcd"[loops.y[v]] == row.group]
        assert row.nodes == len(own)
        assert row.homophily == pytest.approx(np.mean([shares[v] for v in own]))
        assert row.chance == pytest.approx((len(own) - 1) / max(len(loops.nodes) - 1, 1))
    by_degree = {row.group: row for row in homophily_by_degree(graph)}
    assert "0" not in by_degree  # who has no neighbours does not agree with them
    for group, low, high in [("1", 1, 1), ("2 to 3", 2, 3), ("4 to 7", 4, 7), ("8 to 15", 8, 15)]:
        own = [v for v in loops.nodes if low <= len(loops.neighbours[v]) <= high]
        assert (group in by_degree) is bool(own)
        if own:
            assert by_degree[group].nodes == len(own)
            assert by_degree[group].homophily == pytest.approx(np.mean([shares[v] for v in own]))
            assert by_degree[group].chance == chance_homophily(graph)


def test_the_last_group_of_degrees_has_no_end() -> None:
    star = Graph(np.zeros((301, 1)), [np.zeros(300, int), np.arange(1, 301)], np.arange(301) % 2)
    assert [(row.group, row.nodes) for row in homophily_by_degree(star)] == [("1", 300), ("128 or more", 1)]


def test_chance_is_the_mean_over_all_permutations() -> None:
    edges, y = [[0, 1, 2, 3, 0], [1, 2, 3, 4, 5]], np.array([0, 0, 1, 1, 1, -1])
    graph = Graph(np.zeros((6, 1)), edges, y)
    tables = [homophily_table(Graph(np.zeros((6, 1)), edges, np.append(labels, -1))) for labels in permutations(y[:5])]
    for name, value in chance_table(graph, permutations=300).items():
        assert value == pytest.approx(np.mean([table[name] for table in tables]), abs=0.06), name
    assert chance_table(graph) == chance_table(graph)
    assert chance_table(graph, seed=1) != chance_table(graph)


def test_homophily_among_some_nodes_does_not_see_the_others() -> None:
    edges, y = [[0, 1, 2, 3], [1, 2, 3, 4]], np.array([0, 0, 1, 1, 0])
    graph = Graph(np.zeros((5, 1)), edges, y)
    some = np.array([True, True, True, False, True])
    masked = Graph(np.zeros((5, 1)), edges, np.where(some, y, -1))
    assert adjusted_homophily_among(graph, some) == adjusted_homophily(masked) != adjusted_homophily(graph)
