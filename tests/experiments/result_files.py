"""Results of cells that nobody trained, for the tests of what is shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiment_samples import write_result

from nlgnn.experiments.ablation import ablation_cells
from nlgnn.experiments.framework import framework_cell

LEVELS = {"graph": 0.1, "chance": 0.4, "before": [0.3, 0.5], "after": [0.6, 0.8]}


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
    """Of a cell such as `texas-nlmlp`; validation is as good as test unless said otherwise."""
    dataset, system = name.rsplit("-", 1)
    cell = framework_cell(dataset, system, protocol, control, again)
    main = dict(cell.candidates[0])
    result = {
        "dataset": dataset,
        "system": system,
        "protocol": protocol,
        "shortened": cell.shortened,
        "candidates": [dict(one) for one in cell.candidates],
        "search_epochs": cell.search_epochs,
        "search": [],
        "search_seconds": 10.0,
        "seconds": 20.0,
        "options": {**main, **cell.changes},
        "runs": [{"test": test, "val": val} for test, val in zip(tests, vals or tests, strict=True)],
        "homophily": LEVELS,
    }
    write_result(cell, folder, **{**result, **changed})


def write_changed(folder: Path, name: str, tests: Sequence[float | None]) -> None:
    """Of a cell of the ablation, by its whole name."""
    cell = next(cell for cell in ablation_cells("random-60") if cell.name == name)
    write_result(
        cell,
        folder,
        options=dict(cell.candidates[0]),
        shortened=None,
        runs=[{"test": test, "val": test} for test in tests],
        homophily={**LEVELS, "after": [0.2, 0.4]},
    )
