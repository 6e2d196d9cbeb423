"""The registry: every system's class, defaults, search space and presets. Data, not code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from nlgnn.errors import OptionError, nearest

if TYPE_CHECKING:
    from torch import nn

    from nlgnn.graph.graph import Graph
    from nlgnn.training.recipe import Recipe

# The grid of Liu et al. (2021), section 4; kernel sizes are for non-local systems only.
PAPER_GRID: Mapping[str, tuple[float, ...]] = {
    "hidden": (16, 48, 96, 128, 256),
    "dropout": (0, 0.5, 0.8),
    "weight_decay": (0, 5e-4, 5e-5, 5e-6),
    "lr": (0.001, 0.01, 0.05),
}
NONLOCAL_GRID = {**PAPER_GRID, "kernel_size": (3, 5, 7)}

# Where nothing better is known of a graph.
DEFAULTS: Mapping[str, Any] = {"hidden": 48, "dropout": 0.5}

# How the authors' program trains.
PROGRAM: Mapping[str, Any] = {"epochs": 3000, "stopping": "window", "window": 100, "selection": "first-best"}

# A preset is a bundle of options; keys that a system does not have are passed over.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # the text of the paper, which is what the modules do by themselves; where it is silent, the authors' program
    "paper": PROGRAM,
    "released": {**PROGRAM, "score_bias": True},
    # ours, for graphs that nobody tuned anything for: starts as the local model, and keeps it honest
    "robust": {
        "features": "unit-l2",
        "standardise_score": True,
        "zero_init": True,
        "head": "residual",
        "local_loss": 0.5,
    },
}


class Published(NamedTuple):
    """Settings that the authors published for one system on one dataset."""

    system: str
    options: Mapping[str, Any]


def _published(system: str, hidden: int = 48, **options: Any) -> Published:
    return Published(system, {"hidden": hidden, "lr": 0.05, **options})


PUBLISHED: Mapping[str, Published] = {
    "texas": _published("nlmlp", kernel_size=5, dropout=0.5, conv_dropout=0.0, weight_decay=5e-4),
    "cornell": _published("nlmlp", kernel_size=3, dropout=0.5, conv_dropout=0.0, weight_decay=5e-5),
    "cornell-pre2022": _published("nlmlp", kernel_size=3, dropout=0.5, conv_dropout=0.0, weight_decay=5e-5),
    "wisconsin": _published("nlmlp", kernel_size=3, dropout=0.5, conv_dropout=0.0, weight_decay=5e-4),
    "chameleon": _published("nlgcn", kernel_size=5, dropout=0.0, conv_dropout=0.0, weight_decay=0.0, epochs=6000),
    "actor": _published("nlmlp", kernel_size=5, dropout=0.0, conv_dropout=0.5, weight_decay=5e-4),
    "squirrel": _published("nlgcn", hidden=96, kernel_size=5, dropout=0.0, conv_dropout=0.5, weight_decay=0.0),
}


def dataset_options(graph_name: str, system: str, preset: str) -> dict[str, Any]:
    """What is known of a dataset: its authors' metric, and the published settings."""
    from nlgnn.datasets.catalog import CATALOG

    options: dict[str, Any] = {"metric": CATALOG[graph_name].metric} if graph_name in CATALOG else {}
    if graph_name in PUBLISHED:
        options |= PUBLISHED[graph_name].options
        if system != PUBLISHED[graph_name].system:
            options.pop("kernel_size")  # the authors' program has 5 where it does not have this one
        if preset == "robust":
            options.pop("epochs", None)  # goes with the program's stopping rule
    return options


@dataclass(frozen=True)
class System:
    """One system: where its class is, what it is, what to search over, and the local part of a non-local one."""

    name: str
    path: str
    summary: str
    source: str
    defaults: Mapping[str, Any] = field(default_factory=lambda: DEFAULTS)
    search_space: Mapping[str, tuple[Any, ...]] = field(default_factory=lambda: PAPER_GRID)
    local: str | None = None

    def load(self) -> type[nn.Module]:
        module, _, class_name = self.path.partition(":")
        loaded: type[nn.Module] = getattr(import_module(module), class_name)
        return loaded


