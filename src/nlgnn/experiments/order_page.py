"""What `nlgnn reproduce order` shows: does training find an order that helps?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.experiments.cells import read_cells
from nlgnn.experiments.compare import paired_mean, spread
from nlgnn.experiments.interval import Interval, paired_interval
from nlgnn.experiments.learned_order import (
    COMMON,
    CONDITIONS,
    CONV,
    CONV_FROZEN,
    CONV_RANDOM,
    FROZEN,
    KERNEL_1,
    LABEL_SHARES,
    LOCAL,
    LOUD,
    MANY,
    NUISANCES,
    ON_PLANTED,
    PLANTED_SEEDS,
    PRESET,
    RANDOM,
    SEEDS,
    VOTE,
    WIDE,
    OrderCell,
    PlantedCell,
    order_cells,
)
from nlgnn.experiments.measured import NOTHING, OPEN, not_measured
from nlgnn.experiments.searched import SearchedCell
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.tables import ResultTable

# What was to be shown on the planted graph: test accuracies above which an order counts as found, or not.
VOTE_FINDS, CONV_FINDS, CONTROL_FAILS = 85.0, 80.0, 80.0
NOT_COUNTED = "cornell-pre2022"  # it has Texas's features and labels, and its local part, the MLP, sees no edges
CONTROLS_OF = {VOTE: (FROZEN, RANDOM), CONV: (CONV_FROZEN, CONV_RANDOM, KERNEL_1)}
Results = Mapping[str, Mapping[str, Any]]


class OnGraph(NamedTuple):
    """The cells of one graph, by condition, with what they gave so far."""

    dataset: str
    cells: Mapping[str, SearchedCell]
    results: Mapping[str, Mapping[str, Any]]

    def figure(self, condition: str) -> str:
        result = self.results.get(condition)
        if result is None:
            return not_measured(self.dataset)
        return str(spread([run["test"] for run in result["runs"] if run["test"] is not None]) or NOTHING)

    def minus(self, condition: str, other: str) -> Interval | None:
        """Paired over splits, of each the mean over its seeds."""
        if not {condition, other} <= self.results.keys():
            return None
        own, others = ([run["test"] for run in self.results[name]["runs"]] for name in (condition, other))
        splits = len(own) // SEEDS
        differences = [paired_mean(own[number::splits], others[number::splits]) for number in range(splits)]
        return paired_interval(differences, [0.0] * splits)


def order_sections(cells: Sequence[SearchedCell], results: Path, protocol: str) -> list[Section]:
    found = read_cells(cells, results)
    planted = [cell for cell in cells if isinstance(cell, PlantedCell)]
    real = [cell for cell in cells if isinstance(cell, OrderCell)]
    easy = [cell for cell in planted if not cell.nuisance and cell.label_share == 1]
    sections = []
    if easy:
        sections.append(_planted(easy, found))
    if len(planted) > len(easy):
        sections.append(_harder(planted, found))
    if real:
        graphs = [_on_graph(dataset, real, found) for dataset in dict.fromkeys(cell.dataset for cell in real)]
        sections += [_accuracies(graphs, protocol), _differences(graphs)]
        sections += [_louder(wide)] if (wide := [graph for graph in graphs if graph.dataset in WIDE]) else []
    return [*_verdict(easy, real, found), *sections]


def _planted(cells: Sequence[PlantedCell], found: Results) -> Section:
    rows: Rows = []
    for condition in CONDITIONS:
        tests = _tests([cell for cell in cells if cell.condition == condition.name], found)
        rows.append(
            {
                "model": condition.name,
                **{f"graph {seed}": _figure(tests.get(seed)) for seed in PLANTED_SEEDS},
                "mean": _figure(fmean(tests.values()) if len(tests) == len(PLANTED_SEEDS) else None),
            }
        )
    caption = (
        "Test accuracy in % on graphs whose labels only the right order reveals (nlgnn.datasets.planted_order_graph, "
        "3,008 nodes, three seeds that no choice was made on): one training each on the first split of protocol "
        f"random-60, local part MLP, preset {PRESET}, {ON_PLANTED['epochs']} epochs; the first epoch with the best "
        "validation accuracy counts, and for votes how much they count is chosen by validation too."
    )
    return Section("A planted order", rows, caption)


def _harder(cells: Sequence[PlantedCell], found: Results) -> Section:
    names = (VOTE, MANY.name)
    rows: Rows = []
    for words, nuisance, share in (
        ("as above", 0, 1.0),
        *((f"columns of noise: {number}, rotated", number, 1.0) for number in NUISANCES),
        *((f"{share:.1%} of the training labels", 0, share) for share in LABEL_SHARES),
    ):
        row = {"graph": words}
        for name in names:
            alike = [
                cell for cell in cells if (cell.condition, cell.nuisance, cell.label_share) == (name, nuisance, share)
            ]
            tests = _tests(alike, found)
            row[name] = " / ".join(_figure(tests.get(seed)) for seed in PLANTED_SEEDS) if alike else NOTHING
        rows.append(row)
    caption = (
        "The same, made harder: test accuracy in % on each of the three graphs. Columns of noise are mixed with key "
        "and value by a random rotation, so that near nodes share the key less often. More orders were the one "
        "idea tried against that."
    )
    return Section("How it degrades", rows, caption)


def _tests(cells: Sequence[PlantedCell], found: Results) -> dict[int, float]:
    """By the graph's seed."""
    return {cell.graph_seed: found[cell.name]["runs"][0]["test"] for cell in cells if cell.name in found}


