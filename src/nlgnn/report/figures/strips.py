"""The sorted sequence as strips: all nodes in the learned order, coloured by class (figure 2c of the paper)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis import SortedSequence
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.report.figures import UNKNOWN_LABEL, class_names, class_scale, tooltips
from nlgnn.report.page import Column

# Above this number of nodes, a node is narrower than a pixel, and strips show class shares of bins until zoomed in.
BINS = 400
ROWS_OF_SHARES = 60_000  # at most; many classes have fewer bins
POINTED_AT = 4000  # nodes in view, above which the pointer cannot separate one from the next
NODES_LISTED = 20_000  # above this, nodes are not on the page one by one
PARTS = ("training", "validation", "test", "in no part")
HEIGHT, GAP = 34, 0.08  # pixels of a strip, and the share of them on each side that is left empty
NODES_DRAWN, BINS_DRAWN = 2000, 200  # in a picture of 800 pixels: nodes drawn one by one, and bins of longer orders


def strip_names(chosen_epoch: int) -> list[str]:
    """Return the names of the strips on a page, from top to bottom."""
    return ["before training", f"epoch {chosen_epoch}", "… training", "… validation", "… test", "misclassified"]


def positions(sequence: SortedSequence) -> NDArray[np.int64]:
    """Return the position of each node in an order."""
    places = np.empty_like(sequence.nodes)
    places[sequence.nodes] = np.arange(len(places))
    return places


def parts_of(split: Split) -> NDArray[np.int64]:
    """Return each node's part of the split, as a number into `PARTS`."""
    return np.select([split.train, split.val, split.test], [0, 1, 2], 3)


