"""Configuration of models: the factory and the recipe for a name and options, and the command that trains them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nlgnn.datasets.catalog import CATALOG
from nlgnn.errors import DataError, OptionError, nearest
from nlgnn.graph.splits import OWN_PROTOCOLS
from nlgnn.models.options import given_sizes, idle_options, keyword_of, model_options, recipe_options, refuse_idle
from nlgnn.models.registry import PRESETS, PUBLISHED, SYSTEMS, System, get_system, load, trained_as
from nlgnn.training.recipe import Recipe, check_pretraining

if TYPE_CHECKING:
    from nlgnn.graph.graph import Graph
    from nlgnn.tables.source import OwnTables

RARE_SHARE = 0.15  # of the labelled nodes; a class with fewer is rare


def dataset_options(graph_name: str, system: System, preset: str) -> dict[str, Any]:
    """Return the known options of a dataset: its authors' metric, and settings published for this kind of model."""
    options: dict[str, Any] = {"metric": CATALOG[graph_name].metric} if graph_name in CATALOG else {}
    if trained_as(system).program:
        options |= trained_as(system).published.get(graph_name, {})
    elif graph_name in PUBLISHED:
        options |= PUBLISHED[graph_name].options
        if system.name != PUBLISHED[graph_name].system:
            options.pop("kernel_size")  # published for one model; the authors' program uses 5 for others
        if preset == "robust":
            options.pop("epochs", None)  # goes with the stopping rule of the authors' program
    return options


def default_preset(graph_name: str) -> str:
    """Return `released` if settings were published, `paper` for other named datasets, else `robust`."""
    return "released" if graph_name in PUBLISHED else "paper" if graph_name in CATALOG else "robust"


def default_metric(graph: Graph) -> str:
    """Return the metric of the dataset's authors; for other graphs one that suits the sizes of the classes.

    It is accuracy, unless one of two classes is rare: then average precision, whose positive class is the second one,
    or ROC-AUC if the first class is the rare one.
    """
    if graph.name in CATALOG:
        return CATALOG[graph.name].metric
    return {None: "accuracy", 0: "roc-auc", 1: "average-precision"}[rare_class(graph)]


def rare_class(graph: Graph) -> int | None:
    """Return the rare one of two classes, with a share below `RARE_SHARE` of the labelled nodes, or None."""
    sizes = np.bincount(graph.y[graph.labelled], minlength=graph.num_classes)
    if len(sizes) != 2 or sizes.min() == 0 or sizes.min() >= RARE_SHARE * sizes.sum():
        return None
    return int(sizes.argmin())


def default_protocol(graph: Graph) -> str:
    """Return the user's own splits if there are any, else those of the dataset's authors, else `random-60`."""
    own = next((protocol for protocol in OWN_PROTOCOLS if protocol in graph.splits), None)
    if own is not None:
        return own
    return CATALOG[graph.name].default_protocol if graph.name in CATALOG else "random-60"


def resolve(
    name: str, graph_name: str, preset: str | None, options: Mapping[str, Any]
) -> tuple[dict[str, Any], Recipe]:
    """Return the keyword arguments of a model's class, and its recipe.

    Options are checked by the types of the class: no graph is read and no model is built. Later sources win: the
    defaults of the model, the preset, the programme of its authors, the published settings of the dataset, `options`.

    Raises:
        OptionError: An option is unknown or has a value that it cannot take.
    """
    from nlgnn.nn.base import Model

    system = get_system(name)
    if preset is not None and preset not in PRESETS:
        raise OptionError(f"there is no preset {preset!r}.", nearest(preset, list(PRESETS)))
    for_model, for_recipe = model_options(system), recipe_options(system)
    known = set(for_model) | for_recipe
    for option in options:
        if option not in known:
            owners = [other.name for other in SYSTEMS.values() if option in model_options(other)]
            how = f"Models with this option: {', '.join(owners)}." if owners else nearest(option, sorted(known))
            if option in Recipe.model_fields:
                how = f"It is an option of gradient training. {system.name} has: {', '.join(sorted(known))}."
            raise OptionError(f"{system.name} has no option {option!r}.", how)
    preset = preset or default_preset(graph_name)
    of_dataset = dataset_options(graph_name, system, preset)
    bundles = {**system.defaults, **PRESETS[preset], **trained_as(system).program, **of_dataset}
    if "dropout" in options:
        bundles.pop("conv_dropout", None)  # a given rate applies to both, unless the other one is given too
    chosen = {option: value for option, value in bundles.items() if option in known} | dict(options)
    recipe = Recipe(**{option: value for option, value in chosen.items() if option in for_recipe})
    model_class = load(system)
    check_pretraining(model_class.__name__, issubclass(model_class, Model) and model_class.pretrains, recipe)
    arguments = {
        keyword_of(option): for_model[option].check(chosen[option]) for option in for_model if option in chosen
    }
    arguments |= system.fixed
    for option, declared in for_model.items():
        if declared.required and keyword_of(option) not in arguments:
            how = f"Give it a default, or pass it as an option: --{option.replace('_', '-')}."
            raise OptionError(f"{system.name} needs the argument {keyword_of(option)!r}.", how)
    return arguments, recipe


