"""Where graphs come from: named public datasets, graphs that ship with the package, graphs made by rule.

Names are imported when they are first used: listing the catalogue waits for nothing, and nothing here needs torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nlgnn.datasets.builtin import mushroom_body
    from nlgnn.datasets.catalog import ALIASES, CATALOG, Dataset, RemoteFile, Statistics, describe
    from nlgnn.datasets.fetch import is_present
    from nlgnn.datasets.load import load_graph
    from nlgnn.datasets.synthetic import planted_order_graph

__all__ = [
    "ALIASES",
    "CATALOG",
    "Dataset",
    "RemoteFile",
    "Statistics",
    "describe",
    "is_present",
    "load_graph",
    "mushroom_body",
    "planted_order_graph",
]

_MODULES = {
    "is_present": "fetch",
    "load_graph": "load",
    "mushroom_body": "builtin",
    "planted_order_graph": "synthetic",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'catalog')}"), name)


def __dir__() -> list[str]:
    return __all__
