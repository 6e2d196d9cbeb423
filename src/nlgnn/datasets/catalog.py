"""The catalogue: every dataset by name. Plain data, so that listing it never waits for torch."""

from __future__ import annotations

from nlgnn.datasets.dataset import Dataset, RemoteFile, Statistics
from nlgnn.datasets.sources import geom_gcn, heterophilous, linkx, mushroom_body, ogb, planetoid, synthetic
from nlgnn.errors import DataError, nearest

__all__ = ["ALIASES", "CATALOG", "Dataset", "RemoteFile", "Statistics", "describe"]

CATALOG: dict[str, Dataset] = {
    dataset.name: dataset
    for source in (mushroom_body, geom_gcn, planetoid, heterophilous, linkx, ogb, synthetic)
    for dataset in source.DATASETS
}

ALIASES = {"mushroom-body": "mushroom-body-left", "film": "actor"}


def describe(name: str) -> Dataset:
    """The catalogue's entry for a name in any case, with `_` or `-`, or for an alias."""
    key = name.strip().lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key not in CATALOG:
        raise DataError(f"There is no dataset {name!r}.", nearest(key, [*CATALOG, *ALIASES]))
    return CATALOG[key]
