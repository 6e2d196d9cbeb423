"""Figures on the quality of a model: training curves, confusion matrix, calibration, accuracy by group, embedding."""

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
from nlgnn.report.figures import PALETTE, class_names, class_scale, tooltips
from nlgnn.report.figures.intervals import bars_chart
from nlgnn.report.page import Column, Figure, caption, columns_of
from nlgnn.training.recipe import metric_heading
from nlgnn.training.replica import Run

MOST_CLASSES = 40  # of a matrix that is drawn
POINTS = 300  # drawn per curve at most; the chosen epoch is always among them


def curve_columns(runs: Sequence[Run]) -> dict[str, Column]:
    """Return one row per run and epoch: the recorded figures, and whether the epoch was chosen."""
    pieces: dict[str, list[Any]] = {"run": [], "epoch": [], "chosen": []}
    names = [name for name in runs[0].curves if all(name in run.curves for run in runs)]
    for run in runs:
        epochs = shown_epochs(run)
        pieces["run"].append(np.full(len(epochs), run.index))
        pieces["epoch"].append(epochs)
        pieces["chosen"].append(epochs == run.chosen_epoch)
        for name in names:
            pieces.setdefault(name, []).append(np.array(run.curves[name], np.float64)[epochs - 1])
    return {name: np.concatenate(parts) for name, parts in pieces.items()}


