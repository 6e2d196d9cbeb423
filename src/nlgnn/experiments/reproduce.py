"""The cells that the authors published settings for, each beside its local part and the two controls.

A cell is one system on one dataset, ten runs. It is kept as a JSON file, so that an interrupted reproduction goes on
where it stopped and every table is built from what was measured.
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from nlgnn.experiments.paper import printed_accuracy

PROTOCOL, RUNS, PRESET = "random-60", 10, "released"
PUBLISHED_DATASETS = {
    "texas": "mlp",
    "cornell-pre2022": "mlp",
    "cornell": "mlp",
    "wisconsin": "mlp",
    "chameleon": "gcn",
    "actor": "mlp",
    "squirrel": "gcn",
}
CONTROLS: dict[str, dict[str, Any]] = {"kernel-1": {"kernel_size": 1}, "random-order": {"order": "random"}}


@dataclass(frozen=True)
class Cell:
    """One system on one dataset; `control` names what was changed to make it one."""

    dataset: str
    system: str
    control: str | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        return "-".join(filter(None, (self.dataset, self.system, self.control))) + ".json"


def published_cells() -> list[Cell]:
    """Non-local systems first, then their local parts, then the controls."""
    datasets = PUBLISHED_DATASETS.items()
    cells = [Cell(dataset, f"nl{local}") for dataset, local in datasets]
    cells += [Cell(dataset, local) for dataset, local in datasets]
    for control, options in CONTROLS.items():
        cells += [Cell(dataset, f"nl{local}", control, options) for dataset, local in datasets]
    return cells


def run_cells(cells: list[Cell], folder: Path, progress: bool = True) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with what it gave: read where it was measured before, else measured now and written."""
    for cell in cells:
        path = folder / cell.file_name
        if not path.exists():
            result = measure_cell(cell, progress)
            folder.mkdir(parents=True, exist_ok=True)
            half_written = path.with_name(f".{path.name}.{os.getpid()}")
            half_written.write_text(json.dumps(result, indent=1) + "\n")
            half_written.replace(path)
        yield cell, json.loads(path.read_text())


def measure_cell(cell: Cell, progress: bool = True) -> dict[str, Any]:
    import torch

    from nlgnn.datasets import load_graph
    from nlgnn.graph.splits import make_splits
    from nlgnn.training.fit import fit
    from nlgnn.training.systems import configure

    graph = load_graph(cell.dataset)
    factory, recipe = configure(cell.system, graph, preset=PRESET, **cell.options)
    started = time.perf_counter()
    runs = fit(factory, graph, make_splits(graph, PROTOCOL, RUNS), recipe, progress=progress)
    printed = printed_accuracy(cell.system, cell.dataset) if cell.control is None else None
    return {
        "dataset": cell.dataset,
        "system": cell.system,
        "control": cell.control,
        "protocol": PROTOCOL,
        "preset": PRESET,
        "model": factory.keywords,
        "recipe": recipe.model_dump(),
        "val": summary([run.val["accuracy"] for run in runs if not run.failure]),
        "test": summary([run.test["accuracy"] for run in runs if not run.failure]),
        "paper": printed and printed._asdict(),
        "seconds": round(time.perf_counter() - started, 1),
        "runs": [
            {
                "seed": run.seed,
                "val": run.val.get("accuracy"),
                "test": run.test.get("accuracy"),
                "chosen_epoch": run.chosen_epoch,
                "epochs": run.epochs,
                "ms_per_epoch": round(run.ms_per_epoch, 2),
                "failure": run.failure,
            }
            for run in runs
        ],
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }


def summary(values: list[float]) -> dict[str, float]:
    """Mean and sample standard deviation."""
    return {"mean": fmean(values), "std": stdev(values) if len(values) > 1 else 0.0}


def paired_difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """Mean difference in test accuracy over the same splits and seeds, and its standard error."""
    pairs = zip(one["runs"], other["runs"], strict=True)
    differences = [a["test"] - b["test"] for a, b in pairs if not (a["failure"] or b["failure"])]
    return fmean(differences), stdev(differences) / len(differences) ** 0.5
