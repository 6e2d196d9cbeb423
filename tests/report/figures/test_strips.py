"""Strips: every node is where the order has it, and shares are those of a literal count."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nlgnn.analysis import SortedSequence
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.report.figures import PALETTE, UNKNOWN, class_names, strips
from nlgnn.report.figures.strips import (
    BINS,
    ROWS_OF_SHARES,
    is_wrong,
    node_columns,
    number_of_bins,
    parts_of,
    positions,
    share_columns,
    strip_names,
    strips_chart,
)


class Sample(NamedTuple):
    graph: Graph
    before: SortedSequence
    after: SortedSequence
    probabilities: NDArray[np.float64]
    split: Split


def sample(num_nodes: int, classes: int = 3, seed: int = 0, names: list[str] | None = None) -> Sample:
    """Random orders, labels (some unknown), predictions and parts."""
    rng = np.random.default_rng(seed)
    y = rng.integers(-1, classes, size=num_nodes)
    graph = Graph(
        np.zeros((num_nodes, 1)),
        np.zeros((2, 0), np.int64),
        y,
        class_names=[f"class {label}" for label in range(classes)],
        node_names=names,
    )
    orders = [rng.permutation(num_nodes) for _ in range(2)]
    before, after = (SortedSequence(order, np.sort(rng.random(num_nodes)), y[order]) for order in orders)
    part = rng.integers(4, size=num_nodes)
    split = Split(part == 0, part == 1, part == 2)
    return Sample(graph, before, after, rng.dirichlet(np.ones(classes), num_nodes), split)


def test_positions_are_the_inverse_of_the_order() -> None:
    assert positions(SortedSequence(np.array([2, 0, 1]), np.zeros(3), np.zeros(3, np.int64))).tolist() == [1, 2, 0]


def test_parts() -> None:
    split = Split([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0])
    assert [strips.PARTS[part] for part in parts_of(split)] == ["training", "validation", "test", "in no part"]


def test_unknown_labels_have_a_name_and_are_never_wrong() -> None:
    graph = Graph(np.zeros((3, 1)), np.zeros((2, 0), np.int64), [-1, 0, 1], class_names=["a", "b"])
    assert class_names(graph, graph.y) == ["unknown", "a", "b"]
    assert is_wrong(graph, np.array([0, 1, 1])).tolist() == [False, True, False]


@pytest.mark.parametrize("names", [None, [f"node {number}" for number in range(7)]], ids=["numbers", "names"])
def test_columns_of_nodes(names: list[str] | None) -> None:
    graph, before, after, probabilities, split = sample(7, names=names)
    nodes = np.array([5, 0, 3])
    columns = node_columns(graph, before, after, probabilities, split, nodes)
    known = [*graph.class_names, "unknown"]
    masks = {"training": split.train, "validation": split.val, "test": split.test}
    for row, node in enumerate(nodes.tolist()):
        found = {name: column[row] for name, column in columns.items()}
        prediction = int(probabilities[node].argmax())
        position = after.nodes.tolist().index(node)
        assert found == {
            "node": node if names is None else names[node],
            "label": known[graph.y[node]],
            "prediction": known[prediction],
            "probability": probabilities[node, prediction],
            "score": after.scores[position],
            "position": position,
            "position before": before.nodes.tolist().index(node),
            "part": next((part for part, mask in masks.items() if mask[node]), "in no part"),
            "wrong": graph.y[node] not in (-1, prediction),
        }


def counted_by_hand(given: Sample) -> dict[tuple[int, int, str], float]:
    """Of each strip, bin and class the share, one node after the other."""
    graph, split = given.graph, given.split
    names, n, bins = [*graph.class_names, "unknown"], graph.num_nodes, number_of_bins(graph.num_classes)
    predictions = given.probabilities.argmax(1)
    counts: Counter[tuple[int, int, str]] = Counter()
    totals: Counter[tuple[int, int]] = Counter()
    for strip, order in ((0, given.before), (1, given.after)):
        for place, node in enumerate(order.nodes.tolist()):
            counts[strip, place * bins // n, names[graph.y[node]]] += 1
            totals[strip, place * bins // n] += 1
    for place, node in enumerate(given.after.nodes.tolist()):
        bin = place * bins // n
        for strip, mask in ((2, split.train), (3, split.val), (4, split.test)):
            if mask[node]:
                counts[strip, bin, names[graph.y[node]]] += 1
                totals[strip, bin] += 1
        totals[5, bin] += 1
        if graph.y[node] >= 0 and predictions[node] != graph.y[node]:
            counts[5, bin, names[predictions[node]]] += 1
    return {(strip, bin, name): count / totals[strip, bin] for (strip, bin, name), count in counts.items()}


@given(st.sampled_from([1, 50, BINS, BINS + 1, 1500]), st.integers(1, 5), st.integers(0, 20))
def test_shares_are_those_of_a_literal_count(num_nodes: int, classes: int, seed: int) -> None:
    given_sample = sample(num_nodes, classes, seed)
    columns: Any = share_columns(*given_sample[:3], given_sample.probabilities.argmax(1), given_sample.split)
    found = {
        (strip, bin, name): high - low
        for strip, bin, name, low, high in zip(*(columns[name] for name in columns), strict=True)
    }
    assert list(columns) == ["strip", "bin", "class", "low", "high"]
    expected = counted_by_hand(given_sample)
    assert found.keys() == expected.keys()
    assert found == pytest.approx(expected)


def test_shares_stand_on_top_of_each_other_and_add_up_to_one() -> None:
    given_sample = sample(1500)
    columns: Any = share_columns(*given_sample[:3], given_sample.probabilities.argmax(1), given_sample.split)
    for strip in range(6):
        for bin in range(BINS):
            here = (columns["strip"] == strip) & (columns["bin"] == bin)
            low, high = np.sort(columns["low"][here]), np.sort(columns["high"][here])
            if strip < 2 or (strip < 5 and here.any()):  # a bin may have no node of a part
                assert (low[0], high[-1]) == pytest.approx((0, 1))
            np.testing.assert_allclose(low[1:], high[:-1])


def test_many_classes_have_fewer_parts() -> None:
    assert number_of_bins(7) == BINS
    assert 6 * 201 * number_of_bins(200) <= ROWS_OF_SHARES
    assert number_of_bins(10**6) == 20


@pytest.mark.parametrize(("length", "listed"), [(BINS, True), (BINS + 1, True), (BINS + 1, False)])
def test_charts_are_valid(length: int, listed: bool) -> None:
    chart = strips_chart(strip_names(7), ["a", "b"], length, listed, True).to_dict()  # which validates it
    drawn = [layer["data"]["name"] for layer in chart["layer"]]
    assert drawn == ["bins"] * (length > BINS) + ["nodes"] * 4 * listed + ["mark"]
    assert {"name": "high", "value": length} in chart["params"]
    colours = chart["layer"][0]["encoding"]["color"]["scale"]
    assert colours == {"domain": ["a", "b", "unknown"], "range": [*PALETTE[:2], UNKNOWN]}
