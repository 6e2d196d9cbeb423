"""Diagnose: which kind of graph it is, before a model is chosen for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from nlgnn.errors import DataError
from nlgnn.experiments.evidence import MOST_SPLITS, SHORT, Evidence, gather
from nlgnn.experiments.order import OrderEvidence, compare_orders
from nlgnn.experiments.portrait import Portrait, portray
from nlgnn.experiments.section import Section
from nlgnn.experiments.verdict import Verdict, judge, next_step
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.training.checks import check, check_graph
from nlgnn.training.recipe import Recipe
from nlgnn.training.systems import default_metric, default_protocol

Show = Callable[[list[Section]], object]


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a graph looks like, what short trainings say of its edges, the verdict, and what to run next."""

    portrait: Portrait
    evidence: Evidence
    verdict: Verdict
    next_step: str
    order: OrderEvidence | None = None

    @property
    def category(self) -> str:
        return self.verdict.category

    def sections(self) -> list[Section]:
        order = [self.order.section()] if self.order else []
        return [*self.portrait.sections(), *self.evidence.sections(), self.verdict_section(), *order]

    def verdict_section(self) -> Section:
        """Words alone."""
        text = f"{self.verdict.words}\n\n{self.verdict.confidence}"
        caption = (
            "Validation figures decide, and the labels of training and validation nodes: no label of a split's own "
            "test nodes enters its figure, but splits overlap."
        )
        return Section(f"Verdict: {self.verdict.title}", [], caption, text)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        portrait = {**vars(self.portrait), "compatibility": self.portrait.compatibility.tolist()}
        portrait["audit"] = {**asdict(self.portrait.audit), "warnings": self.portrait.audit.warnings()}
        for groups in ("by_degree", "by_class"):
            portrait[groups] = [group._asdict() for group in portrait[groups]]
        evidence = asdict(self.evidence) | {
            "difference": self.evidence.difference,
            "direction": self.evidence.direction,
        }
        evidence = {name: value._asdict() if hasattr(value, "_asdict") else value for name, value in evidence.items()}
        order = None
        if self.order is not None:
            differences = {
                label: None if interval is None else interval._asdict()
                for label, interval in self.order.differences.items()
            }
            order = asdict(self.order) | {"differences": differences, "words": self.order.words}
        return {
            "graph": self.portrait.name,
            "category": self.category,
            "verdict": self.verdict.words,
            "confidence": self.verdict.confidence,
            "local_model": self.verdict.local,
            "non_local_model": self.verdict.non_local,
            "next": self.next_step,
            "portrait": portrait,
            "evidence": evidence,
            "order": order,
        }


def diagnose(
    graph: Graph,
    splits: str | None = None,
    *,
    controls: bool = False,
    progress: bool = True,
    show: Show = lambda sections: None,
    flags: Sequence[str] = (),
) -> Diagnosis:
    """Find out whether neighbours help, before a model is chosen.

    Args:
        graph: with labels of two classes at least.
        splits: the name of a protocol; by default the splits that came with the graph, else random-60.
        controls: whether the non-local model that goes with the verdict is trained beside its controls too.
        progress: whether a bar is drawn, on terminals, while training takes longer than two seconds.
        show: is given each part of what there is to see as soon as it is known.
        flags: what gives the graph to a command, if it is not one of the catalogue.
    """
    from nlgnn.datasets.catalog import CATALOG

    check_graph(graph)
    protocol = own_protocol(graph) if splits is None else splits
    drawn = make_splits(graph, protocol, MOST_SPLITS)
    metric = default_metric(graph)
    _check_classes(graph)
    check(graph, drawn, Recipe(**SHORT, metric=metric))
    portrait = portray(graph, drawn)
    show(portrait.sections())
    evidence = gather(graph, drawn, metric, progress)
    show(evidence.sections())
    verdict = judge(evidence.adjusted_homophily, evidence.means, evidence.difference, portrait.edges > 0)
    verdict = verdict._replace(words=f"{verdict.words} {evidence.words_of_direction(verdict.local)}".strip())
    usual = protocol == default_protocol(graph)
    given = [graph.name] if graph.name in CATALOG else flags
    following = next_step(verdict, given, None if usual else protocol)
    diagnosis = Diagnosis(portrait, evidence, verdict, following)
    show([diagnosis.verdict_section()])
    if controls:
        order = compare_orders(graph, verdict.non_local, drawn, metric, progress)
        following = next_step(verdict, given, None if usual else protocol, order.is_ahead_of_local)
        diagnosis = Diagnosis(portrait, evidence, verdict, following, order)
        show([order.section()])
    return diagnosis


def own_protocol(graph: Graph) -> str:
    """The fixed splits that came with the graph, the user's own first, where there are some; else random ones."""
    usual = default_protocol(graph)
    return usual if usual in graph.splits else next(iter(graph.splits), "random-60")


def _check_classes(graph: Graph) -> None:
    occurring = len(np.unique(graph.y[graph.labelled]))
    if occurring < 2:
        what = "no node has a label" if occurring == 0 else "all labelled nodes are of one class"
        raise DataError(
            f"graph {graph.name!r}: {what}, so that there is nothing to tell apart.",
            "Give labels of at least two classes (-1 = unknown).",
        )
