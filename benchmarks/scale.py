"""Seconds per epoch and peak memory on graphs of growing size, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.steps import A_STEP, HEADS, HIDDEN, TURN, Problem, nlgcn_and_gcn, our_step
from benchmarks.timing import (
    GIB,
    LARGE_GRAPH_THREADS,
    compare,
    paired_ratio,
    peak_memory,
    quartiles,
    side_by_side,
    stopwatch,
    threads_in_use,
)
from nlgnn.cli.main import SHORT_SPIN
from nlgnn.datasets.synthetic import patents_like_graph
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.nn import GCN, NLGAT, NLGCN, NLMLP, GlobalAttention, NonLocal
from nlgnn.nn.base import Model, as_model, prepare
from nlgnn.shallow import KernelClassifier, ShallowModel, Trees
from nlgnn.training.device import allocation
from nlgnn.training.fit import fit
from nlgnn.training.recipe import Recipe

# snap-patents
NODES, EDGES, FEATURES, CLASSES = 2_923_922, 13_975_788, 269, 5
WARM_UP = 1
LEARNED, STRUCTURE = "NLGCN, learned order", "NLGCN, order by structure"
DEEP = "GCN, deep"
# Links are sketched in 4,096 columns. Means over neighbours would need as much memory as the features.
SKETCHED: dict[str, Any] = {
    "space_input": "structure",
    "space_descriptions": "links+degrees",
    "space_trained": "weights",
}


def attention_gcn(in_channels: int, hidden_channels: int, out_channels: int) -> NonLocal:
    """Return a GCN with attention over all pairs of nodes in place of the sorted order."""
    local = GCN(in_channels, hidden_channels, out_channels)
    return NonLocal(local, out_channels, out_channels, mixer=GlobalAttention())


SYSTEMS: dict[str, Callable[..., nn.Module]] = {
    "NLGCN": NLGCN,
    "NLMLP": NLMLP,
    "GCN": GCN,
    "NLGAT": partial(NLGAT, heads=HEADS),
    "O(n²) attention": attention_gcn,
    LEARNED: partial(NLGCN, order="learned"),
    STRUCTURE: partial(NLGCN, order="learned", **SKETCHED),
    DEEP: partial(GCN, num_layers=8, norm="batch", residual=True),
}
SHALLOW: dict[str, Callable[[], ShallowModel]] = {
    "trees": Trees,
    "kernel": KernelClassifier,
}


@dataclass(frozen=True)
class Job:
    """One training of a large graph, or single steps of two models in turn for BOTH and BY_STRUCTURE."""

    system: str
    nodes: int
    epochs: int
    on_disk: bool = False


# How threads of libgomp wait: with the first, as those of the command nlgnn do.
POLICIES = {"short spin": {"GOMP_SPINCOUNT": SHORT_SPIN}, "default": {}, "passive": {"OMP_WAIT_POLICY": "passive"}}
BOTH, BY_STRUCTURE = "NLGCN and GCN", "order by structure and NLGCN"


def measure(job: Job, variables: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a job in a process of its own, so that its peak memory is measured alone.

    Args:
        job: The job.
        variables: Environment variables to set, some of which are read at the start of a process only.
    """
    command = [sys.executable, "-m", "benchmarks.scale", json.dumps(asdict(job))]
    env = os.environ | (variables or {})
    done = subprocess.run(command, cwd=Path(__file__).parents[1], env=env, capture_output=True, text=True)
    if done.returncode:
        last_lines = " ".join(done.stderr.strip().splitlines()[-2:])
        raise NlgnnError(
            f"{job.system} on {job.nodes:,} nodes ended with code {done.returncode}. {last_lines}".rstrip(),
            "Code -9 usually means that it took too much memory.",
        )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_policies(job: Job, rounds: int) -> dict[str, Any]:
    """Time an epoch on threads that wait for each other in several ways, in processes that take turns."""
    sides = {name: partial(_median_seconds, job, variables) for name, variables in POLICIES.items()}
    times = side_by_side(sides, rounds, warm_up=0)
    result = compare(times, f"medians of {job.epochs} epochs in each of several processes; threads that wait in several ways")
    return {**result, "threads": LARGE_GRAPH_THREADS}


def _median_seconds(job: Job, variables: Mapping[str, str]) -> float:
    median: float = measure(job, variables)["seconds"]["ours"]["median"]
    return median


