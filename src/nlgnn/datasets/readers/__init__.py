"""One small reader per file format, each `read_…(paths…, name, directed) -> Graph`, in the catalogue's words."""

from __future__ import annotations

from collections.abc import Callable

from nlgnn.datasets.readers.fb100 import read_fb100
from nlgnn.datasets.readers.geom_gcn import read_geom_gcn, read_geom_gcn_lists
from nlgnn.datasets.readers.heterophilous import read_heterophilous
from nlgnn.datasets.readers.ogb import read_ogb
from nlgnn.datasets.readers.planetoid import read_planetoid
from nlgnn.datasets.readers.snap_patents import read_snap_patents
from nlgnn.datasets.readers.twitch import read_twitch
from nlgnn.graph.graph import Graph

READERS: dict[str, Callable[..., Graph]] = {
    "geom-gcn": read_geom_gcn,
    "geom-gcn-lists": read_geom_gcn_lists,
    "planetoid": read_planetoid,
    "heterophilous": read_heterophilous,
    "fb100": read_fb100,
    "twitch": read_twitch,
    "ogb": read_ogb,
    "snap-patents": read_snap_patents,
}