LIU = "Liu, Wang, Ji: Non-Local Graph Neural Networks. IEEE TPAMI, 2021."
SYSTEMS: Mapping[str, System] = {
    system.name: system
    for system in (
        System("mlp", "nlgnn.nn:MLP", "features alone, no edges", "the local part of NLMLP"),
        System("gcn", "nlgnn.nn:GCN", "averages neighbours", "Kipf, Welling. ICLR, 2017."),
        System("gat", "nlgnn.nn:GAT", "attends to neighbours", "Veličković et al. ICLR, 2018."),
        System(
            "nlmlp",
            "nlgnn.nn:NLMLP",
            "MLP, then all nodes along a learned order",
            LIU,
            search_space=NONLOCAL_GRID,
            local="mlp",
        ),
        System(
            "nlgcn",
            "nlgnn.nn:NLGCN",
            "GCN, then all nodes along a learned order",
            LIU,
            search_space=NONLOCAL_GRID,
            local="gcn",
        ),
        System(
            "nlgat",
            "nlgnn.nn:NLGAT",
            "GAT, then all nodes along a learned order",
            LIU,
            search_space=NONLOCAL_GRID,
            local="gat",
        ),
    )
}


def get_system(name: str) -> System:
    system = SYSTEMS.get(name.lower().replace("_", "-"))
    if system is None:
        raise OptionError(f"there is no model {name!r}.", nearest(name, list(SYSTEMS)))
    return system


def default_preset(graph_name: str) -> str:
    """`released` where the authors published settings, `paper` on other named datasets, else `robust`."""
    from nlgnn.datasets.catalog import CATALOG

    return "released" if graph_name in PUBLISHED else "paper" if graph_name in CATALOG else "robust"


def resolve(
    name: str, graph_name: str, preset: str | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], Recipe]:
    """The keyword arguments of a system's class, and its recipe. A bad option speaks here, before any graph is read.

    Later sources win: the system's defaults, the preset, the dataset's published settings, then `options`.
    """
    from nlgnn.training.execution import model_like
    from nlgnn.training.options import keyword_of, model_options
    from nlgnn.training.recipe import Recipe, check_pretraining

    system = get_system(name)
    if preset is not None and preset not in PRESETS:
        raise OptionError(f"there is no preset {preset!r}.", nearest(preset, list(PRESETS)))
    for_model, for_recipe = model_options(system), set(Recipe.model_fields)
    known = set(for_model) | for_recipe
    for option in options:
        if option not in known:
            owners = [other.name for other in SYSTEMS.values() if option in model_options(other)]
            how = f"It is one of {', '.join(owners)}." if owners else nearest(option, sorted(known))
            raise OptionError(f"{system.name} has no option {option!r}.", how)
    preset = preset or default_preset(graph_name)
    bundles = {**system.defaults, **PRESETS[preset], **dataset_options(graph_name, system.name, preset)}
    if "dropout" in options:
        bundles.pop("conv_dropout", None)  # one rate given is both, unless the other is given too
    chosen = {option: value for option, value in bundles.items() if option in known} | dict(options)
    recipe = Recipe(**{option: value for option, value in chosen.items() if option in for_recipe})
    arguments = {
        keyword_of(option): for_model[option].check(chosen[option]) for option in for_model if option in chosen
    }
    sizes = {"in_channels": 1, "out_channels": arguments.get("embedding_channels") or 2}
    check_pretraining(model_like(partial(system.load(), **sizes, **arguments)), recipe)
    return arguments, recipe


def default_protocol(graph: Graph) -> str:
    """The user's own splits where there are some, else what the dataset's authors use, else `random-60`."""
    from nlgnn.datasets.catalog import CATALOG

    if "column" in graph.splits:
        return "column"
    return CATALOG[graph.name].default_protocol if graph.name in CATALOG else "random-60"


def configure(name: str, graph: Graph, preset: str | None = None, **options: Any) -> tuple[partial[nn.Module], Recipe]:
    """A named system for a graph: what makes a fresh model, and how to train it.

    Args:
        name: one of `nlgnn models`.
        graph: gives the number of features and classes; where its name is known, published settings too.
        preset: paper, released or robust; by default the one that suits the graph.
        options: any field of `Recipe`, and any keyword argument of the model, with `hidden` for `hidden_channels` and
            `embedding` for `embedding_channels`.
    """
    from nlgnn.training.execution import model_like

    arguments, recipe = resolve(name, graph.name, preset, options)
    sizes = {"in_channels": graph.num_features, "out_channels": graph.num_classes}
    factory = partial(get_system(name).load(), **sizes, **arguments)
    model_like(factory)  # options that do not go with this number of classes speak now
    return factory, recipe
