"""Checks before training: everything that would make it fail or go wrong silently, and its identity."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from nlgnn.errors import DataError, NlgnnError, NlgnnWarning, OptionError
from nlgnn.graph.audit import listed
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.limits import room, show_size
from nlgnn.models.build import configure
from nlgnn.models.options import recipe_options
from nlgnn.models.registry import get_system, resolve_class
from nlgnn.nn.base import Model, as_model, prepare
from nlgnn.nn.kernels.ranks import active_ranks
from nlgnn.shallow.base import Factory, ShallowModel
from nlgnn.training.device import choose_device, limited_threads, model_like
from nlgnn.training.loop import evaluate
from nlgnn.training.memory import check_trial, surely_fits
from nlgnn.training.metrics import check_metric
from nlgnn.training.recipe import EXECUTION, Recipe, check_pretraining
from nlgnn.training.replica import Job

Setting = tuple[Factory, Recipe]

STATES_PER_WEIGHT = 4  # the weight, its gradient and two moments


def check_graph(graph: Graph) -> None:
    """Raise an `OptionError` for something other than a `Graph`."""
    if not isinstance(graph, Graph):
        raise OptionError(f"a {type(graph).__name__} is not a Graph.", "Convert it: from_pyg, from_networkx or Graph.")


def setting_of(model: str | Factory, graph: Graph, recipe: Recipe | None, shared: bool = False) -> Setting:
    """Return the factory and the recipe; options that a recipe does not set keep the values of a named model.

    If the recipe is shared by several models, options that a named model does not have are passed over.
    """
    check_graph(graph)
    if recipe is not None and not isinstance(recipe, Recipe):
        raise OptionError(f"recipe is a {type(recipe).__name__}.", "Give a Recipe: Recipe(epochs=100, lr=0.01).")
    if isinstance(model, nn.Module | ShallowModel):
        raise OptionError("training needs a factory of models, not a model.", "Give a function: lambda: MyModel(...).")
    if isinstance(model, str):
        if ":" in model:
            resolve_class(model)
        names = set() if recipe is None else recipe.model_fields_set
        names = names & recipe_options(get_system(model)) if shared else names
        given = {name: getattr(recipe, name) for name in names}
        return configure(model, graph, **given)
    return model, recipe or Recipe()


def example_of(factory: Callable[[], Any]) -> Model | ShallowModel:
    """Return a model of a factory; raise where the factory, or a module from elsewhere, would fail in training."""
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise OptionError(
            f"the factory cannot be called without arguments: {error}.", "Give a function: lambda: MyModel(...)."
        ) from None
    except ValueError:  # of something written in C: it is called as it is
        pass
    check_weights_fit(factory)
    model = model_like(factory)
    if isinstance(model, ShallowModel):
        return model
    if not isinstance(model, nn.Module):
        raise OptionError(
            f"a {type(model).__name__} is not a module.", "Give a function that returns a torch.nn.Module."
        )
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        raise OptionError(
            f"{type(model).__name__} takes its widths from its first input.",
            "Give in_channels=graph.num_features, not -1.",
        )
    return as_model(model)


def check_weights_fit(factory: Callable[[], Any]) -> None:
    """Raise if the weights of a model of this package alone need more memory than there is, before it is built."""
    if not isinstance(factory, partial) or not str(factory.func.__module__).startswith("nlgnn.nn."):
        return
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            outline = factory()
    except Exception:  # what is wrong is reported where the model is built
        return
    needed = STATES_PER_WEIGHT * sum(one.nbytes for one in (*outline.parameters(), *outline.buffers()))
    allowed, words = room()
    if allowed is not None and needed > allowed:
        raise OptionError(
            f"the weights of {type(outline).__name__} would take about {show_size(needed)} in training, but {words}.",
            "Take fewer hidden channels, layers or heads.",
        )


def hooks_of(model: nn.Module | ShallowModel) -> Model | ShallowModel:
    """Return the object that has the attributes of the contract: the model itself, or the adapter of a plain module."""
    return model if isinstance(model, ShallowModel) else as_model(model)


def class_name(model: Model | ShallowModel) -> str:
    """Return the name of a model's class, without that of an adapter."""
    return type(model.unwrapped if isinstance(model, Model) else model).__name__


def ignores_weights(model: nn.Module | ShallowModel, graph: Graph) -> bool:
    """Return whether a graph has edge weights that a model does not use."""
    return graph.edge_weight is not None and not hooks_of(model).uses_edge_weights


def ignores_types(model: nn.Module | ShallowModel, graph: Graph) -> bool:
    """Return whether a graph has types of edges that a model does not use."""
    return len(graph.edge_types) > 1 and not hooks_of(model).uses_edge_types


def check_options(factory: Callable[[], Any], model: Model | ShallowModel, recipe: Recipe) -> None:
    """Raise if a model and its recipe do not fit together."""
    if isinstance(model, Model):
        check_pretraining(class_name(model), model.pretrains, recipe)
        check_trial(factory, model, recipe)


