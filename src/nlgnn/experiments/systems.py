"""Every compared system on the nine small datasets, as its own authors train it, on the ten fixed splits.

Where a system has several named variants, or nothing was published for a dataset, each candidate is trained on the
first splits and the best one by validation on all of them. Nobody looks at a candidate's test figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import NamedTuple

from nlgnn.datasets.relations import GRAPHS as WITH_RELATION_FILES
from nlgnn.datasets.relations import NAME_IN_FILES as SPACES_IN_FILES
from nlgnn.experiments.cells import Settings
from nlgnn.experiments.searched import PROTOCOL, Schedule, SearchedCell
from nlgnn.training.systems import get_system

COMPARED_SYSTEMS = (
    *("mlp", "gcn", "gat", "geom-gcn", "geom-gcn-g", "geom-gcn-s", "h2gcn", "simp-gcn", "fagcn", "cpgcn"),
    *("dirgcn", "linkx", "gcnii", "sage"),
)
# Cornell twice: figures printed before July 2022 are of a file with the features and labels of Texas.
SMALL_DATASETS = (
    *("texas", "wisconsin", "cornell", "cornell-pre2022", "actor"),
    *("chameleon", "squirrel", "cora", "citeseer", "pubmed"),
)


# Cells that would take more than half an hour on two cores.
SHORTENED: Mapping[tuple[str, str], Schedule] = {
    ("h2gcn", "actor"): Schedule({"epochs": 500}),
    ("h2gcn", "squirrel"): Schedule({"epochs": 200}, search_splits=1),
    ("h2gcn", "pubmed"): Schedule({"epochs": 500}),
}


class Extra(NamedTuple):
    """A cell measured again under other conditions, to explain a difference. Nothing is searched for it."""

    system: str
    dataset: str
    condition: str
    options: Settings
    why: str
    protocol: str = PROTOCOL


EXTRA: tuple[Extra, ...] = (
    Extra(
        "geom-gcn-s",
        "texas",
        "poincare",
        {"space": "poincare"},
        "in the authors' own Poincaré space, where only a few nodes have neighbours",
    ),
    Extra(
        "cpgcn",
        "chameleon",
        "cotrained",
        {"prior": "mlp", "hops": 2, "dropout": 0.5, "cotrain": "paper"},
        "with the prior's own loss kept while all is trained, as the text has it",
    ),
    Extra(
        "linkx",
        "cornell-pre2022",
        "unit-sum",
        {"hidden": 256, "lr": 0.01, "features": "unit-sum"},
        "with rows of features divided by their sums, as for most others",
    ),
    Extra(
        "simp-gcn",
        "texas",
        "directed",
        {"directed": True},
        "with edges as they stand in the file, as in the authors' program",
    ),
)


def system_cells() -> list[SearchedCell]:
    """By system, in the order of the paper; extra cells last."""
    return [
        *(
            SearchedCell(dataset, system, candidates(system, dataset), SHORTENED.get((system, dataset), Schedule({})))
            for system in COMPARED_SYSTEMS
            for dataset in SMALL_DATASETS
        ),
        *(
            SearchedCell(
                extra.dataset,
                extra.system,
                (extra.options,),
                SHORTENED.get((extra.system, extra.dataset), Schedule({})),
                extra.protocol,
                extra.condition,
                extra.why,
            )
            for extra in EXTRA
        ),
    ]


def candidates(system: str, dataset: str) -> tuple[Settings, ...]:
    """Its variants, each with every setting that is to be tried where none was published."""
    known = get_system(system)
    settings = ({},) if dataset in known.published else known.settings or ({},)
    return tuple(
        {**variant, **setting}
        for variant, setting in product(known.variants or ({},), settings)
        if variant.get("space") not in SPACES_IN_FILES or dataset in WITH_RELATION_FILES
    )
