"""Figures: a pure function makes the rows, a thin one draws them (Altair, no network)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nlgnn.analysis import SortedSequence
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.report.palette import PALETTE


def sequence_rows(graph: Graph, sequences: dict[str, SortedSequence]) -> list[dict[str, Any]]:
    """A row a node and order: its position there, and its class."""
    return [
        {
            "order": title,
            "position": position,
            "end": position + 1,
            "class": graph.class_names[label] if label >= 0 else "unknown",
        }
        for title, sequence in sequences.items()
        for position, label in enumerate(sequence.labels)
    ]


def sequence_chart(graph: Graph, sequences: dict[str, SortedSequence]) -> Any:
    """All nodes along each order, coloured by class (figure 2c of the paper)."""
    altair = _import_altair()
    names = list(graph.class_names)
    colours = [PALETTE[label % len(PALETTE)] for label in range(len(names))]
    return (
        altair.Chart(altair.Data(values=sequence_rows(graph, sequences)), width=800, height=46)
        .mark_rect()
        .encode(
            x=altair.X("position:Q", scale=altair.Scale(domain=[0, graph.num_nodes], nice=False), title=None),
            x2="end:Q",
            color=altair.Color("class:N", scale=altair.Scale(domain=names, range=colours), sort=names),
            row=altair.Row(
                "order:N", sort=list(sequences), title=None, header=altair.Header(labelAngle=0, labelAlign="left")
            ),
        )
        .properties(title=f"{graph.name}: all nodes, sorted by the learned score")
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
    altair = _import_altair()
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
    _import_altair()
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


def _import_altair() -> Any:
    try:
        import altair
        import vl_convert  # noqa: F401
    except ImportError:
        raise NlgnnError("pictures need altair and vl-convert.", "Install them: pip install nlgnn[pictures]") from None
    return altair