def is_wrong(graph: Graph, predictions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which nodes have a label that differs from the prediction."""
    wrong: NDArray[np.bool_] = graph.labelled & (predictions != graph.y)
    return wrong


def node_columns(
    graph: Graph,
    before: SortedSequence,
    after: SortedSequence,
    probabilities: NDArray[np.floating],
    split: Split,
    nodes: NDArray[np.int64],
) -> dict[str, Column]:
    """Return one row for each of `nodes`, as one run sees it."""
    places = positions(after)
    predictions = probabilities.argmax(1)
    names = [graph.node_names[node] for node in nodes] if graph.node_names else nodes
    return {
        "node": names,
        "label": class_names(graph, graph.y[nodes]),
        "prediction": class_names(graph, predictions[nodes]),
        "probability": probabilities.max(1)[nodes],
        "score": after.scores[places[nodes]],
        "position": places[nodes],
        "position before": positions(before)[nodes],
        "part": [PARTS[part] for part in parts_of(split)[nodes]],
        "wrong": is_wrong(graph, predictions)[nodes],
    }


def share_columns(
    graph: Graph, before: SortedSequence, after: SortedSequence, predictions: NDArray[np.int64], split: Split
) -> dict[str, Column]:
    """Return the rectangles of the strips: the share of each class in each bin of an order.

    The first two strips count all nodes, the next three those of one part of the split. The last shows misclassified
    nodes as a share of all nodes, by prediction.
    """
    everyone = np.ones(graph.num_nodes, bool)
    first, chosen = positions(before), positions(after)
    strips = [(first, graph.y, everyone, everyone), (chosen, graph.y, everyone, everyone)]
    strips += [(chosen, graph.y, parts_of(split) == part, parts_of(split) == part) for part in range(3)]
    strips += [(chosen, predictions, is_wrong(graph, predictions), everyone)]
    pieces = [_shares(graph.num_classes, *strip) for strip in strips]
    numbers = np.concatenate([np.full(len(labels), number) for number, (_, labels, *_) in enumerate(pieces)])
    bins, labels, low, high = (np.concatenate(values) for values in zip(*pieces, strict=True))
    return {"strip": numbers, "bin": bins, "class": class_names(graph, labels), "low": low, "high": high}


def number_of_bins(classes: int) -> int:
    """Return the number of bins of a strip."""
    return min(BINS, max(20, ROWS_OF_SHARES // (6 * (classes + 1))))  # six strips; a label may be unknown


def _shares(
    classes: int,
    places: NDArray[np.int64],
    labels: NDArray[np.int64],
    counted: NDArray[np.bool_],
    among: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return bin, label, and the two ends of its share where the shares of a bin are stacked."""
    count = number_of_bins(classes)
    bins = places * count // len(places)
    columns = np.where(labels < 0, classes, labels)
    counts = np.bincount(bins[counted] * (classes + 1) + columns[counted], minlength=count * (classes + 1))
    shares = counts.reshape(count, -1) / np.maximum(np.bincount(bins[among], minlength=count), 1)[:, None]
    high = shares.cumsum(1)
    bin_numbers, found = np.nonzero(shares)
    ends = high[bin_numbers, found]
    return bin_numbers, np.where(found == classes, -1, found), ends - shares[bin_numbers, found], ends


def strips_chart(
    names: Sequence[str], classes: Sequence[str], length: int, nodes_listed: bool, has_unknown: bool
) -> Any:
    """Draw strips over positions from `low` to `high`, which the page moves. `found` is the position of a mark."""
    import altair

    low, high = altair.param("low", value=0), altair.param("high", value=length)
    found = altair.param("found", value=-1)
    x = altair.X(
        "left:Q",
        scale=altair.Scale(domain=[altair.ExprRef("low"), altair.ExprRef("high")], nice=False, zero=False),
        axis=altair.Axis(title="position in the order", grid=False, tickMinStep=1),
    )
    label_words = " : ".join(f"datum.value < {number + 1} ? '{name}'" for number, name in enumerate(names)) + " : ''"
    y = altair.Y(
        "top:Q",
        scale=altair.Scale(domain=[0, len(names)], reverse=True, nice=False),
        axis=altair.Axis(
            values=[number + 0.5 for number in range(len(names))],
            labelExpr=label_words,
            title=None,
            grid=False,
            ticks=False,
            domain=False,
        ),
    )
    rectangle = {
        "x": x,
        "x2": altair.X2("right:Q"),
        "y": y,
        "y2": altair.Y2("bottom:Q"),
        "color": altair.Color("colour:N", scale=class_scale(classes, has_unknown), title=None, sort=None),
    }
    binned = length > BINS
    zoomed_in = f"high - low < {2 * BINS}"  # so far that nodes have a width
    layers = []
    if binned:
        width, height = length / number_of_bins(len(classes)), 1 - 2 * GAP
        share = altair.Tooltip("share:Q", format=".0%", title="share of this part")
        layers.append(
            altair.Chart(altair.NamedData("bins"))
            .transform_calculate(
                left=f"datum.bin * {width}",
                right=f"(datum.bin + 1) * {width}",
                top=f"datum.strip + {GAP} + datum.low * {height}",
                bottom=f"datum.strip + {GAP} + datum.high * {height}",
                colour="datum.class",
                share="datum.high - datum.low",
            )
            .mark_rect(clip=True, fillOpacity=altair.ExprRef(f"{zoomed_in} ? 0 : 1") if nodes_listed else 1)
            .encode(**rectangle, tooltip=[altair.Tooltip("class:N"), share])
        )
    if nodes_listed:
        fields = ["node:N", "label:N", "prediction:N", "probability:Q", "score:Q", "position:Q", "part:N"]
        tooltip = tooltips(fields, probability=".3f", score=".4g")
        # Above shares, nodes are drawn for the pointer alone.
        opacity: Any = altair.ExprRef(f"{zoomed_in} ? 1 : 0") if binned else 1
        nodes = altair.Chart(altair.NamedData("nodes"))
        in_part = f"2 + indexof({list(PARTS[:3])}, datum.part)"
        strips = (
            nodes.transform_calculate(strip="0", left="datum['position before']", colour="datum.label"),
            nodes.transform_calculate(strip="1", left="datum.position", colour="datum.label"),
            nodes.transform_calculate(strip=in_part, left="datum.position", colour="datum.label").transform_filter(
                "datum.strip >= 2"
            ),
            nodes.transform_filter("datum.wrong").transform_calculate(
                strip="5", left="datum.position", colour="datum.prediction"
            ),
        )
        layers += [
            strip.transform_calculate(
                right="datum.left + 1", top=f"datum.strip + {GAP}", bottom=f"datum.strip + {1 - GAP}"
            )
            .transform_filter(f"high - low < {POINTED_AT} && datum.right > low && datum.left < high")
            .mark_rect(clip=True, fillOpacity=opacity, cursor="pointer")
            .encode(**rectangle, tooltip=tooltip)
            for strip in strips
        ]
    mark = (
        altair.Chart(altair.NamedData("mark"))
        .mark_rule(strokeWidth=2, strokeDash=[4, 2], clip=True)
        .transform_calculate(left="found")
        .encode(x=x)
    )
    return (
        altair.layer(*layers, mark)
        .add_params(low, high, found)
        .properties(width="container", height=HEIGHT * len(names))
        .resolve_scale(color="shared")
    )


def label_rows(class_names: Sequence[str], orders: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    """Return the rectangles of a picture: one per run of nodes of one class, or one per class and bin of long orders.

    A rectangle spans positions from `position` to `end` and the class's share of the height from `low` to `high`.
    """
    rows = []
    for title, given in orders.items():
        labels = np.asarray(given)
        length = len(labels)
        if length <= NODES_DRAWN:
            edges: list[float] = [*np.flatnonzero(np.diff(labels, prepend=-2)).tolist(), length]
        else:  # bins of equal width, so that all begin at whole pixels; a node belongs to the nearest one
            edges = [number * length / BINS_DRAWN for number in range(BINS_DRAWN + 1)]
        for position, end in pairwise(edges):
            found, counts = np.unique(labels[round(position) : round(end)], return_counts=True)
            ends = [0.0, *(counts.cumsum() / counts.sum()).tolist()]
            for label, (low, high) in zip(found, pairwise(ends), strict=True):
                name = class_names[label] if label >= 0 else UNKNOWN_LABEL
                rows.append({"order": title, "position": position, "end": end, "class": name, "low": low, "high": high})
    return rows


def sequence_chart(graph: Graph, sequences: Mapping[str, SortedSequence]) -> Any:
    """Draw a graph's nodes along each of several orders, as a picture for a file."""
    title = f"{graph.name}: all nodes, sorted by the learned score"
    orders = {name: sequence.labels.tolist() for name, sequence in sequences.items()}
    return labels_chart(title, graph.class_names, orders)


def labels_chart(title: str, class_names: Sequence[str], orders: Mapping[str, Sequence[int]]) -> Any:
    """Draw the labels along each of several orders, as a picture for a file."""
    import altair

    names = list(class_names)
    header = altair.Header(labelAngle=0, labelAlign="left")
    positions = altair.Scale(domain=[0, max(map(len, orders.values()))], nice=False)
    return (
        altair.Chart(altair.Data(values=label_rows(names, orders)), width=800, height=46)
        .mark_rect(aria=False)  # a description of each would be most of the file
        .encode(
            x=altair.X("position:Q", scale=positions, title=None),
            x2=altair.X2("end:Q"),
            y=altair.Y("low:Q", scale=altair.Scale(domain=[0, 1]), axis=None),
            y2=altair.Y2("high:Q"),
            color=altair.Color("class:N", scale=class_scale(names), sort=names),
            row=altair.Row("order:N", sort=list(orders), title=None, header=header),
        )
        .properties(title=title)
        .configure_view(stroke=None)
        .configure_axis(grid=False)
    )