def _figure(value: float | None) -> str:
    return OPEN if value is None else f"{value:.1f}"


def _on_graph(dataset: str, cells: Sequence[OrderCell], found: Results) -> OnGraph:
    own = {cell.condition: cell for cell in cells if cell.dataset == dataset}
    return OnGraph(dataset, own, {name: found[cell.name] for name, cell in own.items() if cell.name in found})


def _accuracies(graphs: Sequence[OnGraph], protocol: str) -> Section:
    rows = [
        {"dataset": graph.dataset, "local": next(iter(graph.cells.values())).system.removeprefix("nl")}
        | {condition.name: graph.figure(condition.name) for condition in CONDITIONS}
        for graph in graphs
    ]
    caption = (
        f"Test figures in %, mean ± s.d. over ten splits with {SEEDS} seeds each, protocol {protocol}"
        f"{'' if protocol == 'random-60' else ' (mushroom-body: random-60)'}; "
        f"accuracy, but ROC-AUC where that is the dataset's own metric. Preset {PRESET} for all, nothing "
        f"searched: {', '.join(f'{name} {value}' for name, value in COMMON.items())}. Epochs, and how much votes "
        "count, are chosen by validation. Kernel sizes: as published for a dataset, else 5. Convolutions along a "
        "random order and with kernel 1 are those of the order by score. Along random orders a metric is learned, too: "
        "it weighs whom a node happens to hear."
    )
    return Section("Real graphs", rows, caption, text_columns=2)


def _differences(graphs: Sequence[OnGraph]) -> Section:
    names = [condition.name for condition in CONDITIONS if condition.name != LOCAL]
    rows = [
        {"dataset": graph.dataset} | {name: str(graph.minus(name, LOCAL) or OPEN) for name in names} for graph in graphs
    ]
    caption = (
        "Each minus the local part: paired over splits, of each the mean over its seeds, with 95 % t-intervals. Splits "
        "overlap, so that they are rather too narrow; and with so many comparisons one in twenty excludes zero by "
        "chance. A metric draws random numbers, so that its model drops out other entries than the local part alone: "
        "they differ by that noise also where votes count nothing."
    )
    return Section("Minus the local part", rows, caption)


