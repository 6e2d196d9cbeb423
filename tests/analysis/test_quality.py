"""Figures of held-back predictions, against loops over runs and nodes that are written as their definitions read."""

from __future__ import annotations

from statistics import fmean, stdev
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.dummy import DummyClassifier
from sklearn.metrics import confusion_matrix

from nlgnn.analysis.quality import (
    Accuracy,
    HeldBack,
    accuracy_by_class,
    accuracy_by_degree,
    accuracy_by_local_homophily,
    calibration,
    calibration_error,
    confusion_counts,
    held_back,
    majority_accuracy,
)
from nlgnn.datasets import load_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import configure
from nlgnn.training.fit import fit, predict
from nlgnn.training.recipe import Recipe

CLASSES = ("a", "b", "c", "d")


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """The parts of a graph, of splits, and probabilities. Unlabelled and isolated nodes and absent classes occur."""
    n, runs = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=30))
    roles = st.lists(st.sampled_from(["train", "test", "test", "none"]), min_size=n, max_size=n)
    votes = st.lists(st.integers(1, 9), min_size=len(CLASSES), max_size=len(CLASSES))
    weights = np.array(draw(st.lists(votes, min_size=runs * n, max_size=runs * n)), float).reshape(runs, n, -1)
    return {
        "edges": np.array(edges, np.int64).reshape(-1, 2).T,
        "y": np.array(draw(st.lists(st.integers(-1, 2), min_size=n, max_size=n))),
        "roles": np.array(draw(st.lists(roles, min_size=runs, max_size=runs))),
        "probabilities": weights / weights.sum(2, keepdims=True),
    }


def build(case: dict[str, Any]) -> tuple[Graph, list[Split], HeldBack]:
    n = len(case["y"])
    graph = Graph(np.zeros((n, 1)), case["edges"], case["y"], class_names=CLASSES)
    splits = [Split(roles == "train", np.zeros(n, bool), roles == "test") for roles in case["roles"]]
    return graph, splits, held_back(case["probabilities"], graph, splits)


def entries(case: dict[str, Any]) -> list[tuple[int, int, int, int, float]]:
    """Node, run, label, prediction and confidence of what is held back, literally."""
    found = []
    for run, roles in enumerate(case["roles"]):
        for node, role in enumerate(roles):
            if role == "test" and case["y"][node] >= 0:
                each = case["probabilities"][run, node].tolist()
                found.append((node, run, int(case["y"][node]), each.index(max(each)), max(each)))
    return found


def neighbours(graph: Graph, node: int) -> set[int]:
    pairs = graph.edge_index.T.tolist()
    return {b if a == node else a for a, b in pairs if node in (a, b)} - {node}


def rows_by_group(case: dict[str, Any], group_of: dict[int, str]) -> dict[str, Accuracy]:
    by_group: dict[str, list[tuple[int, int, bool]]] = {}
    for node, run, label, prediction, _ in entries(case):
        by_group.setdefault(group_of[node], []).append((node, run, label == prediction))
    rows = {}
    for group, members in by_group.items():
        runs = sorted({run for _, run, _ in members})
        each = [100 * fmean(right for _, of_run, right in members if of_run == run) for run in runs]
        std = stdev(each) if len(each) > 1 else None
        rows[group] = Accuracy(group, len(members), len({node for node, *_ in members}), fmean(each), std)
    return rows


def assert_rows(rows: list[Accuracy], expected: dict[str, Accuracy], order: list[str]) -> None:
    assert [row.group for row in rows] == [group for group in order if group in expected]
    for row in rows:
        assert row == pytest.approx(expected[row.group])


@given(cases())
def test_held_back_and_confusion_equal_their_loops(case: dict[str, Any]) -> None:
    _, _, held = build(case)
    assert list(zip(*(values.tolist() for values in held), strict=True)) == entries(case)
    counts = confusion_counts(held, len(CLASSES))
    expected = np.zeros((4, 4), int)
    for _, _, label, prediction, _ in entries(case):
        expected[label, prediction] += 1
    np.testing.assert_array_equal(counts, expected)
    if len(held.nodes):
        np.testing.assert_array_equal(counts, confusion_matrix(held.labels, held.predictions, labels=range(4)))


