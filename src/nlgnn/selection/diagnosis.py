"""Diagnosis of a graph: its category, and the local model to start from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import default_metric, default_protocol
from nlgnn.report.table import Section
from nlgnn.selection.evidence import (
    MOST_SPLITS,
    SHORT,
    Evidence,
    OrderEvidence,
    better_graph_model,
    compare_orders,
    gather,
)
from nlgnn.selection.profile import Profile, profile_of
from nlgnn.selection.statistics import Interval
from nlgnn.training.preflight import check, check_graph
from nlgnn.training.recipe import Recipe

Show = Callable[[list[Section]], object]
Category = Literal["assortative", "first", "second", "undecided"]

ASSORTATIVE_FROM = 0.3  # adjusted homophily
NON_LOCAL = {"mlp": "nlmlp", "gcn": "nlgcn", "gat": "nlgat"}
TITLES: Mapping[Category, str] = {
    "assortative": "assortative",
    "first": "disassortative, first category",
    "second": "disassortative, second category",
    "undecided": "undecided on this evidence",
}


class Verdict(NamedTuple):
    """Category of a graph, the reason in words, the interval that it rests on, and the local model to start from."""

    category: Category
    words: str
    confidence: str
    local: str

    @property
    def title(self) -> str:
        """Return the category in words."""
        return TITLES[self.category]

    @property
    def non_local(self) -> str:
        """Return the non-local version of the local model."""
        return NON_LOCAL[self.local]


def judge(
    adjusted_homophily: float, means: Mapping[str, float], difference: Interval | None, has_edges: bool = True
) -> Verdict:
    """Decide the category of a graph.

    Args:
        adjusted_homophily: Adjusted homophily of the labels of training and validation nodes.
        means: Mean best validation figure of mlp, gcn and gat.
        difference: The better graph model minus mlp, paired; None with fewer than two pairs.
        has_edges: Whether the graph has any edge.

    Returns:
        The verdict.
    """
    gnn = better_graph_model(means)
    best = max(("mlp", gnn), key=means.__getitem__)
    agreement = f"adjusted homophily {adjusted_homophily:.2f}"
    confidence = _confidence(gnn, difference)
    if not has_edges:
        return Verdict("undecided", "There are no edges: a model can use features only.", confidence, "mlp")
    clear = difference is not None and difference.excludes_zero
    if clear and difference is not None and difference.mean < 0:
        although = f", although neighbours agree ({agreement})" if adjusted_homophily >= ASSORTATIVE_FROM else ""
        words = f"Neighbours are noise{although}: mlp, which sees no edges, is ahead of {gnn}, the better graph model."
        return Verdict("first", words, confidence, "mlp")
    if adjusted_homophily >= ASSORTATIVE_FROM:
        words = f"Neighbours agree ({agreement}), and graph models are not below mlp. A local model is enough."
        return Verdict("assortative", words, confidence, best)
    if clear:
        words = f"Neighbours disagree ({agreement}) but help: {gnn} is ahead of mlp. Distant nodes may help as well."
        return Verdict("second", words, confidence, gnn)
    words = f"Neighbours disagree ({agreement}), and it is not clear that they help: {gnn} and mlp are too close."
    return Verdict("undecided", words, confidence, best)


def _confidence(gnn: str, difference: Interval | None) -> str:
    if difference is None:
        return "Too few runs succeeded for an interval."
    zero = "excludes zero" if difference.excludes_zero else "contains zero"
    return (
        f"{gnn} − mlp: {difference.mean:+.1f} points of validation, 95 % interval {difference.low:+.1f} to "
        f"{difference.high:+.1f} over {difference.pairs} paired runs, which {zero}. It is slightly too narrow: {gnn} "
        "is the better of two by the same figures, which are tested up to six times."
    )


def next_step(verdict: Verdict, graph: Sequence[str], splits: str | None, order_helps: bool = True) -> str:
    """Return what to run next.

    Args:
        verdict: The verdict.
        graph: The arguments that give the graph to a command; empty for a graph that only exists in Python.
        splits: Name of a protocol; None for the default one.
        order_helps: False if the non-local model was trained and is not clearly ahead of its local part.

    Returns:
        A command, or a line of Python if the graph has no arguments.
    """
    disassortative = verdict.category in ("first", "second")
    controls = disassortative and order_helps
    model = verdict.non_local if controls else verdict.local
    if not graph:
        return f'nlgnn.fit("{model}", graph' + (f', "{splits}")' if splits else ")")
    model = "auto" if verdict.category == "undecided" or (disassortative and not order_helps) else model
    command = f"nlgnn train {shlex.join(graph)} --model {model}"
    return command + (f" --splits {splits}" if splits else "") + " --controls" * controls


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """Profile of a graph, evidence of short trainings, the verdict, and what to run next."""

    profile: Profile
    evidence: Evidence
    verdict: Verdict
    next_step: str
    order: OrderEvidence | None = None

    @property
    def category(self) -> str:
        """Return the category of the graph."""
        return self.verdict.category

    def sections(self) -> list[Section]:
        """Return all tables, in the order in which they became known."""
        order = [self.order.section()] if self.order else []
        return [*self.profile.sections(), *self.evidence.sections(), self.verdict_section(), *order]

    def verdict_section(self) -> Section:
        """Return the verdict in words."""
        text = f"{self.verdict.words}\n\n{self.verdict.confidence}"
        caption = (
            "The verdict rests on validation figures and on the labels of training and validation nodes. Labels of a "
            "split's own test nodes do not enter its figure, but splits overlap."
        )
        return Section(f"Verdict: {self.verdict.title}", [], caption, text)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        order = None
        if self.order is not None:
            differences = {label: _as_dict(interval) for label, interval in self.order.differences.items()}
            order = asdict(self.order) | {"differences": differences, "words": self.order.words}
        return {
            "graph": self.profile.name,
            "category": self.category,
            "verdict": self.verdict.words,
            "confidence": self.verdict.confidence,
            "local_model": self.verdict.local,
            "non_local_model": self.verdict.non_local,
            "next": self.next_step,
            "profile": self.profile.to_dict(),
            "evidence": asdict(self.evidence)
            | {"difference": _as_dict(self.evidence.difference), "direction": _as_dict(self.evidence.direction)},
            "order": order,
        }


def _as_dict(interval: Interval | None) -> dict[str, Any] | None:
    return interval and interval._asdict()


def diagnose(
    graph: Graph,
    splits: str | None = None,
    *,
    metric: str | None = None,
    controls: bool = False,
    progress: bool = True,
    show: Show = lambda sections: None,
    flags: Sequence[str] = (),
) -> Diagnosis:
    """Find out by short trainings whether neighbours help.

    Args:
        graph: A graph with labels of at least two classes.
        splits: Name of a protocol. By default the splits that came with the graph, else random-60.
        metric: The evaluation metric, as in `Recipe`. By default the one of the dataset, else accuracy.
        controls: Whether to train the non-local model of the verdict and its controls as well.
        progress: Whether to draw a bar, on terminals, while training takes longer than two seconds.
        show: A function that is called with each part of the tables as soon as it is known.
        flags: The arguments that give the graph to a command, if it is not in the catalogue.

    Returns:
        The diagnosis.

    Raises:
        DataError: If fewer than two classes occur.
        OptionError: If the graph has no such splits, or the metric does not fit the graph.

    Example:
        >>> from nlgnn import diagnose, load_graph
        >>> found = diagnose(load_graph("mushroom-body"), progress=False)
        >>> found.category in ("first", "second", "assortative", "undecided")
        True
    """
    from nlgnn.datasets.catalog import CATALOG

    check_graph(graph)
    protocol = own_protocol(graph) if splits is None else splits
    drawn = make_splits(graph, protocol, MOST_SPLITS)
    metric = metric or default_metric(graph)
    check_classes(graph)
    check(graph, drawn, Recipe(**SHORT, metric=metric))
    profile = profile_of(graph, drawn)
    show(profile.sections())
    evidence = gather(graph, drawn, metric, progress)
    show(evidence.sections())
    verdict = judge(evidence.adjusted_homophily, evidence.means, evidence.difference, profile.edges > 0)
    verdict = verdict._replace(words=f"{verdict.words} {evidence.words_of_direction(verdict.local)}".strip())
    given = [graph.name] if graph.name in CATALOG else flags
    shown_splits = None if protocol == default_protocol(graph) else protocol
    diagnosis = Diagnosis(profile, evidence, verdict, next_step(verdict, given, shown_splits))
    show([diagnosis.verdict_section()])
    if controls:
        order = compare_orders(graph, verdict.non_local, drawn, metric, progress)
        following = next_step(verdict, given, shown_splits, order.is_ahead_of_local)
        diagnosis = Diagnosis(profile, evidence, verdict, following, order)
        show([order.section()])
    return diagnosis


def own_protocol(graph: Graph) -> str:
    """Return the protocol of the splits that came with the graph, a split column first, else random-60."""
    usual = default_protocol(graph)
    return usual if usual in graph.splits else next(iter(graph.splits), "random-60")


def check_classes(graph: Graph) -> None:
    """Raise a `DataError` unless at least two classes occur."""
    occurring = len(np.unique(graph.y[graph.labelled]))
    if occurring < 2:
        what = "no node has a label" if occurring == 0 else "all labelled nodes are of one class"
        raise DataError(
            f"graph {graph.name!r}: {what}, so that there is nothing to tell apart.",
            "Give labels of at least two classes (-1 = unknown).",
        )
