"""Readers of public file formats, each `read_…(*paths, name, directed) -> Graph`, by their name in the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nlgnn.datasets.formats.common import read_heterophilous
from nlgnn.datasets.formats.geom_gcn import column_lists, read_geom_gcn
from nlgnn.datasets.formats.linkx import read_fb100, read_snap_patents, read_twitch
from nlgnn.datasets.formats.ogb import read_ogb
from nlgnn.datasets.formats.planetoid import read_planetoid
from nlgnn.graph.graph import Graph

READERS: dict[str, Callable[..., Graph]] = {
    "geom-gcn": read_geom_gcn,
    "geom-gcn-lists": partial(read_geom_gcn, parse_features=column_lists),
    "planetoid": read_planetoid,
    "heterophilous": read_heterophilous,
    "fb100": read_fb100,
    "twitch": read_twitch,
    "ogb": read_ogb,
    "snap-patents": read_snap_patents,
}