@given(cases(), st.integers(1, 12))
def test_calibration_equals_its_loop(case: dict[str, Any], bins: int) -> None:
    _, _, held = build(case)
    rows = calibration(held, bins)
    error, expected = 0.0, []
    for number in range(bins):
        low, high = number / bins, (number + 1) / bins
        inside = [
            (confidence, label == prediction)
            for _, _, label, prediction, confidence in entries(case)
            if low < confidence <= high
        ]
        if inside:
            confidence, accuracy = (fmean(values) for values in zip(*inside, strict=True))
            expected.append((low, high, len(inside), confidence, accuracy))
            error += len(inside) / len(held.nodes) * abs(confidence - accuracy)
    assert len(rows) == len(expected)
    for row, by_hand in zip(rows, expected, strict=True):
        assert tuple(row) == pytest.approx(by_hand)
    assert calibration_error(rows) == (pytest.approx(error) if expected else None)


@given(cases())
def test_accuracy_by_group_equals_its_loops(case: dict[str, Any]) -> None:
    graph, _, held = build(case)
    by_class = {node: CLASSES[label] for node, label in enumerate(graph.y)}
    assert_rows(accuracy_by_class(held, graph), rows_by_group(case, by_class), list(CLASSES))

    degrees = ["0", "1", "2 to 3", "4 to 7", "8 to 15"]
    bounds = [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15)]
    by_degree = {
        node: next(g for g, (a, b) in zip(degrees, bounds, strict=True) if a <= len(neighbours(graph, node)) <= b)
        for node in range(graph.num_nodes)
    }
    assert_rows(accuracy_by_degree(held, graph), rows_by_group(case, by_degree), degrees)

    by_homophily = {}
    for node, label in enumerate(graph.y.tolist()):
        known = [int(graph.y[other]) for other in neighbours(graph, node) if graph.y[other] >= 0]
        by_homophily[node] = homophily_group(known.count(label) / len(known) if known else None)
    order = ["0", "0 to 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 to 1", "1", "no labelled neighbour"]
    assert_rows(accuracy_by_local_homophily(held, graph), rows_by_group(case, by_homophily), order)


def homophily_group(share: float | None) -> str:
    if share is None:
        return "no labelled neighbour"
    if share in (0, 1):
        return str(int(share))
    return next(f"{low:g} to {low + 0.25:g}" for low in (0, 0.25, 0.5, 0.75) if low <= share < low + 0.25)


def test_every_share_of_agreeing_neighbours_has_its_group() -> None:
    """The middle of a star, which agrees with so many of its four neighbours."""
    found = []
    for agreeing in range(5):
        y = [0] + [0] * agreeing + [1] * (4 - agreeing)
        graph = Graph(np.zeros((5, 1)), [[0] * 4, [1, 2, 3, 4]], y, class_names=("a", "b"))
        split = Split.from_indices(5, [1], [2], [0])
        found += [
            row.group for row in accuracy_by_local_homophily(held_back(np.ones((1, 5, 2)), graph, [split]), graph)
        ]
    assert found == ["0", "0.25 to 0.5", "0.5 to 0.75", "0.75 to 1", "1"]


def test_degrees_count_unlabelled_neighbours_and_end_in_an_open_group() -> None:
    star = Graph(np.zeros((301, 1)), [np.zeros(300, int), np.arange(1, 301)], [0] + [-1] * 300)
    held = held_back(np.ones((1, 301, 1)), star, [Split.from_indices(301, [], [], range(301))])
    assert accuracy_by_degree(held, star) == [Accuracy("128 or more", 1, 1, 100.0, None)]
    assert accuracy_by_local_homophily(held, star) == [Accuracy("no labelled neighbour", 1, 1, 100.0, None)]


def test_a_mean_over_runs_is_not_the_pooled_share() -> None:
    """One run has one test node of the class, and is right; the other has three, and is wrong."""
    graph = Graph(np.zeros((4, 1)), np.zeros((2, 0), int), [0] * 4, class_names=("a", "b"))
    splits = [Split.from_indices(4, [], [], nodes) for nodes in ([0], [0, 1, 2])]
    held = held_back(np.array([[[0.9, 0.1]] * 4, [[0.2, 0.8]] * 4]), graph, splits)
    assert accuracy_by_class(held, graph) == [Accuracy("a", 4, 3, 50.0, pytest.approx(stdev([0, 100])))]
    assert confusion_counts(held, 2).tolist() == [[1, 3], [0, 0]]


