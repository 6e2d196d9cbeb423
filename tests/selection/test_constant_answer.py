"""A choice compared with a constant answer, which is the same for all nodes."""

from __future__ import annotations

import pytest
import torch
from race_samples import board, labelled, row

from each_of import each_of
from nlgnn.graph.splits import Split, make_splits
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry
from nlgnn.selection.race_verdict import constant_figure, not_better_than_constant
from nlgnn.training.replica import Run


def test_constant_answer() -> None:
    graph = labelled(10)
    split = make_splits(graph, "random-60", 1)[0]
    wanted = {"accuracy": 90.0, "roc-auc": 50.0, "average-precision": 10.0, "balanced-accuracy": 50.0, "f1": 0.0}
    assert {metric: constant_figure(graph, split, metric) for metric in wanted} == pytest.approx(wanted)
    splits = make_splits(graph, "random-60", 3)
    level, ahead = row("a", 90, 90, 95), row("b", 95, 96, 97)
    words = not_better_than_constant(board(level), level, graph, splits)
    assert words.startswith("No model is clearly better than the majority class: validation accuracy 91.7")
    assert not_better_than_constant(board(ahead), ahead, graph, splits) == ""


@each_of("metric", ["accuracy", "average-precision", "log-loss"])
def test_a_single_run_is_compared_with_a_constant_answer_on_samples_of_its_validation_nodes(metric: str) -> None:
    graph = labelled(30)
    (split,) = make_splits(graph, "random-60", 1)
    y = torch.from_numpy(graph.y[split.val])
    right = torch.eye(2)[y] * 0.8 + 0.1
    lucky = torch.full_like(right, 0.5)
    lucky[y.nonzero()[0, 0]] = torch.tensor([0.1, 0.9])  # of a single node the model knows the class
    for probabilities, clear in ((right, True), (lucky, False)):
        found = Run(0, 0, "random-60", 0, validation=probabilities)
        one = Row(Entry("a", "mlp"), "finished", "", [{metric: 99.0}], [{}])
        words = not_better_than_constant(Leaderboard("x", "random-60", metric, [one]), one, graph, [split], [found])
        assert (words == "") == clear


def test_validation_nodes_of_one_class_cannot_tell() -> None:
    graph = labelled(10)
    split = Split.from_indices(100, range(50), range(50, 70), range(70, 100))
    one = row("a", 99)
    assert "are of one class" in not_better_than_constant(board(one), one, graph, [split])


def test_splits_with_validation_nodes_of_one_class_are_left_out() -> None:
    graph = labelled(10)
    splits = [
        *make_splits(graph, "random-60", 3),
        Split.from_indices(100, range(50), range(50, 70), range(70, 100), index=3),
    ]
    level, ahead = row("a", 90, 90, 95, 99), row("b", 95, 96, 97, 0)
    words = not_better_than_constant(board(level), level, graph, splits)
    assert words.startswith("No model is clearly better than the majority class: validation accuracy 91.7")
    assert not_better_than_constant(board(ahead), ahead, graph, splits) == ""
