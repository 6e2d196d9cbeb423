"""Figures: a pure function makes the rows, a thin one draws them with Altair. Colours and picture files are shared.

Channels are passed to Altair as objects (`altair.X("mean:Q")`). A mere string costs it some milliseconds each.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nlgnn.errors import NlgnnError
from nlgnn.files import check_target, writing
from nlgnn.graph.graph import Graph

# Okabe and Ito's palette, which colour-blind readers can tell apart.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
UNKNOWN, UNKNOWN_LABEL = "#D8D8D8", "unknown"  # nodes without a label


def tooltips(fields: Sequence[str], **formats: str) -> list[Any]:
    """Return the tooltip of a mark: each field with its type (`node:N`), and formats of fields by their name."""
    import altair

    return [
        altair.Tooltip(field, **({"format": formats[name]} if (name := field.partition(":")[0]) in formats else {}))
        for field in fields
    ]


def class_names(graph: Graph, labels: NDArray[np.int64]) -> list[str]:
    """Return the names of labels, of which -1 is unknown."""
    names = np.array([*graph.class_names, UNKNOWN_LABEL], dtype=object)
    return list(names[labels])


def class_scale(names: Sequence[str], has_unknown: bool = False) -> Any:
    """Return the colour scale of classes, the same in every figure."""
    import altair

    colours = [PALETTE[number % len(PALETTE)] for number in range(len(names))]
    return altair.Scale(
        domain=[*names, *([UNKNOWN_LABEL] if has_unknown else [])], range=colours + [UNKNOWN] * has_unknown
    )


def check_picture(path: Path) -> None:
    """Raise what would make `save_chart` fail, before the training that a picture is drawn from."""
    if path.suffix not in (".svg", ".png"):
        raise NlgnnError(f"{path} cannot be drawn: its ending is unknown.", "Name a file that ends in .svg or .png.")
    check_target(path)


def save_chart(chart: Any, path: Path) -> None:
    """Save an Altair chart as SVG or PNG."""
    check_picture(path)
    with writing(path):
        chart.save(str(path))
