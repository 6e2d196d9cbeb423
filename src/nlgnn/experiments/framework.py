"""The framework's own results: NLMLP, NLGCN, NLGAT, their local parts and their controls, on two kinds of splits.

Settings that the authors published are taken as they are. Where there are none, so many of the paper's grid as
`SAMPLED` are drawn once for a system and tried by validation, as every `SearchedCell` does. A control is its main cell
with one thing changed, so it has no search of its own; nor has the same cell with other seeds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from nlgnn.analysis import kernel_sizes, order_before_and_after, reconnected_homophily
from nlgnn.datasets import describe
from nlgnn.experiments.cells import InWorkElsewhereError, Settings, run_cell
from nlgnn.experiments.compare import CONTROLS
from nlgnn.experiments.searched import SPLITS, Schedule, SearchedCell
from nlgnn.experiments.systems import candidates
from nlgnn.graph.graph import Graph
from nlgnn.graph.homophily import chance_homophily, node_homophily
from nlgnn.graph.splits import Split
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run
from nlgnn.training.systems import PUBLISHED, get_system

SAMPLED, SEEDS = 24, 3
PROTOCOLS = ("random-60", "geom-gcn")  # see `protocol_for`
NON_LOCAL, LOCAL = ("nlmlp", "nlgcn", "nlgat"), ("mlp", "gcn", "gat")
# By size, but for Actor and those after it small enough for several seeds a split.
LARGE_DATASETS = ("actor", "squirrel", "pubmed")
# Elsewhere there are ten splits, three of them for the search.
SHORTENED: Mapping[str, Mapping[str, int]] = {
    "pubmed": {"search_splits": 1},
    "ogbn-arxiv": {"splits": 5},
    "snap-patents": {"splits": 5},
}
HUGE_DATASETS = ("ogbn-arxiv", "snap-patents")  # on their own splits only
DATASETS = (
    *("texas", "wisconsin", "cornell", "cornell-pre2022"),
    *("chameleon-filtered", "chameleon", "cora", "citeseer", "squirrel-filtered"),
    *LARGE_DATASETS,
    *HUGE_DATASETS,
)


@dataclass(frozen=True)
class FrameworkCell(SearchedCell):
    """A main cell, or what goes with one: it once more with other seeds, or with the change that a control is.

    Args:
        control: one of `CONTROLS`, or empty.
        again: 0 for the first training on each split, 1 for the second.
    """

    store: ClassVar[str] = "framework"
    control: str = ""
    again: int = 0

    @property
    def label(self) -> str:
        parts = [super().label, self.control, f"seed {self.again + 1}" if self.again else ""]
        return ", ".join(part for part in parts if part)

    @property
    def name(self) -> str:
        return f"{super().name}-{self.protocol}"

    @property
    def main(self) -> FrameworkCell:
        """Which has the same candidates and chooses among them."""
        return replace(self, control="", again=0)

    @property
    def changes(self) -> Settings:
        """What is other than in the main cell."""
        seed = {"seed": self.again * SPLITS} if self.again else {}
        return (CONTROLS[self.control] if self.control else {}) | seed

    def _choose(
        self, graph: Graph, splits: Sequence[Split], unfinished: Path, progress: bool
    ) -> tuple[list[dict[str, Any]], Settings]:
        if not self.changes:
            return super()._choose(graph, splits, unfinished, progress)
        main = run_cell(self.main, unfinished.parent.parent, progress)
        if main is None:
            raise InWorkElsewhereError(f"{self.name} takes the settings of {self.main.name}.")
        return [], {**main["options"], **self.changes}

    def _also(self, graph: Graph, factory: partial[nn.Module], recipe: Recipe, runs: list[Run]) -> dict[str, Any]:
        """H of the re-connected graph, of every run: before training, and at its chosen epoch."""
        if get_system(self.system).local is None or self.control:
            return {}
        kernels, scaled = kernel_sizes(factory()), graph.scale_features(recipe.features)
        good = [order_before_and_after(factory, scaled, run) for run in runs if run.failure is None]
        before, after = (
            [round(reconnected_homophily(order.nodes, graph.y, kernels), 5) for order in orders]
            for orders in zip(*good, strict=True)
        )
        chance = round(chance_homophily(graph), 5)
        return {
            "homophily": {"graph": round(node_homophily(graph), 5), "chance": chance, "before": before, "after": after}
        }


def sampled_candidates(system: str, dataset: str) -> tuple[Settings, ...]:
    """The published setting, else a sample of the paper's grid: the same for every dataset."""
    if dataset in PUBLISHED and PUBLISHED[dataset].system == system:
        return ({},)
    if get_system(system).program:  # others have said how to train it, and what to try
        return candidates(system, dataset)
    return _sample(system)


@cache
def _sample(system: str) -> tuple[Settings, ...]:
    space = get_system(system).search_space
    grid = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    return tuple(random.Random(0).sample(grid, SAMPLED))


def fixed_protocol(dataset: str) -> str:
    """The public splits of a dataset."""
    return describe(dataset).protocols[0]


def framework_cell(dataset: str, system: str, protocol: str, control: str = "", again: int = 0) -> FrameworkCell:
    schedule = Schedule({}, **SHORTENED.get(dataset, {}))
    return FrameworkCell(
        dataset, system, sampled_candidates(system, dataset), schedule, protocol, control=control, again=again
    )


def protocol_for(dataset: str, wanted: str) -> str:
    """The wanted protocol; but `geom-gcn` stands for the public splits of any dataset, and some have no others."""
    return fixed_protocol(dataset) if wanted == "geom-gcn" or dataset in HUGE_DATASETS else wanted


def framework_cells(
    wanted: str,
    systems: Sequence[str] = (*NON_LOCAL, *LOCAL),
    datasets: Sequence[str] = DATASETS,
    controls: bool = False,
) -> list[FrameworkCell]:
    """Non-local systems first, then their local parts, then the controls; then the same with other seeds."""
    local = [system for system in systems if get_system(system).local is None]
    non_local = [system for system in systems if system not in local]
    variants = [(system, "") for system in (*non_local, *local)]
    if controls:
        variants += [(system, control) for system in non_local for control in CONTROLS]
    return [
        framework_cell(dataset, system, protocol_for(dataset, wanted), control, again)
        for again in range(SEEDS if controls else 1)
        for system, control in variants
        for dataset in datasets
        if not (again and dataset in (*LARGE_DATASETS, *HUGE_DATASETS))
    ]
