"""Figures of the reproduction: rows are made by pure functions, drawn by Altair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from nlgnn.paper import plans
from nlgnn.paper.cell import Cell, Found, Measured, read_cells, words
from nlgnn.paper.findings import MAIN, OTHERS, read_comparisons
from nlgnn.paper.numbers import ABOVE, AGREES, BELOW, Printed, agreement, printed_accuracy, printed_cpgcn
from nlgnn.report.figures import PALETTE, save_chart
from nlgnn.report.figures.intervals import differences_figures, means_chart
from nlgnn.report.figures.strips import label_rows, labels_chart
from nlgnn.report.page import Figure, Headline, Part, columns_of

DRAWN = ("texas", "chameleon")  # one of each category
NOISE, LABELS = "columns of noise", "training labels kept"
LEVELS = {
    NOISE: [str(number) for number in (0, *plans.NUISANCES)],
    LABELS: [f"{100 * share:g} %" for share in (1, *plans.LABEL_SHARES)],
}


def page_parts(cells: Sequence[Cell], results: Path) -> list[Part]:
    """Return the headline and the figures of the HTML report, from the cells measured so far."""
    # Cells of different stores may have one name.
    framework, systems, sequences = (
        read_cells([cell for cell in cells if cell.store == store], results)
        for store in ("framework", "systems", "sequence")
    )
    main = [one for found in (framework, systems) for one in found.values() if one.result]
    measured = [one for one in main if not (one.cell.main or one.cell.condition)]
    return [
        *headlines(measured),
        *paper_figures([one for one in measured if one.cell.protocol == plans.RANDOM_60]),
        *difference_figures(framework),
        *(sequence_figure(one) for one in sequences.values() if one.result),
    ]


def printed_test(cell: Cell) -> Printed | None:
    """Return the test accuracy that the paper prints for a cell."""
    look_up = printed_cpgcn if cell.protocol == "random-10" else printed_accuracy
    return look_up(cell.system, cell.dataset)


def headlines(measured: Sequence[Measured]) -> list[Headline]:
    """Return how many figures agree with the paper, nothing if none can be compared."""
    marks: Counter[str] = Counter()
    own: Counter[str] = Counter()
    for one in measured:
        if (printed := printed_test(one.cell)) and one.test and (mark := agreement(one.test, printed)):
            marks[mark] += 1
            own[mark] += one.cell.system in plans.NON_LOCAL
    if not marks:
        return []
    others = f"{marks[ABOVE]} are above and {marks[BELOW]} below."
    non_local = f"Of {', '.join(plans.NON_LOCAL)} alone, {own[AGREES]} of {own.total()} agree."
    return [Headline(f"{marks[AGREES]} of {marks.total()}", words()["figure"]["headline"], [f"{others} {non_local}"])]


def paper_rows(measured: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return two rows per cell that the paper prints a figure for: ours and the paper's."""
    return [
        {
            "graph": f"{one.cell.dataset}, {source}",
            "mean": figure.mean,
            "low": figure.mean - (figure.std or 0.0),
            "high": figure.mean + (figure.std or 0.0),
            "runs": one.cell.schedule.splits,
        }
        for one in measured
        if (printed := printed_test(one.cell)) and one.test
        for source, figure in ((f"ours{one.marks}", one.test), ("paper", printed))
    ]


def paper_figures(measured: Sequence[Measured]) -> list[Figure]:
    """Return one figure per model, ours and the paper's test accuracy on each graph."""
    figures = []
    for system in (*plans.NON_LOCAL, *plans.LOCAL):
        rows = paper_rows([one for one in measured if one.cell.system == system])
        if rows:
            chart = means_chart("graph", "test accuracy %", len(rows))
            title = f"{system}: ours and the paper's"
            figures.append(Figure(title, chart, {"rows": columns_of(rows)}, words()["figure"]["means"], half=True))
    return figures


def difference_figures(found: Found) -> list[Figure]:
    """Return the paired differences of non-local models from their local parts and controls."""
    comparisons = read_comparisons(found)
    figures: list[Figure] = []
    for other in OTHERS:
        minus = {f"{one.dataset}, {one.main.cell.system}": one.minus(MAIN, other) for one in comparisons}
        intervals = {label: difference.interval if difference else None for label, difference in minus.items()}
        title = "Non-local model minus " + ("its local part" if other == "local" else other)
        figures += differences_figures(title, "points of test accuracy", intervals, words()["figure"]["differences"])
    return figures


# Sorted sequences


def sequence_title(one: Measured) -> str:
    """Return the title of the picture of a sorted sequence."""
    levels = one.result["homophily"] if one.result else {}
    return str(words()["figure"]["sequence"]).format(dataset=one.cell.dataset, system=one.cell.system, **levels)


