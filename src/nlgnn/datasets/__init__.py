"""Where graphs come from: named public datasets, graphs that ship with the package, graphs made by rule.

Nothing here imports torch, so that listing and describing datasets is immediate.
"""

from __future__ import annotations

from nlgnn.datasets.builtin import mushroom_body
from nlgnn.datasets.catalog import ALIASES, CATALOG, Dataset, RemoteFile, Statistics, describe
from nlgnn.datasets.fetch import fetch, is_present
from nlgnn.datasets.load import load_graph
from nlgnn.datasets.synthetic import planted_order_graph

__all__ = [
    "ALIASES",
    "CATALOG",
    "Dataset",
    "RemoteFile",
    "Statistics",
    "describe",
    "fetch",
    "is_present",
    "load_graph",
    "mushroom_body",
    "planted_order_graph",
]
