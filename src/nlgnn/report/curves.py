"""Training curves of all runs, with the epoch that each chose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nlgnn.report.columns import Column
from nlgnn.report.page import Figure
from nlgnn.report.palette import PALETTE
from nlgnn.training.run import Run

POINTS = 300  # of a curve at most; a chosen epoch is always among them


def curve_columns(runs: Sequence[Run]) -> dict[str, Column]:
    """A row a run and epoch: what was recorded there, and whether it is the chosen one."""
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
    """Numbers from 1: all, or every so many, and the chosen one."""
    length = len(next(iter(run.curves.values()), []))
    epochs = np.arange(1, length + 1, max(1, -(-length // POINTS)))
    return np.union1d(epochs, [run.chosen_epoch] if 1 <= run.chosen_epoch <= length else [])


def curve_figures(runs: Sequence[Run], selection: str, metric: str) -> list[Figure]:
    """None where no curves were recorded."""
    runs = [run for run in runs if run.failure is None and run.curves]
    if not runs:
        return []
    columns = curve_columns(runs)
    thinned = any(len(shown_epochs(run)) < len(next(iter(run.curves.values()))) for run in runs)
    caption = f"A line a run; points are the chosen epochs: {selection}." + " Not every epoch is drawn." * thinned
    kinds = {
        "Loss over the epochs": {"train_loss": "training loss", "val_loss": "validation loss"},
        "Validation over the epochs": {"val_metric": f"validation {metric} %"},
    }
    figures = []
    for title, names in kinds.items():
        table = {words: columns[name] for name, words in names.items() if name in columns}
        if table:
            places = {name: columns[name] for name in ("run", "epoch", "chosen")}
            figures.append(Figure(title, curves_chart(list(table)), {"rows": places | table}, caption, half=True))
    return figures


def curves_chart(names: Sequence[str]) -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows")).transform_fold(list(names), as_=["kind", "value"])
    x = altair.X("epoch:Q", title="epoch")
    y = altair.Y("value:Q", title=names[0] if len(names) == 1 else "loss", scale=altair.Scale(zero=False))
    colour = altair.Color(
        "kind:N",
        title=None,
        scale=altair.Scale(domain=list(names), range=[PALETTE[1], PALETTE[0]][-len(names) :]),
        legend=altair.Legend() if len(names) > 1 else None,
    )
    lines = base.mark_line(strokeWidth=1, opacity=0.5, clip=True).encode(
        x=x, y=y, color=colour, detail=altair.Detail("run:N")
    )
    points = base.transform_filter("datum.chosen").mark_point(filled=True, size=50, opacity=1)
    tooltip = [
        altair.Tooltip("run:N"),
        altair.Tooltip("epoch:Q"),
        altair.Tooltip("kind:N"),
        altair.Tooltip("value:Q", format=".4g"),
    ]
    layers = altair.layer(lines, points.encode(x=x, y=y, color=colour, tooltip=tooltip))
    return layers.properties(width="container", height=240)
