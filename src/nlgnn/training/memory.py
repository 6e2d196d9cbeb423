"""Will it fit? What a training step needs: measured on small graphs of the same kind, carried on to the real size."""

from __future__ import annotations

import contextlib
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.on_disk import FeaturesOnDisk
from nlgnn.nn.inputs import prepare
from nlgnn.training.jobs import Job
from nlgnn.training.metrics import validate
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Replica
from nlgnn.training.replicas import Alone
from nlgnn.training.run import Run
from nlgnn.training.sizes import parse_size, show_size

TRIAL_NODES = 16_000  # so many that chunks of fixed size do not hide what grows
GENEROUS_BYTES_A_NODE, GENEROUS_BYTES_AN_EDGE = 60_000, 1000
SHARE_OF_FREE_MEMORY = 0.7  # estimates have been a quarter too low


class MemoryPlan(NamedTuple):
    """Whether the model has to compute in parts, and how many models at once stay within memory (None: any number)."""

    recompute: bool = False
    at_once: int | None = None


def memory_plan(job: Job, graph: Graph) -> MemoryPlan:
    """How to stay within memory; an error with the estimate where nothing helps.

    To be asked once the inputs are prepared: what the process holds by then is measured, the rest estimated.
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
    if any(hasattr(module, "recompute") for module in job.example.modules()):
        needed = step_bytes(job, graph, recompute=True)
        if resident + needed <= allowed:
            return MemoryPlan(recompute=True, at_once=1)
    given = "are allowed (memory)" if job.recipe.memory else "are free"
    to_disk = "" if isinstance(graph.x, FeaturesOnDisk) else "keep the features on disk (Graph takes a memory map), "
    raise NlgnnError(
        f"training {type(job.example).__name__} on graph {graph.name!r} would take about "
        f"{show_size(resident + needed)}, but {show_size(allowed)} {given}.",
        f"To need less, {to_disk}take fewer hidden channels or heads, or another model; or allow more.",
    )


def surely_fits(graph: Graph) -> bool:
    """Whether no model of usual size would fill this machine; also where nobody knows its size."""
    allowed = allowed_bytes(None)
    generous = GENEROUS_BYTES_A_NODE * graph.num_nodes + GENEROUS_BYTES_AN_EDGE * graph.edge_index.shape[1]
    return allowed is None or resident_bytes() + generous < allowed


def allowed_bytes(memory: str | None) -> int | None:
    """As much as the user says, else what this process has and most of what is free; None where nobody knows."""
    if memory is not None:
        return parse_size(memory)
    free = free_bytes()
    return None if free is None else resident_bytes() + int(SHARE_OF_FREE_MEMORY * free)


def step_bytes(job: Job, graph: Graph, recompute: bool) -> int:
    """What a training step and an evaluation need at their worst moment, beyond the graph and the prepared inputs.

    It grows with the nodes and with the edges; three small graphs tell how.
    """
    edges_a_node = graph.edge_index.shape[1] / graph.num_nodes
    nodes = max(TRIAL_NODES, int(8 * edges_a_node))
    edges = int(nodes * edges_a_node)
    base = _trial(job, graph, nodes, edges, recompute)
    for_node = (_trial(job, graph, 2 * nodes, edges, recompute) - base) / nodes
    for_edge = (_trial(job, graph, nodes, 2 * edges, recompute) - base) / edges if edges else 0.0
    return int(base + for_node * (graph.num_nodes - nodes) + for_edge * (graph.edge_index.shape[1] - edges))


def set_recompute(model: nn.Module, recompute: bool) -> None:
    for module in model.modules():
        if hasattr(module, "recompute"):
            setattr(module, "recompute", recompute)  # noqa: B010, a module may have it or not


def can_be_tried(factory: Callable[[], nn.Module], model: nn.Module) -> bool:
    """Whether the model works on a small random graph as it is, and prepares it quickly."""
    modules = list(model.modules())
    sized = isinstance(factory, partial) and "num_nodes" in factory.keywords
    return all(getattr(module, "estimable", True) for module in modules) and (
        sized or not any(getattr(module, "identifies_nodes", False) for module in modules)
    )


def check_trial(factory: Callable[[], nn.Module], model: nn.Module, recipe: Recipe) -> None:
    """Raise where memory is limited, but cannot be estimated."""
    if recipe.memory is not None and not can_be_tried(factory, model):
        raise OptionError(
            f"memory={recipe.memory} cannot be kept: what {type(model).__name__} needs is not known beforehand.",
            "Leave memory out.",
        )


def _trial(job: Job, graph: Graph, nodes: int, edges: int, recompute: bool) -> int:
    """The peak of one step on a random graph of that size, with features of the same kind."""
    with _random_graph(graph, nodes, edges) as small, torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        inputs = prepare(job.example, small.scale_features(job.recipe.features))
        part = torch.arange(nodes // 2)
        of_this_size: Any = job.factory
        if isinstance(job.factory, partial) and "num_nodes" in job.factory.keywords:
            of_this_size = partial(job.factory, num_nodes=nodes)
        # As large a share as the job has: where classes are to count alike, nodes come many times.
        learned = torch.arange(max(nodes // 2, nodes * len(job.train) // graph.num_nodes)) % nodes
        replica = Replica.new(Run(0, 0, "trial", 0), job.recipe, of_this_size, (learned, part, part))
        set_recompute(replica.model, recompute)
        y = torch.from_numpy(small.y)
        live = _LiveBytes()
        with live:
            alone = Alone([replica], inputs, y)
            logits, losses = alone.forward()
            alone.step(losses, [True])
            del logits, losses
            answers = alone.evaluate().flatten(0, -3)  # one, but of models that leave a choice to validation
            validate(job.recipe.metric, answers, y, part.expand(len(answers), -1))
        return live.peak


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


def resident_bytes() -> int:
    """What this process has in memory now; 0 where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def free_bytes() -> int | None:
    """What processes may still take without swapping, and within their container; None where nobody says."""
    free = []
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free += [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    with contextlib.suppress(OSError, ValueError):  # "max" is no number: no limit
        limit, taken = (int(Path(f"/sys/fs/cgroup/memory.{name}").read_text()) for name in ("max", "current"))
        free.append(limit - taken)
    return min(free, default=None)
