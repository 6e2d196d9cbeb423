"""The plan of the reproduction as data: which cells there are, by the table that shows them."""

from __future__ import annotations

import random
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from itertools import product
from pathlib import Path
from typing import Any

from nlgnn.datasets import describe
from nlgnn.datasets.catalog import CATALOG
from nlgnn.datasets.formats.geom_gcn import SPACES
from nlgnn.models.registry import PUBLISHED, get_system
from nlgnn.paper.cell import HUGE_DATASETS, SPLITS, Cell, Schedule, Settings, cell_path, read_cells
from nlgnn.paper.numbers import paper_results, printed_accuracy
from nlgnn.selection.controls import CONTROLS

DATA: Mapping[str, Any] = tomllib.loads(resources.files("nlgnn.paper").joinpath("plans.toml").read_text("utf-8"))
RANDOM_60, GEOM_GCN = "random-60", "geom-gcn"
NON_LOCAL, LOCAL = ("nlmlp", "nlgcn", "nlgat"), ("mlp", "gcn", "gat")
# cornell-pre2022 is the file that the paper used: the features and labels of Texas over the links of Cornell.
WEBKB = ("texas", "wisconsin", "cornell-pre2022")
FIRST = ("actor", "cornell-pre2022", "texas", "wisconsin")
SECOND = ("chameleon", "squirrel", "snap-patents")
ASSORTATIVE = ("cora", "citeseer", "pubmed", "ogbn-arxiv")
SMALL = (*WEBKB, "chameleon", "cora", "citeseer", "actor", "squirrel", "pubmed")  # in the order of measuring

# Settings: the published ones, otherwise a sample of the paper's grid, the same for every dataset.
SAMPLED, ATTENTION_SAMPLED = 24, 12
SEEDS = 3
ATTENTION = ("gat", "nlgat")


def framework_cell(dataset: str, system: str, protocol: str = RANDOM_60, control: str = "", again: int = 0) -> Cell:
    """Return a cell of the framework's models, on the fixed splits of the dataset if it has no others.

    Args:
        dataset: The name of the graph.
        system: The name of the model.
        protocol: The protocol of the splits.
        control: The name of a control in `CONTROLS`, or empty.
        again: 0 for the first training on each split, 1 for the second.
    """
    protocol = describe(dataset).protocols[0] if dataset in HUGE_DATASETS else protocol
    candidates: tuple[Settings, ...] = framework_candidates(system, dataset)
    schedule: dict[str, Any] = {}
    if system in ATTENTION:
        candidates, schedule = candidates[:ATTENTION_SAMPLED], DATA["searched_attention"]
    elif len(candidates) > 1 and not get_system(system).program:
        schedule = DATA["searched"]
    schedule = {**schedule, **DATA["shortened"].get(dataset, {})}
    changes = {**(CONTROLS[control] if control else {}), **({"seed": again * SPLITS} if again else {})}
    parts = (system, control, f"seed {again + 1}" if again else "", protocol)
    return Cell(
        store="framework",
        dataset=dataset,
        tags=tuple(part for part in parts if part),
        system=system,
        protocol=protocol,
        candidates=candidates,
        schedule=Schedule(**schedule),
        main=framework_cell(dataset, system, protocol) if changes else None,
        changes=changes,
        records=("homophily",) if system in NON_LOCAL and not control else (),
    )


def framework_candidates(system: str, dataset: str) -> tuple[Settings, ...]:
    """Return the published setting, or a sample of the paper's grid."""
    if dataset in PUBLISHED and PUBLISHED[dataset].system == system:
        return ({},)
    return system_candidates(system, dataset) if get_system(system).program else _sample(system)


@cache
def _sample(system: str) -> tuple[Settings, ...]:
    space = get_system(system).search_space
    grid = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    return tuple(random.Random(0).sample(grid, SAMPLED))


def main_cells(datasets: Sequence[str], systems: Sequence[str] = (*NON_LOCAL, *LOCAL)) -> list[Cell]:
    """Return the main cells on random splits, by dataset."""
    return [framework_cell(dataset, system) for dataset in datasets for system in systems]


def fixed_split_cells() -> list[Cell]:
    """Return the non-local models of the paper's tables 3 and 4 and their local parts on the fixed splits."""
    models = {**dict.fromkeys(FIRST, ("nlmlp", "mlp")), **dict.fromkeys(SECOND[:2], ("nlgcn", "gcn"))}
    return [framework_cell(dataset, system, GEOM_GCN) for dataset in SMALL for system in models.get(dataset, ())]


def chosen_model(dataset: str, results: Path) -> str:
    """Return the measured non-local model with the best mean validation accuracy, or the paper's best without any."""
    found = read_cells([framework_cell(dataset, system) for system in NON_LOCAL], results, check=False)
    known = {one.cell.system: one.validation.mean for one in found.values() if one.validation}
    known = known or {system: one.mean for system in NON_LOCAL if (one := printed_accuracy(system, dataset))}
    return max(known, key=lambda system: known[system])


def control_cells(results: Path) -> list[Cell]:
    """Return the controls of the chosen model on each graph; on the WebKB graphs with further seeds of all.

    Controls that were measured for another model, which validation preferred at that time, are kept.
    """
    cells = []
    for dataset in SMALL:
        chosen = chosen_model(dataset, results)
        for system in NON_LOCAL:
            controls = [framework_cell(dataset, system, control=control) for control in CONTROLS]
            if system == chosen or any(cell_path(cell, results).exists() for cell in controls):
                cells += controls
        for again in range(1, SEEDS if dataset in WEBKB else 1):
            local = str(get_system(chosen).local)
            cells += [framework_cell(dataset, one, again=again) for one in (chosen, local)]
            cells += [framework_cell(dataset, chosen, control=control, again=again) for control in CONTROLS]
    return cells