def check_given(name: str, graph_name: str, preset: str | None, options: Mapping[str, Any]) -> None:
    """Raise an `OptionError` for a given option that the model does not take, or that has no effect.

    Presets and run folders may contain options without effect: see `resolve`.
    """
    resolve(name, graph_name, preset, options)
    refuse_idle(get_system(name), {option: (value,) for option, value in options.items()})


def configure(name: str, graph: Graph, preset: str | None = None, **options: Any) -> tuple[partial[Any], Recipe]:
    """Return a factory of fresh models for a graph, and the recipe to train them.

    Args:
        name: One of the names that `nlgnn models` lists.
        graph: The graph. It gives the number of features and classes and, if its name is known, published settings.
        preset: paper, released or robust; by default the one that suits the graph.
        options: Any field of `Recipe`, and any keyword argument of the model, with `hidden` for `hidden_channels` and
            `embedding` for `embedding_channels`.

    Returns:
        A factory, which makes a model on every call, and a recipe.

    Raises:
        OptionError: An option is unknown or has a value that it cannot take.
        DataError: The graph has no features and the model needs some.

    Example:
        >>> from nlgnn import configure, load_graph
        >>> factory, recipe = configure("nlgcn", load_graph("mushroom-body"), hidden=16, epochs=5)
        >>> (type(factory()).__name__, recipe.epochs)
        ('NLGCN', 5)
    """
    arguments, recipe = resolve(name, graph.name, preset, options)
    system = get_system(name)
    if graph.num_features == 0 and system.kind != "shallow":
        raise DataError(
            f"graph {graph.name!r} has no features.",
            "Give some, such as a column of ones, or train trees, forest or kernel, which can do without.",
        )
    sizes = given_sizes(
        system,
        arguments,
        in_channels=graph.num_features,
        out_channels=graph.num_classes,
        num_nodes=graph.num_nodes,
        num_edge_types=len(graph.edge_types),
    )
    return partial(load(system), **sizes, **arguments), recipe


def training_command(
    graph: str,
    model: str,
    protocol: str,
    preset: str,
    options: Mapping[str, Any],
    runs: int | None = None,
    tables: OwnTables | None = None,
) -> str:
    """Return the command that trains a setting: `nlgnn train …`, or Python for a graph that has no name.

    Args:
        graph: The name of the graph.
        model: The name of the model.
        protocol: The name of the split protocol.
        preset: The name of the preset.
        options: The options of the setting. Options that have no effect next to the others are left out.
        runs: The number of runs; by default that of the protocol.
        tables: The user's own tables that the graph was read from, if any.
    """
    idle = idle_options(get_system(model), {name: (value,) for name, value in options.items()})
    options = {name: value for name, value in options.items() if name not in idle}
    if tables is None and graph not in CATALOG:
        given = "".join(f", {name}={value!r}" for name, value in options.items())
        configured = f'nlgnn.configure("{model}", graph, "{preset}"{given})'
        splits = f'"{protocol}"' if runs is None else f'nlgnn.make_splits(graph, "{protocol}", {runs})'
        return f"factory, recipe = {configured}; runs = nlgnn.fit(factory, graph, {splits}, recipe)"
    words = ["nlgnn", "train", *([graph] if tables is None else tables.flags)]
    words += ["--model", model, "--splits", protocol, "--preset", preset]
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            words += [f"--{flag}", str(value)]
    words += [] if runs is None else ["--runs", str(runs)]
    return shlex.join(words)