def check_apart(models: Sequence[Model]) -> None:
    """Raise if models share weights, through which labels of test nodes of one would reach another."""
    seen: set[int] = set()
    for model in models:
        trained = {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
        if seen & trained:
            raise OptionError(
                f"{class_name(model)} shares weights with another model, of another split or setting.",
                "Make every module inside its function: lambda: NonLocal(MyModel(...), ...).",
            )
        seen |= trained


def check_output(job: Job, graph: Graph) -> None:
    """Call a model once, as evaluation does, and raise if it does not return logits for every node.

    Models of this package with the widths of the graph are not called, nor models whose memory is estimated first. Only
    such models are trained over several processes.
    """
    recipe, wanted = job.recipe, (graph.num_nodes, graph.num_classes)
    known = _has_widths_of(graph, job.factory) or active_ranks() is not None
    if known or recipe.memory is not None or not surely_fits(graph):
        return
    model, device = as_model(model_like(job.factory)), choose_device(recipe.device)
    name, inputs = type(model.unwrapped).__name__, tuple[Any, ...]()
    with limited_threads(recipe.threads, graph):
        try:
            inputs = prepare(model, graph.scale_features(recipe.features), device)
            model.to(device)
            model.start(inputs, torch.tensor(np.where(job.split.train, graph.y, -1), device=device))
            logits = evaluate(model, inputs)
        except (NlgnnError, torch.OutOfMemoryError):
            raise
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            shapes = ", ".join(str(list(part.shape)) if hasattr(part, "shape") else repr(part) for part in inputs)
            given = f" with what it is given, tensors of shape {shapes}" if inputs else ""
            raise OptionError(
                f"{name} cannot be called{given}: {type(error).__name__}: {error}.",
                f"Its forward takes x of {graph.num_features} features and edge_index, or what its own prepare(graph) "
                "returns, a tuple of tensors.",
            ) from error
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        shape = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise OptionError(
            f"{name} gives {shape}; graph {graph.name!r} needs logits {list(wanted)}, one per node and class.",
            "Set its out_channels to graph.num_classes.",
        )


def _has_widths_of(graph: Graph, factory: Callable[[], nn.Module]) -> bool:
    """Return whether a model of this package has the widths of the graph, so that it needs no trial."""
    if not isinstance(factory, partial) or not factory.func.__module__.startswith("nlgnn."):
        return False
    given = inspect.signature(factory.func).bind_partial(*factory.args, **factory.keywords).arguments
    return (given.get("in_channels"), given.get("out_channels")) == (graph.num_features, graph.num_classes)


def check(graph: Graph, splits: Sequence[Split], recipe: Recipe) -> None:
    """Raise an error for anything that would make training fail, before it begins."""
    choose_device(recipe.device)
    check_metric(recipe.metric, graph.num_classes)
    if not splits:
        raise OptionError("there are no splits to train on.", "Give at least one, or the name of a protocol.")
    for split in splits:
        where = f"graph {graph.name!r}, split {split.index} of {split.protocol!r}"
        split.check_length(graph.num_nodes, where)
        for part, mask in (("training", split.train), ("validation", split.val)):
            if not mask.any():
                raise DataError(f"{where}: there are no {part} nodes.", "Label more nodes, or use another split.")
            unlabelled = (mask & ~graph.labelled).nonzero()[0]
            if len(unlabelled):
                raise DataError(
                    f"{where}: {part} node {unlabelled[0]} has no label ({len(unlabelled)} such nodes).",
                    "Leave nodes without a label out of training and validation.",
                )
    warn_of_unlearnable_classes(graph, splits)


def warn_of_unlearnable_classes(graph: Graph, splits: Sequence[Split]) -> None:
    """Warn about classes of several nodes that have validation or test nodes in a split, but no training node.

    A class of a single node is in the notes on the user's tables instead: no split can both learn and test it.
    """
    sizes, numbers = np.bincount(graph.y[graph.labelled], minlength=graph.num_classes), range(graph.num_classes)
    absent = np.zeros(graph.num_classes, np.int64)  # the number of splits
    for split in splits:
        train, others = (np.isin(numbers, graph.y[part]) for part in (split.train, split.val | split.test))
        absent += others & ~train & (sizes > 1)
    if absent.any():
        names = listed(f"{graph.class_names[number]!r} ({absent[number]})" for number in np.flatnonzero(absent))
        warnings.warn(
            f"Classes without a training node in some of {len(splits)} splits (number of splits): {names}. "
            "No model can learn them there, and their nodes count as wrong.",
            NlgnnWarning,
            stacklevel=3,
        )


def identity(
    graph: Graph, splits: Sequence[Split], recipe: Recipe, factory: Factory, model: nn.Module | ShallowModel
) -> str:
    """Return a hash of all that decides the figures: runs with another one are not of the same training.

    A factory that cannot be compared, such as a lambda, gets another hash on every call.
    """
    hooks = hooks_of(model)
    state = hooks.unwrapped.state_dict() if isinstance(hooks, Model) else {}  # a shallow model has none before `fit`
    shapes = [(name, tuple(value.shape)) for name, value in state.items()]
    settings = recipe.model_dump(exclude=EXECUTION)
    made_by = description_of(factory) or os.urandom(16).hex()
    digest = hashlib.sha256(repr((graph.fingerprint, settings, class_name(hooks), made_by, shapes)).encode())
    digest.update(bits_of(splits))
    return digest.hexdigest()[:16]


def description_of(factory: Factory) -> str | None:
    """Return a description of a factory as text, or None if it cannot be compared with others.

    Classes and functions of a module can be compared, and partials of them whose arguments are numbers, texts, classes
    or such functions; a lambda, a function inside a function and an object with state cannot.
    """
    made, arguments = (
        (factory.func, (factory.args, factory.keywords)) if isinstance(factory, partial) else (factory, ())
    )
    try:
        return json.dumps([_named(made), arguments], sort_keys=True, default=_named)
    except TypeError:
        return None


def _named(value: Any) -> str:
    name = getattr(value, "__qualname__", "")
    inside = "<lambda>" in name or ("<locals>" in name and not isinstance(value, type))
    if not name or inside or not (isinstance(value, type) or inspect.isroutine(value)):
        raise TypeError(f"{value!r} cannot be compared")
    return f"{value.__module__}.{name}"


def bits_of(splits: Sequence[Split]) -> bytes:
    """Return the masks of splits as bytes, for hashes."""
    return b"".join(np.packbits([split.train, split.val, split.test]).tobytes() for split in splits)
