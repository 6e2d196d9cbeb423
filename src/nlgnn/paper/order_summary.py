"""The sentences above the tables of the learned order, in which only measured cells count."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from nlgnn.paper.cell import Measured, words
from nlgnn.paper.findings import Comparison
from nlgnn.paper.order_cells import (
    CONTROLS,
    CONVOLUTION,
    GRAPHS,
    LOCAL_PART,
    ROLE_SEEDS,
    ROLES,
    USUAL_NOISE,
    VOTES,
    conditions,
)


def summary_sentences(main: Sequence[Comparison], others: Sequence[Comparison], roles: Sequence[Measured]) -> list[str]:
    """Return what was measured on main graphs with a goal, on planted roles and on all graphs together."""
    with_goal = [graph for graph in main if "goal" in GRAPHS[graph.dataset]]
    sentences = [_on_graph(graph, reader) for graph in with_goal for reader in (VOTES, CONVOLUTION)]
    return [text for text in (*sentences, _on_roles(roles), _counted([*main, *others])) if text]


def _on_graph(graph: Comparison, reader: str) -> str:
    """Return how a reader of the order compares with each of its controls, and whether it reaches the goal."""
    test = graph.by_seed[reader][0].test if graph.has(reader) else None
    if test is None:
        return ""
    texts, goal = words()["summary"], GRAPHS[graph.dataset]["goal"]
    clear: dict[str, list[str]] = {"better": [], "worse": [], "same": [], "open": []}
    for control in CONTROLS[reader]:
        found = graph.minus(reader, control)
        kind = "open" if found is None else "same"
        if found and found.interval.excludes_zero:
            kind = "better" if found.interval.is_above_zero else "worse"
        clear[kind].append(texts["names"][control])
    parts = [texts[kind].format(names=enumerated(names)) for kind, names in clear.items() if names]
    of_reader: str = texts["reader"].format(
        dataset=graph.dataset, reader=texts["names"][reader], figure=graph.figure(reader), compared="; ".join(parts)
    )
    if reader != VOTES:
        return of_reader
    missing = goal - test.mean
    reached = texts["missed"].format(goal=goal, missing=missing) if missing > 0 else texts["reached"].format(goal=goal)
    return f"{of_reader} {reached}"


def _on_roles(cells: Sequence[Measured]) -> str:
    """Return the mean of votes on planted roles and that of the best control, on the same generated graphs."""
    tests = {
        (one.cell.condition, one.cell.planted.seed): one.test.mean
        for one in cells
        if one.test and one.cell.planted and one.cell.dataset == ROLES and one.cell.planted.noise == USUAL_NOISE
    }
    seeds = [seed for condition, seed in tests if condition == VOTES]
    compared = {VOTES, *CONTROLS[VOTES], *CONTROLS[CONVOLUTION]}
    names = [one.name for one in conditions("roles") if one.name in compared]
    names = [name for name in names if all((name, seed) in tests for seed in seeds)]
    means = {name: fmean(tests[name, seed] for seed in seeds) for name in names if seeds}
    votes = means.pop(VOTES, None)
    if votes is None or not means:
        return ""
    best = max(means, key=lambda name: means[name])
    texts = words()["summary"]
    return str(
        texts["planted"].format(
            noise=USUAL_NOISE,
            graphs=len(seeds),
            planned=len(ROLE_SEEDS),
            votes=votes,
            name=texts["names"][best],
            control=means[best],
        )
    )


def _counted(graphs: Sequence[Comparison]) -> str:
    """Return on how many measured graphs votes are clearly better or worse than the local part."""
    found = {graph.dataset: one.interval for graph in graphs if (one := graph.minus(VOTES, LOCAL_PART))}
    if not found:
        return ""
    ahead = [dataset for dataset, interval in found.items() if interval.is_above_zero]
    behind = [dataset for dataset, interval in found.items() if interval.is_below_zero]
    text: str = words()["summary"]["counted"]
    return text.format(graphs=len(found), ahead=_counted_names(ahead), behind=_counted_names(behind))


def _counted_names(names: Sequence[str]) -> str:
    return f"{len(names)} ({enumerated(names)})" if names else "none"


def enumerated(names: Sequence[str]) -> str:
    """Return names as an enumeration.

    Example:
        >>> enumerated(["votes", "labels", "orders"])
        'votes, labels and orders'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
