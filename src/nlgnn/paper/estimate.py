"""Estimates of the seconds that open and older cells will take, from those of measured cells."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from math import log

from nlgnn.datasets.catalog import CATALOG
from nlgnn.paper.cell import Cell, Measured

# Seconds grow with this power of the numbers of nodes and edges: steps on small graphs have fixed costs.
GROWTH = 0.5
GENERATED = 75_000  # nodes and edges of a planted graph


def estimated_seconds(cell: Cell, measured: Collection[Measured]) -> float | None:
    """Return the seconds that a cell will take on one core.

    Args:
        cell: An open cell, or one to measure again.
        measured: Measured cells. The most similar one counts: the cell itself, or one of the same kind, model and
            search on the graph of the nearest size, whose seconds are scaled by size and number of splits.

    Returns:
        The estimate, or None if no cell of this kind is measured.
    """
    known = [one for one in measured if one.result is not None and one.cell.kind == cell.kind]
    if not known:
        return None
    nearest = min(known, key=lambda one: _distance(cell, one.cell))
    if nearest.cell.name == cell.name:
        return nearest.seconds
    return nearest.seconds * _work(cell) / _work(nearest.cell)


def _distance(cell: Cell, other: Cell) -> tuple[bool | float, ...]:
    return (
        (cell.store, cell.name) != (other.store, other.name),
        cell.system != other.system,
        cell.store != other.store,
        (len(cell.candidates) > 1) != (len(other.candidates) > 1),
        abs(log(_size(cell.dataset) / _size(other.dataset))),
    )


def _work(cell: Cell) -> float:
    return float(_size(cell.dataset) ** GROWTH * cell.schedule.splits * cell.seeds)


@cache
def _size(dataset: str) -> int:
    """Return the number of nodes and edges; generated graphs are as large as one another."""
    if dataset not in CATALOG:
        return GENERATED
    known = CATALOG[dataset].statistics
    return known.nodes + 2 * (known.edges or 0)
