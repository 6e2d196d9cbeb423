"""The sorted sequence as strips: all nodes in the learned order, coloured by class (figure 2c of the paper)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.analysis import SortedSequence
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.report.columns import Column, columns_of
from nlgnn.report.palette import PALETTE, UNKNOWN

# Above so many nodes a node is narrower than a pixel, and strips show class shares of equal parts until zoomed in.
BINS = 400
ROWS_OF_SHARES = 60_000  # at most: of many classes there are fewer parts
POINTED_AT = 4000  # nodes in view, above which the pointer cannot tell one from the next
NODES_LISTED = 20_000  # above this, nodes are not on the page one by one
UNKNOWN_LABEL = "unknown"
PARTS = ("training", "validation", "test", "in no part")
HEIGHT, GAP = 34, 0.08  # pixels of a strip, and the share of them on each side that is left empty


def strip_names(chosen_epoch: int) -> list[str]:
    return ["before training", f"epoch {chosen_epoch}", "… training", "… validation", "… test", "misclassified"]


def class_names(graph: Graph, labels: NDArray[np.int64]) -> list[str]:
    names = np.array([*graph.class_names, UNKNOWN_LABEL], dtype=object)  # -1, unknown, is the last
    return list(names[labels])


def positions(sequence: SortedSequence) -> NDArray[np.int64]:
    """Of each node its place in an order."""
    places = np.empty_like(sequence.nodes)
    places[sequence.nodes] = np.arange(len(places))
    return places


def parts_of(split: Split) -> NDArray[np.int64]:
    """Of each node its place in `PARTS`."""
    return np.select([split.train, split.val, split.test], [0, 1, 2], 3)


def node_columns(
    graph: Graph,
    before: SortedSequence,
    after: SortedSequence,
    probabilities: NDArray[np.floating],
    split: Split,
    nodes: NDArray[np.int64],
) -> dict[str, Column]:
    """A row for each of some nodes, as one run sees it."""
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


def is_wrong(graph: Graph, predictions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Nodes of known label that are taken for another."""
    wrong: NDArray[np.bool_] = graph.labelled & (predictions != graph.y)
    return wrong


def share_columns(
    graph: Graph, before: SortedSequence, after: SortedSequence, predictions: NDArray[np.int64], split: Split
) -> dict[str, Column]:
    """Rectangles of the strips: in each of equal parts of an order, of each class the share of nodes.

    Of all nodes there in the first two strips, of a split's part in the next three; misclassified nodes are a share of
    all, and counted by what they are taken for.
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
    return min(BINS, max(20, ROWS_OF_SHARES // (6 * (classes + 1))))  # six strips; a label may be unknown


def _shares(
    classes: int,
    places: NDArray[np.int64],
    labels: NDArray[np.int64],
    counted: NDArray[np.bool_],
    among: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Bin, label, and from where to where its share goes when shares are put on top of each other."""
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
    """Strips on one axis of positions from `low` to `high`, which the page moves; `found` is where a node is marked."""
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
    shown = [*classes, *([UNKNOWN_LABEL] if has_unknown else [])]
    colours = [PALETTE[number % len(PALETTE)] for number in range(len(classes))] + [UNKNOWN] * has_unknown
    colour = altair.Color("colour:N", scale=altair.Scale(domain=shown, range=colours), title=None, sort=None)
    binned = length > BINS
    zoomed_in = f"high - low < {2 * BINS}"  # so far that nodes have a width
    layers = []
    if binned:
        width, height = length / number_of_bins(len(classes)), 1 - 2 * GAP
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
            .encode(
                x=x,
                x2=altair.X2("right:Q"),
                y=y,
                y2=altair.Y2("bottom:Q"),
                color=colour,
                tooltip=[
                    altair.Tooltip("class:N"),
                    altair.Tooltip("share:Q", format=".0%", title="share of this part"),
                ],
            )
        )
    if nodes_listed:
        tooltip = [
            altair.Tooltip("node:N"),
            altair.Tooltip("label:N"),
            altair.Tooltip("prediction:N"),
            altair.Tooltip("probability:Q", format=".3f"),
        ]
        tooltip += [altair.Tooltip("score:Q", format=".4g"), altair.Tooltip("position:Q"), altair.Tooltip("part:N")]
        # Above shares, nodes are there for the pointer alone.
        opacity: Any = altair.ExprRef(f"{zoomed_in} ? 1 : 0") if binned else 1
        nodes = altair.Chart(altair.NamedData("nodes"))
        kinds = (
            (nodes.transform_calculate(strip="0", left="datum['position before']", colour="datum.label")),
            (nodes.transform_calculate(strip="1", left="datum.position", colour="datum.label")),
            (
                nodes.transform_calculate(
                    strip=f"2 + indexof({list(PARTS[:3])}, datum.part)", left="datum.position", colour="datum.label"
                ).transform_filter("datum.strip >= 2")
            ),
            (
                nodes.transform_filter("datum.wrong").transform_calculate(
                    strip="5", left="datum.position", colour="datum.prediction"
                )
            ),
        )
        layers += [
            kind.transform_calculate(
                right="datum.left + 1", top=f"datum.strip + {GAP}", bottom=f"datum.strip + {1 - GAP}"
            )
            .transform_filter(f"high - low < {POINTED_AT} && datum.right > low && datum.left < high")
            .mark_rect(clip=True, fillOpacity=opacity, cursor="pointer")
            .encode(x=x, x2=altair.X2("right:Q"), y=y, y2=altair.Y2("bottom:Q"), color=colour, tooltip=tooltip)
            for kind in kinds
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


def mark_columns() -> dict[str, Column]:
    """The one row that the mark of a node that was looked for is drawn from."""
    return columns_of([{"here": 1}])
