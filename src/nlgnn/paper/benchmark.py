"""The benchmark: models worth choosing from on public splits, with settings that were fixed before measuring."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Any

from nlgnn.datasets.catalog import CATALOG
from nlgnn.models.registry import SYSTEMS, get_system
from nlgnn.paper.cell import (
    NOTHING,
    OPEN,
    SHORTER,
    SPLITS,
    Cell,
    Difference,
    Found,
    Measured,
    Schedule,
    Settings,
    caption,
    difference,
)
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
        splits: The number of splits by graph, where it is not that of all public splits.
        search: Lists of values, of which validation chooses on three splits.
        labels: True if training labels are an input.
    """

    name: str
    model: str
    graphs: tuple[str, ...] = ()
    options: Settings = field(default_factory=dict)
    by_graph: Mapping[str, Settings] = field(default_factory=dict)
    splits: Mapping[str, int] = field(default_factory=dict)
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
        schedule=Schedule(splits=entry.splits.get(graph, SPLITS)),
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


def splits_of(graph: str) -> int:
    """Return the number of public splits of a graph."""
    return int(GRAPHS[graph].get("splits", SPLITS))


def non_local_version(system: str) -> str | None:
    """Return the name of the non-local version of a model, if it has one."""
    found = (one.name for one in SYSTEMS.values() if one.local == get_system(system).name and one.kind == "non-local")
    return next(found, None)


def non_local_cells() -> list[Cell]:
    """Return the local model that is compared on each graph, its non-local version and the controls of that."""
    cells = []
    for graph, stated in DATA["comparisons"].items():
        main = entry_cell(ENTRIES[stated["entry"]], graph)
        schedule = Schedule(splits=stated.get("splits", splits_of(graph)))
        version = non_local_version(main.system) or main.system
        cells.append(_companion(main, main.system, "local", {}, schedule))
        cells += [
            _companion(main, version, name, {**DATA["non_local"], **change}, schedule)
            for name, change in CONDITIONS.items()
        ]
    return cells


def _companion(main: Cell, system: str, condition: str, changes: Settings, schedule: Schedule) -> Cell:
    return Cell(
        "benchmark",
        main.dataset,
        (main.condition, condition, f"{SEEDS} seeds"),
        system,
        protocol=main.protocol,
        preset=main.preset,
        schedule=schedule,
        condition=condition,
        main=main,
        changes=changes,
        seeds=SEEDS,
    )


def benchmark_cells(results: Path) -> list[Cell]:
    """Return all cells: the models, then the non-local versions of the best local models."""
    return [*entry_cells(), *non_local_cells()]


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
    return [*sections, *_versions(entries, versions)]


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


class Answer(StrEnum):
    """The answers to the question whether non-local mixing helps the best local model of a graph."""

    YES = "Yes: clearly better than the local model and both controls."
    PARTLY = "In part: clearly better than the local model, not than both controls."
    SAME = "No clear difference from the local model."
    WORSE = "No: clearly worse than the local model."
    OPEN = "Not measured yet."
    UNPLANNED = "Not measured: the comparison takes about two hours."


def answer(differences: Mapping[str, Difference | None]) -> Answer:
    """Return the answer that follows from a non-local model minus its local part and minus each control.

    Args:
        differences: The differences from "local" and from each control; None while a cell is open.
    """
    from_local, *from_controls = (differences[name] for name in ("local", *CONTROLS))
    if from_local is None:
        return Answer.OPEN
    if from_local.interval.is_below_zero:
        return Answer.WORSE
    if not from_local.interval.is_above_zero:
        return Answer.SAME
    known = [one for one in from_controls if one is not None]
    if not all(one.interval.is_above_zero for one in known):
        return Answer.PARTLY
    return Answer.YES if len(known) == len(CONTROLS) else Answer.OPEN


def _versions(entries: Sequence[Measured], versions: Sequence[Measured]) -> list[Section]:
    """Return the answer for each graph, and the figures that it follows from."""
    by_graph: dict[str, dict[str, Measured]] = {}
    for one in versions:
        by_graph.setdefault(one.cell.dataset, {})[one.cell.condition] = one
    complete = {graph: by_graph[graph] for graph in GRAPHS if {"local", *CONDITIONS} <= by_graph.get(graph, {}).keys()}
    if not complete:  # only some models were asked for
        return []
    answers: Rows = []
    figures: Rows = []
    for graph, own in complete.items():
        main = own["local"].cell.main
        local = main.condition if main else NOTHING
        others = {name: difference([(own["non-local"], own[name])]) for name in ("local", *CONTROLS)}
        better = chosen([one for one in entries if one.cell.dataset == graph and non_local_version(one.cell.system)])
        splits = f"{own['local'].cell.schedule.splits} of {splits_of(graph)}"
        row = {"graph": graph, "local model": local, "splits": splits, "answer": answer(others).value}
        answers.append(row | {f"non-local − {name}": str(found or OPEN) for name, found in others.items()})
        # The number of splits is in the table above, so its mark is left out.
        test = {name: own[name].figure.replace(SHORTER, "") for name in ("local", *CONDITIONS)}
        now = better.cell.condition if better else OPEN
        figures.append({"graph": graph, "local model": local, "best by validation now": now, **test})
    for graph in set(GRAPHS) - set(DATA["comparisons"]):
        blank = dict.fromkeys(answers[0], NOTHING)
        answers.append(blank | {"graph": graph, "answer": Answer.UNPLANNED.value})
    counted = {one.name: sum(row["answer"] == one for row in answers) for one in Answer}
    words = caption("benchmark-answers", answers, seeds=SEEDS, **counted)
    return [
        Section("Does non-local mixing help the best local models?", answers, words, text_columns=4),
        Section("Non-local versions of the best local models", figures, caption("benchmark-versions", figures), "", 3),
    ]
