"""The figures of a reproduction: ours beside the paper's, what the order adds, and the sorted sequences."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlgnn.experiments.accuracy import agreement
from nlgnn.experiments.beside import Beside, read_beside
from nlgnn.experiments.cells import PRESET, Cell, read_cells
from nlgnn.experiments.compare import CONTROLS, Spread
from nlgnn.experiments.framework import NON_LOCAL, FrameworkCell
from nlgnn.experiments.measured import Measured
from nlgnn.experiments.paper import Printed, printed_accuracy, printed_cpgcn, printed_validation
from nlgnn.experiments.searched import SearchedCell
from nlgnn.experiments.sequences import SequenceCell
from nlgnn.report.columns import columns_of
from nlgnn.report.differences import differences_figures
from nlgnn.report.figures import label_rows
from nlgnn.report.page import Figure, Headline, Part
from nlgnn.report.palette import PALETTE
from nlgnn.report.sequence_pictures import label_orders, picture_title
from nlgnn.report.strips import GAP, HEIGHT

OURS, PAPERS = "ours", "the paper's"
PAIRED = (
    "Mean differences of test accuracy over the same splits and seeds, protocol {protocol}; bars are 95 % t-intervals "
    "over splits, which overlap: rather too narrow. One that holds zero does not tell who is ahead."
)


class Pair(NamedTuple):
    """A figure of ours and the one that the paper prints for the same system and dataset."""

    cell: SearchedCell
    ours: Spread
    printed: Printed


def reproduction_parts(cells: Sequence[Cell], results: Path, validation: bool) -> list[Part]:
    """All that is drawn, of what is measured so far; `validation`: of the paper's best validation figures too."""
    measured = main_results(cells, results)
    pairs = paired(measured, lambda one: one.ours, _printed_test)
    of_validation = paired(measured, lambda one: one.validation, _printed_validation) if validation else []
    beside = read_beside([cell for cell in cells if type(cell) is FrameworkCell], results)
    return [
        *headlines(pairs),
        *paper_figures(pairs, "test accuracy", "at the first epoch of the best validation"),
        *paper_figures(of_validation, "best validation accuracy", "over the epochs of each run"),
        *order_figures(beside),
        *sequence_figures([cell for cell in cells if isinstance(cell, SequenceCell)], results),
    ]


def main_results(cells: Sequence[Cell], results: Path) -> list[Measured]:
    """Of the cells that tables of accuracies are made of: no control, further seed, ablation or other condition."""
    chosen: list[SearchedCell] = [
        cell
        for cell in cells
        if (type(cell) is FrameworkCell and not cell.changes) or (type(cell) is SearchedCell and not cell.condition)
    ]
    found = read_cells(chosen, results)
    return [Measured(cell, found[cell.name]) for cell in chosen if cell.name in found]


def paired(
    measured: Sequence[Measured],
    ours: Callable[[Measured], Spread | None],
    printed: Callable[[SearchedCell], Printed | None],
) -> list[Pair]:
    found = [(one.cell, ours(one), printed(one.cell)) for one in measured]
    return [Pair(cell, own, theirs) for cell, own, theirs in found if own is not None and theirs is not None]


def _printed_test(cell: SearchedCell) -> Printed | None:
    look_up = printed_cpgcn if cell.protocol == "random-10" else printed_accuracy
    return look_up(cell.system, cell.dataset)


def _printed_validation(cell: SearchedCell) -> Printed | None:
    return printed_validation(cell.system, cell.dataset)


def headlines(pairs: Sequence[Pair]) -> list[Headline]:
    """One, or none where nothing can be compared."""
    marks = Counter(agreement(pair.ours, pair.printed) for pair in pairs)
    own = Counter(agreement(pair.ours, pair.printed) for pair in pairs if pair.cell.system in NON_LOCAL)
    if not _compared(marks):
        return []
    what = (
        "of our mean test figures so far are within one standard deviation of the paper's (the paper's own, or ours "
        "where it prints none)"
    )
    alone = f"Of {', '.join(NON_LOCAL)} alone: {own['✓']} of {_compared(own)}."
    sentences = [
        f"{marks['▲']} are above, {marks['▼']} below. {alone if _compared(own) else ''}".strip(),
        "A figure is a system on a dataset by a protocol. Settings were published for some only; for the others "
        "validation chose among a sample.",
    ]
    return [Headline(f"{marks['✓']} of {_compared(marks)}", what, sentences)]


def _compared(marks: Counter[str]) -> int:
    return sum(marks[mark] for mark in "✓▲▼")


