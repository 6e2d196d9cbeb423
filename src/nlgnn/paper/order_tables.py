"""Tables of the learned order: real graphs, twins, planted graphs, settings that were tried."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from nlgnn.paper.cell import NOTHING, OPEN, Found, Measured, caption
from nlgnn.paper.findings import Comparison
from nlgnn.paper.order_cells import (
    CONVOLUTION,
    DATA,
    GRAPHS,
    LOCAL_PART,
    NOISE_LINKS,
    PLANTED_ORDER,
    ROLES,
    TRIED,
    VOTES,
    conditions,
)
from nlgnn.paper.order_summary import summary_sentences
from nlgnn.report.table import Rows, Section
from nlgnn.selection.statistics import paired_interval, spread

MINUS = " − "


def order_sections(found: Found) -> list[Section]:
    """Return all tables whose cells are asked for."""
    cells = list(found.values())
    by_graph: dict[str, dict[str, list[Measured]]] = {}
    for one in cells:
        if not one.cell.planted and one.cell.tags[0] != TRIED:
            by_graph.setdefault(one.cell.dataset, {})[one.cell.condition] = [one]
    graphs = {dataset: Comparison(dataset, own) for dataset, own in by_graph.items()}
    main = [graph for graph in graphs.values() if GRAPHS[graph.dataset].get("complete")]
    others = [graph for graph in graphs.values() if not GRAPHS[graph.dataset].get("complete")]
    roles = [one for one in cells if one.cell.dataset == ROLES]
    tried = [one for one in cells if one.cell.tags[0] == TRIED]
    order = [one for one in cells if one.cell.dataset == PLANTED_ORDER]
    sentences = summary_sentences(main, others, roles)
    return [
        *([Section("Summary", [], "", " ".join(sentences))] if sentences else []),
        *(_main(main) if main else []),
        *([_twins(main)] if any(GRAPHS[graph.dataset].get("twins") for graph in main) else []),
        *([_roles(roles)] if roles else []),
        *([_others(others)] if others else []),
        *([_tried(tried)] if tried else []),
        *([_planted_order(order)] if order else []),
    ]


def _names() -> list[str]:
    return [condition.name for condition in conditions("real")]


def _main(graphs: Sequence[Comparison]) -> list[Section]:
    figures = [{"model": name} | {_heading(graph): graph.figure(name) for graph in graphs} for name in _names()]
    sections = [Section("Chameleon and Squirrel", figures, caption("order-figures", figures))]
    for reader, subject in ((VOTES, "Votes"), (CONVOLUTION, "Convolution")):
        rows = [
            {f"{subject.lower()} along the learned order{MINUS}": name}
            | {graph.dataset: graph.text(reader, name) for graph in graphs}
            for name in _names()
            if name != reader
        ]
        sections.append(Section(f"{subject}, differences", rows, caption("order-differences", rows)))
    return sections


def _heading(graph: Comparison) -> str:
    plan = GRAPHS[graph.dataset]
    seeds = plan["seeds"]
    return f"{graph.dataset}, {plan['splits']} splits" + (f" × {seeds} seeds" if seeds > 1 else "")


# Twins


def _twins(graphs: Sequence[Comparison]) -> Section:
    rows: Rows = []
    for graph in graphs:
        if not GRAPHS[graph.dataset].get("twins"):
            continue
        measured = [one for own in graph.by_seed.values() for one in own if one.result and "twins" in one.result]
        shares = [share for one in measured[:1] for share in one.result["twins"]["shares"] if share is not None]  # type: ignore[index]
        row = {"dataset": graph.dataset, "with a twin": f"{100 * fmean(shares):.0f} %" if shares else OPEN}
        row |= {name: _rest_figure(graph, name) for name in _names()}
        rest, local = (_rest(graph, name) for name in (VOTES, LOCAL_PART))
        interval = paired_interval(_by_split(graph, rest), _by_split(graph, local)) if rest and local else None
        rows.append(row | {f"votes{MINUS}local": str(interval or OPEN)})
    return Section("Without twins", rows, caption("order-twins", rows))


def _rest(graph: Comparison, name: str) -> list[float | None]:
    """Return the figures of a condition on test nodes without a twin, by run."""
    result = graph.by_seed[name][0].result if graph.has(name) else None
    return result["twins"]["test"] if result and "twins" in result else []


def _rest_figure(graph: Comparison, name: str) -> str:
    return str(spread(_rest(graph, name)) or OPEN)


def _by_split(graph: Comparison, figures: Sequence[float | None]) -> list[float | None]:
    """Return means over the seeds of each split."""
    splits = GRAPHS[graph.dataset]["splits"]
    means = [spread(figures[split::splits]) for split in range(splits)]
    return [one.mean if one else None for one in means]


# Planted graphs


def _roles(cells: Sequence[Measured]) -> Section:
    rows: Rows = []
    for condition in conditions("roles"):
        row = {"model": condition.name}
        for noise in NOISE_LINKS:
            alike = _with_noise(cells, condition.name, noise)
            row[f"{noise} random links"] = " / ".join(one.figure for one in alike) or NOTHING
        rows.append(row)
    return Section("Planted roles", rows, caption("roles", rows))


def _with_noise(cells: Sequence[Measured], condition: str, noise: int) -> list[Measured]:
    return [
        one for one in cells if one.cell.condition == condition and one.cell.planted and one.cell.planted.noise == noise
    ]


def _planted_order(cells: Sequence[Measured]) -> Section:
    rows = [{"model": one.cell.condition, "test": one.figure} for one in cells]
    return Section("A planted order", rows, caption("planted-order", rows, epochs=DATA["on_order"]["epochs"]))


# Other graphs and settings


def _others(graphs: Sequence[Comparison]) -> Section:
    names = [condition.name for condition in conditions("real") if condition.short]
    rows = [
        {"dataset": graph.dataset, "splits": str(GRAPHS[graph.dataset]["splits"])}
        | {name: graph.figure(name).replace("*", "") for name in names}
        | {f"votes{MINUS}{name}": graph.text(VOTES, name) for name in names if name != VOTES}
        for graph in graphs
    ]
    return Section("Other graphs", rows, caption("order-others", rows))


def _tried(cells: Sequence[Measured]) -> Section:
    names = dict.fromkeys(one.cell.condition for one in cells)
    graphs = list(dict.fromkeys(one.cell.dataset for one in cells))
    of = {(one.cell.condition, one.cell.dataset): one for one in cells}
    rows = [
        {"setting": name}
        | {
            graph: f"{one.validation.mean:.1f}" if (one := of.get((name, graph))) and one.validation else OPEN
            for graph in graphs
        }
        for name in names
    ]
    return Section("Settings that were tried", rows, caption("order-tried", rows))
