"""The ensemble of an automatic choice: weights of trained models, chosen greedily by validation in each split."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.selection.clock import show_seconds
from nlgnn.selection.leaderboard import Leaderboard, Row
from nlgnn.selection.portfolio import Entry
from nlgnn.selection.race import may_be_member, seconds_of_report
from nlgnn.training.metrics import log_probabilities, measure_all, validate
from nlgnn.training.replica import OUT_OF_TIME, Run
from nlgnn.training.trained import ENSEMBLE, Member, Probabilities, Weights, mean_of_members, mean_weights

MOST_STEPS = 12
PARTS = 3  # of validation nodes, for figures of the ensemble
FEWEST_NODES = 200  # validation nodes: with fewer, weights follow chance
COMPARED_TOGETHER = 1 << 22  # probabilities, which bounds memory


def greedy_weights(
    members: Sequence[Float[Tensor, "k c"]], y: Int[Tensor, " k"], metric: str, steps: int = MOST_STEPS
) -> list[float]:
    """Return the weights of a mean of models, by greedy selection with replacement (Caruana et al., 2004).

    Each step adds the model whose addition gives the mean with the best metric; of equal ones the one with the lowest
    log-loss, then the first. The result is the best of the means after each step, the earliest of equal ones.

    Args:
        members: The probabilities of some nodes by each model.
        y: The labels of the nodes.
        metric: The metric.
        steps: The number of steps.

    Returns:
        The weight of each model. Their sum is 1.

    Example:
        >>> right, wrong = torch.eye(2), torch.eye(2).flip(0)
        >>> greedy_weights([wrong, right], torch.tensor([0, 1]), "accuracy")
        [0.0, 1.0]
    """
    together = max(1, COMPARED_TOGETHER // max(1, members[0].numel()))
    chunks = [members[start : start + together] for start in range(0, len(members), together)]
    total, taken = torch.zeros_like(members[0]), list[int]()
    best, length = (-np.inf, -np.inf), 0
    for _ in range(steps):
        scores = [score for chunk in chunks for score in _scores(total + torch.stack(list(chunk)), y, metric)]
        place = max(range(len(scores)), key=scores.__getitem__)  # the first of equal ones
        taken.append(place)
        total += members[place]
        if scores[place] > best:
            best, length = scores[place], len(taken)
    counts = np.bincount(taken[:length], minlength=len(members))
    weights: list[float] = (counts / length).tolist()
    return weights


def unseen_mean(members: Sequence[Float[Tensor, "k c"]], y: Int[Tensor, " k"], metric: str) -> Float[Tensor, "k c"]:
    """Return the mean of models in which the weights for each node were chosen without its label.

    On the nodes that chose its weights a mean looks better than it is, with a rare class by more than it gains. Here
    nodes are divided into parts, and the weights of each part are chosen by the others.
    """
    order = torch.argsort(y, stable=True)
    part_of = torch.empty_like(y)
    part_of[order] = torch.arange(len(y)) % PARTS  # all parts have the same share of each class
    mean = torch.zeros_like(members[0])
    for part in range(PARTS):
        here = part_of == part
        weights = greedy_weights([one[~here] for one in members], y[~here], metric)
        for weight, one in zip(weights, members, strict=True):
            mean[here] += weight * one[here]
    return mean


def _scores(sums: Float[Tensor, "m k c"], y: Int[Tensor, " k"], metric: str) -> list[tuple[float, float]]:
    """Return metric and negative log-loss of several sums of probabilities."""
    nodes = torch.arange(len(y)).expand(len(sums), -1)
    losses, figures = validate(metric, log_probabilities(sums), y, nodes)
    return [(figure, -loss) for figure, loss in zip(figures, losses, strict=True)]


@dataclass(frozen=True)
class Selected:
    """The members of an ensemble, their weights in each split, and its runs with their figures.

    Args:
        names: The names of the entries.
        weights: The weight of each member in each split.
        runs: One run per split, without weights of a model.
        probabilities: The mean probabilities of all nodes, `[runs, n, c]`.
    """

    names: Sequence[str]
    weights: Weights
    runs: list[Run]
    probabilities: Probabilities


def few_validation_nodes(splits: Sequence[Split], graph: Graph) -> str:
    """Say that a split has too few validation nodes for an ensemble, or return nothing."""
    fewest = min(int((split.val & graph.labelled).sum()) for split in splits)
    return f"a split has {fewest} validation nodes, fewer than {FEWEST_NODES}" if fewest < FEWEST_NODES else ""


def select(
    board: Leaderboard,
    members: Mapping[str, Member],
    graph: Graph,
    splits: Sequence[Split],
    time_left: float = math.inf,
) -> tuple[Row, Selected | None]:
    """Choose the weights of an ensemble, and return its row and its members if it is ahead of the best single model.

    The weights of a node for its validation figures are chosen without its label, by `unseen_mean`. Labels of test
    nodes have no influence, except on the test figures. An ensemble is left out if its members need more time to
    predict than is left.

    Args:
        board: The leaderboard without an ensemble.
        members: The runs of all finished entries, by name.
        graph: The graph.
        splits: The splits.
        time_left: Seconds for the predictions of its members, and for the report.
    """
    started = time.perf_counter()
    rows = board.ranked(may_be_member)
    why = few_validation_nodes(splits, graph) or ("there is a single model" if len(rows) < 2 else "")
    if why:
        return Row(Entry(ENSEMBLE, ENSEMBLE), "not started", why), None
    best = board.ranked(lambda row: row.entry.is_single)[0]
    all_weights, runs = [], []
    for index, split in enumerate(splits):
        y = torch.from_numpy(graph.y[split.val])
        named = {row.entry.name: _validation(members[row.entry.name].runs, index) for row in rows}
        has_best = not best.postponed or named[best.entry.name] is not None
        known = {name: one for name, one in named.items() if has_best and one is not None}
        run = Run(index, index, split.protocol, split.index)
        weights = dict.fromkeys(named, 0.0)
        if known:
            each = list(known.values())
            weights |= dict(zip(known, greedy_weights(each, y, board.metric), strict=True))
            run.validation = unseen_mean(each, y, board.metric)
            run.val = measure_all(log_probabilities(run.validation), y, board.metric)
        else:
            run.failure = OUT_OF_TIME if best.postponed else f"run {index}: every member failed"
        all_weights.append(weights)
        runs.append(run)
    names = [row.entry.name for row in rows if any(weights[row.entry.name] for weights in all_weights)]
    table = [[weights[name] for name in names] for weights in all_weights]
    figures = [run.val[board.metric] for run in runs if run.val]
    if not fmean(figures) > best.mean(board.metric):
        return Row(Entry(ENSEMBLE, ENSEMBLE), "stopped", f"in validation not ahead of {best.entry.name}"), None
    seconds = time.perf_counter() - started
    finished = [run for run in runs if run.failure is None]
    used = [row for row in rows if row.entry.name in names]
    needed = seconds_of_report(used, len(finished))
    if needed > time_left - seconds:
        why = f"predictions of its {len(used)} members would take about {show_seconds(needed)}"
        return Row(Entry(ENSEMBLE, ENSEMBLE), "stopped", why, needed_seconds=needed), None
    probabilities = mean_of_members([members[name] for name in names], table, finished, graph)
    for run, one in zip(finished, probabilities, strict=True):
        nodes = np.flatnonzero(splits[run.index].test & graph.labelled)
        logits = log_probabilities(one[nodes])
        run.test = measure_all(logits, torch.from_numpy(graph.y[nodes]), board.metric)
    means = mean_weights(names, table)
    row = Row(
        Entry(ENSEMBLE, ENSEMBLE, {"weights": means}),
        "finished",
        "mean weights: " + ", ".join(f"{name} {weight:.2f}" for name, weight in means.items()),
        [run.val for run in runs],
        [run.test for run in runs],
        seconds,
        sum(row.predict_seconds or 0.0 for row in used),
        postponed=best.postponed,
    )
    return row, Selected(names, table, runs, probabilities)


def _validation(runs: Sequence[Run], index: int) -> Tensor | None:
    """Return the validation probabilities of a run, or None if it failed or did not keep them."""
    return next((run.validation for run in runs if run.index == index and run.failure is None), None)
