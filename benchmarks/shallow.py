"""Seconds of models without gradient training: the table of neighbour features, and fits on public splits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import softmax

from benchmarks.peers import NotEqualError
from benchmarks.steps import THREADS, Effort
from benchmarks.timing import compare, quartiles, side_by_side, stopwatch, threads_in_use
from nlgnn.datasets import CATALOG, load_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.shallow import KernelClassifier, ShallowModel, Trees
from nlgnn.shallow.kernel_votes import kernel_by_number
from nlgnn.shallow.neighbour_table import Blocks, fill_table, make_plan, neighbour_table
from nlgnn.shallow.similarity import similarities_of
from nlgnn.shallow.trees import LARGEST_LEAF, PATIENCE

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
    for split in make_splits(graph, protocol_of(graph), rounds):
        yield partial(fit_and_predict, model, graph, split, CATALOG[graph.name].metric)


def protocol_of(graph: Graph) -> str:
    """Return the protocol of the public splits, or random splits for a graph without any."""
    return next(iter(CATALOG[graph.name].protocols), "random-60")


def fit_and_predict(model: Callable[[], ShallowModel], graph: Graph, split: Split, metric: str) -> None:
    """Fit a new model to a split and predict all nodes."""
    model().fit(graph, split, metric, split.index).predict(graph)


def cpu_seconds(work: Callable[[], object]) -> float:
    """Return the CPU seconds of a piece of work."""
    started = time.process_time()
    work()
    return time.process_time() - started


def lightgbm_alone(model: Trees, graph: Graph, split: Split, metric: str, seed: int) -> Float[np.ndarray, "n c"]:
    """Fit LightGBM with the parameters of a fitted `Trees` to its table, and predict all nodes."""
    import lightgbm

    is_binary = graph.num_classes == 2
    log_loss = "binary_logloss" if is_binary else "multi_logloss"
    train, val = (np.flatnonzero(part & graph.labelled) for part in (split.train, split.val))
    parameters = {
        "objective": "binary" if is_binary else "multiclass",
        "num_class": 1 if is_binary else graph.num_classes,
        "metric": "auc" if metric == "roc-auc" and is_binary else log_loss,
        "learning_rate": model.learning_rate,
        "num_leaves": model.num_leaves,
        "feature_fraction": model.column_share,
        "min_data_in_leaf": min(model.min_leaf, max(1, int(LARGEST_LEAF * len(train)))),
        "seed": seed,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": THREADS,
        "verbosity": -1,
    }
    x = model.row_reader(neighbour_table(graph, model.blocks), model.checked_fit(graph))(np.arange(graph.num_nodes))
    data = lightgbm.Dataset(x[train], graph.y[train], params=parameters)
    valid = lightgbm.Dataset(x[val], graph.y[val], reference=data)
    stopping = lightgbm.early_stopping(PATIENCE, verbose=False)
    booster = lightgbm.train(parameters, data, model.rounds, valid_sets=[valid], callbacks=[stopping])
    found = np.asarray(booster.predict(x, num_iteration=booster.best_iteration, num_threads=THREADS))
    return np.stack([1 - found, found], axis=1) if is_binary else found


def measure_trees(name: str, effort: Effort) -> dict[str, Any]:
    """Time `Trees` on a table that is there and LightGBM alone with the same parameters on the same table."""
    graph = load_graph(name, allow_unverified=True)
    dataset = CATALOG[graph.name]
    split = make_splits(graph, protocol_of(graph), 1)[0]
    model = Trees().fit(graph, split, dataset.metric, 0)
    assert isinstance(model, Trees)
    peer = partial(lightgbm_alone, model, graph, split, dataset.metric, 0)
    with threads_in_use(THREADS):
        if not np.allclose(model.predict(graph), peer(), atol=1e-6):
            raise NotEqualError("Trees and LightGBM alone predict other probabilities.", "Nothing was timed.")
        sides = {
            "ours": stopwatch(partial(fit_and_predict, Trees, graph, split, dataset.metric)),
            "LightGBM": stopwatch(peer),
        }
        times = side_by_side(sides, effort.rounds, effort.seconds)
        return compare(times, "a fit with prediction of all nodes; the table of neighbour features is there for both")


def kernel_ridge_alone(model: KernelClassifier, graph: Graph) -> Float[np.ndarray, "n c"]:
    """Solve for the votes of a fitted `KernelClassifier` with scikit-learn, and predict all nodes."""
    from sklearn.kernel_ridge import KernelRidge

    votes = model.votes
    compare = kernel_by_number(similarities_of(graph), votes.kernels, votes.anchors)
    targets = np.eye(graph.num_classes, dtype=np.float32)[graph.y[votes.anchors]] - votes.mean
    solved = KernelRidge(alpha=votes.ridge, kernel="precomputed").fit(compare(votes.anchors), targets)
    scores = solved.predict(compare(np.arange(graph.num_nodes))) + votes.mean
    return np.asarray(softmax(scores / votes.temperature, axis=1))


def measure_kernel(name: str, effort: Effort) -> dict[str, Any]:
    """Time `KernelClassifier`, which searches for kernels and a ridge, and scikit-learn with those that it chose."""
    graph = load_graph(name, allow_unverified=True)
    metric = CATALOG[graph.name].metric
    split = make_splits(graph, protocol_of(graph), 1)[0]
    model = KernelClassifier().fit(graph, split, metric, 0)
    peer = partial(kernel_ridge_alone, model, graph)
    with threads_in_use(THREADS):
        if not np.allclose(model.predict(graph), peer(), atol=1e-3):
            raise NotEqualError("KernelClassifier and KernelRidge predict other probabilities.", "Nothing was timed.")
        sides = {
            "ours, with search": stopwatch(partial(fit_and_predict, KernelClassifier, graph, split, metric)),
            "KernelRidge, no search": stopwatch(peer),
        }
        times = side_by_side(sides, effort.rounds, effort.seconds)
        return compare(times, "a fit with prediction of all nodes; similarities of nodes are there for both")
