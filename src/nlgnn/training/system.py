"""System: what is known of a model by name, before it is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

Options = Mapping[str, Any]

# Where nothing better is known of a graph.
DEFAULTS: Options = {"hidden": 48, "dropout": 0.5}
# The grid of Liu et al. (2021), section 4; kernel sizes are for non-local systems only.
PAPER_GRID: Mapping[str, tuple[float, ...]] = {
    "hidden": (16, 48, 96, 128, 256),
    "dropout": (0, 0.5, 0.8),
    "weight_decay": (0, 5e-4, 5e-5, 5e-6),
    "lr": (0.001, 0.01, 0.05),
}


@dataclass(frozen=True)
class System:
    """One system.

    Args:
        path: module and class; of the non-local version of another system, which has no class of its own, empty.
        source: who proposed it.
        defaults: options that hold unless a preset or a dataset has others.
        search_space: what to search over.
        fixed: options that make the system what its name says; they are not to be chosen.
        local: the local part of a non-local system, by name.
        program: how its own authors train it. It wins over presets, which are about non-local systems and what they
            are built from.
        published: the options that its own authors published, by dataset.
        variants: options that make the named forms of a system whose publications report the best of several.
        settings: what to try on a dataset for which nothing is published.
    """

    name: str
    path: str
    summary: str
    source: str
    defaults: Options = field(default_factory=lambda: DEFAULTS)
    search_space: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: PAPER_GRID)
    fixed: Options = field(default_factory=dict)
    local: str | None = None
    program: Options = field(default_factory=dict)
    published: Mapping[str, Options] = field(default_factory=dict)
    variants: tuple[Options, ...] = ()
    settings: tuple[Options, ...] = ()

    def load(self) -> type[nn.Module]:
        module, _, class_name = self.path.partition(":")
        loaded: type[nn.Module] = getattr(import_module(module), class_name)
        return loaded