def result_cells(results: Path) -> list[Cell]:
    """Return the cells of the main results: all models on random splits, fixed splits, and controls."""
    return [*main_cells((*SMALL, *HUGE_DATASETS)), *fixed_split_cells(), *control_cells(results)]


def measuring_rank(cell: Cell) -> tuple[bool, bool, bool]:
    """Return the key that sorts cells in the order of measuring: attention first, large graphs last.

    Step times come after all others, because they need a quiet machine.
    """
    return cell.kind == "step times", cell.dataset in ("pubmed", *HUGE_DATASETS), cell.system not in ATTENTION


def category_cells(results: Path) -> list[Cell]:
    """Return the cells of table 2."""
    return main_cells((*SMALL, *HUGE_DATASETS), LOCAL)


# Compared systems, on the fixed splits, where the paper prints a figure.
GEOM_GCNS = ("geom-gcn", "geom-gcn-g", "geom-gcn-s")
COMPARED = (*GEOM_GCNS, "h2gcn", "simp-gcn", "fagcn")
SYSTEM_ORDER = (*LOCAL, *COMPARED, "cpgcn", "dirgcn", "linkx", "gcnii", "sage", *NON_LOCAL)  # in tables


def system_cell(dataset: str, system: str) -> Cell:
    """Return a compared system on the fixed splits, trained as its authors do."""
    schedule = Schedule(**DATA["system_schedules"].get(system, {}).get(dataset, {}))
    candidates = system_candidates(system, dataset)
    return Cell("systems", dataset, (system,), system, candidates=candidates, schedule=schedule)


def system_candidates(system: str, dataset: str) -> tuple[Settings, ...]:
    """Return the variants of a system, each with every setting that is tried where none was published."""
    known = get_system(system)
    settings = ({},) if dataset in known.published else known.settings or ({},)
    return tuple(
        {**variant, **setting}
        for variant, setting in product(known.variants or ({},), settings)
        if variant.get("space") not in SPACES or CATALOG[dataset].relations
    )


def compared_cells(datasets: Sequence[str] = SMALL, systems: Sequence[str] = COMPARED) -> list[Cell]:
    """Return the compared systems on the datasets that the paper prints a figure for."""
    return [
        system_cell(dataset, system)
        for dataset in datasets
        for system in systems
        if dataset not in HUGE_DATASETS and printed_accuracy(system, dataset)
    ]


def first_category_cells(results: Path) -> list[Cell]:
    """Return the cells of table 3."""
    fixed = [cell for cell in fixed_split_cells() if cell.dataset in FIRST]
    others = compared_cells(FIRST, ("geom-gcn", "geom-gcn-s", "h2gcn", "simp-gcn"))
    return [*main_cells(FIRST, ("mlp", "nlmlp")), *fixed, *others]


def second_category_cells(results: Path) -> list[Cell]:
    """Return the cells of table 4."""
    fixed = [cell for cell in fixed_split_cells() if cell.dataset in SECOND]
    others = compared_cells(SECOND, ("geom-gcn", "geom-gcn-g", "h2gcn", "fagcn"))
    return [*main_cells(SECOND, ("gcn", "gat", "nlgcn", "nlgat")), *fixed, *others]


def all_result_cells(results: Path) -> list[Cell]:
    """Return the cells of table 5."""
    return [*main_cells((*SMALL, *HUGE_DATASETS)), *compared_cells(SMALL, GEOM_GCNS)]


def cpgcn_cells(results: Path) -> list[Cell]:
    """Return the cells on CPGNN's splits."""
    return [framework_cell(dataset, system, "random-10") for dataset in SECOND[:2] for system in ("nlgcn", "cpgcn")]


def dataset_cells(results: Path) -> list[Cell]:
    """Return the statistics of the paper's graphs, of the older Cornell file and of two filtered graphs."""
    names = [name.lower() for name in paper_results()["datasets"]]
    names += ["cornell-pre2022", "chameleon-filtered", "squirrel-filtered"]
    return [Cell("datasets", name, ("statistics",), kind="statistics") for name in names]


def verdict_cells(results: Path) -> list[Cell]:
    """Return the diagnoses of the small graphs, both Cornell files included."""
    return [Cell("verdicts", name, ("verdict",), kind="diagnosis") for name in (*SMALL, "cornell")]


def sequence_cells(results: Path) -> list[Cell]:
    """Return one training of each published model, recorded with the labels along its orders."""
    return [
        Cell(
            "sequence",
            dataset,
            (published.system, RANDOM_60),
            published.system,
            protocol=RANDOM_60,
            schedule=Schedule(splits=1),
            records=("homophily", "labels"),
        )
        for dataset, published in PUBLISHED.items()
    ]


def efficiency_cells(results: Path) -> list[Cell]:
    """Return the cells of table 6."""
    schedule = Schedule({"epochs": 500, "hidden": 48, "heads": 8, "seconds a system": 25.0, "largest load": 1.5})
    return [
        Cell("efficiency", dataset, ("step times",), kind="step times", schedule=schedule)
        for dataset in ("chameleon", "squirrel", "snap-patents")
    ]


def ablation_cells(results: Path) -> list[Cell]:
    """Return published models whose answers are also averaged over orders of tied nodes."""
    return [
        Cell(
            "ablation",
            dataset,
            (PUBLISHED[dataset].system, "ties", RANDOM_60),
            PUBLISHED[dataset].system,
            protocol=RANDOM_60,
            condition="ties",
            records=("ties",),
        )
        for dataset in DATA["ties"]["datasets"]
    ]
