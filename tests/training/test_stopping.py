"""The stopping and selection rules against literal, slow versions."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgnn.training.recipe import Recipe
from nlgnn.training.stopping import is_better, should_stop

# Whole numbers, so that means are compared exactly.
losses = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=24)
small = st.integers(1, 8)


def stops_at(recipe: Recipe, val_losses: list[float], best_epochs: list[int]) -> int | None:
    """The first epoch after which training stops."""
    for epoch in range(1, len(val_losses) + 1):
        if should_stop(recipe, val_losses[:epoch], best_epochs[epoch - 1]):
            return epoch
    return None


@given(losses, small, st.integers(1, 30))
def test_window_rule(values: list[float], window: int, epochs: int) -> None:
    def literally() -> int | None:
        for epoch in range(1, len(values) + 1):  # epochs count from 1, as in the paper's program
            if 2 * epoch > epochs:
                before = [values[e - 1] for e in range(epoch - window, epoch) if e >= 1]
                if before and Fraction(values[epoch - 1]) > sum(map(Fraction, before)) / len(before):
                    return epoch
        return None

    recipe = Recipe(stopping="window", window=window, epochs=epochs)
    assert stops_at(recipe, values, [1] * len(values)) == literally()


@pytest.mark.parametrize(
    ("values", "window", "epochs", "expected"),
    [
        ([1, 2, 3, 4, 5, 6], 100, 6, 4),  # not before half of the epochs is over
        ([1, 2, 3, 4, 5, 6], 100, 7, 4),
        ([1, 2, 3, 4, 5, 6], 100, 8, 5),
        ([5, 5, 5, 5], 2, 2, None),  # equal is not above
        ([0, 0, 4, 3, 3.5], 2, 1, 3),  # 4 > mean(0, 0)
        ([9, 9, 3, 1, 2, 1.6], 2, 1, 6),  # 2 is mean(3, 1), not above; 1.6 > mean(1, 2): its own value does not count
        ([1], 2, 1, None),  # nothing to compare with
    ],
)
def test_window_rule_by_hand(values: list[float], window: int, epochs: int, expected: int | None) -> None:
    recipe = Recipe(stopping="window", window=window, epochs=epochs)
    assert stops_at(recipe, [float(value) for value in values], [1] * len(values)) == expected


@given(losses, small)
def test_patience_rule(values: list[float], patience: int) -> None:
    best_epochs = [1 + values[:epoch].index(min(values[:epoch])) for epoch in range(1, len(values) + 1)]

    def literally() -> int | None:
        waited = 0
        for epoch, best in enumerate(best_epochs, start=1):
            waited = 0 if best == epoch else waited + 1
            if waited == patience:
                return epoch
        return None

    assert stops_at(Recipe(stopping="patience", patience=patience), values, best_epochs) == literally()


@given(losses)
def test_never(values: list[float]) -> None:
    assert stops_at(Recipe(stopping="never", epochs=1, patience=1, window=1), values, [1] * len(values)) is None


@given(st.lists(st.tuples(st.integers(0, 3).map(float), st.integers(0, 3).map(float)), min_size=1, max_size=12))
def test_selection(epochs: list[tuple[float, float]]) -> None:
    metrics, val_losses = [metric for metric, _ in epochs], [loss for _, loss in epochs]
    best, lowest = max(metrics), min(val_losses)
    expected = {
        "first-best": metrics.index(best),
        "last-best": len(metrics) - 1 - metrics[::-1].index(best),
        "lowest-loss": val_losses.index(lowest),  # of equal ones the first
    }
    for selection, wanted in expected.items():
        recipe, chosen = Recipe(selection=selection), 0
        for epoch in range(1, len(epochs)):
            if is_better(recipe, *epochs[epoch], *epochs[chosen]):
                chosen = epoch
        assert chosen == wanted, selection
