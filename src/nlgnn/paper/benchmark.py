"""The benchmark: models worth choosing from on public splits, with settings that were fixed before measuring."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from nlgnn.datasets.catalog import CATALOG
from nlgnn.models.registry import SYSTEMS, get_system
from nlgnn.paper.cell import NOTHING, OPEN, Cell, Found, Measured, Settings, caption, difference, read_cells
from nlgnn.paper.plans import WEBKB
from nlgnn.report.table import Rows, Section
from nlgnn.selection.controls import CONTROLS

DATA: Mapping[str, Any] = tomllib.loads(resources.files("nlgnn.paper").joinpath("benchmark.toml").read_text("utf-8"))
GRAPHS: Mapping[str, Mapping[str, Any]] = DATA["graphs"]
GRAPHS_PER_TABLE = 5
SEEDS = 3  # on the WebKB graphs, and where non-local models are compared with their controls
CONDITIONS = {"non-local": {}, **CONTROLS}


@dataclass(frozen=True)
class Entry:
    """A model of the benchmark.

    Args:
        name: The name in tables.
        model: The name of the model.
        graphs: The graphs that it is measured on; all if empty.
        options: Options on all graphs.
        by_graph: Further options by graph.
        search: Lists of values, of which validation chooses on three splits.
        labels: True if training labels are an input.
    """

    name: str
    model: str
    graphs: tuple[str, ...] = ()
    options: Settings = field(default_factory=dict)
    by_graph: Mapping[str, Settings] = field(default_factory=dict)
    search: tuple[Settings, ...] = ({},)
    labels: bool = False


def _read_entry(stated: dict[str, Any]) -> Entry:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in stated.items()}
    return Entry(**fields)


ENTRIES = {stated["name"]: _read_entry(stated) for stated in DATA["entry"]}


def entry_cell(entry: Entry, graph: str) -> Cell:
    """Return the cell of a model on a graph: ten public splits, with three seeds each on the WebKB graphs."""
    options = {**entry.options, **entry.by_graph.get(graph, {})}
    return Cell(
        "benchmark",
        graph,
        (entry.name,),
        entry.model,
        protocol=CATALOG[graph].protocols[0],
        preset="paper",
        candidates=tuple({**options, **setting} for setting in entry.search),
        condition=entry.name,
        seeds=SEEDS if graph in (*WEBKB, "cornell") else 1,
    )


def entry_cells() -> list[Cell]:
    """Return the cells of all models on their graphs, those of one graph together."""
    return [
        entry_cell(entry, graph)
        for graph in GRAPHS
        for entry in ENTRIES.values()
        if not entry.graphs or graph in entry.graphs
    ]


def chosen(found: Sequence[Measured], labels: bool = True) -> Measured | None:
    """Return the cell with the best mean validation figure.

    Args:
        found: The cells of one graph.
        labels: If False, models that take training labels as input are left out.
    """
    known = [one for one in found if one.validation and (labels or not ENTRIES[one.cell.condition].labels)]
    return max(known, key=lambda one: one.validation.mean if one.validation else 0.0, default=None)


def non_local_cells(results: Path) -> list[Cell]:
    """Return, for the best local model of each graph whose cells are complete, its non-local version and controls."""
    cells = []
    for graph in GRAPHS:
        found = [one for one in read_cells(entry_cells(), results, check=False).values() if one.cell.dataset == graph]
        wrapped = [one for one in found if f"nl-{get_system(one.cell.system).name}" in SYSTEMS]
        best = chosen(wrapped)
        if best is not None and all(one.result for one in wrapped):
            cells += [_companion(best.cell, best.cell.system, "local", {})]
            system, options = f"nl-{get_system(best.cell.system).name}", DATA["non_local"]
            cells += [_companion(best.cell, system, name, {**options, **change}) for name, change in CONDITIONS.items()]
    return cells


def _companion(main: Cell, system: str, condition: str, changes: Settings) -> Cell:
    return Cell(
        "benchmark",
        main.dataset,
        (main.condition, condition, f"{SEEDS} seeds"),
        system,
        protocol=main.protocol,
        preset=main.preset,
        condition=condition,
        main=main,
        changes=changes,
        seeds=SEEDS,
    )


def benchmark_cells(results: Path) -> list[Cell]:
    """Return all cells: the models, then the non-local versions of the best local models."""
    return [*entry_cells(), *non_local_cells(results)]


def benchmark_sections(found: Found) -> list[Section]:
    """Return the chosen model of each graph, all figures, seconds, and the non-local versions with their controls."""
    entries = [one for one in found.values() if one.cell.main is None]
    versions = [one for one in found.values() if one.cell.main is not None]
    graphs = [graph for graph in GRAPHS if any(one.cell.dataset == graph for one in entries)]
    if not graphs:
        return []
    sections = [_summary(entries, graphs)]
    for start in range(0, len(graphs), GRAPHS_PER_TABLE):
        part = graphs[start : start + GRAPHS_PER_TABLE]
        sections.append(_matrix(f"Test figures: {', '.join(part)}", entries, part, "benchmark"))
    for start in range(0, len(graphs), GRAPHS_PER_TABLE):
        part = graphs[start : start + GRAPHS_PER_TABLE]
        sections.append(_matrix(f"Seconds per run: {', '.join(part)}", entries, part, "benchmark-seconds"))
    return [*sections, *([_versions(versions)] if versions else [])]


def _summary(entries: Sequence[Measured], graphs: Sequence[str]) -> Section:
    rows: Rows = []
    reached = compared = 0
    for graph in graphs:
        own = [one for one in entries if one.cell.dataset == graph]
        known = GRAPHS[graph]
        row = {"graph": graph, "metric": CATALOG[graph].metric}
        for heading, labels in (("", True), (", without label input", False)):
            best = chosen(own, labels)
            row[f"chosen model{heading}"] = best.cell.condition if best else OPEN
            row[f"test{heading}"] = best.figure if best else OPEN
        best = chosen(own)
        if best and best.test and "best" in known:
            compared += 1
            reached += round(best.test.mean, 1) >= known["best"]
        row |= {"published best": f"{known['best']:.1f}" if "best" in known else NOTHING}
        rows.append(row | {"source": known.get("source", NOTHING), "note": known.get("note", NOTHING)})
    words = caption("benchmark-summary", rows, reached=reached, compared=compared, entries=len(ENTRIES))
    return Section("Best model of each graph", rows, words, text_columns=2)


def _matrix(title: str, entries: Sequence[Measured], graphs: Sequence[str], name: str) -> Section:
    seconds = name == "benchmark-seconds"
    figures = {(one.cell.condition, one.cell.dataset): _seconds(one) if seconds else one.figure for one in entries}
    rows: Rows = []
    for entry in ENTRIES:
        row = {"model": entry, **{graph: figures.get((entry, graph), NOTHING) for graph in graphs}}
        if any((entry, graph) in figures for graph in graphs):
            rows.append(row)
    return Section(title, rows, caption(name, rows, seeds=SEEDS))


def _seconds(one: Measured) -> str:
    return OPEN if one.result is None else f"{one.result['seconds'] / max(1, len(one.tests)):.2g}"


def _versions(versions: Sequence[Measured]) -> Section:
    by_graph: dict[str, dict[str, Measured]] = {}
    for one in versions:
        by_graph.setdefault(one.cell.dataset, {})[one.cell.condition] = one
    rows: Rows = []
    for graph, own in by_graph.items():
        if not {"local", *CONDITIONS} <= own.keys():  # only some models were asked for
            continue
        row = {"graph": graph, "local model": own["local"].cell.main.condition if own["local"].cell.main else ""}
        row |= {name: own[name].figure for name in ("local", *CONDITIONS)}
        others = ("local", *CONTROLS)
        row |= {f"non-local − {name}": str(difference([(own["non-local"], own[name])]) or OPEN) for name in others}
        rows.append(row)
    return Section("Non-local versions of the best local models", rows, caption("benchmark-versions", rows), "", 2)
