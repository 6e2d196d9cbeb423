"""Figures of the reproduction: rows are made by pure functions, drawn by Altair."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nlgnn.paper import plans
from nlgnn.paper.cell import Cell, Found, Measured, read_cells, words
from nlgnn.paper.findings import MAIN, OTHERS, read_comparisons
from nlgnn.paper.numbers import ABOVE, AGREES, BELOW, Printed, agreement, printed_accuracy, printed_cpgcn
from nlgnn.paper.order_cells import NOISE_LINKS, PLANTED_ORDER, ROLES, SCORE, VOTES, conditions
from nlgnn.report.figures import PALETTE, save_chart
from nlgnn.report.figures.intervals import differences_figures, means_chart
from nlgnn.report.figures.strips import label_rows, labels_chart
from nlgnn.report.page import Figure, Headline, Part, columns_of

DRAWN = ("texas", "chameleon")  # one of each category


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
    """Write order.svg: the planted order sorted by score and in the learned order, before and after training."""
    chosen = {one.cell.condition: one for one in found.values() if one.cell.dataset == PLANTED_ORDER and one.result}
    if not {SCORE, VOTES} <= chosen.keys():
        return
    orders = {}
    for name, condition in (("by score", SCORE), ("learned", VOTES)):
        result = chosen[condition].result
        assert result is not None
        orders[f"{name}, before training"] = chosen[condition].labels("before")
        orders[f"{name}, epoch {result['runs'][0]['chosen_epoch']}"] = chosen[condition].labels("after")
        names = result["class names"]
    title = words()["figure"]["planted"].format(score=chosen[SCORE].test, learned=chosen[VOTES].test)
    save_chart(labels_chart(title, names, orders), folder / "order.svg")


def draw_roles(found: Found, folder: Path) -> None:
    """Write order-noise.svg: test accuracy on planted roles against the number of random links per node."""
    rows = role_rows(list(found.values()))
    if rows:
        save_chart(_roles_chart(rows), folder / "order-noise.svg")


def role_rows(cells: Sequence[Measured]) -> list[dict[str, Any]]:
    """Return one row per training on planted roles."""
    return [
        {"model": one.cell.condition, "links": one.cell.planted.noise, "test": one.test.mean}
        for one in cells
        if one.cell.dataset == ROLES and one.cell.planted and one.test
    ]


def _roles_chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    import altair

    names = [condition.name for condition in conditions("roles")]
    colour = altair.Color("model:N", scale=altair.Scale(domain=names, range=PALETTE[: len(names)]), title=None)
    x = altair.X("links:Q", title="random links per node", axis=altair.Axis(values=list(NOISE_LINKS)))
    base = altair.Chart(altair.Data(values=list(rows))).encode(x=x, color=colour)
    scale = altair.Scale(zero=False)
    means = base.mark_line().encode(y=altair.Y("mean(test):Q", scale=scale))
    points = base.mark_point(filled=True, opacity=0.7, size=50)
    points = points.encode(y=altair.Y("test:Q", scale=scale, title="test accuracy %"))
    return altair.layer(means, points).properties(width=480, height=280, title=words()["figure"]["roles"])
