"""What would make training fail, or worse, go wrong without a word: found before it begins, and told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.inputs import prepare
from nlgnn.training.execution import choose_device, limited_threads, model_like
from nlgnn.training.jobs import Job
from nlgnn.training.memory import surely_fits
from nlgnn.training.metrics import check_metric
from nlgnn.training.recipe import Recipe
from nlgnn.training.replicas import evaluate


def check_graph(graph: Graph) -> None:
    if not isinstance(graph, Graph):
        raise OptionError(
            f"a {type(graph).__name__} is no Graph.", "Make one of it: from_pyg, from_networkx, load_graph or Graph."
        )


def example_of(factory: Callable[[], nn.Module], runs: int = 1) -> nn.Module:
    """A model for its shapes. Raises where what makes models, or a module from elsewhere, would fail in training."""
    try:
        inspect.signature(factory).bind()
    except TypeError as error:
        raise OptionError(
            f"what makes a model cannot be called without arguments: {error}.", "Give a function: lambda: MyModel(...)."
        ) from None
    except ValueError:  # of something written in C: it is called as it is
        pass
    model = model_like(factory)
    if not isinstance(model, nn.Module):
        raise OptionError(f"a {type(model).__name__} is no module.", "Give what makes a torch.nn.Module.")
    name = type(model).__name__
    if runs > 1 and _trained(model) & _trained(model_like(factory)):
        raise OptionError(
            f"two models {name} share weights: what is learned on one split, also from nodes that another one tests, "
            "would reach the next.",
            "Make every module inside the function: lambda: NonLocal(MyModel(...), ...).",
        )
    if any(isinstance(parameter, UninitializedParameter) for parameter in model.parameters()):
        raise OptionError(
            f"{name} waits for its first input to know its widths.", "Give in_channels=graph.num_features, not -1."
        )
    if hasattr(model, "loss") and not _is_loss(model.loss):
        raise OptionError(
            f"{name}.loss cannot be called as training calls a model's own loss: loss(output, y, nodes).",
            "Give it another name, or make it such a method; without one the loss is cross entropy.",
        )
    return model


def check_apart(models: Sequence[nn.Module]) -> None:
    """Raise where what one of several settings learns would be known to the next."""
    seen: set[int] = set()
    for model in models:
        if seen & _trained(model):
            raise OptionError(
                f"{type(model).__name__} shares weights with another model of this comparison, which would train them.",
                "Make every module inside its function: lambda: NonLocal(MyModel(...), ...).",
            )
        seen |= _trained(model)


def _trained(model: nn.Module) -> set[int]:
    return {id(parameter) for parameter in model.parameters() if parameter.requires_grad}


def _is_loss(loss: object) -> bool:
    if isinstance(loss, nn.Module) or not callable(loss):
        return False
    try:
        inspect.signature(loss).bind("output", "y", "nodes")
    except TypeError:
        return False
    except ValueError:  # of something written in C
        pass
    return True


def check_output(job: Job, graph: Graph) -> None:
    """Call a model once, as evaluation does, and see whether it gives logits of every node.

    Not one of this package with the widths of the graph, nor where memory is to be estimated first.
    """
    recipe, wanted = job.recipe, (graph.num_nodes, graph.num_classes)
    if _has_widths_of(graph, job.factory) or recipe.memory is not None or not surely_fits(graph):
        return
    model, device = model_like(job.factory), choose_device(recipe.device)
    name, inputs = type(model).__name__, tuple[Any, ...]()
    with limited_threads(recipe.threads, graph):
        try:
            inputs = prepare(model, graph.scale_features(recipe.features), device)
            model.to(device)
            if hasattr(model, "before_training"):
                known = np.where(job.split.train, graph.y, -1)
                model.before_training(inputs, torch.tensor(known, device=device))  # type: ignore[operator]
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
            f"{name} gives {shape}; graph {graph.name!r} needs logits {list(wanted)}, one a node and class.",
            "Set its out_channels to graph.num_classes.",
        )


def _has_widths_of(graph: Graph, factory: Callable[[], nn.Module]) -> bool:
    """Of a model of this package that needs no trial."""
    if not isinstance(factory, partial) or not factory.func.__module__.startswith("nlgnn."):
        return False
    given = inspect.signature(factory.func).bind_partial(*factory.args, **factory.keywords).arguments
    return (given.get("in_channels"), given.get("out_channels")) == (graph.num_features, graph.num_classes)


def check(graph: Graph, splits: Sequence[Split], recipe: Recipe) -> None:
    """Raise whatever would make training fail, before it begins."""
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
