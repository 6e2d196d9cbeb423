"""The catalogue of named graphs, read from `catalog.toml` without opening any dataset file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from nlgnn.errors import DataError, nearest


@dataclass(frozen=True)
class RemoteFile:
    """A file of a dataset.

    Args:
        path: The path of the file below the data folder or the cache.
        url: The address from which the file is downloaded.
        sha256: The checksum of the file; None if the file was never verified.
        folder: A folder below the data folder that replaces this archive once the archive has been extracted.
    """

    path: str
    url: str
    sha256: str | None = None
    folder: str | None = None


@dataclass(frozen=True)
class Statistics:
    """Sizes of a graph.

    Args:
        nodes: The number of nodes.
        edges: The number of distinct undirected edges without loops; None if the publishers do not print it.
        features: The number of feature columns.
        classes: The number of classes.
        homophily: The node homophily H(G); None if it was not measured.
        measured: Whether these figures were measured on the files; otherwise the publishers print them.
    """

    nodes: int
    edges: int | None
    features: int
    classes: int
    homophily: float | None = None
    measured: bool = True


@dataclass(frozen=True)
class Dataset:
    """A named graph: its files, reader, licence and peculiarities.

    Args:
        name: The name under which `load_graph` finds the graph.
        files: The files in the order in which the reader takes them.
        reader: A key of `nlgnn.datasets.formats.READERS`, "packaged" or "made".
        statistics: The expected sizes.
        licence: The licence of the files.
        citation: The publications to cite.
        quirks: Peculiarities of the files, as sentences.
        protocols: The fixed splits that come with the files. Random splits exist for every graph.
        default_protocol: The protocol that is used when none is named.
        directed: Whether the direction of an edge has a meaning.
        metric: The metric that the original authors report.
        relations: The files of Geom-GCN's published relations by latent space.
    """

    name: str
    files: tuple[RemoteFile, ...]
    reader: str
    statistics: Statistics
    licence: str
    citation: str
    quirks: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    default_protocol: str = "random-60"
    directed: bool = False
    metric: Literal["accuracy", "roc-auc"] = "accuracy"
    relations: Mapping[str, RemoteFile] = field(default_factory=dict)


def describe(name: str) -> Dataset:
    """Return the catalogue entry of a graph.

    Args:
        name: A name or an alias, in any case, with `_` or `-`.

    Returns:
        The entry.

    Raises:
        DataError: If there is no such graph.

    Example:
        >>> describe("Film").statistics.nodes
        7600
    """
    key = name.strip().lower().replace("_", "-")
    key = ALIASES.get(key, key)
    if key not in CATALOG:
        raise DataError(f"There is no dataset {name!r}.", nearest(key, [*CATALOG, *ALIASES]))
    return CATALOG[key]


def _dataset(name: str, entry: Mapping[str, Any], locations: Mapping[str, Mapping[str, str]]) -> Dataset:
    """Return a dataset from its entry in the TOML file."""

    def remote_file(given: Mapping[str, str]) -> RemoteFile:
        location, path = locations[given["location"]], given["path"]
        url = given.get("url", f"{location['url']}/{path}")
        return RemoteFile(f"{location['folder']}/{path}", url, given.get("sha256"), given.get("folder"))

    fields = dict(entry)
    fields["files"] = tuple(map(remote_file, entry.get("files", ())))
    fields["statistics"] = Statistics(**{"edges": None, **entry["statistics"]})
    fields["relations"] = {space: remote_file(file) for space, file in entry.get("relations", {}).items()}
    fields |= {key: tuple(entry.get(key, ())) for key in ("quirks", "protocols")}
    return Dataset(name=name, **fields)


_CONTENT = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
ALIASES: dict[str, str] = _CONTENT["aliases"]
CATALOG = {name: _dataset(name, entry, _CONTENT["locations"]) for name, entry in _CONTENT["datasets"].items()}
