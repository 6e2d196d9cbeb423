"""The stopping and selection rules against literal, slow versions."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from each_of import each_of
from nlgnn.training.recipe import Course, Recipe

# Whole numbers, so that means are compared exactly.
losses = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=24)
epochs_of_training = st.lists(  # metric, loss
    st.tuples(st.integers(0, 3).map(float), st.integers(0, 3).map(float)), min_size=1, max_size=12
)
small = st.integers(1, 8)


def stops_at(recipe: Recipe, val_losses: list[float], metrics: list[float] | None = None) -> int | None:
    """The first epoch after which training stops."""
    course = Course(recipe)
    for epoch, (loss, metric) in enumerate(zip(val_losses, metrics or val_losses, strict=True), start=1):
        course.note(loss, metric)
        if course.is_over:
            return epoch
    return None


@given(losses, small, st.integers(1, 30))
def test_window_rule(values: list[float], window: int, epochs: int) -> None:
    def literally() -> int | None:
        for epoch in range(1, min(epochs, len(values)) + 1):  # epochs count from 1, as in the paper's program
            if 2 * epoch > epochs:
                before = [values[e - 1] for e in range(epoch - window, epoch) if e >= 1]
                if before and Fraction(values[epoch - 1]) > sum(map(Fraction, before)) / len(before):
                    return epoch
        return epochs if epochs <= len(values) else None

    recipe = Recipe(stopping="window", window=window, epochs=epochs)
    assert stops_at(recipe, values) == literally()


@each_of(
    ("values", "window", "epochs", "expected"),
    [
        ([1, 2, 3, 4, 5, 6], 100, 6, 4),  # not before half of the epochs is over
        ([1, 2, 3, 4, 5, 6], 100, 7, 4),
        ([1, 2, 3, 4, 5, 6], 100, 8, 5),
        ([5, 5, 5, 5], 2, 5, None),  # equal is not above
        ([0, 0, 4, 3, 3.5], 2, 4, 3),  # 4 > mean(0, 0)
        ([9, 9, 3, 1, 2, 1.6], 2, 7, 6),  # 2 is mean(3, 1), not above; 1.6 > mean(1, 2): its own value does not count
        ([1, 0, 0], 2, 2, 2),  # the last epoch of all
    ],
)
def test_window_rule_by_hand(values: list[float], window: int, epochs: int, expected: int | None) -> None:
    recipe = Recipe(stopping="window", window=window, epochs=epochs)
    assert stops_at(recipe, [float(value) for value in values]) == expected


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

    recipe = Recipe(stopping="patience", patience=patience, selection="lowest-loss")
    assert stops_at(recipe, values) == literally()


@given(epochs_of_training, small)
def test_patience_for_either(epochs: list[tuple[float, float]], patience: int) -> None:
    def literally() -> int | None:
        waited = 0
        for epoch, (metric, loss) in enumerate(epochs, start=1):
            before = epochs[: epoch - 1]
            if all(metric >= other for other, _ in before) or all(loss <= other for _, other in before):
                waited = 0
            else:
                waited += 1
            if waited == patience:
                return epoch
        return None

    metrics, val_losses = ([pair[which] for pair in epochs] for which in (0, 1))
    assert stops_at(Recipe(stopping="patience-either", patience=patience), val_losses, metrics) == literally()


@given(losses)
def test_never(values: list[float]) -> None:
    assert stops_at(Recipe(stopping="never", epochs=25, patience=1, window=1), values) is None


@given(epochs_of_training)
def test_selection(epochs: list[tuple[float, float]]) -> None:
    metrics, val_losses = [metric for metric, _ in epochs], [loss for _, loss in epochs]
    best, lowest = max(metrics), min(val_losses)
    both = [
        epoch
        for epoch, (metric, loss) in enumerate(epochs)
        if metric == max(metrics[: epoch + 1]) and loss == min(val_losses[: epoch + 1])
    ]
    expected = {
        "first-best": metrics.index(best),
        "last-best": len(metrics) - 1 - metrics[::-1].index(best),
        "lowest-loss": val_losses.index(lowest),  # of equal ones the first
        "last-both": both[-1],
    }
    for selection, wanted in expected.items():
        course = Course(Recipe(selection=selection))
        kept = [course.note(loss, metric) for metric, loss in epochs]
        assert course.best_epoch - 1 == wanted, selection
        assert kept[wanted]
        assert not any(kept[wanted + 1 :])


@given(losses, small, st.sampled_from([1.0, 0.8, 0.5]))
def test_learning_rate_as_torch_lowers_it(values: list[float], patience: int, factor: float) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.05)
    if factor < 1:  # torch does not take a factor that changes nothing
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=factor, patience=patience)
    course = Course(Recipe(lr=0.05, lr_factor=factor, lr_patience=patience))
    for value in values:
        course.note(value, 0.0)
        if factor < 1:
            scheduler.step(value)
        assert course.lr == pytest.approx(optimizer.param_groups[0]["lr"])


@pytest.mark.parametrize("rule", ["patience", "patience-either"])
def test_nothing_stops_pretraining(rule: str) -> None:
    recipe = Recipe(stopping=rule, patience=2, pretrain_epochs=5, epochs=9)
    course = Course(recipe)
    states = []
    for epoch in range(8):
        course.note(1.0 + epoch, 50.0 - epoch)  # worse and worse
        states.append((course.is_pretraining, course.is_over))
    assert states == [(True, False)] * 4 + [(False, False)] * 2 + [(False, True)] * 2  # patience begins anew
