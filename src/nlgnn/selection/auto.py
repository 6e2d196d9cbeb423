"""The automatic choice: a race over the portfolio, decided by validation on the metric that the user asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from nlgnn.datasets.catalog import CATALOG
from nlgnn.errors import DataError, NlgnnError
from nlgnn.files import write_whole
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import RANDOM_PROTOCOLS, Split, make_splits
from nlgnn.models.build import RARE_SHARE, configure, default_metric, default_protocol
from nlgnn.selection.clock import DEFAULT_BUDGET, Clock, parse_budget
from nlgnn.selection.diagnosis import check_classes
from nlgnn.selection.ensemble import Selected, few_validation_nodes, select
from nlgnn.selection.leaderboard import Leaderboard, Row, read_leaderboard, unwritable
from nlgnn.selection.portfolio import PRESET, Entry, check_options, read_portfolio
from nlgnn.selection.race import Trainer, may_be_member, run_race
from nlgnn.selection.race_verdict import category, findings, not_better_than_constant, splits_of_one_class
from nlgnn.selection.statistics import common_figures
from nlgnn.training.device import limited_threads
from nlgnn.training.fit import Watch, fit
from nlgnn.training.metrics import needs_two_classes
from nlgnn.training.preflight import check
from nlgnn.training.recipe import Recipe, metric_text
from nlgnn.training.replica import Run
from nlgnn.training.train import CHOICE_FILE, Trained, candidate_folder, member_checksum, read_trained
from nlgnn.training.trained import ENSEMBLE, Member

RUNS_BY_SIZE = {5_000: 10, 50_000: 5}  # number of runs up to a number of nodes
RUNS_OF_LARGE_GRAPHS = 3
SECONDS_OF_A_RUN = 15.0  # of the budget, at least: with less, models are worth more than runs
FEW_RUNS = 3  # with at most as many, the rest of the time is for other seeds of the best models


@dataclass(frozen=True)
class Choice:
    """The chosen entry, the leaderboard, and the verdict.

    Attributes:
        entry: The entry, with the name of its model and its options.
        board: The leaderboard.
        headline: What was chosen and why, or that no model is clearly better than a constant answer.
        verdict: One sentence per question.
        ensemble: The members and their weights, if the ensemble was chosen.
    """

    entry: Entry
    board: Leaderboard
    headline: str
    verdict: tuple[str, ...]
    ensemble: Selected | None = None

    @property
    def words(self) -> str:
        """Return headline and verdict as one paragraph."""
        return " ".join([self.headline, *self.verdict])


def choose(
    graph: Graph,
    splits: Sequence[Split],
    board: Leaderboard,
    clock: Clock,
    train: Trainer,
    recall: Callable[[Entry], Member],
    options: Mapping[str, Any],
    *,
    ensemble: bool = True,
    controls: bool = False,
    show: Callable[[Row], object] = lambda row: None,
) -> Choice:
    """Run the race, and choose the entry with the best mean of validation, or an ensemble that is ahead of it.

    Labels of test nodes have no influence on the choice.

    Args:
        graph: The graph.
        splits: The splits.
        board: The leaderboard, with the rows of entries that were trained before.
        clock: The clock of the budget.
        train: Trains an entry.
        recall: Returns the runs of an entry that is finished.
        options: Options that the user gave. Each entry takes those that it knows.
        ensemble: If False, no ensemble is tried.
        controls: If True, the non-local version is also trained with a random order.
        show: Called with every new row.

    Returns:
        The choice, which is also written to `choice.json` in the folder of the leaderboard, if it has one.

    Raises:
        NlgnnError: If no entry could be trained.
    """
    given = {**options, "metric": board.metric}
    board.rows = [row for row in board.rows if row.entry.model != ENSEMBLE]  # of an interrupted choice
    may_average = ensemble and not few_validation_nodes(splits, graph)
    run_race(
        *(read_portfolio(given), graph, len(splits), board, clock, train, given),
        controls=controls,
        ensemble=may_average,
        seeds=may_average and len(splits) <= FEW_RUNS,
        show=show,
    )
    selected = None
    if ensemble and board.best:
        members = {row.entry.name: recall(row.entry) for row in board.ranked(may_be_member)}
        with limited_threads("auto", graph):
            row, selected = select(board, members, graph, splits, clock.remaining)
        board.add(row, clock.used)
        show(row)
    best = board.best
    if best is None:
        reasons = list(dict.fromkeys(f"{row.entry.name}: {row.reason}" for row in board.rows if row.status == "failed"))
        raise NlgnnError(f"no model could be trained. {'; '.join(reasons[:3])}.", "Look at the features and labels.")
    chosen = selected if best.entry.model == ENSEMBLE else None
    found = chosen.runs if chosen else recall(best.entry).runs
    words = headline(board, best, graph, splits, found), verdict(board, graph, splits)
    choice = Choice(best.entry, board, *words, chosen)
    write_choice(board, choice)
    return choice


def headline(board: Leaderboard, best: Row, graph: Graph, splits: Sequence[Split], found: Sequence[Run]) -> str:
    """Return what was chosen and why. Where a constant answer is about as good, the headline says so first."""
    chosen = f"Chose {best.entry.name}: validation {board.metric} {metric_text(board.metric, best.mean(board.metric))}"
    if best.postponed:
        chosen += f" in {best.runs} of {len(best.validation)} runs"
    following = next((row for row in board.ranked(lambda row: row.entry.is_single) if row is not best), None)
    if following and (pairs := common_figures(best.figures(board.metric), following.figures(board.metric))):
        own, theirs = (metric_text(board.metric, fmean(values)) for values in zip(*pairs, strict=True))
        chosen += f", next {following.entry.name} with {theirs}"
        if len(pairs) < best.runs:
            chosen += f" in {len(pairs)} of {best.runs} runs, in which {best.entry.name} has {own}"
    return " ".join(filter(None, [not_better_than_constant(board, best, graph, splits, found), f"{chosen}."]))


def verdict(board: Leaderboard, graph: Graph, splits: Sequence[Split]) -> tuple[str, ...]:
    """Return one sentence per question, and the category of the graph if mlp, gcn and gat are finished.

    Where the validation nodes of all splits are of one class, nothing can be said.
    """
    if len(splits_of_one_class(graph, splits)) == len(splits):
        return ()
    judged = category(board, graph, splits)
    sentences = [f"Category: {judged.title}. {judged.words}"] if judged else []
    return (*map(str, findings(board)), *sentences)


def choose_model(
    graph: Graph,
    splits: str | None = None,
    runs: int | None = None,
    preset: str | None = None,
    *,
    time_budget: str = DEFAULT_BUDGET,
    ensemble: bool = True,
    progress: bool = True,
    **options: Any,
) -> tuple[Choice, dict[str, Member]]:
    """Train the models of the portfolio in memory within a time budget, and choose one by validation, or an ensemble.

    Args:
        graph: The graph.
        splits: Name of a protocol. By default the one of the graph.
        runs: Number of runs, one per split. By default as many as suit the size of the graph, or all fixed splits.
        preset: paper, released or robust; paper by default.
        time_budget: The budget, such as 90s, 5m or 1h, or none.
        ensemble: Whether to try an ensemble.
        progress: Whether to draw progress bars.
        options: Options of models and training. Each model takes those that it knows.

    Returns:
        The choice, and the factory, recipe and runs of the chosen model, or of the members of the ensemble, by name.

    Raises:
        OptionError: If no model has an option, or one cannot take its value.
        NlgnnError: If no model could be trained.
    """
    clock = Clock(parse_budget(time_budget))
    check_options(graph.name, preset, options)
    protocol = splits or default_protocol(graph)
    drawn = make_splits(graph, protocol, runs or default_runs(graph, protocol, clock.budget))
    metric, _ = race_metric(graph, drawn, options.get("metric"))
    trained: dict[str, Member] = {}

    def train(entry: Entry, watch: Watch) -> Member:
        factory, recipe = configure(entry.model, graph, preset or PRESET, **entry.options)
        before = trained[entry.name].runs if entry.name in trained else ()
        runs = fit(factory, graph, drawn, recipe, progress=progress, watch=watch, finished=before)
        trained[entry.name] = Member(factory, recipe, runs)
        return trained[entry.name]

    def recall(entry: Entry) -> Member:
        return trained[entry.name]

    board = Leaderboard(graph.name, protocol, metric)
    choice = choose(graph, drawn, board, clock, train, recall, options, ensemble=ensemble)
    names = choice.ensemble.names if choice.ensemble else [choice.entry.name]
    return choice, {name: trained[name] for name in names}


def default_runs(graph: Graph, protocol: str, budget: float | None = None) -> int | None:
    """Return the number of runs on random splits: fewer on larger graphs and with little time, but at least three.

    Fixed splits are all used, once each, for which the number is None.
    """
    if protocol not in RANDOM_PROTOCOLS:
        return None
    most = next((runs for nodes, runs in RUNS_BY_SIZE.items() if graph.num_nodes <= nodes), RUNS_OF_LARGE_GRAPHS)
    return most if budget is None else max(3, min(most, int(budget / SECONDS_OF_A_RUN)))


def is_symmetric(graph: Graph) -> bool:
    """Return whether every edge of the list is also there in the other direction, so that direction says nothing."""
    given = replace(graph, directed=True).directed_adjacency
    return bool((given != given.T).nnz == 0)


def race_metric(graph: Graph, splits: Sequence[Split], asked: str | None) -> tuple[str, str]:
    """Return the metric of a choice, and a sentence that says why it is this one.

    Raises:
        DataError: If there are fewer than two classes, or if the metric that was asked for says nothing on a split.
        OptionError: If the metric does not apply to the graph.
    """
    check_classes(graph)
    metric = asked or default_metric(graph)
    check(graph, splits, Recipe(metric=metric))
    single = splits_of_one_class(graph, splits)
    if needs_two_classes(metric) and single:
        what = f"validation nodes of split {single[0]} are all of one class, so that {metric} says nothing about them"
        if asked:
            raise DataError(f"{what}.", "Give other splits, or use --metric log-loss.")
        return "log-loss", f"Models are compared by log-loss: {what}."
    if asked:
        return metric, f"Models are compared by {metric}, as asked."
    if graph.name in CATALOG:
        return metric, f"Models are compared by {metric}, the metric of the dataset's authors."
    if metric == "accuracy":
        return metric, "Models are compared by accuracy. --metric selects another metric."
    rare = np.bincount(graph.y[graph.labelled], minlength=2).argmin()
    return metric, (
        f"Models are compared by {metric}, because the class {graph.class_names[rare]} has fewer than "
        f"{RARE_SHARE:.0%} of the labelled nodes. --metric selects another metric."
    )


def best_for_new_nodes(folder: Path, trained: Trained, graph: Graph) -> Trained:
    """Return the best model of an automatic choice that can predict nodes which it was not trained on.

    Args:
        folder: A run folder, of an automatic choice or of one model.
        trained: Its model, which is returned if it can, or if there is no other.
        graph: The graph of the training.
    """
    board = read_leaderboard(folder) if trained.identifies_nodes else None
    for row in board.ranked(lambda row: row.entry.is_single) if board else []:
        found, _ = read_trained(candidate_folder(folder, row.entry.folder), graph)
        if not found.identifies_nodes:
            return found
    return trained


def write_choice(board: Leaderboard, choice: Choice) -> None:
    """Write `choice.json` atomically, if there is a folder."""
    if board.folder is None:
        return
    path, entry = board.folder / CHOICE_FILE, choice.entry
    record: dict[str, Any] = {
        "model": entry.model,
        "name": entry.name,
        **({"folder": entry.folder} if choice.ensemble is None else {"ensemble": _members(board, choice.ensemble)}),
        "metric": board.metric,
        "reason": choice.words,
        "headline": choice.headline,
        "verdict": list(choice.verdict),
        "findings": [asdict(finding) for finding in findings(board)],
    }
    try:
        write_whole(path, partial(Path.write_text, data=json.dumps(record, indent=2), encoding="utf-8"))
    except OSError as error:
        raise unwritable(path, error) from error


def _members(board: Leaderboard, selected: Selected) -> dict[str, Any]:
    """Return the record of an ensemble: members with their checksums, weights and figures."""
    assert board.folder is not None
    members = []
    for name in selected.names:
        row = board.row(name)
        assert row is not None
        folder = row.entry.folder
        members.append(
            {"name": name, "folder": folder, "checksum": member_checksum(candidate_folder(board.folder, folder))}
        )
    return {"members": members, "weights": selected.weights, "runs": [run.summary() for run in selected.runs]}
