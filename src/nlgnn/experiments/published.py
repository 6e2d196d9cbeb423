"""The cells that the authors published settings for, each beside its local part and the two controls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nlgnn.datasets import load_graph
from nlgnn.experiments.cells import (
    PRESET,
    Cell,
    Settings,
    open_run_folder,
    read_cells,
    run_rows,
    settings_today,
    versions,
)
from nlgnn.experiments.compare import Variant, paired_difference, spread, with_controls
from nlgnn.experiments.paper import Printed, printed_accuracy
from nlgnn.experiments.section import Rows, Section
from nlgnn.graph.splits import make_splits
from nlgnn.training.fit import fit
from nlgnn.training.systems import PUBLISHED, configure

PROTOCOL, RUNS = "random-60", 10
PUBLISHED_SYSTEMS = {dataset: published.system for dataset, published in PUBLISHED.items()}
CAPTION = (
    f"Test accuracy in %: mean ± sample standard deviation over {RUNS} runs, protocol {PROTOCOL}, preset {PRESET}, "
    "the first epoch with the best validation accuracy. Differences are paired over splits and seeds (standard error)."
)


@dataclass(frozen=True)
class PublishedCell(Cell):
    dataset: str
    system: str
    options: Settings
    runs: int = RUNS

    @property
    def variant(self) -> Variant:
        return Variant(self.system, dict(self.options))

    @property
    def label(self) -> str:
        return self.variant.label

    def quick(self) -> PublishedCell:
        return replace(self, options={**self.options, "epochs": 3}, runs=2)

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return settings_today(self.system, self.dataset, self.options)

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        graph = load_graph(self.dataset)
        factory, recipe = configure(self.system, graph, preset=PRESET, **self.options)
        folder = open_run_folder(unfinished / "runs", self.settings({}))
        runs = fit(factory, graph, make_splits(graph, PROTOCOL, self.runs), recipe, folder=folder, progress=progress)
        return {
            "dataset": self.dataset,
            "system": self.system,
            "control": self.variant.control,
            "protocol": PROTOCOL,
            "preset": PRESET,
            "model": factory.keywords,
            "recipe": recipe.model_dump(),
            "seconds": round(sum(run.seconds for run in runs), 1),
            "runs": run_rows(runs),
            "versions": versions(),
        }


def published_cells() -> list[PublishedCell]:
    """Non-local systems first, then their local parts, then the controls."""
    rows = [
        [PublishedCell(dataset, *variant) for variant in with_controls(system, {})]
        for dataset, system in PUBLISHED_SYSTEMS.items()
    ]
    return [cell for column in zip(*rows, strict=True) for cell in column]


def published_sections(cells: Sequence[PublishedCell], folder: Path) -> list[Section]:
    return [Section("", published_table(folder, cells), CAPTION, text_columns=2)]


def published_table(folder: Path, cells: Sequence[PublishedCell] | None = None) -> Rows:
    """A row a dataset, from the cells measured so far; an open cell is an ellipsis."""
    cells = published_cells() if cells is None else cells
    results = read_cells(cells, folder)
    rows = []
    for dataset in dict.fromkeys(cell.dataset for cell in cells):
        system = PUBLISHED_SYSTEMS[dataset]
        variants = with_controls(system, {})
        found = [results.get(PublishedCell(dataset, *variant).name) for variant in variants]
        main, local, kernel_1, random_order = (
            None if result is None else [run["test"] for run in result["runs"]] for result in found
        )
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


def _figure(values: list[float | None] | None) -> str:
    return "…" if values is None else str(spread([value for value in values if value is not None]))


def _printed(printed: Printed | None) -> str:
    return "–" if printed is None else f"{printed.mean} ± {printed.std}"


def _difference(one: list[float | None] | None, other: list[float | None] | None) -> str:
    if one is None or other is None:
        return "…"
    difference = paired_difference(one, other)
    return "–" if difference is None else f"{difference.mean:+.1f} ({difference.std:.1f})"
