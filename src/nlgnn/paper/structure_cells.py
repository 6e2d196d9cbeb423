"""The learned order with structure as its input: its cells, and the sections that show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nlgnn.datasets import describe
from nlgnn.paper.cell import OPEN, Cell, Found, Measured, Planted, Schedule, caption
from nlgnn.paper.findings import Comparison
from nlgnn.paper.plans import DATA, RANDOM_60
from nlgnn.report.table import Rows, Section

PLAN: Mapping[str, Any] = DATA["structure"]
ROLES, ROLE_SEEDS = "planted-roles", (401, 402, 403)  # no choice was made on these seeds
STRUCTURE = "structure"  # the first part of file names after the dataset
LOCAL_PART = "local part"


def structure_cells() -> list[Cell]:
    """Return every condition on planted roles with more and more noise, and on real graphs."""
    planted = [
        _cell(ROLES, condition, Planted(seed, nuisance=noise))
        for noise in PLAN["noise_links"]
        for condition in PLAN["planted"]
        for seed in ROLE_SEEDS
    ]
    return [*planted, *(_cell(dataset, condition) for dataset in PLAN["datasets"] for condition in PLAN["condition"])]


def _cell(dataset: str, condition: Mapping[str, Any], planted: Planted | None = None) -> Cell:
    options = {key: value for part in condition["whose"] for key, value in PLAN[part].items()}
    shared = PLAN["on_planted"] if planted else {}
    parts = [f"noise {planted.nuisance}", f"graph {planted.seed}"] if planted else []
    return Cell(
        "order",
        dataset,
        (STRUCTURE, condition["name"], *parts),
        condition["model"],
        protocol=RANDOM_60 if planted else (*describe(dataset).protocols, RANDOM_60)[0],
        preset="robust" if planted else "released",
        candidates=({**shared, **options, **condition.get("options", {})},),
        schedule=Schedule(splits=1) if planted else Schedule(),
        condition=condition["name"],
        seeds=1 if planted else PLAN["seeds"],
        planted=planted,
    )


def is_structure(one: Measured) -> bool:
    """Return whether a cell of the learned order has structure as input, or is its control."""
    return one.cell.tags[0] == STRUCTURE


def structure_sections(found: Found) -> list[Section]:
    """Return the figures on planted roles and on real graphs."""
    cells = [one for one in found.values() if is_structure(one)]
    planted, real = ([one for one in cells if (one.cell.planted is not None) == made] for made in (True, False))
    return [*(_roles(planted) if planted else []), *(_real(real) if real else [])]


def _roles(cells: Sequence[Measured]) -> list[Section]:
    rows: Rows = []
    for condition in PLAN["planted"]:
        row = {"model": condition["name"]}
        for noise in PLAN["noise_links"]:
            alike = [
                one
                for one in cells
                if one.cell.condition == condition["name"] and one.cell.planted and one.cell.planted.nuisance == noise
            ]
            row[f"{noise} random links"] = " / ".join(one.figure for one in alike) or OPEN
        rows.append(row)
    return [Section("Planted roles", rows, caption("roles", rows, epochs=PLAN["on_planted"]["epochs"]))]


def _real(cells: Sequence[Measured]) -> list[Section]:
    by_graph: dict[str, dict[str, list[Measured]]] = {}
    for one in cells:
        by_graph.setdefault(one.cell.dataset, {})[one.cell.condition] = [one]
    graphs = [Comparison(dataset, own) for dataset, own in by_graph.items()]
    names = [condition["name"] for condition in PLAN["condition"]]
    first = names[0]
    figures = [{"dataset": graph.dataset} | {name: graph.figure(name) for name in names} for graph in graphs]
    differences = [
        {"dataset": graph.dataset} | {f"votes − {name}": graph.text(first, name) for name in names if name != first}
        for graph in graphs
    ]
    text = caption("structure", figures, seeds=PLAN["seeds"])
    return [
        Section("Structure", figures, text),
        Section("Structure, differences", differences, caption("structure-differences", differences)),
    ]
