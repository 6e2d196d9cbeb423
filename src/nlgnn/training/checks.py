"""What would make training fail, or worse, go wrong without a word: found before it begins, and told."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn.inputs import prepare
from nlgnn.training.execution import choose_device, limited_threads, model_like
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
    if isinstance(getattr(model, "loss", None), nn.Module):
        raise OptionError(
            f"{name}.loss is a module, but training calls a model's own loss as loss(output, y, nodes).",
            "Give it another name, or make it such a method; without one the loss is cross entropy.",
        )
    return model


def _trained(model: nn.Module) -> set[int]:
    return {id(parameter) for parameter in model.parameters() if parameter.requires_grad}


def check_output(factory: Callable[[], nn.Module], model: nn.Module, graph: Graph, recipe: Recipe) -> None:
    """Call a model once, as evaluation does, and see whether it gives logits of every node.

    Not one of this package with the widths of the graph, nor where memory is limited and yet to be estimated.
    """
    wanted = (graph.num_nodes, graph.num_classes)
    known = factory.keywords if isinstance(factory, partial) and factory.func.__module__.startswith("nlgnn.") else {}
    widths = known.get("in_channels"), known.get("out_channels")
    if widths == (graph.num_features, graph.num_classes) or recipe.memory is not None:
        return
    name, device = type(model).__name__, choose_device(recipe.device)
    with limited_threads(recipe.threads, graph):
        inputs = prepare(model, graph.scale_features(recipe.features), device)
        try:
            logits = evaluate(model.to(device), inputs)
        except (NlgnnError, torch.OutOfMemoryError):
            raise
        except (AttributeError, IndexError, RuntimeError, TypeError, ValueError) as error:
            given = ", ".join(str(list(part.shape)) if hasattr(part, "shape") else repr(part) for part in inputs)
            raise OptionError(
                f"{name} cannot be called with what it is given, tensors of shape {given}: {error}.",
                f"Its forward takes x of {graph.num_features} features and edge_index, or what its own prepare(graph) "
                "returns.",
            ) from error
    if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
        shape = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise OptionError(
            f"{name} gives {shape}; graph {graph.name!r} needs logits {list(wanted)}, one a node and class.",
            "Set its out_channels to graph.num_classes.",
        )


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