def paper_rows(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Two a pair."""
    return [
        {
            "dataset": pair.cell.dataset,
            "whose": whose,
            "mean": figure.mean,
            "low": figure.mean - (figure.std or 0.0),
            "high": figure.mean + (figure.std or 0.0),
        }
        for pair in pairs
        for whose, figure in ((OURS, pair.ours), (PAPERS, pair.printed))
    ]


def paper_figures(pairs: Sequence[Pair], what: str, when: str) -> list[Figure]:
    """One a system and protocol."""
    figures = []
    for system, protocol in dict.fromkeys((pair.cell.system, pair.cell.protocol) for pair in pairs):
        own = [pair for pair in pairs if (pair.cell.system, pair.cell.protocol) == (system, protocol)]
        runs = " or ".join(map(str, sorted({pair.cell.schedule.splits for pair in own}, reverse=True)))
        caption = (
            f"{what.capitalize()} {when}, preset {PRESET}: means, bars one standard deviation. Ours: {runs} runs, "
            f"protocol {protocol}; the paper's are as printed, some without a spread."
        )
        rows = paper_rows(own)
        chart = paper_chart(f"{what} %", len(own))
        title = f"{system} beside the paper, {protocol}" + ", by validation" * what.startswith("best")
        figures.append(Figure(title, chart, {"rows": columns_of(rows)}, caption, half=True))
    return figures


def paper_chart(title: str, datasets: int) -> Any:
    import altair

    base = altair.Chart(altair.NamedData("rows"))
    y = altair.Y("dataset:N", sort=None, title=None)
    offset = altair.YOffset("whose:N", sort=[OURS, PAPERS])
    x = altair.X("mean:Q", title=title, scale=altair.Scale(zero=False), axis=altair.Axis(tickCount=6))
    colour = altair.Color(
        "whose:N", title=None, scale=altair.Scale(domain=[OURS, PAPERS], range=[PALETTE[0], PALETTE[1]])
    )
    tooltip = [
        altair.Tooltip("dataset:N"),
        altair.Tooltip("whose:N"),
        *(altair.Tooltip(f"{name}:Q", format=".1f") for name in ("mean", "low", "high")),
    ]
    joined = base.mark_line(strokeWidth=1.5, opacity=0.8, color=PALETTE[7]).encode(
        x=x, y=y, yOffset=offset, detail="dataset:N"
    )
    bars = base.mark_rule(strokeWidth=2).encode(
        x=altair.X("low:Q"), x2=altair.X2("high:Q"), y=y, yOffset=offset, color=colour
    )
    points = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=x, y=y, yOffset=offset, color=colour, tooltip=tooltip
    )
    return altair.layer(joined, bars, points).properties(width="container", height=40 * datasets)


def order_figures(beside: Sequence[Beside]) -> list[Figure]:
    """The non-local models minus what goes with them, one a protocol and control."""
    others = {"local": "its local part", **{control: control for control in CONTROLS}}
    figures: list[Figure] = []
    for protocol in dict.fromkeys(one.main.cell.protocol for one in beside):
        own = [one for one in beside if one.main.cell.protocol == protocol]
        for other, words in others.items():
            figures += differences_figures(
                f"Non-local model minus {words}, {protocol}",
                "points of test accuracy",
                {f"{one.dataset}, {one.system}": one.interval(other) for one in own},
                PAIRED.format(protocol=protocol),
            )
    return figures


def sequence_figures(cells: Sequence[SequenceCell], results: Path) -> list[Figure]:
    found = read_cells(cells, results)
    return [sequence_figure(cell, found[cell.name]) for cell in cells if cell.name in found]


def sequence_figure(cell: SequenceCell, result: Mapping[str, Any]) -> Figure:
    names, orders = result["class names"], label_orders(result)
    length = max(map(len, orders.values()))
    caption = (
        f"{picture_title(cell, result)}. One training on the first split, protocol {cell.protocol}, preset {PRESET}; "
        "the epoch is the first with the best validation accuracy. Parts of long orders show shares of classes."
    )
    return Figure(
        f"The sorted sequence of {cell.dataset}",
        orders_chart(list(orders), names, length),
        {"rows": columns_of(label_rows(names, orders))},
        caption,
        renderer="canvas",
    )


def orders_chart(orders: Sequence[str], class_names: Sequence[str], length: int) -> Any:
    """Strips, one an order, of what `label_rows` makes."""
    import altair

    colours = [PALETTE[label % len(PALETTE)] for label in range(len(class_names))]
    place, height = f"indexof({json.dumps(list(orders))}, datum.order) + {GAP}", 1 - 2 * GAP
    labels = altair.Axis(
        values=[number + 0.5 for number in range(len(orders))],
        labelExpr=f"{json.dumps(list(orders))}[floor(datum.value)]",
        title=None,
        grid=False,
        ticks=False,
        domain=False,
    )
    return (
        altair.Chart(altair.NamedData("rows"))
        .transform_calculate(top=f"{place} + datum.low * {height}", bottom=f"{place} + datum.high * {height}")
        .mark_rect()
        .encode(
            x=altair.X(
                "position:Q",
                title="position in the order",
                scale=altair.Scale(domain=[0, length], nice=False),
                axis=altair.Axis(grid=False),
            ),
            x2=altair.X2("end:Q"),
            y=altair.Y("top:Q", scale=altair.Scale(domain=[0, len(orders)], reverse=True, nice=False), axis=labels),
            y2=altair.Y2("bottom:Q"),
            color=altair.Color(
                "class:N", title=None, sort=None, scale=altair.Scale(domain=list(class_names), range=colours)
            ),
            tooltip=[altair.Tooltip(f"{name}:{kind}") for name, kind in (("class", "N"), ("position", "Q"))],
        )
        .properties(width="container", height=HEIGHT * len(orders))
    )