def sequence_labels(one: Measured) -> dict[str, list[int]]:
    """Return the labels along both orders of a cell by title."""
    assert one.result is not None
    levels, run = one.result["homophily"], one.result["runs"][0]
    return {
        f"before training: H {levels['before'][0]:.2f}": one.labels("before"),
        f"epoch {run['chosen_epoch']}: H {levels['after'][0]:.2f}": one.labels("after"),
    }


def sequence_figure(one: Measured) -> Figure:
    """Return the sorted sequence of a cell, before training and at the chosen epoch."""
    import altair

    assert one.result is not None
    names, orders = one.result["class names"], sequence_labels(one)
    text = words()["figure"]["one-training"].format(title=sequence_title(one))
    chart = labels_chart("", names, orders).properties(data=altair.NamedData("rows"), width=640)
    tables = {"rows": columns_of(label_rows(names, orders))}
    return Figure(f"The sorted sequence of {one.cell.dataset}", chart, tables, text, renderer="canvas")


# Pictures of the generated pages


def draw_sequences(found: Found, folder: Path) -> None:
    """Write one SVG file per measured sequence that the page shows."""
    for one in found.values():
        if one.result and one.cell.dataset in DRAWN:
            chart = labels_chart(sequence_title(one), one.result["class names"], sequence_labels(one))
            save_chart(chart, folder / f"sequence-{one.cell.dataset}.svg")


def draw_planted_orders(found: Found, folder: Path) -> None:
    """Write order.svg: the first planted graph sorted by score and in the learned order, before and after training."""
    chosen = {one.cell.condition: one for one in _planted(found)
             if one.cell.planted == (plans.PLANTED_SEEDS[0], 0, 1.0)}  # fmt: skip
    if not {plans.SCORE, plans.VOTE} <= chosen.keys():
        return
    orders = {}
    for name, condition in (("by score", plans.SCORE), ("learned", plans.VOTE)):
        result = chosen[condition].result
        assert result is not None
        orders[f"{name}, before training"] = chosen[condition].labels("before")
        orders[f"{name}, epoch {result['runs'][0]['chosen_epoch']}"] = chosen[condition].labels("after")
        names = result["class names"]
    title = words()["figure"]["planted"].format(score=chosen[plans.SCORE].test, learned=chosen[plans.VOTE].test)
    save_chart(labels_chart(title, names, orders), folder / "order.svg")


def draw_degradation(found: Found, folder: Path) -> None:
    """Write order-degrades.svg: test accuracy on planted graphs against noise and known labels."""
    planted = _planted(found)
    rows = degradation_rows(planted)
    if any(row["level"] not in ("0", "100 %") for row in rows):
        local = [one.test.mean for one in planted if one.cell.condition == plans.LOCAL_PART and one.test]
        save_chart(_degradation_chart(rows, fmean(local) if local else None), folder / "order-degrades.svg")


def _planted(found: Found) -> list[Measured]:
    return [one for one in found.values() if one.cell.planted and one.result]


def degradation_rows(planted: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return one row per training; the unchanged planted graph is in both panels."""
    rows = []
    for one in planted:
        if one.cell.condition not in (plans.VOTE, plans.MANY.name) or not one.cell.planted or not one.test:
            continue
        _, nuisance, share = one.cell.planted
        places = {NOISE: str(nuisance)} if share == 1 else {}
        places |= {LABELS: f"{100 * share:g} %"} if nuisance == 0 else {}
        row = {"model": one.cell.condition, "test": one.test.mean}
        rows += [{"panel": panel, "level": level, **row} for panel, level in places.items()]
    return rows


def _degradation_chart(rows: Sequence[Mapping[str, Any]], local: float | None) -> Any:
    import altair

    models = [plans.VOTE, plans.MANY.name]
    colour = altair.Color("model:N", scale=altair.Scale(domain=models, range=PALETTE[: len(models)]), title=None)
    scale = altair.Scale(zero=False)
    panels = []
    for panel, levels in LEVELS.items():
        x = altair.X("level:O", scale=altair.Scale(domain=levels), title=panel, axis=altair.Axis(labelAngle=0))
        y = altair.Y("test:Q", scale=scale, title="test accuracy %")
        base = altair.Chart(altair.Data(values=[row for row in rows if row["panel"] == panel])).encode(
            x=x, color=colour
        )
        means = base.mark_line().encode(y=altair.Y("mean(test):Q", scale=scale))
        layers = [means, base.mark_point(filled=True, opacity=0.7, size=50).encode(y=y)]
        if local is not None:
            rule = altair.Chart(altair.Data(values=[{}])).mark_rule(strokeDash=[5, 4], color="#666")
            layers.append(rule.encode(y=altair.YDatum(local, scale=scale)))
        panels.append(altair.layer(*layers).properties(width=330, height=260))
    title = words()["figure"]["harder"] + (words()["figure"]["dashed"].format(local=local) if local else "")
    return altair.hconcat(*panels).properties(title=title)
