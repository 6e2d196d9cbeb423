"""Job: one run that is to be trained. Which of them can be trained at once, and how many should."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd

from nlgnn.graph.splits import Split
from nlgnn.nn.dropout import Dropout
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run

# Options in which models that are trained at once may differ: their rates, and nothing of their form.
RATES = {"dropout", "input_dropout", "conv_dropout"}
# What the models of a stack may keep in all, on a CPU: more of it no longer stays in the cache.
STACK_BYTES = 64 * 2**20
MOST_COPIES = 400  # a class a hundred times smaller than the largest counts as a hundredth of it from there on
COPIES = 4  # of a node of the largest class, where classes count alike: weights are right to an eighth at worst


@dataclass(frozen=True, eq=False)
class Job:
    """What to fill in, what makes a model, one that it made, how to train it, and on what."""

    run: Run
    factory: Callable[[], nn.Module]
    example: nn.Module
    recipe: Recipe
    split: Split
    train: NDArray[np.int64]  # nodes to learn from
    setting: int = 0  # its place in the list of settings

    @property
    def shape(self) -> Hashable:
        """Jobs of one shape can be one stack: the same form of model, the same inputs, as many nodes to learn from."""
        sizes = len(self.train), int(self.split.val.sum())
        return shape_of_setting(self.factory, self.recipe), sizes


def training_nodes(split: Split, y: NDArray[np.int64], class_weight: str) -> NDArray[np.int64]:
    """Numbers of the training nodes; where classes are to count alike, nodes of small classes come several times.

    The loss is a mean over them, so that a node that comes twice counts twice. Multiples are whole: of `COPIES` for the
    largest class.
    """
    nodes = np.flatnonzero(split.train)
    if class_weight == "none":
        return nodes
    sizes = np.bincount(y[nodes])
    copies = np.minimum(np.rint(COPIES * sizes.max() / np.maximum(sizes, 1)), MOST_COPIES).astype(np.int64)
    copies //= np.gcd.reduce(copies[sizes > 0])
    return np.repeat(nodes, copies[y[nodes]])


def shape_of_setting(factory: Callable[[], nn.Module], recipe: Recipe) -> Hashable:
    """What two settings must have in common for their models to be trained at once on one split."""
    form: Hashable = id(factory)
    if isinstance(factory, partial):
        arguments = {name: value for name, value in factory.keywords.items() if name not in RATES}
        form = (factory.func, factory.args, json.dumps(arguments, sort_keys=True, default=id))
    execution = recipe.device, recipe.threads, recipe.replicas, recipe.memory
    return form, recipe.features, recipe.metric, recipe.pretrain_epochs, execution


def by_shape(jobs: Sequence[Job]) -> list[list[Job]]:
    """Groups that can be trained at once, in the order of their first jobs."""
    shapes = list(dict.fromkeys(job.shape for job in jobs))
    in_order = sorted(jobs, key=lambda job: shapes.index(job.shape))
    return [list(group) for _, group in groupby(in_order, key=lambda job: job.shape)]


def models_at_once(model: nn.Module, inputs: tuple[Any, ...], jobs: int, wanted: int | Literal["auto"]) -> int:
    """As many as keep what they need in the cache; one, where the model does not say that it can be stacked."""
    device = inputs[0].device
    if jobs < 2 or device.type not in ("cpu", "cuda") or not _can_be_stacked(model):
        return 1
    if wanted == "auto":
        room = STACK_BYTES if device.type == "cpu" else torch.cuda.mem_get_info(device)[0] // 4
        wanted = room // bytes_of_one(model, inputs)
    return max(1, min(jobs, wanted))


def _can_be_stacked(model: nn.Module) -> bool:
    """Where it says so, has nothing but parameters to stack, and draws random numbers in this package's way only."""
    return (
        bool(getattr(model, "stackable", False))
        and not any(True for _ in model.buffers())
        and all(isinstance(module, Dropout) for module in model.modules() if isinstance(module, _DropoutNd))
    )


def bytes_of_one(model: nn.Module, inputs: tuple[Any, ...]) -> int:
    """What one model needs in training: weights, gradients, two moments, and what forward keeps for backward."""
    own = {parameter.data_ptr(): parameter.nbytes for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.nbytes
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        model.to(inputs[0].device)(*inputs)
    return 4 * sum(own.values()) + sum(kept.values()) + 1
