"""Parts of a page about the labels that follow from probabilities: a threshold, costs, and a rare class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nlgnn.analysis.quality import HeldBack
from nlgnn.graph.graph import Graph
from nlgnn.report.figures.quality import confusion_figure
from nlgnn.report.figures.ranking import precision_recall_figure, roc_figure
from nlgnn.report.page import Figure, caption
from nlgnn.report.table import Rows, Section
from nlgnn.selection.statistics import spread
from nlgnn.training.decision import MOST_PROBABLE, Decision
from nlgnn.training.metrics import TopK, at_top
from nlgnn.training.thresholds import Answers

TOP = (10, 30, 100, 300, 1000, 3000)  # numbers of highest-scored nodes in the table
HEADLINE_TOP = 100
FIGURES = {"precision": "precision %", "recall": "recall %", "f1": "F1 %", "accuracy": "accuracy %"}


def decision_sentences(decision: Decision, tested: Sequence[Answers]) -> list[str]:
    """Return sentences for the headline: the threshold, and how many of the highest-scored nodes are positive.

    Args:
        decision: How labels are chosen.
        tested: What each run says about its test nodes, if the positive class is rare; else empty.
    """
    sentences = [] if decision.rule == MOST_PROBABLE else [decision.words()]
    if tested:
        top = tops(decision, tested, HEADLINE_TOP)
        hits = np.mean([one.hits for one in top])
        k = max(one.k for one in top)
        sentences.append(
            f"Of the {k:,} test nodes with the highest probability, {hits:.0f} are {decision.positive_class} "
            f"(mean of {len(top)} run{'s' * (len(top) != 1)})."
        )
    return sentences


def rare_class_figures(decision: Decision, tested: Sequence[Answers], decided: HeldBack, graph: Graph) -> list[Figure]:
    """Return the first figures for a rare class: the precision–recall curve, and the confusion matrix."""
    return [precision_recall_figure(decision, tested), confusion_figure(decided, graph)]


def ranking_figures(decision: Decision, tested: Sequence[Answers], is_rare: bool) -> list[Figure]:
    """Return the curves of two classes that the page does not show yet. The list is empty without both classes."""
    labels = Answers.together(tested).labels
    if not decision.positive_class or len(np.unique(labels)) < 2:
        return []
    first = [] if is_rare else [precision_recall_figure(decision, tested)]
    return [*first, roc_figure(decision, tested)]


def decision_sections(decision: Decision, graph: Graph, tested: Sequence[Answers], is_rare: bool) -> list[Section]:
    """Return the figures of the chosen labels next to those of other choices, and those of the highest-scored nodes."""
    sections = []
    if decision.rule != MOST_PROBABLE or decision.costs is not None:
        text = caption("decision")
        text += f" {caption('threshold-chosen')}" if decision.is_chosen_by_validation else ""
        text += f" {cost_words(decision, graph)}" if decision.costs else ""
        sections.append(Section("Labels by threshold or cost", decision_rows(decision, graph, tested), text, "", 2))
    if is_rare:
        name = decision.positive_class
        nodes = np.mean([len(one.labels) for one in tested])
        own = np.mean([(one.labels == decision.positive).sum() for one in tested])
        text = caption("top", positive=name, runs=len(tested), nodes=nodes, own=own)
        sections.append(Section("Nodes with the highest probability", top_rows(decision, tested), text))
    return sections


def decision_rows(decision: Decision, graph: Graph, tested: Sequence[Answers]) -> Rows:
    """Return the figures of the decision on validation and test nodes, and of simpler ones on test nodes."""
    chosen = decision.rule if decision.threshold is None else f"threshold {decision.threshold:.3f} ({decision.rule})"
    table = {(chosen, "validation"): decision.validation, (chosen, "test"): decision.test}
    answers = Answers.together(tested)
    if len(answers.labels):
        probable = replace(decision, rule=MOST_PROBABLE, threshold=None)
        table["most probable class", "test"] = probable.figures(answers)
        known = np.bincount(graph.y[graph.labelled], minlength=graph.num_classes)
        always = np.zeros_like(answers.probabilities)
        always[:, known.argmax()] = 1
        label = f"always {graph.class_names[known.argmax()]}"
        table[label, "test"] = probable.figures(Answers(always, answers.labels))
    rows = []
    for (label, part), figures in table.items():
        row = {"labels": label, "nodes": part}
        row |= {words: f"{figures[name]:.1f}" for name, words in FIGURES.items() if name in figures}
        rows.append(row | ({"cost per node": f"{figures['cost']:.3f}"} if "cost" in figures else {}))
    return [row for row in rows if row.keys() == rows[-1].keys()]


def cost_words(decision: Decision, graph: Graph) -> str:
    """Return the costs of errors that are not 1, in words."""
    names, costs = graph.class_names, np.array(decision.costs)
    special = np.argwhere((costs != 1) & ~np.eye(len(costs), dtype=bool))
    told = [f"{names[i]} labelled {names[j]} {costs[i, j]:g}" for i, j in special[:20].tolist()]
    return f"Costs: {', '.join(told)}{', …' * (len(special) > 20)}; any other error 1."


def tops(decision: Decision, tested: Sequence[Answers], k: int | str) -> list[TopK]:
    """Return the figures of the highest-scored test nodes of each run."""
    return [
        at_top(one.probabilities[:, decision.positive], (one.labels == decision.positive).astype(int), k)
        for one in tested
    ]


def top_rows(decision: Decision, tested: Sequence[Answers]) -> Rows:
    """Return one row per number of highest-scored nodes, which includes the number of positive nodes."""
    smallest = min(len(one.labels) for one in tested)
    size = round(float(np.mean([(one.labels == decision.positive).sum() for one in tested])))
    rows = []
    for k in sorted({k for k in (*TOP, size) if 0 < k <= smallest}):
        top = tops(decision, tested, k)
        row = {
            "highest-scored nodes": f"{k:,}",
            f"of them {decision.positive_class}": str(spread([one.hits for one in top]) or "–"),
        }
        for name, factor in {"precision": 100, "recall": 100, "lift": 1}.items():
            heading = name if factor == 1 else f"{name} %"
            row[heading] = str(spread([factor * getattr(one, name) for one in top]) or "–")
        rows.append(row)
    return rows
