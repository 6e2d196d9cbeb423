"""Where a model is right and where it is not: confusion, calibration, accuracy by group, and the embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis.projection import Projection
from nlgnn.analysis.quality import (
    Accuracy,
    HeldBack,
    accuracy_by_class,
    accuracy_by_degree,
    accuracy_by_local_homophily,
    calibration,
    calibration_error,
    confusion_counts,
)
from nlgnn.graph.audit import IF_RARE
from nlgnn.graph.graph import Graph
from nlgnn.report.columns import Column, columns_of
from nlgnn.report.page import Figure
from nlgnn.report.palette import PALETTE, UNKNOWN
from nlgnn.report.strips import UNKNOWN_LABEL, class_names

MOST_CLASSES = 40  # that a matrix is drawn for
POOLED = "Test nodes of all runs together"


def quality_figures(held_back: HeldBack, graph: Graph, class_weight: str = "none") -> list[Figure]:
    if len(held_back.nodes) == 0:
        return []
    figures = [] if graph.num_classes > MOST_CLASSES else [confusion_figure(held_back, graph)]
    groups = {
        "class": accuracy_by_class(held_back, graph),
        "number of neighbours": accuracy_by_degree(held_back, graph),
        "agreement of neighbours": accuracy_by_local_homophily(held_back, graph),
    }
    words = {"class": never_recognised(groups["class"], graph) if class_weight == "none" else ""}
    return [
        *figures,
        calibration_figure(held_back),
        *(groups_figure(name, rows, words.get(name, "")) for name, rows in groups.items() if len(rows) <= MOST_CLASSES),
    ]


def never_recognised(classes: Sequence[Accuracy], graph: Graph) -> str:
    """What may help classes none of whose test nodes was got right, being smaller than others; else nothing."""
    sizes = np.bincount(graph.y[graph.labelled], minlength=graph.num_classes)
    small = {graph.class_names[label] for label in np.flatnonzero((sizes > 1) & (2 * sizes < sizes.max()))}
    missed = [one.group for one in classes if one.accuracy == 0 and one.group in small]
    return f"Never recognised: {', '.join(missed)}. {IF_RARE}" if missed else ""


def matrix_rows(names: Sequence[str], counts: NDArray[Any], row: str, column: str) -> list[dict[str, Any]]:
    """An entry a cell: the count, and its share of its row."""
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1e-12)
    return [
        {row: one, column: other, "count": float(counts[i, j]), "rate": float(shares[i, j])}
        for i, one in enumerate(names)
        for j, other in enumerate(names)
    ]


def confusion_figure(held_back: HeldBack, graph: Graph) -> Figure:
    counts = confusion_counts(held_back, graph.num_classes)
    rows = matrix_rows(graph.class_names, counts, "label", "prediction")
    caption = f"{POOLED}: how many of each class are taken for which; the colour is the share of the row's class."
    return Figure(
        "What is taken for what",
        matrix_chart(graph.class_names, "label", "prediction", "count", ".0f"),
        {"rows": columns_of(rows)},
        caption,
        half=True,
    )


def compatibility_figure(names: Sequence[str], shares: NDArray[np.float64]) -> Figure:
    rows = [{**row, "count": row["rate"]} for row in matrix_rows(names, shares, "of class", "to class")]
    caption = "The share of the edges that leave the row's class and arrive in the column's, over all labelled nodes."
    chart = matrix_chart(names, "of class", "to class", "rate", ".2f")
    return Figure("Which classes are joined to which?", chart, {"rows": columns_of(rows)}, caption, half=True)


def matrix_chart(names: Sequence[str], row: str, column: str, shown: str, form: str) -> Any:
    import altair

    cell = min(64, max(18, 560 // len(names)))
    # In the order of the rows: an order that is given would be an expression, which some characters break.
    base = altair.Chart(altair.NamedData("rows")).encode(
        x=altair.X(f"{column}:N", sort=None, axis=altair.Axis(labelAngle=-40, labelLimit=90)),
        y=altair.Y(f"{row}:N", sort=None, axis=altair.Axis(labelLimit=140)),
    )
    tooltip = [
        altair.Tooltip(f"{row}:N"),
        altair.Tooltip(f"{column}:N"),
        altair.Tooltip("count:Q"),
        altair.Tooltip("rate:Q", format=".1%"),
    ]
    scale = altair.Scale(domain=[0, 1], range=["#f4f6f8", PALETTE[0]], interpolate="rgb")
    colour = altair.Color("rate:Q", scale=scale, legend=None)
    cells = base.mark_rect().encode(color=colour, tooltip=tooltip)
    ink = altair.condition("datum.rate > 0.92", altair.value("#fff"), altair.value("#000"))  # can be read everywhere
    text = base.mark_text(fontSize=11).encode(text=altair.Text(f"{shown}:Q", format=form), color=ink)
    layers = [cells, text] if cell >= 36 else [cells]
    return altair.layer(*layers).properties(width=cell * len(names), height=cell * len(names))


def calibration_figure(held_back: HeldBack) -> Figure:
    bins = calibration(held_back)
    rows = [
        {
            "confidence": 100 * bin.confidence,
            "accuracy": 100 * bin.accuracy,
            "from": bin.low,
            "to": bin.high,
            "count": bin.predictions,
        }
        for bin in bins
    ]
    error = calibration_error(bins)
    caption = (
        f"{POOLED}, in ten parts by the probability of the prediction: the share that is right, against that "
        "probability. On the diagonal a model knows what it knows. Probabilities are calibrated, by a temperature that "
        f"each run finds on its validation nodes. Expected calibration error: {100 * (error or 0):.1f} points."
    )
    return Figure("Does it know what it knows?", calibration_chart(), {"rows": columns_of(rows)}, caption, half=True)


def calibration_chart() -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    scale = altair.Scale(domain=[0, 100])
    x = altair.X("confidence:Q", title="mean probability of the prediction, %", scale=scale)
    y = altair.Y("accuracy:Q", title="share that is right, %", scale=scale)
    tooltip = [altair.Tooltip(f"{name}:Q", format=".3g") for name in ("from", "to", "confidence", "accuracy", "count")]
    points = base.mark_circle(opacity=1, color=PALETTE[0]).encode(
        x=x, y=y, size=altair.Size("count:Q", legend=None, scale=altair.Scale(range=[30, 400])), tooltip=tooltip
    )
    line = base.mark_line(color=PALETTE[0], opacity=0.6).encode(x=x, y=y)
    diagonal = base.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(
        x=altair.datum(0), y=altair.datum(0), x2=altair.datum(100), y2=altair.datum(100)
    )
    return altair.layer(diagonal, line, points).properties(width="container", height=320)


def groups_figure(what: str, groups: Sequence[Accuracy], words: str = "") -> Figure:
    rows = [
        {
            "group": one.group,
            "bar": f"{one.group} ({one.nodes:,})",
            "accuracy": one.accuracy,
            "low": one.accuracy - (one.std or 0.0),
            "high": one.accuracy + (one.std or 0.0),
            "nodes": one.nodes,
            "predictions": one.predictions,
        }
        for one in groups
    ]
    caption = (
        "Test accuracy, mean over runs; lines are one sample standard deviation. In brackets: nodes, which may be "
        "tested in several runs."
    )
    return Figure(f"Accuracy by {what}", groups_chart(len(rows)), {"rows": columns_of(rows)}, caption, words, half=True)


def groups_chart(rows: int) -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("bar:N", sort=None, title=None)
    tooltip = [
        altair.Tooltip("group:N"),
        altair.Tooltip("accuracy:Q", format=".1f"),
        altair.Tooltip("nodes:Q"),
        altair.Tooltip("predictions:Q"),
    ]
    bars = base.mark_bar(color=PALETTE[4], height={"band": 0.6}).encode(
        y=y, x=altair.X("accuracy:Q", title="test accuracy %", scale=altair.Scale(domain=[0, 100])), tooltip=tooltip
    )
    errors = base.mark_rule(strokeWidth=1.5, clip=True).encode(y=y, x=altair.X("low:Q"), x2=altair.X2("high:Q"))
    return altair.layer(bars, errors).properties(width="container", height=26 * rows)


def projection_columns(projection: Projection, graph: Graph, predictions: NDArray[np.int64]) -> dict[str, Column]:
    nodes = projection.nodes
    return {
        "node": [graph.node_names[node] for node in nodes] if graph.node_names else nodes,
        "label": class_names(graph, graph.y[nodes]),
        "prediction": class_names(graph, predictions[nodes]),
        "first": projection.points[:, 0],
        "second": projection.points[:, 1],
    }


def projection_figure(projection: Projection, graph: Graph, predictions: NDArray[np.int64], run: int) -> Figure:
    shown, total = len(projection.nodes), graph.num_nodes
    first, second = (f"{share:.0%}" for share in projection.explained)
    caption = (
        f"Run {run}, principal components of {projection.of_what}; they hold {first} and {second} of the variance. "
        f"{'All' if shown == total else f'{shown:,} of {total:,}'} nodes, coloured by label."
    )
    columns = projection_columns(projection, graph, predictions)
    chart = projection_chart(graph.class_names, not graph.labelled.all(), shown)
    return Figure("The embedding in two dimensions", chart, {"rows": columns}, caption, renderer="canvas", half=True)


def projection_chart(names: Sequence[str], has_unknown: bool, points: int) -> Any:
    import altair

    domain = [*names, *([UNKNOWN_LABEL] if has_unknown else [])]
    colours = [PALETTE[number % len(PALETTE)] for number in range(len(names))] + [UNKNOWN] * has_unknown
    axis = altair.Axis(labels=False, ticks=False, grid=False)
    return (
        altair.Chart(altair.NamedData("rows"))
        .mark_circle(size=36 if points < 3000 else 12, opacity=0.75)
        .encode(
            x=altair.X("first:Q", title="first component", axis=axis, scale=altair.Scale(zero=False)),
            y=altair.Y("second:Q", title="second component", axis=axis, scale=altair.Scale(zero=False)),
            color=altair.Color("label:N", scale=altair.Scale(domain=domain, range=colours), title=None),
            tooltip=[altair.Tooltip("node:N"), altair.Tooltip("label:N"), altair.Tooltip("prediction:N")],
        )
        .properties(width="container", height=380)
        .interactive()
    )
