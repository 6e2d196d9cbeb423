"""Dataset: what is known about a named graph before any of its files is opened."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

PACKAGED_DATA = Path(__file__).parent / "data"


@cache
def known_checksums() -> dict[str, str]:
    """sha256 by path below the data folder, for every file whose content was once verified."""
    lines = (PACKAGED_DATA / "SHA256SUMS").read_text().splitlines()
    return {path: sha256 for sha256, path in (line.split("  ", 1) for line in lines)}


@dataclass(frozen=True)
class RemoteFile:
    """One file of a dataset.

    Args:
        path: where it lies below the data folder or the cache.
        url: where it can be downloaded.
        sha256: what it must hash to; None where no verified copy was ever at hand.
        folder: the folder below the data folder that may stand for this archive once it has been extracted.
    """

    path: str
    url: str
    sha256: str | None = None
    folder: str | None = None


def remote_file(path: str, url: str) -> RemoteFile:
    """A file with its checksum from the packaged list."""
    return RemoteFile(path, url, known_checksums().get(path))


@dataclass(frozen=True)
class Statistics:
    """Sizes of a graph. `edges` are distinct, undirected, without loops; `homophily` is H(G) of the paper.

    `measured` says that our reader gave these figures; otherwise they are the publishers' own, and what they do not
    print in this form is None.
    """

    nodes: int
    edges: int | None
    features: int
    classes: int
    homophily: float | None = None
    measured: bool = True


@dataclass(frozen=True)
class Dataset:
    """A named graph: its files, how to read them, whose they are and what is odd about them.

    Args:
        files: in the order in which the reader takes them.
        reader: key in `nlgnn.datasets.readers.READERS`, or "packaged" or "made".
        protocols: the fixed splits that come with the files; random ones exist for every graph.
        metric: what the original authors report.
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
