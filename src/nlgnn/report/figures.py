"""Figures: a pure function makes the rows, a thin one draws them (Altair, no network)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from nlgnn.analysis import SortedSequence
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.report.palette import PALETTE

NODES_DRAWN, BINS = 2000, 200  # of a strip of 800 pixels: nodes that are drawn one by one, and parts of longer orders


def sequence_rows(graph: Graph, sequences: dict[str, SortedSequence]) -> list[dict[str, Any]]:
    """A row for every run of nodes of one class in an order: where it begins and ends, and the class."""
    return label_rows(graph.class_names, _labels(sequences))


def sequence_chart(graph: Graph, sequences: dict[str, SortedSequence]) -> Any:
    """All nodes along each order, coloured by class (figure 2c of the paper)."""
    title = f"{graph.name}: all nodes, sorted by the learned score"
    return labels_chart(title, graph.class_names, _labels(sequences))


def _labels(sequences: dict[str, SortedSequence]) -> dict[str, list[int]]:
    return {title: sequence.labels.tolist() for title, sequence in sequences.items()}


def label_rows(class_names: Sequence[str], orders: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    """A rectangle a run of nodes of one class; of longer orders, one a class in each of `BINS` parts.

    It spans positions from `position` to `end` and, of the strip's height, the class's share from `low` to `high`.
    """
    rows = []
    for title, labels in orders.items():
        for position, end, part in _runs(labels) if len(labels) <= NODES_DRAWN else _bins(labels):
            low = 0.0
            for label, count in sorted(Counter(part).items()):
                high = low + count / len(part)
                name = class_names[label] if label >= 0 else "unknown"
                rows.append({"order": title, "position": position, "end": end, "class": name, "low": low, "high": high})
                low = high
    return rows


def _runs(labels: Sequence[int]) -> Iterator[tuple[float, float, Sequence[int]]]:
    position = 0
    for _, run in groupby(labels):
        part = list(run)
        yield position, position + len(part), part
        position += len(part)


def _bins(labels: Sequence[int]) -> Iterator[tuple[float, float, Sequence[int]]]:
    """Of equal width, so that all begin at whole pixels; nodes go to the nearer one."""
    width = len(labels) / BINS
    for number in range(BINS):
        yield number * width, (number + 1) * width, labels[round(number * width) : round((number + 1) * width)]


def labels_chart(title: str, class_names: Sequence[str], orders: Mapping[str, Sequence[int]]) -> Any:
    import altair

    names = list(class_names)
    colours = [PALETTE[label % len(PALETTE)] for label in range(len(names))]
    num_nodes = max(map(len, orders.values()))
    return (
        altair.Chart(altair.Data(values=label_rows(names, orders)), width=800, height=46)
        .mark_rect(aria=False)  # a description of each would be most of the file
        .encode(
            x=altair.X("position:Q", scale=altair.Scale(domain=[0, num_nodes], nice=False), title=None),
            x2="end:Q",
            y=altair.Y("low:Q", scale=altair.Scale(domain=[0, 1]), axis=None),
            y2="high:Q",
            color=altair.Color("class:N", scale=altair.Scale(domain=names, range=colours), sort=names),
            row=altair.Row(
                "order:N", sort=list(orders), title=None, header=altair.Header(labelAngle=0, labelAlign="left")
            ),
        )
        .properties(title=title)
        .configure_view(stroke=None)
        .configure_axis(grid=False)
    )


def scaling_rows(trainings: list[dict[str, Any]], exponents: dict[str, float]) -> list[dict[str, Any]]:
    """A row a training: its size, its time, and what the legend calls its system."""
    fitted = {system: f", n^{exponent:.2f}" for system, exponent in exponents.items()}
    return [
        {
            "system": training["system"] + fitted.get(training["system"], ""),
            "nodes": training["nodes"],
            "seconds": training["seconds"],
        }
        for training in trainings
    ]


def scaling_chart(trainings: list[dict[str, Any]], exponents: dict[str, float]) -> Any:
    """Seconds an epoch against nodes, both logarithmic; the legend has the fitted exponents."""
    import altair

    rows = scaling_rows(trainings, exponents)
    names = list(dict.fromkeys(row["system"] for row in rows))
    return (
        altair.Chart(altair.Data(values=rows), width=560, height=360)
        .mark_line(point=altair.OverlayMarkDef(size=50))
        .encode(
            x=altair.X("nodes:Q", scale=altair.Scale(type="log"), title="nodes", axis=altair.Axis(format="~s")),
            y=altair.Y("seconds:Q", scale=altair.Scale(type="log"), title="seconds an epoch"),
            color=altair.Color("system:N", scale=altair.Scale(domain=names, range=PALETTE[: len(names)]), title=None),
        )
        .properties(title="Seconds an epoch against nodes, with fitted exponents")
    )


def check_picture(path: Path) -> None:
    """Raise whatever would make `save_chart` fail: to be called before the hours that a picture is drawn from."""
    if path.suffix not in (".svg", ".png"):
        raise NlgnnError(f"{path} cannot be drawn: its ending is unknown.", "Name a file that ends in .svg or .png.")
    if not path.absolute().parent.is_dir():
        raise NlgnnError(f"{path} cannot be written: there is no folder {path.parent}.", "Make it, or name another.")


def save_chart(chart: Any, path: Path) -> None:
    check_picture(path)
    try:
        chart.save(str(path))
    except OSError as error:
        raise NlgnnError(f"{path} cannot be written: {error.strerror}.", "Name a file that can be written.") from None
