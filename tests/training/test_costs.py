"""Costs of errors: what a text stands for, and the decision with the least expected cost against all others."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.training.costs import cheapest, cost_matrix, mean_cost

NAMES = ["legit", "fraud", "a:b"]


@each_of(
    ("text", "wanted"),
    [
        ("fraud:10", [[0, 1, 1], [10, 0, 10], [1, 1, 0]]),
        ("fraud:legit:10", [[0, 1, 1], [10, 0, 1], [1, 1, 0]]),
        ("fraud:10,fraud:a:b:0", [[0, 1, 1], [10, 0, 0], [1, 1, 0]]),
        ("a:b:0.5, legit:fraud:2", [[0, 2, 1], [1, 0, 1], [0.5, 0.5, 0]]),
        ("a:b:fraud:3", [[0, 1, 1], [1, 0, 1], [1, 3, 0]]),
    ],
)
def test_what_a_text_stands_for(text: str, wanted: list[list[float]]) -> None:
    assert cost_matrix(text, NAMES).tolist() == wanted


@each_of(
    ("text", "what"),
    [
        ("fraud", "'fraud' is not a class and a cost"),
        ("fraud:", "is not a class and a cost"),
        (":3", "is not a class and a cost"),
        ("fraud:ten", "is not a class and a cost"),
        ("fraud:-1", "is not a class and a cost"),
        ("fraud:inf", "is not a class and a cost"),
        ("fraud:nan", "is not a class and a cost"),
        ("", "is not a class and a cost"),
        ("fraud:1,", "is not a class and a cost"),
        ("frau:10", "'frau' is neither a class nor an error"),
        ("fraud:fraud:1", "'fraud:fraud' is neither a class nor an error"),
        ("legit:0,fraud:0,a:b:0", "no error costs anything"),
    ],
)
def test_texts_that_are_no_costs(text: str, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        cost_matrix(text, NAMES)


@given(st.integers(0, 2**20), st.integers(2, 3))
def test_no_other_labels_are_expected_to_cost_less(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet(np.ones(classes), size=4)
    costs = rng.integers(0, 9, (classes, classes)) * (1.0 - np.eye(classes))

    def expected(labels: tuple[int, ...]) -> float:
        return sum(
            probabilities[node, truth] * costs[truth, label]
            for node, label in enumerate(labels)
            for truth in range(classes)
        )

    chosen = tuple(cheapest(probabilities, costs).tolist())
    assert expected(chosen) == pytest.approx(min(map(expected, product(range(classes), repeat=4))))


def test_mean_cost() -> None:
    costs = cost_matrix("fraud:10", NAMES)
    assert mean_cost(np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1]), costs) == pytest.approx((0 + 10 + 0 + 1) / 4)
