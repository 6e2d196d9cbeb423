"""Seconds of models without gradient training: the table of neighbour features, and fits on public splits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean
from typing import Any

from benchmarks.steps import THREADS
from benchmarks.timing import quartiles, threads_in_use
from nlgnn.datasets import CATALOG, load_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.shallow import KernelClassifier, ShallowModel, Trees
from nlgnn.shallow.neighbour_table import Blocks, fill_table, make_plan

TABLE, TREES, KERNEL = "table of neighbour features", "trees, one split", "kernel, one split"
MODELS: dict[str, Callable[[], ShallowModel]] = {TREES: Trees, KERNEL: KernelClassifier}


def measure_shallow(name: str, what: str, rounds: int) -> dict[str, Any]:
    """Return the CPU seconds of making a table several times, or of fitting a model to several splits."""
    graph = load_graph(name, allow_unverified=True)
    with threads_in_use(THREADS):
        works = [partial(make_table, graph)] * rounds if what == TABLE else fits(graph, MODELS[what], rounds)
        seconds = [cpu_seconds(work) for work in works]
    return {
        "seconds": {"ours": quartiles(seconds)._asdict()},
        "means": {"ours": fmean(seconds)},
        "rounds": rounds,
        "threads": THREADS,
        "protocol": "CPU seconds; a fit with prediction, the first with all that is computed once per graph",
    }


def make_table(graph: Graph) -> None:
    """Make the table with spectral coordinates, without those that were made before."""
    blocks = Blocks(spectral=True)
    fill_table(graph, blocks, make_plan(graph, blocks))


def fits(graph: Graph, model: Callable[[], ShallowModel], rounds: int) -> Iterable[Callable[[], object]]:
    """Yield a function per public split that fits a new model and predicts."""
    dataset = CATALOG[graph.name]
    for split in make_splits(graph, dataset.protocols[0], rounds):
        yield partial(fit_and_predict, model, graph, split, dataset.metric)


def fit_and_predict(model: Callable[[], ShallowModel], graph: Graph, split: Split, metric: str) -> None:
    """Fit a new model to a split and predict all nodes."""
    model().fit(graph, split, metric, split.index).predict(graph)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a piece of work."""
    started = time.process_time()
    work()
    return time.process_time() - started
