"""Memory of training, estimated from steps on small graphs of the same kind, and the plan to stay within it."""

from __future__ import annotations

import contextlib
import tempfile
import timeit
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.limits import SHARE_OF_FREE_MEMORY, free_bytes, parse_size, resident_bytes, show_size
from nlgnn.nn.base import Model, as_model, prepare
from nlgnn.training.device import allocation
from nlgnn.training.loop import Alone, can_be_stacked
from nlgnn.training.metrics import validate
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Job, Replica, Run

TRIAL_NODES = 16_000  # enough that chunks of fixed size do not hide the growth
GENEROUS_BYTES_A_NODE, GENEROUS_BYTES_AN_EDGE, GENEROUS_BYTES_AN_OUTPUT = 60_000, 1000, 40
# Bytes that the models of a stack may keep on a CPU: more of them no longer stay in the cache.
STACK_BYTES = 64 * 2**20


class MemoryPlan(NamedTuple):
    """A way to stay within memory: computing in parts, and a limit on models trained at once (None for no limit)."""

    recompute: bool = False
    at_once: int | None = None


def memory_plan(job: Job, graph: Graph) -> MemoryPlan:
    """Return how to stay within memory.

    The inputs must be prepared before: the memory of the process is measured, and the rest is estimated.

    Raises:
        NlgnnError: If training needs more memory than there is, with the estimate.
    """
    allowed = allowed_bytes(job.recipe.memory)
    if allowed is None or not can_be_tried(job.factory, job.example):
        return MemoryPlan()
    if job.recipe.memory is None and surely_fits(graph):
        return MemoryPlan()
    needed = step_bytes(job, graph, recompute=False)
    resident = resident_bytes()  # after the trial, which makes torch load what training needs
    if resident + needed <= allowed:
        return MemoryPlan(at_once=(allowed - resident) // max(1, needed))
    if job.example.can_recompute:
        needed = step_bytes(job, graph, recompute=True)
        if resident + needed <= allowed:
            return MemoryPlan(recompute=True, at_once=1)
    given = "are allowed (memory)" if job.recipe.memory else "are free"
    to_disk = "" if isinstance(graph.x, FeaturesOnDisk) else "keep the features on disk (Graph takes a memory map), "
    raise NlgnnError(
        f"training {type(job.example.unwrapped).__name__} on graph {graph.name!r} would take about "
        f"{show_size(resident + needed)}, but {show_size(allowed)} {given}.",
        f"To need less, {to_disk}take fewer hidden channels or heads, or another model; or allow more.",
    )


def surely_fits(graph: Graph) -> bool:
    """Return True if no model of usual size would fill this machine, or if its memory is unknown."""
    allowed = allowed_bytes(None)
    generous = GENEROUS_BYTES_A_NODE * graph.num_nodes + GENEROUS_BYTES_AN_EDGE * graph.edge_index.shape[1]
    generous += GENEROUS_BYTES_AN_OUTPUT * graph.num_nodes * graph.num_classes
    return allowed is None or resident_bytes() + generous < allowed


def allowed_bytes(memory: str | None) -> int | None:
    """Return the limit of the user, else the memory of this process and most of the free memory; None if unknown."""
    if memory is not None:
        return parse_size(memory)
    free = free_bytes()
    return None if free is None else resident_bytes() + int(SHARE_OF_FREE_MEMORY * free)


def models_at_once(model: nn.Module, inputs: tuple[Any, ...], jobs: int, wanted: int | Literal["auto"]) -> int:
    """Return how many models to train at once: as many as fit in the cache, or one where they cannot be stacked."""
    device = inputs[0].device
    if jobs < 2 or device.type not in ("cpu", "cuda") or not can_be_stacked(as_model(model)):
        return 1
    if wanted == "auto":
        room = STACK_BYTES if device.type == "cpu" else torch.cuda.mem_get_info(device)[0] // 4
        wanted = room // bytes_of_one(model, inputs)
    return max(1, min(jobs, wanted))


def bytes_of_one(model: nn.Module, inputs: tuple[Any, ...]) -> int:
    """Return what one model needs in training: weights, gradients, two moments, and what forward keeps for backward."""
    own = {parameter.data_ptr(): parameter.nbytes for parameter in model.parameters()}
    kept: dict[int, int] = {}

    # Nothing is kept: a kept result and its operation would refer to each other, and never be freed.
    def note(tensor: Tensor) -> None:
        if tensor.data_ptr() not in own:
            kept[tensor.data_ptr()] = tensor.nbytes

    with torch.autograd.graph.saved_tensors_hooks(note, lambda nothing: nothing):
        as_model(model).to(inputs[0].device).training_output(*inputs)
    return 4 * sum(own.values()) + sum(kept.values()) + 1


def step_bytes(job: Job, graph: Graph, recompute: bool) -> int:
    """Estimate the peak memory of a training step and an evaluation, without the graph and the prepared inputs.

    It grows linearly with nodes and edges; three small graphs give the slopes.
    """
    edges_a_node = graph.edge_index.shape[1] / graph.num_nodes
    nodes = max(TRIAL_NODES, int(8 * edges_a_node))
    edges = int(nodes * edges_a_node)
    base = _trial(job, graph, nodes, edges, recompute)
    for_node = (_trial(job, graph, 2 * nodes, edges, recompute) - base) / nodes
    for_edge = (_trial(job, graph, nodes, 2 * edges, recompute) - base) / edges if edges else 0.0
    return int(base + for_node * (graph.num_nodes - nodes) + for_edge * (graph.edge_index.shape[1] - edges))


def set_recompute(model: nn.Module, recompute: bool) -> None:
    """Make all models inside a model compute in parts, and again in the backward pass, or not."""
    for module in model.modules():
        if isinstance(module, Model):
            module.recompute = recompute


def can_be_tried(factory: Callable[[], nn.Module], model: Model) -> bool:
    """Return whether the model works on a small random graph, and prepares it quickly."""
    sized = isinstance(factory, partial) and "num_nodes" in factory.keywords
    return model.estimable and (sized or not model.identifies_nodes)


def check_trial(factory: Callable[[], nn.Module], model: Model, recipe: Recipe) -> None:
    """Raise where memory is limited, but cannot be estimated."""
    if recipe.memory is not None and not can_be_tried(factory, model):
        raise OptionError(
            f"memory={recipe.memory} cannot be kept: what {type(model.unwrapped).__name__} needs is unknown.",
            "Leave memory out.",
        )


def epoch_seconds(job: Job, graph: Graph, recompute: bool) -> float:
    """Estimate the seconds of an epoch with its evaluation, of one model alone.

    Graphs that are not small are replaced by two random graphs with as many edges per node, of a twentieth and a tenth
    of the nodes; time is taken to grow linearly.
    """
    edges_a_node = graph.edge_index.shape[1] / graph.num_nodes
    nodes = max(TRIAL_NODES, graph.num_nodes // 20)
    if graph.num_nodes <= 2 * nodes:
        return _trial_seconds(job, graph, graph.num_nodes, graph.edge_index.shape[1], recompute)
    small, large = (
        _trial_seconds(job, graph, number, int(number * edges_a_node), recompute) for number in (nodes, 2 * nodes)
    )
    return large + max(0.0, large - small) / nodes * (graph.num_nodes - 2 * nodes)


def _trial(job: Job, graph: Graph, nodes: int, edges: int, recompute: bool) -> int:
    """Return the peak memory of an epoch on a random graph of a size, with features of the same kind."""
    live = _LiveBytes()
    with _trial_epoch(job, graph, nodes, edges, recompute) as train_epoch, live:
        train_epoch()
    return live.peak


def _trial_seconds(job: Job, graph: Graph, nodes: int, edges: int, recompute: bool) -> float:
    """Return the seconds of an epoch on such a graph: the shortest of three, after one that is not timed."""
    with _trial_epoch(job, graph, nodes, edges, recompute) as train_epoch, allocation(frugal=recompute):
        train_epoch()
        return min(timeit.repeat(train_epoch, number=1, repeat=3))


@contextlib.contextmanager
def _trial_epoch(job: Job, graph: Graph, nodes: int, edges: int, recompute: bool) -> Iterator[Callable[[], None]]:
    """Yield a function that trains and evaluates a model for one epoch on a random graph of a size."""
    with _random_graph(graph, nodes, edges) as small, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        inputs = prepare(job.example, small.scale_features(job.recipe.features))
        part = torch.arange(nodes // 2)
        of_this_size: Any = job.factory
        if isinstance(job.factory, partial) and "num_nodes" in job.factory.keywords:
            of_this_size = partial(job.factory, num_nodes=nodes)
        share = len(job.train) / graph.num_nodes
        learned = torch.arange(max(nodes // 2, int(share * nodes)))
        replica = Replica.new(Run(0, 0, "trial", 0), job.recipe, of_this_size, (learned, part, part))
        set_recompute(replica.model, recompute)
        y = torch.from_numpy(small.y)

        def train_epoch() -> None:
            alone = Alone([replica], inputs, y)
            logits, losses = alone.forward()
            alone.step(losses, [True])
            del logits, losses
            logits = alone.evaluate().flatten(0, -3)  # several for models that leave a choice to validation
            validate(job.recipe.metric, logits, y, part.expand(len(logits), -1))

        yield train_epoch


@contextlib.contextmanager
def _random_graph(like: Graph, nodes: int, edges: int) -> Iterator[Graph]:
    rng = np.random.default_rng(0)
    x: Any
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(like.x, sparse.csr_array):
            density = like.x.nnz / max(1, like.x.shape[0] * like.x.shape[1])
            x = sparse.random_array((nodes, like.num_features), density=density, format="csr", rng=rng)
        else:
            x = rng.random((nodes, like.num_features), np.float32)
        if isinstance(like.x, FeaturesOnDisk):
            np.save(Path(folder) / "x.npy", x)
            x = np.load(Path(folder) / "x.npy", mmap_mode="r")
        y = rng.integers(like.num_classes, size=nodes)
        edge_index = rng.integers(nodes, size=(2, edges))
        yield Graph(x, edge_index, y, directed=like.directed, name="trial", class_names=like.class_names)


class _LiveBytes(TorchDispatchMode):
    """Adds up the tensors that are alive, and keeps the highest sum."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.live: dict[int, int] = {}
        self.sum = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self._note((args, kwargs), counted=False)  # what was there before
        result = func(*args, **(kwargs or {}))
        self._note(result, counted=True)
        return result

    def _note(self, tensors: Any, counted: bool) -> None:
        for tensor in tree_leaves(tensors):
            if isinstance(tensor, Tensor) and tensor.layout == torch.strided:
                storage = tensor.untyped_storage()
                address, size = storage.data_ptr(), storage.nbytes() if counted else 0
                if address not in self.live:
                    self.live[address] = size
                    self.sum += size
                    self.peak = max(self.peak, self.sum)
                    weakref.finalize(storage, self._forget, address)

    def _forget(self, address: int) -> None:
        self.sum -= self.live.pop(address, 0)