def shown_epochs(run: Run) -> Any:
    """Return the drawn epochs, from 1: at most `POINTS` at equal distances, and the chosen one."""
    length = len(next(iter(run.curves.values()), []))
    epochs = np.arange(1, length + 1, max(1, -(-length // POINTS)))
    return np.union1d(epochs, [run.chosen_epoch] if 1 <= run.chosen_epoch <= length else [])


def curve_figures(runs: Sequence[Run], selection: str, metric: str) -> list[Figure]:
    """Draw loss and validation score over the epochs. The list is empty if no curves were recorded."""
    runs = [run for run in runs if run.failure is None and run.curves]
    if not runs:
        return []
    columns = curve_columns(runs)
    thinned = any(len(shown_epochs(run)) < len(next(iter(run.curves.values()))) for run in runs)
    text = f"One line per run; points are the chosen epochs: {selection}." + " Not every epoch is drawn." * thinned
    kinds = {
        "Training curves: loss": {"train_loss": "training loss", "val_loss": "validation loss"},
        f"Training curves: validation {metric}": {"val_metric": f"validation {metric_heading(metric)}"},
    }
    figures = []
    for title, names in kinds.items():
        table = {words: columns[name] for name, words in names.items() if name in columns}
        if table:
            places = {name: columns[name] for name in ("run", "epoch", "chosen")}
            figures.append(Figure(title, curves_chart(list(table)), {"rows": places | table}, text, half=True))
    return figures


def curves_chart(names: Sequence[str]) -> Any:
    """Draw one line per run and name, with a point at the chosen epoch."""
    import altair

    base = altair.Chart(altair.NamedData("rows")).transform_fold(list(names), as_=["kind", "value"])
    base = base.encode(
        x=altair.X("epoch:Q", title="epoch"),
        y=altair.Y("value:Q", title=names[0] if len(names) == 1 else "loss", scale=altair.Scale(zero=False)),
        color=altair.Color(
            "kind:N",
            title=None,
            scale=altair.Scale(domain=list(names), range=[PALETTE[1], PALETTE[0]][-len(names) :]),
            legend=altair.Legend() if len(names) > 1 else None,
        ),
    )
    lines = base.mark_line(strokeWidth=1, opacity=0.5, clip=True).encode(detail=altair.Detail("run:N"))
    points = base.transform_filter("datum.chosen").mark_point(filled=True, size=50, opacity=1)
    tooltip = tooltips(["run:N", "epoch:Q", "kind:N", "value:Q"], value=".4g")
    return altair.layer(lines, points.encode(tooltip=tooltip)).properties(width="container", height=240)


def quality_figures(
    held_back: HeldBack, graph: Graph, class_weight: str = "none", probable: HeldBack | None = None, matrix: bool = True
) -> list[Figure]:
    """Draw where a model is right on test nodes. The list is empty if no test node has a label.

    Args:
        held_back: The labels on test nodes.
        graph: The graph.
        class_weight: The class weights of the training.
        probable: The most probable classes, for the calibration, if labels are chosen in another way.
        matrix: Whether to include the confusion matrix.
    """
    if len(held_back.nodes) == 0:
        return []
    groups = {
        "class": accuracy_by_class(held_back, graph),
        "number of neighbours": accuracy_by_degree(held_back, graph),
        "agreement of neighbours": accuracy_by_local_homophily(held_back, graph),
    }
    words = {"class": never_recognised(groups["class"], graph) if class_weight == "none" else ""}
    return [
        *([confusion_figure(held_back, graph)] if matrix and graph.num_classes <= MOST_CLASSES else []),
        calibration_figure(probable or held_back),
        *(groups_figure(name, rows, words.get(name, "")) for name, rows in groups.items() if len(rows) <= MOST_CLASSES),
    ]


def never_recognised(classes: Sequence[Accuracy], graph: Graph) -> str:
    """Name small classes of which no test node was recognised, and say what may help them."""
    sizes = np.bincount(graph.y[graph.labelled], minlength=graph.num_classes)
    small = {graph.class_names[label] for label in np.flatnonzero((sizes > 1) & (2 * sizes < sizes.max()))}
    missed = [one.group for one in classes if one.accuracy == 0 and one.group in small]
    return f"Never recognised: {', '.join(missed)}. {IF_RARE}" if missed else ""


def matrix_rows(names: Sequence[str], counts: NDArray[Any], row: str, column: str) -> list[dict[str, Any]]:
    """Return one row per cell of a matrix: the count and its share of the row."""
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1e-12)
    return [
        {row: one, column: other, "count": float(counts[i, j]), "rate": float(shares[i, j])}
        for i, one in enumerate(names)
        for j, other in enumerate(names)
    ]


def confusion_figure(held_back: HeldBack, graph: Graph) -> Figure:
    """Draw the confusion matrix."""
    counts = confusion_counts(held_back, graph.num_classes)
    rows = columns_of(matrix_rows(graph.class_names, counts, "label", "prediction"))
    chart = matrix_chart(graph.class_names, "label", "prediction", "count", ".0f")
    return Figure("Confusion matrix", chart, {"rows": rows}, caption("confusion"), half=True)


def compatibility_figures(names: Sequence[str], shares: NDArray[np.float64]) -> list[Figure]:
    """Draw which classes edges connect. The list is empty if there are too many classes for a matrix."""
    if len(names) > MOST_CLASSES:
        return []
    rows = [{**row, "count": row["rate"]} for row in matrix_rows(names, shares, "of class", "to class")]
    chart, text = matrix_chart(names, "of class", "to class", "rate", ".2f"), caption("edges-between-classes")
    return [Figure("Edges between classes", chart, {"rows": columns_of(rows)}, text, half=True)]


def matrix_chart(names: Sequence[str], row: str, column: str, shown: str, form: str) -> Any:
    """Draw a matrix of classes, coloured by the share of the row, with numbers where cells are large enough."""
    import altair

    cell = min(64, max(18, 560 // len(names)))
    # In the order of the rows: an explicit order would be an expression, which some characters break.
    base = altair.Chart(altair.NamedData("rows")).encode(
        x=altair.X(f"{column}:N", sort=None, axis=altair.Axis(labelAngle=-40, labelLimit=90)),
        y=altair.Y(f"{row}:N", sort=None, axis=altair.Axis(labelLimit=140)),
    )
    tooltip = tooltips([f"{row}:N", f"{column}:N", "count:Q", "rate:Q"], rate=".1%")
    scale = altair.Scale(domain=[0, 1], range=["#f4f6f8", PALETTE[0]], interpolate="rgb")
    cells = base.mark_rect().encode(color=altair.Color("rate:Q", scale=scale, legend=None), tooltip=tooltip)
    ink = altair.ColorValue("#000", condition={"test": "datum.rate > 0.92", "value": "#fff"})  # always readable
    text = base.mark_text(fontSize=11).encode(text=altair.Text(f"{shown}:Q", format=form), color=ink)
    layers = [cells, text] if cell >= 36 else [cells]
    return altair.layer(*layers).properties(width=cell * len(names), height=cell * len(names))


def calibration_figure(held_back: HeldBack) -> Figure:
    """Draw accuracy against confidence."""
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
    text = caption("calibration", error=100 * (calibration_error(bins) or 0))
    return Figure("Calibration", calibration_chart(), {"rows": columns_of(rows)}, text, half=True)


def calibration_chart() -> Any:
    """Draw bins as points, sized by their number of predictions, and the diagonal."""
    import altair

    scale = altair.Scale(domain=[0, 100])
    base = altair.Chart(altair.NamedData("rows"))
    bins = base.encode(
        x=altair.X("confidence:Q", title="mean probability of the prediction, %", scale=scale),
        y=altair.Y("accuracy:Q", title="accuracy %", scale=scale),
    )
    tooltip = [altair.Tooltip(f"{name}:Q", format=".3g") for name in ("from", "to", "confidence", "accuracy", "count")]
    size = altair.Size("count:Q", legend=None, scale=altair.Scale(range=[30, 400]))
    points = bins.mark_circle(opacity=1, color=PALETTE[0]).encode(size=size, tooltip=tooltip)
    diagonal = base.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(
        x=altair.XDatum(0), y=altair.YDatum(0), x2=altair.X2Datum(100), y2=altair.Y2Datum(100)
    )
    line = bins.mark_line(color=PALETTE[0], opacity=0.6)
    return altair.layer(diagonal, line, points).properties(width="container", height=320)


def groups_figure(what: str, groups: Sequence[Accuracy], words: str = "") -> Figure:
    """Draw the test accuracy of groups of nodes."""
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
    more = ["nodes", "predictions"]
    chart = bars_chart("bar", "accuracy", "test accuracy %", len(rows), most=100, more=more)
    return Figure(f"Accuracy by {what}", chart, {"rows": columns_of(rows)}, caption("groups"), words, half=True)


def projection_columns(projection: Projection, graph: Graph, predictions: NDArray[np.int64]) -> dict[str, Column]:
    """Return one row per projected node."""
    nodes = projection.nodes
    return {
        "node": [graph.node_names[node] for node in nodes] if graph.node_names else nodes,
        "label": class_names(graph, graph.y[nodes]),
        "prediction": class_names(graph, predictions[nodes]),
        "first": projection.points[:, 0],
        "second": projection.points[:, 1],
    }


def projection_figure(projection: Projection, graph: Graph, predictions: NDArray[np.int64], run: int) -> Figure:
    """Draw the embedding in its first two principal components."""
    shown, total = len(projection.nodes), graph.num_nodes
    first, second = projection.explained
    nodes = "All" if shown == total else f"{shown:,} of {total:,}"
    text = caption("projection", run=run, of_what=projection.of_what, first=first, second=second, nodes=nodes)
    columns = projection_columns(projection, graph, predictions)
    chart = projection_chart(graph.class_names, not graph.labelled.all(), shown)
    return Figure("Embedding in two dimensions", chart, {"rows": columns}, text, renderer="canvas", half=True)


def projection_chart(names: Sequence[str], has_unknown: bool, points: int) -> Any:
    """Draw a scatter plot of nodes that can be zoomed."""
    import altair

    axis, scale = altair.Axis(labels=False, ticks=False, grid=False), altair.Scale(zero=False)
    return (
        altair.Chart(altair.NamedData("rows"))
        .mark_circle(size=36 if points < 3000 else 12, opacity=0.75)
        .encode(
            x=altair.X("first:Q", title="first component", axis=axis, scale=scale),
            y=altair.Y("second:Q", title="second component", axis=axis, scale=scale),
            color=altair.Color("label:N", scale=class_scale(names, has_unknown), title=None),
            tooltip=tooltips(["node:N", "label:N", "prediction:N"]),
        )
        .properties(width="container", height=380)
        .interactive()
    )
