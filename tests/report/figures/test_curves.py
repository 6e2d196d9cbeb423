"""Training curves: thinned or not, the chosen epoch is there with its own figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlgnn.report.figures.quality import POINTS, curve_columns, curve_figures, shown_epochs
from nlgnn.training.replica import Run


def run(epochs: int, chosen: int, index: int = 0, **curves: Any) -> Run:
    of_run = {
        "train_loss": [1 / (1 + epoch) for epoch in range(epochs)],
        "val_loss": [2 / (1 + epoch) for epoch in range(epochs)],
        "val_metric": [50 + epoch / 100 for epoch in range(epochs)],
    }
    return Run(index, index, "random-60", index, epochs, chosen, curves=of_run | curves)


@given(st.integers(1, 5 * POINTS), st.data())
def test_the_chosen_epoch_is_always_drawn(epochs: int, data: st.DataObject) -> None:
    chosen = data.draw(st.integers(1, epochs))
    shown = shown_epochs(run(epochs, chosen))
    assert chosen in shown
    assert len(shown) <= POINTS + 1
    assert shown[0] == 1
    assert (np.diff(shown) > 0).all()
    if epochs <= POINTS:
        assert shown.tolist() == list(range(1, epochs + 1))


def test_a_row_an_epoch_and_run() -> None:
    columns = curve_columns([run(2, 2), run(3, 1, index=4)])
    assert {name: list(column) for name, column in columns.items()} == {
        "run": [0, 0, 4, 4, 4],
        "epoch": [1, 2, 1, 2, 3],
        "chosen": [False, True, True, False, False],
        "train_loss": [1, 1 / 2, 1, 1 / 2, 1 / 3],
        "val_loss": [2, 1, 2, 1, 2 / 3],
        "val_metric": pytest.approx([50, 50.01, 50, 50.01, 50.02]),
    }


def test_values_of_a_thinned_curve_are_those_of_its_epochs() -> None:
    columns: Any = curve_columns([run(1000, 777)])
    np.testing.assert_allclose(columns["train_loss"], 1 / columns["epoch"])
    assert columns["epoch"][columns["chosen"]].tolist() == [777]


def test_figures_are_valid_and_say_when_epochs_are_left_out() -> None:
    failed = Run(1, 1, "random-60", 1, failure="loss is nan")
    loss, metric = curve_figures([run(1000, 7), failed], "the best epoch", "accuracy")
    assert list(loss.tables["rows"]) == ["run", "epoch", "chosen", "training loss", "validation loss"]
    assert list(metric.tables["rows"]) == ["run", "epoch", "chosen", "validation accuracy %"]
    for figure in (loss, metric):
        figure.chart.to_dict()
        assert figure.caption.endswith("the best epoch. Not every epoch is drawn.")
    assert curve_figures([run(POINTS, 7)], "the best epoch", "accuracy")[0].caption.endswith("the best epoch.")


def test_no_curves_no_figures() -> None:
    assert curve_figures([Run(0, 0, "random-60", 0, failure="loss is nan")], "", "accuracy") == []
    assert curve_figures([Run(0, 0, "random-60", 0, 3, 1)], "", "accuracy") == []