def work(job: Job) -> dict[str, Any]:
    """Generate the graph, train, and return times and memory."""
    with tempfile.TemporaryDirectory() as folder, threads_in_use(LARGE_GRAPH_THREADS):
        graph = large_graph(job, Path(folder))
        made = peak_memory()
        if job.system == BOTH:
            with allocation(frugal=False):  # as fit does
                result = nlgcn_and_gcn(Problem.of(graph), job.epochs, np.inf)
        elif job.system == BY_STRUCTURE:
            with allocation(frugal=False):
                result = structure_and_nlgcn(Problem.of(graph), job.epochs)
        elif job.system in SHALLOW:
            result = fit_once(job, graph)
        else:
            result = train(job, graph)
        return {
            **result,
            "nodes": job.nodes,
            "peak GiB": round(peak_memory() / GIB, 2),
            "peak GiB once the graph was made": round(made / GIB, 2),
            "threads": torch.get_num_threads(),
        }


def structure_and_nlgcn(problem: Problem, rounds: int) -> dict[str, Any]:
    """Time NLGCN with its order by structure and with that by score; the ratio is the first to the second."""
    structured: Any = SYSTEMS[STRUCTURE](*problem.widths, num_nodes=problem.graph.num_nodes)
    inputs = prepare(structured, problem.graph)  # those of NLGCN, then the descriptions
    structured.start(inputs, torch.full_like(problem.y, -1).index_put((problem.train,), problem.y[problem.train]))
    sides = {
        STRUCTURE: stopwatch(our_step(problem, structured, inputs), TURN),
        "NLGCN": stopwatch(our_step(problem, NLGCN(*problem.widths), inputs[:-1]), TURN),
    }
    times = side_by_side(sides, rounds, np.inf)
    result = compare(times, f"{A_STEP}; ratio: order by structure to order by score")
    return {**result, "ratios": {"NLGCN": paired_ratio(times[STRUCTURE], times["NLGCN"])._asdict()}}


def large_graph(job: Job, folder: Path) -> Graph:
    return patents_like_graph(
        num_nodes=job.nodes,
        num_edges=round(job.nodes * EDGES / NODES),
        num_features=FEATURES,
        num_classes=CLASSES,
        seed=0,
        features_path=folder / "features.npy" if job.on_disk else None,
    )


def made_problem(nodes: int) -> Problem:
    return Problem.of(large_graph(Job(BOTH, nodes, 0), Path()))


def train(job: Job, graph: Graph) -> dict[str, Any]:
    """Return the seconds of every epoch but the first: training step and evaluation by `fit`."""
    stamps: list[float] = []

    nodes = {"num_nodes": graph.num_nodes} if job.system in (LEARNED, STRUCTURE) else {}

    def factory() -> nn.Module:
        return stamped(SYSTEMS[job.system](graph.num_features, HIDDEN, graph.num_classes, **nodes), stamps)

    epochs = WARM_UP + job.epochs + 1
    recipe = Recipe(features="none", epochs=epochs, stopping="never", threads=LARGE_GRAPH_THREADS, device="cpu")
    fit(factory, graph, make_splits(graph, "random-60", 1), recipe, progress=False)
    # The last ones, because the estimate of memory computes a few losses first.
    seconds = np.diff(stamps[-epochs:])[WARM_UP:].tolist()
    return {
        "system": job.system,
        "on disk": job.on_disk,
        "seconds": {"ours": quartiles(seconds)._asdict()},
        "rounds": len(seconds),
        "protocol": "seconds per epoch (training step and evaluation, in fit), one split; "
        f"hidden {HIDDEN}, f = {CLASSES}; peak memory of the whole process, that of generating the graph included",
    }


def fit_once(job: Job, graph: Graph) -> dict[str, Any]:
    """Return the seconds of a whole fit of a model without gradient training, with its table and all predictions."""
    split = make_splits(graph, "random-60", 1)[0]
    seconds = [stopwatch(lambda: SHALLOW[job.system]().fit(graph, split).predict(graph))()]
    return {
        "system": job.system,
        "on disk": False,
        "seconds": {"ours": quartiles(seconds)._asdict()},
        "rounds": len(seconds),
        "protocol": "seconds of one fit, with what is computed once per graph, and of the prediction of all nodes; "
        "peak memory of the whole process, that of generating the graph included",
    }


def stamped(module: nn.Module, stamps: list[float]) -> Model:
    """Return the model, changed to record the time whenever its training loss is computed."""
    model = as_model(module)
    loss = model.loss

    def noting(output: Any, y: Tensor, nodes: Tensor) -> Tensor:
        stamps.append(time.perf_counter())
        return loss(output, y, nodes)

    model.loss = noting  # type: ignore[method-assign]
    return model


if __name__ == "__main__":
    sys.stdout.write(json.dumps(work(Job(**json.loads(sys.argv[1])))) + "\n")