def _louder(graphs: Sequence[OnGraph]) -> Section:
    names = (LOCAL, VOTE, LOUD.name)
    rows = [
        {"dataset": graph.dataset}
        | {name: graph.figure(name) for name in names}
        | {f"{name}, minus local": str(graph.minus(name, LOCAL) or OPEN) for name in names[1:]}
        for graph in graphs
    ]
    caption = (
        "In inputs of hundreds of columns all nodes are far from each other, and what most hear at first is small "
        f"beside ε: their votes say little, and teach little. Here ε is {LOUD.options['metric_eps']:g}, far "
        "below its default. Test figures and intervals as above."
    )
    return Section("Louder votes", rows, caption)


def _verdict(planted: Sequence[PlantedCell], real: Sequence[OrderCell], found: Results) -> list[Section]:
    sentences = [*_words_on_planted(planted, found), *_words_on_real(real, found)]
    return [Section("In plain words", [], "", " ".join(sentences))] if sentences else []


def _words_on_planted(cells: Sequence[PlantedCell], found: Results) -> list[str]:
    by_name = {
        condition.name: _tests([cell for cell in cells if cell.condition == condition.name], found)
        for condition in CONDITIONS
    }
    if not by_name[VOTE]:
        return []
    votes = [test for test in by_name[VOTE].values() if test > VOTE_FINDS]
    convs = [test for test in by_name[CONV].values() if test > CONV_FINDS]
    controls = [test for condition in CONDITIONS if condition.control for test in by_name[condition.name].values()]
    return [
        f"On the planted graph votes along the learned order are above {VOTE_FINDS:.0f} % on {len(votes)} of "
        f"{len(by_name[VOTE])} graphs, and convolutions along it above {CONV_FINDS:.0f} % on {len(convs)} of "
        f"{len(by_name[CONV])}; of {len(controls)} trainings without a learned order "
        f"{sum(test >= CONTROL_FAILS for test in controls)} reach {CONTROL_FAILS:.0f} %."
    ]


def _words_on_real(cells: Sequence[OrderCell], found: Results) -> list[str]:
    datasets = dict.fromkeys(cell.dataset for cell in cells if cell.dataset != NOT_COUNTED)
    graphs = [_on_graph(dataset, cells, found) for dataset in datasets]
    sentences = [
        *_standing(graphs, VOTE, "votes along the learned order", "a frozen metric and random orders"),
        *_standing(graphs, CONV, "convolutions along it", "a frozen metric, a random order and kernel 1"),
    ]
    older = "(The older Cornell is not counted: its features and labels are those of Texas, and its local part sees no "
    return [*sentences, f"{older}edges.)"] if sentences else []


def _standing(graphs: Sequence[OnGraph], reading: str, words: str, controls: str) -> list[str]:
    """Where one way to read the learned order is ahead of the local part, and where it is the order that does it."""
    intervals = {graph.dataset: graph.minus(reading, LOCAL) for graph in graphs}
    measured = {dataset: interval for dataset, interval in intervals.items() if interval}
    if not measured:
        return []
    ahead = [dataset for dataset, interval in measured.items() if interval.is_above_zero]
    behind = [dataset for dataset, interval in measured.items() if interval.is_below_zero]
    by_order = [graph.dataset for graph in graphs if graph.dataset in ahead and _beats_controls(graph, reading)]
    return [
        f"Of {len(measured)} real graphs measured so far, {words} are clearly ahead of their local part on "
        f"{len(ahead)}{_named(ahead)}, clearly behind on {len(behind)}{_named(behind)}, and not told apart from it on "
        f"the other {len(measured) - len(ahead) - len(behind)}. That it is the learned order which puts them ahead, "
        f"beside {controls}, is clear on {len(by_order)}{_named(by_order)}."
    ]


def _beats_controls(graph: OnGraph, reading: str) -> bool:
    differences = [graph.minus(reading, control) for control in CONTROLS_OF[reading]]
    return all(difference is not None and difference.is_above_zero for difference in differences)


def _named(datasets: Sequence[str]) -> str:
    return f" ({', '.join(datasets)})" if datasets else ""


ORDER_TABLE = ResultTable(order_cells, order_sections)
