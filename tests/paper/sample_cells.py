"""Results of cells that nobody trained."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nlgnn import __version__
from nlgnn.paper.cell import Cell, cell_path
from nlgnn.paper.plans import framework_cell

LEVELS = {"graph": 0.1, "chance": 0.4, "before": [0.3, 0.5], "after": [0.6, 0.8]}
OLD = {"versions": {"nlgnn": "0.1.0"}}


def write(
    cell: Cell, folder: Path, tests: Sequence[float | None] = (), vals: Sequence[float] = (), **changed: Any
) -> None:
    """Write a result; validation is as good as test unless said otherwise."""
    options = {**(cell.main or cell).candidates[0], **cell.changes}
    runs = [
        {"test": test, "val": val, "chosen_epoch": 3} for test, val in zip(tests, vals or tests, strict=True)
    ]  # fmt: skip
    result = {
        "dataset": cell.dataset,
        "system": cell.system,
        "protocol": cell.protocol,
        "shortened": cell.shortened,
        "candidates": [dict(one) for one in cell.candidates],
        "search_epochs": cell.search_epochs,
        "search_seconds": 10.0,
        "seconds": 20.0,
        "options": options,
        "runs": runs,
        "homophily": LEVELS,
        "model": {},
        "recipe": {},
        "versions": {"nlgnn": __version__},
        **changed,
    }
    path = cell_path(cell, folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result))


def write_framework(
    folder: Path,
    name: str,
    tests: Sequence[float | None],
    vals: Sequence[float] = (),
    control: str = "",
    again: int = 0,
    protocol: str = "random-60",
    **changed: Any,
) -> None:
    """Write the result of a cell such as `texas-nlmlp`."""
    dataset, system = name.rsplit("-", 1)
    write(framework_cell(dataset, system, protocol, control, again), folder, tests, vals, **changed)
