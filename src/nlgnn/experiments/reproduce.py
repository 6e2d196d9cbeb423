"""The cells that the authors published settings for, each beside its local part and the two controls.

A cell is one system on one dataset, ten runs. It is kept as a JSON file, so that an interrupted reproduction goes on
where it stopped and every table is built from what was measured.
"""

from __future__ import annotations

import json
import platform
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch

from nlgnn import __version__
from nlgnn.datasets import load_graph
from nlgnn.errors import DataError
from nlgnn.experiments.compare import Variant, paired_difference, spread, with_controls
from nlgnn.experiments.paper import Printed, printed_accuracy
from nlgnn.graph.splits import make_splits
from nlgnn.training.fit import fit
from nlgnn.training.run import RunFolder, write_whole
from nlgnn.training.systems import PUBLISHED, configure, resolve

PROTOCOL, RUNS, PRESET = "random-60", 10, "released"
PUBLISHED_SYSTEMS = {dataset: published.system for dataset, published in PUBLISHED.items()}
CAPTION = (
    f"Test accuracy in %: mean ± sample standard deviation over {RUNS} runs, protocol {PROTOCOL}, preset {PRESET}, "
    "the first epoch with the best validation accuracy. Differences are paired over splits and seeds (standard error)."
)


class Cell(NamedTuple):
    dataset: str
    variant: Variant

    @property
    def file_name(self) -> str:
        return f"{self.dataset}-{self.variant.slug}.json"


def published_cells() -> list[Cell]:
    """Non-local systems first, then their local parts, then the controls."""
    rows = [
        [Cell(dataset, variant) for variant in with_controls(system, {})]
        for dataset, system in PUBLISHED_SYSTEMS.items()
    ]
    return [cell for column in zip(*rows, strict=True) for cell in column]


def run_cells(cells: list[Cell], folder: Path, progress: bool = True) -> Iterator[tuple[Cell, dict[str, Any]]]:
    """Each cell with what it gave: read where it was measured before, else measured now and written."""
    for cell in cells:
        path = folder / cell.file_name
        if not path.exists():
            with _saying_where(path):  # before the minutes that measuring takes
                folder.mkdir(parents=True, exist_ok=True)
            unfinished = folder / f".{path.stem}"  # keeps finished runs and checkpoints until the cell is whole
            text = json.dumps(measure_cell(cell, unfinished, progress), indent=1) + "\n"
            with _saying_where(path):
                write_whole(path, partial(Path.write_text, data=text))
                shutil.rmtree(unfinished, ignore_errors=True)
        yield cell, read_cell(cell, path)


@contextmanager
def _saying_where(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Make room or name another folder (--out); cells that were measured before are kept.",
        ) from error


def read_cell(cell: Cell, path: Path) -> dict[str, Any]:
    """What a cell gave, if it was measured with the settings that it has today."""
    remedy = "Remove it, and it will be measured again."
    try:
        result: dict[str, Any] = json.loads(path.read_text())
        recorded = result["recipe"] | result["model"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} cannot be read: {error}.", remedy) from None
    arguments, recipe = resolve(cell.variant.system, cell.dataset, PRESET, cell.variant.options)
    for name, value in (recipe.model_dump(exclude={"threads", "device"}) | arguments).items():
        if recorded.get(name, value) != value:
            raise DataError(f"{path} was measured with {name}={recorded[name]}; now it is {value}.", remedy)
    return result


def measure_cell(cell: Cell, unfinished: Path, progress: bool = True) -> dict[str, Any]:
    graph = load_graph(cell.dataset)
    system, options = cell.variant
    factory, recipe = configure(system, graph, preset=PRESET, **options)
    folder = RunFolder.open(unfinished) if unfinished.exists() else RunFolder.create(unfinished, {})
    runs = fit(factory, graph, make_splits(graph, PROTOCOL, RUNS), recipe, folder=folder, progress=progress)
    return {
        "dataset": cell.dataset,
        "system": system,
        "control": cell.variant.control,
        "protocol": PROTOCOL,
        "preset": PRESET,
        "model": factory.keywords,
        "recipe": recipe.model_dump(),
        "seconds": round(sum(run.seconds for run in runs), 1),
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
        "versions": {"nlgnn": __version__, "python": platform.python_version(), "torch": torch.__version__},
    }


def published_table(folder: Path) -> list[dict[str, str]]:
    """A row a dataset, from the cells measured so far; an open cell is an ellipsis."""
    if not any((folder / cell.file_name).exists() for cell in published_cells()):
        raise DataError(f"there are no measured cells in {folder}.", "Name their folder with --out, or measure them.")
    rows = []
    for dataset, system in PUBLISHED_SYSTEMS.items():
        variants = with_controls(system, {})
        tests = {}
        for variant in variants:
            cell = Cell(dataset, variant)
            path = folder / cell.file_name
            tests[variant.label] = [run["test"] for run in read_cell(cell, path)["runs"]] if path.exists() else None
        main, local, kernel_1, random_order = tests.values()
        rows.append(
            {
                "dataset": dataset,
                "model": system,
                "ours": _figure(main),
                "paper": _printed(printed_accuracy(system, dataset)),
                "its local part": _figure(local),
                "paper's": _printed(printed_accuracy(variants[1].system, dataset)),
                "kernel 1": _figure(kernel_1),
                "random order": _figure(random_order),
                "ours − local": _difference(main, local),
                "ours − kernel 1": _difference(main, kernel_1),
                "ours − random": _difference(main, random_order),
            }
        )
    return rows


def markdown(rows: list[dict[str, str]]) -> str:
    lines = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _figure(values: list[float | None] | None) -> str:
    return "…" if values is None else str(spread([value for value in values if value is not None]))


def _printed(printed: Printed | None) -> str:
    return "–" if printed is None else f"{printed.mean} ± {printed.std}"


def _difference(one: list[float | None] | None, other: list[float | None] | None) -> str:
    if one is None or other is None:
        return "…"
    difference = paired_difference(one, other)
    return "–" if difference is None else f"{difference.mean:+.1f} ({difference.std:.1f})"
