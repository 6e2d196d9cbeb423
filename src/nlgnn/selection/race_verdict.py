"""The verdict of a race: what helped, each as a paired difference of two entries in validation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import adjusted_homophily_among
from nlgnn.graph.splits import Split
from nlgnn.selection.diagnosis import Verdict, judge
from nlgnn.selection.evidence import better_graph_model
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import TREES
from nlgnn.selection.statistics import Interval, SingleRun, common_figures, is_clearly_better, paired_interval
from nlgnn.training.metrics import log_probabilities, measure
from nlgnn.training.recipe import metric_text
from nlgnn.training.replica import Run

SUBJECTS = {
    "direction": "The direction of edges",
    "labels": "Training labels as input",
    "non-local": "Mixing distant nodes (against kernel 1)",
}


@dataclass(frozen=True)
class Finding:
    """The answer to one question: an entry minus another one, in validation.

    Args:
        subject: What may help.
        one: The better-placed entry that has it.
        other: The entry without it.
        metric: The metric.
        difference: The mean difference.
        interval: The paired interval; None with fewer than two runs.
    """

    subject: str
    one: str
    other: str
    metric: str
    difference: float
    interval: Interval | None

    def __str__(self) -> str:
        plural = self.subject.startswith(("Neighbours", "Training labels", "Trees"))
        if self.interval is None:
            answer = "cannot be judged on one run"
        elif self.interval.is_above_zero:
            answer = "help" if plural else "helps"
        else:
            verb = "do" if plural else "does"
            answer = f"{verb} harm" if self.interval.is_below_zero else f"{verb} not clearly help"
        return f"{self.subject} {answer}: {self.figures}."

    @property
    def figures(self) -> str:
        """Return the difference in words."""
        text = f"{self.one!r} minus {self.other!r} is {self.difference:+.1f} points of validation {self.metric}"
        if self.interval is None:
            return text
        return f"{text}, 95 % interval {self.interval.low:+.1f} to {self.interval.high:+.1f}"


class TreesFinding(Finding):
    """The difference between trees and the best other model."""

    def __str__(self) -> str:
        if self.interval is None:
            answer = "Trees cannot be compared on one run"
        elif self.interval.is_below_zero:
            answer = "Trees do not suffice"
        else:
            answer = "Trees suffice" if self.difference >= 0 else "Trees are not clearly worse"
        return f"{answer}: {self.figures}."


def findings(board: Leaderboard) -> list[Finding]:
    """Return the answers that the rows of a leaderboard give, in the order of the questions."""
    found = []
    with_edges = board.ranked(lambda row: not row.entry.without_edges and row.entry.is_single)
    without = board.ranked(lambda row: row.entry.without_edges and row.entry.is_single)
    if with_edges and without:
        other = _comparable(with_edges[0], without, board.metric)
        found.append(_finding(Finding, "Neighbours", with_edges[0], other, board.metric))
    for question, subject in SUBJECTS.items():
        for row in board.ranked(lambda row, question=question: row.entry.question == question):  # type: ignore[misc]
            without_it = board.row(row.entry.compared_with)
            if without_it is not None:
                found.append(_finding(Finding, subject, row, without_it, board.metric))
                break
    trees = board.ranked(lambda row: row.entry.model in TREES and row.entry.is_single)
    others = board.ranked(lambda row: row.entry.model not in TREES and row.entry.is_single)
    if trees and others:
        best = _comparable(trees[0], others, board.metric)
        found.append(_finding(TreesFinding, "Trees", trees[0], best, board.metric))
    return found


def _comparable(row: Row, ranked: Sequence[Row], metric: str) -> Row:
    """Return the best of some rows that has two runs in common with a row, or else the best."""
    own = row.figures(metric)
    return next((other for other in ranked if paired_interval(own, other.figures(metric))), ranked[0])


def _finding(kind: type[Finding], subject: str, one: Row, other: Row, metric: str) -> Finding:
    figures = one.figures(metric), other.figures(metric)
    pairs = common_figures(*figures)
    difference = fmean(a - b for a, b in pairs) if pairs else one.mean(metric) - other.mean(metric)
    return kind(subject, one.entry.name, other.entry.name, metric, difference, paired_interval(*figures))


def category(board: Leaderboard, graph: Graph, splits: Sequence[Split]) -> Verdict | None:
    """Return the category of the graph as in the paper, or None unless mlp, gcn and gat are finished."""
    rows = {name: board.row(name) for name in ("mlp", "gcn", "gat")}
    means = {name: row.mean(board.metric) for name, row in rows.items() if row is not None}
    if len(means) < len(rows):
        return None
    figures = {name: row.figures(board.metric) for name, row in rows.items() if row is not None}
    difference = paired_interval(figures[better_graph_model(means)], figures["mlp"])
    homophily = fmean(adjusted_homophily_among(graph, split.train | split.val) for split in splits)
    return judge(homophily, means, difference, graph.num_edges > 0)


def constant_figure(graph: Graph, split: Split, metric: str, part: str = "validation") -> float | None:
    """Return a metric of the same answer for all nodes: the class shares of the training nodes.

    Accuracy is that of the majority class. The result is None without labelled nodes in the part.
    """
    labels = torch.from_numpy(graph.y[labelled_nodes(graph, split, part)])
    return measure(metric, constant_logits(graph, split, len(labels)), labels) if len(labels) else None


def labelled_nodes(graph: Graph, split: Split, part: str) -> NDArray[np.bool_]:
    """Return the mask of the labelled nodes of a part, which is validation or test."""
    return (split.val if part == "validation" else split.test) & graph.labelled


def constant_logits(graph: Graph, split: Split, count: int) -> Tensor:
    """Return the logarithm of the share of each class in the training nodes, the same for a number of nodes."""
    counts = np.bincount(graph.y[split.train & graph.labelled], minlength=graph.num_classes)
    return torch.from_numpy(counts.clip(1e-9) / counts.sum()).log().expand(count, -1)


def single_run(
    probabilities: Tensor | NDArray[np.floating], graph: Graph, split: Split, metric: str, part: str = "validation"
) -> SingleRun:
    """Return a run and the constant answer, so that they can be compared on samples of nodes.

    Args:
        probabilities: The probabilities of the labelled nodes of the part, `[k, c]`.
        graph: The graph.
        split: The split of the run.
        metric: The metric.
        part: The part, validation or test.
    """
    y = torch.from_numpy(graph.y[labelled_nodes(graph, split, part)])
    return SingleRun(metric, log_probabilities(probabilities), constant_logits(graph, split, len(y)), y)


def splits_of_one_class(graph: Graph, splits: Sequence[Split]) -> list[int]:
    """Return the numbers of the splits whose validation nodes are all of one class, which compare no models."""
    return [split.index for split in splits if len(np.unique(graph.y[split.val])) < 2]


def not_better_than_constant(
    board: Leaderboard, best: Row, graph: Graph, splits: Sequence[Split], runs: Sequence[Run] = ()
) -> str:
    """Return a sentence if the best row is not clearly better than a constant answer in validation, else nothing.

    Splits whose validation nodes are of one class are left out.

    Args:
        board: The leaderboard.
        best: The best row.
        graph: The graph.
        splits: The splits.
        runs: The runs of the best row with their validation probabilities, for a row with a single figure.
    """
    metric, left_out = board.metric, splits_of_one_class(graph, splits)
    constant = [None if split.index in left_out else constant_figure(graph, split, metric) for split in splits]
    pairs = common_figures(best.figures(metric), constant)
    if not pairs:
        return "Validation cannot tell good models from constant answers: its nodes are of one class."
    single = next(
        (
            single_run(run.validation, graph, splits[run.index], metric)
            for run in runs
            if run.validation is not None and constant[run.index] is not None
        ),
        None,
    )
    if is_clearly_better(best.figures(metric), constant, single):
        return ""
    what = "the majority class" if metric == "accuracy" else "a constant score"
    figures = [metric_text(metric, fmean(values)) for values in zip(*pairs, strict=True)]
    return (
        f"No model is clearly better than {what}: validation {metric} {figures[0]} for the best of them, "
        f"{figures[1]} for {what}."
    )