@pytest.mark.parametrize(
    ("y", "test_nodes", "names"), [([-1, -1, -1], [0, 1, 2], ()), ([0, 1, -1], [2], ("a", "b")), ([0, 1, 1], [], ())]
)
def test_without_test_labels_there_is_nothing(y: list[int], test_nodes: list[int], names: tuple[str, ...]) -> None:
    graph = Graph(np.zeros((3, 1)), [[0], [1]], y, class_names=names)
    split = Split.from_indices(3, [], [], test_nodes)
    held = held_back(np.full((2, 3, 2), 0.5, np.float32), graph, [split, split])
    assert [values.shape for values in held] == [(0,)] * 5
    assert confusion_counts(held, 2).tolist() == [[0, 0], [0, 0]]
    assert calibration(held) == []
    assert calibration_error(calibration(held)) is None
    for accuracies in (accuracy_by_class, accuracy_by_degree, accuracy_by_local_homophily):
        assert accuracies(held, graph) == []
    assert majority_accuracy(graph, split) is None


def test_one_class_is_always_right() -> None:
    graph = Graph(np.zeros((3, 1)), [[0], [1]], [0, 0, 0])
    split = Split.from_indices(3, [0], [], [1, 2])
    held = held_back(np.ones((1, 3, 1), np.float32), graph, [split])
    assert confusion_counts(held, 1).tolist() == [[2]]
    assert calibration(held) == [(0.9, 1.0, 2, 1.0, 1.0)]
    assert calibration_error(calibration(held)) == 0
    assert accuracy_by_class(held, graph) == [Accuracy("0", 2, 2, 100.0, None)]
    assert majority_accuracy(graph, split) == 100


def test_confidences_beyond_one_by_rounding_are_in_the_last_bin() -> None:
    one = np.zeros(2, np.int32)
    held = HeldBack(one, one, one, one, np.array([0, 1.0000001], np.float32))
    assert [(row.high, row.predictions) for row in calibration(held, 4)] == [(0.25, 1), (1.0, 1)]


@given(cases())
def test_majority_equals_that_of_scikit_learn(case: dict[str, Any]) -> None:
    graph, splits, _ = build(case)
    for split in splits:
        train, test = (np.flatnonzero(part & graph.labelled) for part in (split.train, split.test))
        found = majority_accuracy(graph, split)
        if len(test) == 0:
            assert found is None
        elif len(train):
            # Of equally frequent classes it, too, takes the first.
            dummy = DummyClassifier(strategy="most_frequent").fit(train[:, None], graph.y[train])
            assert found == pytest.approx(100 * dummy.score(test[:, None], graph.y[test]))


def test_test_labels_never_choose_the_majority() -> None:
    """Among all labels class 1 is the most frequent one, in training it is class 0."""
    split = Split.from_indices(7, [0, 1, 2], [], [3, 4, 5, 6])
    for of_test, expected in [([1, 1, 1, 1], 0), ([1, 1, 1, 0], 25), ([0, 1, 1, 1], 25), ([-1, 0, 1, -1], 50)]:
        graph = Graph(np.zeros((7, 1)), np.zeros((2, 0), int), [0, 0, 1, *of_test])
        assert majority_accuracy(graph, split) == expected


def test_figures_are_those_of_the_runs(data_root: object) -> None:
    """What was measured in training, on a real graph: mean accuracy, and the same predictions behind it."""
    graph = load_graph("texas")
    factory, recipe = configure("mlp", graph)
    recipe = Recipe(**{**recipe.model_dump(), "epochs": 20})
    splits = make_splits(graph, "random-60", 3)
    runs = fit(factory, graph, splits, recipe, progress=False)
    held = held_back(predict(factory, graph, runs, recipe).numpy(), graph, splits)
    each = [float(100 * (held.labels == held.predictions)[held.runs == run.index].mean()) for run in runs]
    assert each == pytest.approx([run.test["accuracy"] for run in runs])
    for rows in (accuracy_by_class(held, graph), accuracy_by_degree(held, graph), calibration(held)):
        assert sum(row.predictions for row in rows) == sum(int(split.test.sum()) for split in splits)
