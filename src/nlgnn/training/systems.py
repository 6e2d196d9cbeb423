"""The registry: every system by name, the presets, and what wins over what."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from nlgnn.errors import OptionError, nearest
from nlgnn.training.compared import COMPARED, STRONGER
from nlgnn.training.system import Options, System

if TYPE_CHECKING:
    from torch import nn

    from nlgnn.graph.graph import Graph
    from nlgnn.training.recipe import Recipe

# How the authors' program trains.
PROGRAM: Options = {"epochs": 3000, "stopping": "window", "window": 100, "selection": "first-best"}

# A preset is a bundle of options; keys that a system does not have are passed over.
PRESETS: Mapping[str, Options] = {
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
    options: Options


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


def dataset_options(graph_name: str, system: System, preset: str) -> dict[str, Any]:
    """What is known of a dataset: its authors' metric, and the settings that were published for this kind of system."""
    from nlgnn.datasets.catalog import CATALOG

    options: dict[str, Any] = {"metric": CATALOG[graph_name].metric} if graph_name in CATALOG else {}
    if trained_as(system).program:
        options |= trained_as(system).published.get(graph_name, {})
    elif graph_name in PUBLISHED:
        options |= PUBLISHED[graph_name].options
        if system.name != PUBLISHED[graph_name].system:
            options.pop("kernel_size")  # the authors' program has 5 where it does not have this one
        if preset == "robust":
            options.pop("epochs", None)  # goes with the program's stopping rule
    return options


LIU = "Liu, Wang, Ji. IEEE TPAMI, 2021."


def non_local(local: System, name: str = "", path: str = "") -> System:
    return System(
        name or f"nl-{local.name}",
        path,
        f"{name.removeprefix('nl').upper() or local.name}, then along a learned order",
        LIU if path else "this package",
        defaults=local.defaults,
        search_space={**local.search_space, "kernel_size": (3, 5, 7)},
        local=local.name,
    )


MLP = System("mlp", "nlgnn.nn:MLP", "features alone, no edges", "the local part of NLMLP")
GCN = System("gcn", "nlgnn.nn:GCN", "averages neighbours", "Kipf, Welling. ICLR, 2017.")
GAT = System("gat", "nlgnn.nn:GAT", "attends to neighbours", "Veličković et al. ICLR, 2018.")
FRAMEWORK = (
    *(MLP, GCN, GAT),
    non_local(MLP, "nlmlp", "nlgnn.nn:NLMLP"),
    non_local(GCN, "nlgcn", "nlgnn.nn:NLGCN"),
    non_local(GAT, "nlgat", "nlgnn.nn:NLGAT"),
)
ALSO_WRAPPED = (*(system for system in COMPARED if system.name in ("h2gcn", "fagcn")), *STRONGER)
SYSTEMS: Mapping[str, System] = {
    system.name: system for system in (*FRAMEWORK, *COMPARED, *STRONGER, *map(non_local, ALSO_WRAPPED))
}
ALIASES = {"cpgnn": "cpgcn", "graphsage": "sage"}


def get_system(name: str) -> System:
    """By name: in any case, with or without hyphens."""
    names = {known.replace("-", ""): known for known in SYSTEMS} | ALIASES
    system = SYSTEMS.get(names.get(name.lower().replace("_", "").replace("-", ""), ""))
    if system is None:
        raise OptionError(f"there is no model {name!r}.", nearest(name, list(SYSTEMS)))
    return system


def load(system: System) -> type[nn.Module]:
    """The class of a system; of a wrapped one, made by the wrapper."""
    if system.path:
        return system.load()
    from nlgnn.nn.nonlocal_of import NonLocalOf

    assert system.local is not None
    return NonLocalOf.around(SYSTEMS[system.local].load())


def trained_as(system: System) -> System:
    """Whose programme holds: a non-local system is trained as its local part is, for the two to be compared."""
    return system if system.local is None else SYSTEMS[system.local]


def default_preset(graph_name: str) -> str:
    """`released` where the authors published settings, `paper` on other named datasets, else `robust`."""
    from nlgnn.datasets.catalog import CATALOG

    return "released" if graph_name in PUBLISHED else "paper" if graph_name in CATALOG else "robust"


def resolve(
    name: str, graph_name: str, preset: str | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], Recipe]:
    """The keyword arguments of a system's class, and its recipe. A bad option speaks here, before any graph is read.

    Later sources win: the system's defaults, the preset, its own authors' programme, the dataset's published settings,
    then `options`.
    """
    from nlgnn.training.execution import model_like
    from nlgnn.training.options import given_sizes, keyword_of, model_options
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
    of_dataset = dataset_options(graph_name, system, preset)
    bundles = {**system.defaults, **PRESETS[preset], **trained_as(system).program, **of_dataset}
    if "dropout" in options:
        bundles.pop("conv_dropout", None)  # one rate given is both, unless the other is given too
    chosen = {option: value for option, value in bundles.items() if option in known} | dict(options)
    recipe = Recipe(**{option: value for option, value in chosen.items() if option in for_recipe})
    arguments = {
        keyword_of(option): for_model[option].check(chosen[option]) for option in for_model if option in chosen
    }
    arguments |= system.fixed
    sizes = given_sizes(
        system, arguments, in_channels=1, out_channels=arguments.get("embedding_channels") or 2, num_nodes=1
    )
    check_pretraining(model_like(partial(load(system), **sizes, **arguments)), recipe)
    return arguments, recipe


def check_given(name: str, graph_name: str, preset: str | None, options: Mapping[str, Any]) -> None:
    """Raise an `OptionError` for an option that a user gave and that the system does not take, or that changes nothing.

    Of what presets and run folders hold, the latter is passed over: see `resolve`.
    """
    from nlgnn.training.options import refuse_idle

    resolve(name, graph_name, preset, options)
    refuse_idle({option: (value,) for option, value in options.items()})


def default_metric(graph: Graph) -> str:
    """What the dataset's authors measure, else accuracy."""
    from nlgnn.datasets.catalog import CATALOG

    return CATALOG[graph.name].metric if graph.name in CATALOG else "accuracy"


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
    from nlgnn.training.options import given_sizes

    arguments, recipe = resolve(name, graph.name, preset, options)
    system = get_system(name)
    sizes = given_sizes(
        system, arguments, in_channels=graph.num_features, out_channels=graph.num_classes, num_nodes=graph.num_nodes
    )
    factory = partial(load(system), **sizes, **arguments)
    model_like(factory)  # options that do not go with this number of classes speak now
    return factory, recipe
