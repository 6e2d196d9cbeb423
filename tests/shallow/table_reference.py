"""The table of neighbour features, literally: loops over nodes and neighbours, dense and slow."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from nlgnn.graph.graph import Graph

Lists = dict[str, list[list[int]]]


def neighbour_lists(graph: Graph, by_direction: bool) -> Lists:
    """Distinct neighbours of each node without itself, by direction."""
    found = {way: [set() for _ in range(graph.num_nodes)] for way in ("out", "in", "all")}
    for u, v in graph.edge_index.T.tolist():
        if u != v:
            found["out"][u].add(v)
            found["in"][v].add(u)
            found["all"][u].add(v)
            found["all"][v].add(u)
    lists = {way: [sorted(one) for one in sets] for way, sets in found.items()}
    return lists if by_direction else {"all": lists["all"]}


def over_neighbours(
    statistic: Callable[[NDArray[np.float64]], float], neighbours: list[list[int]], x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """A statistic of the values of neighbours that are not missing; 0 without any."""
    result = np.zeros_like(x)
    for v, near in enumerate(neighbours):
        for j in range(x.shape[1]):
            values = np.array([x[u, j] for u in near if not math.isnan(x[u, j])])
            result[v, j] = statistic(values) if len(values) else 0
    return result


def neighbour_block(neighbours: list[list[int]], x: NDArray[np.float64], spreads: bool) -> list[NDArray[np.float64]]:
    """Mean, standard deviation, minimum, maximum, and the mean of means."""
    means = over_neighbours(np.mean, neighbours, x)
    spread = [over_neighbours(one, neighbours, x) for one in (np.std, np.min, np.max)] if spreads else []
    return [means, *spread, over_neighbours(np.mean, neighbours, means)]


def log_degrees(neighbours: list[list[int]]) -> NDArray[np.float64]:
    return np.array([[math.log(1 + len(near))] for near in neighbours])


def pagerank(outgoing: list[list[int]]) -> NDArray[np.float64]:
    rank = np.ones(len(outgoing))
    for _ in range(30):
        new = np.full(len(rank), 0.15)
        for u, near in enumerate(outgoing):
            for v in near:
                new[v] += 0.85 * rank[u] / len(near)
        rank = new
    return np.log(rank)[:, None]


def clustering(neighbours: list[list[int]]) -> NDArray[np.float64]:
    shares = []
    for near in neighbours:
        pairs = list(combinations(near, 2))
        shares.append([sum(b in neighbours[a] for a, b in pairs) / len(pairs) if pairs else 0.0])
    return np.array(shares)


def structure_block(lists: Lists) -> list[NDArray[np.float64]]:
    degrees = log_degrees(lists["all"])
    near = over_neighbours(np.mean, lists["all"], degrees)
    far = over_neighbours(np.mean, lists["all"], near)
    columns = [degrees, near, far, pagerank(lists["all"]), clustering(lists["all"])]
    if "out" in lists:
        columns += [log_degrees(lists["out"]), log_degrees(lists["in"]), pagerank(lists["out"])]
    return columns


def label_block(lists: Lists, known: NDArray[np.int64], num_classes: int) -> NDArray[np.float64]:
    """Class shares of training nodes at one and two hops; the node itself is never among them."""
    paths = [("all", "all")]
    if "out" in lists:
        paths = [("out", "out"), ("in", "in"), ("out", "in"), ("in", "out"), ("all", "all")]
    rows = []
    for v in range(len(known)):
        row: list[float] = []
        for neighbours in lists.values():
            labels = [known[u] for u in neighbours[v] if known[u] >= 0]
            row += [(labels.count(c) + 2 / num_classes) / (len(labels) + 2) for c in range(num_classes)]
            row.append(math.log(1 + len(labels)))
        for first, second in paths:
            ends = [w for u in lists[first][v] for w in lists[second][u] if w != v]
            labels = [known[w] for w in ends if known[w] >= 0]
            degree = max(1, len(lists[first][v]))
            total = len(labels) / degree + 1
            row += [(labels.count(c) / degree + 1 / num_classes) / total for c in range(num_classes)]
        rows.append(row)
    return np.array(rows)


@st.composite
def table_graphs(draw: st.DrawFn, missing: bool = False) -> dict[str, Any]:
    """The arguments of a Graph with loops, repeated edges and isolated nodes, perhaps directed."""
    n = draw(st.integers(1, 9))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=25))
    d = draw(st.integers(0, 3))
    value = st.sampled_from([-1.5, 0.0, 1.0, 1000.0] + [math.nan] * missing)
    return {
        "x": np.array(draw(st.lists(value, min_size=n * d, max_size=n * d)), np.float32).reshape(n, d),
        "edge_index": np.array(edges, np.int64).reshape(-1, 2).T,
        "y": np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))),
        "class_names": ("a", "b", "c"),
        "directed": draw(st.booleans()),
    }
