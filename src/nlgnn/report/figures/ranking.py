"""Figures of a ranking by the probability of the positive class: precision–recall curve and ROC curve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.report.figures import PALETTE, tooltips
from nlgnn.report.page import Column, Figure, caption
from nlgnn.training.decision import Decision
from nlgnn.training.thresholds import Answers, point_at, thresholds

TOGETHER = "all runs"
STEPS = 150  # of recall, and of the false alarm rate, that are drawn per line at most


def ranking_columns(each: Sequence[Answers], positive: int) -> dict[str, Column]:
    """Return the points of the curves in percent: of every run with positive nodes, and of all runs together.

    Args:
        each: What each run says about its test nodes.
        positive: The positive class.
    """
    lines = {f"run {number}": one for number, one in enumerate(each)} | {TOGETHER: Answers.together(each)}
    names, points = [], []
    for name, answers in lines.items():
        truth = answers.labels == positive
        if truth.any() and not truth.all():
            found = thinned(thresholds(answers.probabilities[:, positive], truth))
            names += [name] * len(found)
            points.append(np.column_stack([np.arange(len(found)), found]))
    table = np.concatenate(points) if points else np.zeros((0, 5))
    step, threshold, precision, recall, alarms = table.T
    shares = {"precision": 100 * precision, "recall": 100 * recall, "false positive rate": 100 * alarms}
    return {"line": names, "step": step.astype(int), "threshold": threshold, **shares}


def thinned(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows of `thresholds` without those that a drawing would put on their neighbours."""
    _, _, recall, alarms = table.T
    places = np.floor(STEPS * recall) * (STEPS + 1) + np.floor(STEPS * alarms)
    kept = np.append(places[1:] != places[:-1], True)
    kept[0] = True
    start = np.array([[1.0, table[0, 1], 0.0, 0.0]])  # no node reaches a threshold above the highest score
    return np.concatenate([start, table[kept]])


def chosen_columns(decision: Decision, each: Sequence[Answers]) -> dict[str, Column]:
    """Return the point of the chosen threshold, in percent, for all runs together; 0.5 for the most probable class."""
    threshold = 0.5 if decision.threshold is None else decision.threshold
    together = Answers.together(each)
    scores, truth = together.probabilities[:, decision.positive], together.labels == decision.positive
    point = point_at(threshold, scores, truth)
    alarms = float((scores[~truth] >= threshold).sum()) / max(1, int((~truth).sum()))
    return {
        "threshold": np.array([threshold]),
        "precision": np.array([100 * point.precision]),
        "recall": np.array([100 * point.recall]),
        "false positive rate": np.array([100 * alarms]),
    }


def precision_recall_figure(decision: Decision, each: Sequence[Answers]) -> Figure:
    """Draw precision against recall, and the chosen threshold."""
    share = 100 * float((Answers.together(each).labels == decision.positive).mean())
    tables = {"rows": ranking_columns(each, decision.positive), "chosen": chosen_columns(decision, each)}
    text = caption("precision-recall", positive=decision.positive_class, share=share)
    chart = ranking_chart("recall", "precision", constant=share)
    return Figure("Precision and recall", chart, tables, text, half=True)


def roc_figure(decision: Decision, each: Sequence[Answers]) -> Figure:
    """Draw recall against the share of false positive rate, and the chosen threshold."""
    tables = {"rows": ranking_columns(each, decision.positive), "chosen": chosen_columns(decision, each)}
    text = caption("roc", positive=decision.positive_class)
    return Figure("ROC curve", ranking_chart("false positive rate", "recall", constant=None), tables, text, half=True)


def ranking_chart(x: str, y: str, constant: float | None) -> Any:
    """Draw a thin line per run, a thick one for all runs together, and the chosen threshold.

    Args:
        x: The field of the horizontal axis.
        y: The field of the vertical axis.
        constant: The height of a horizontal line for a random order; None for the diagonal.
    """
    import altair

    scale = altair.Scale(domain=[0, 100])
    axes = {
        "x": altair.X(f"{x}:Q", title=f"{x} %", scale=scale),
        "y": altair.Y(f"{y}:Q", title=f"{y} %", scale=scale),
    }
    base = altair.Chart(altair.NamedData("rows")).encode(**axes, order=altair.Order("step:Q"))
    runs = base.transform_filter(f"datum.line != '{TOGETHER}'")
    thin = runs.mark_line(strokeWidth=1, opacity=0.45, color=PALETTE[4]).encode(detail=altair.Detail("line:N"))
    fields = ["threshold:Q", "precision:Q", "recall:Q", "false positive rate:Q"]
    tooltip = tooltips(fields, threshold=".3f", precision=".1f", recall=".1f", **{"false positive rate": ".1f"})
    together = base.transform_filter(f"datum.line == '{TOGETHER}'")
    thick = together.mark_line(strokeWidth=2.5, color=PALETTE[0])
    dots = together.mark_circle(size=60, opacity=0).encode(tooltip=tooltip)  # shows the figures under the pointer
    random = altair.Chart(altair.NamedData("chosen")).mark_rule(strokeDash=[3, 3], opacity=0.5)
    ends = (0, 100) if constant is None else (constant, constant)
    random = random.encode(
        x=altair.XDatum(0), y=altair.YDatum(ends[0]), x2=altair.X2Datum(100), y2=altair.Y2Datum(ends[1])
    )
    chosen = altair.Chart(altair.NamedData("chosen")).encode(**axes)
    point = chosen.mark_point(filled=True, size=110, opacity=1, color=PALETTE[5]).encode(tooltip=tooltip)
    words = chosen.mark_text(align="left", dx=9, dy=-9, fontWeight="bold")
    words = words.encode(text=altair.Text("threshold:Q", format=".3f"))
    return altair.layer(random, thin, thick, dots, point, words).properties(width="container", height=320)
