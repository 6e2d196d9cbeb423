"""Training over several processes gives what one process gives, and ends cleanly if something goes wrong."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed as dist

from each_of import each_of
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.errors import DataError, NlgnnError, OptionError, RunFolderError
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.graph.part import GraphPart
from nlgnn.graph.splits import make_splits
from nlgnn.graph.store import GraphStore
from nlgnn.nn import MLP, NLGCN, GraphSAGE
from nlgnn.nn.kernels.ranks import RankError, Ranks, ranges_of_work, sharing
from nlgnn.training import processes
from nlgnn.training.fit import fit
from nlgnn.training.processes import (
    SharedRunFolder,
    check_agreement,
    check_model,
    check_size,
    everywhere,
    on_first,
    part_of_graph,
    part_of_store,
)
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, resume, train
from rank_processes import on_ranks


def two_classes() -> Graph:
    graph = planted_order_graph(10, seed=1)
    return replace(graph, y=np.minimum(graph.y, 1), class_names=("a", "b"), splits={})


GRAPHS = {"four classes": planted_order_graph(10, seed=1), "two classes": two_classes()}


def in_double(graph: Graph, **options: Any) -> Callable[[], NLGCN]:
    return lambda: NLGCN(graph.num_features, 8, graph.num_classes, dropout=0.5, kernel_size=5, **options).double()


def trained(graph: Graph, metric: str, epochs: int = 30) -> Run:
    recipe = Recipe(epochs=epochs, stopping="never", metric=metric, features="none", class_weight="balanced")
    return fit(in_double(graph), graph, make_splits(graph, "random-60", 1), recipe, progress=False)[0]


METRICS = [
    *(("four classes", metric) for metric in ("accuracy", "macro-f1", "log-loss")),
    *(("two classes", metric) for metric in ("f1", "roc-auc", "average-precision", "precision-at-5")),
]


def trained_in_ranks() -> list[Run]:
    found = []
    for name, metric in METRICS:
        part, ranks = part_of_graph(partial(GRAPHS.__getitem__, name))
        with sharing(ranks):
            found.append(trained(part, metric, 30 if metric == "accuracy" else 4))
    return found


@each_of("size", [2, 3])
def test_losses_and_metrics_of_30_epochs_with_dropout(size: int) -> None:
    parts = on_ranks(size, trained_in_ranks)
    for number, (name, metric) in enumerate(METRICS):
        whole = trained(GRAPHS[name], metric, 30 if metric == "accuracy" else 4)
        for run in (part[number] for part in parts):
            for curve, values in whole.curves.items():
                np.testing.assert_allclose(run.curves[curve], values, rtol=0, atol=1e-9)
            assert run.chosen_epoch == whole.chosen_epoch
            assert run.val == pytest.approx(whole.val, abs=1e-9)
            assert run.test == pytest.approx(whole.test, abs=1e-9)
            torch.testing.assert_close(run.validation, whole.validation)
            for weights, right in zip(run.state.values(), whole.state.values(), strict=True):
                torch.testing.assert_close(weights, right, rtol=0, atol=1e-9)


PLAN = Plan("planted-order", "nlgcn", runs=2, options={"epochs": 12, "stopping": "never", "dropout": 0.3})


def train_in_rank(path: Path, interrupt_at: int | None) -> None:
    """Train, or continue what is there; the last rank gets Ctrl-C in an epoch of the second run."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, shells let it be ignored
    part, ranks = part_of_graph(lambda: GRAPHS["four classes"])
    epochs = 0

    def watch(_: object) -> None:
        nonlocal epochs
        epochs += 1
        if epochs == interrupt_at and ranks.rank == ranks.size - 1:
            os.kill(os.getpid(), signal.SIGINT)

    with sharing(ranks):
        try:
            if path.exists():
                resume(SharedRunFolder.open(path), part, progress=False, watch=watch)
            else:
                train(PLAN, part, path, progress=False, watch=watch)
        except KeyboardInterrupt:
            assert interrupt_at is not None


def test_a_run_folder_and_its_continuation(tmp_path: Path) -> None:
    """Two processes are interrupted and three continue: figures and files are those of one process."""
    whole = train(PLAN, GRAPHS["four classes"], tmp_path / "whole", progress=False)
    on_ranks(2, train_in_rank, tmp_path / "parts", 17)
    assert (tmp_path / "parts" / "checkpoint.safetensors").exists()
    on_ranks(3, train_in_rank, tmp_path / "parts", None)
    folder = RunFolder.open(tmp_path / "parts")
    for run, right in zip(folder.finished_runs(), whole.runs, strict=True):
        assert run.test == pytest.approx(right.test, abs=1e-3)  # in single precision
        for curve, values in right.curves.items():
            np.testing.assert_allclose(run.curves[curve], values, rtol=1e-4)
    names = [sorted(file.name for file in (tmp_path / one).iterdir()) for one in ("whole", "parts")]
    assert names[0] == names[1]


def failures_in_rank(path: Path) -> list[str]:
    """Return what is raised by calls that fail in one rank, or in all."""

    def only(rank: int) -> None:
        if dist.get_rank() == rank:
            raise RunFolderError("The disk is full.", "Free some space.")

    def in_all() -> None:
        raise RunFolderError("The disk is full.", "Free some space.")

    def other_version() -> None:
        check_agreement({"graph": "a" if dist.get_rank() == 0 else "b"})

    def full_disk() -> None:
        folder = SharedRunFolder.create(path, {})
        folder.save_run(Run(0, 0, "random-60", 0, failure="none"))
        if dist.get_rank() == 0:
            path.rename(path.with_name("moved"))
        folder.save_run(Run(1, 0, "random-60", 0, failure="none"))

    found = []
    for call in (
        lambda: on_first(partial(only, 0)),
        lambda: everywhere(partial(only, 1)),
        lambda: everywhere(in_all),
        other_version,
        full_disk,
        lambda: check_size(1),
        lambda: check_model(MLP(2, 2, 2, label_input=0.5, num_nodes=3), "mlp"),
    ):
        try:
            call()  # type: ignore[no-untyped-call]
            found.append("")
        except NlgnnError as error:
            found.append(f"{type(error).__name__}: {error.what}" + " (own)" * error.of_process)
    return found


def test_failures_reach_all_processes(tmp_path: Path) -> None:
    first, second = on_ranks(2, failures_in_rank, tmp_path / "run")
    assert first[0] == second[0] == "RunFolderError: The disk is full."
    assert (first[1], second[1]) == (
        "RunFolderError: process 1: The disk is full.",
        "RunFolderError: The disk is full. (own)",
    )
    assert first[2:] == second[2:]
    assert [failure.partition(":")[0] for failure in first[2:]] == [
        *("RunFolderError", "OptionError", "RunFolderError", "OptionError", "OptionError")
    ]
    assert not any("(own)" in failure for failure in first[2:])
    assert "'b', not 'a'" in first[3]


def exchange_with_one_that(fails: str) -> str:
    ranks = Ranks([0, 1, 2, 3])
    if ranks.rank == 2:
        if fails == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(3)
    try:
        ranks.add(torch.ones(3))
        return ""
    except RankError as error:
        return error.what


def test_dead_and_hung_processes() -> None:
    """The others raise an error, at once or after a timeout, instead of waiting."""
    started = time.monotonic()
    dead = on_ranks(3, exchange_with_one_that, "dies", ends=False)
    assert time.monotonic() - started < 30
    hung = on_ranks(3, exchange_with_one_that, "hangs", seconds=1)
    assert [bool(words) for words in dead[:2]] == [bool(words) for words in hung[:2]] == [True, True]


def store_graph(directed: bool) -> Graph:
    rng = np.random.default_rng(3)
    ends, weights = rng.integers(50, size=(2, 120)), rng.random(120)  # with loops and repeated edges
    x, y = rng.random((50, 4)), rng.integers(3, size=50)
    return Graph(x, ends, y, directed, "g", tuple("abc"), edge_weight=weights, row_norm=2.0 if directed else None)


def parts_of_stores(folder: Path) -> list[list[Any]]:
    found = []
    for directed in (True, False):
        part, ranks = part_of_store(GraphStore.open(folder / str(directed)), "g")
        same = GraphPart.of(store_graph(directed), ranks.first, ranks.stop)
        for name in ("undirected_weights", "directed_weights"):
            if directed or name == "undirected_weights":
                assert abs(getattr(part, name) - getattr(same, name)).max() < 1e-6
        assert np.array_equal(part.x, same.x)
        assert np.array_equal(part.y, same.y)
        processes.IN_MEMORY_BYTES = 0  # type: ignore[attr-defined]
        on_disk, _ = part_of_store(GraphStore.open(folder / str(directed)), "g")
        assert isinstance(on_disk.x, FeaturesOnDisk)
        assert np.array_equal(np.concatenate([rows.copy() for _, rows in on_disk.x.chunks()]), same.x)
        processes.IN_MEMORY_BYTES = 1 << 30  # type: ignore[attr-defined]
        found.append([part.fingerprint, part.num_features, part.class_names, ranks.num_own])
    return found


def test_parts_of_a_store(tmp_path: Path) -> None:
    for directed in (True, False):
        GraphStore.write(store_graph(directed), tmp_path / str(directed))
    parts = on_ranks(3, parts_of_stores, tmp_path)
    assert parts[0][0][:3] == parts[2][0][:3]
    for place, directed in enumerate((True, False)):
        whole = GraphStore.open(tmp_path / str(directed)).to_graph()
        assert parts[0][place][0] == whole.fingerprint
        assert sum(part[place][3] for part in parts) == 50


def test_refused_models() -> None:
    for model in (MLP(2, 2, 2), GraphSAGE(2, 2, 2, norm="batch"), NLGCN(2, 2, 2, order="random")):
        check_model(model, "a model")
    learned = NLGCN(2, 2, 2, order="learned", num_nodes=5)
    for refused in (learned, torch.nn.Linear(2, 2), None):
        with pytest.raises(OptionError, match="take mlp, gcn"):
            check_model(refused, "a model")


def test_what_a_part_does_not_hold() -> None:
    graph = store_graph(directed=True)
    typed = replace(graph, edge_type=np.arange(graph.edge_index.shape[1]) % 2, edge_types=("a", "b"))
    later = replace(graph, later_edges=np.arange(graph.edge_index.shape[1]) > 100)
    for other, words in ((typed, "types of edges"), (later, "edges of the test period")):
        with pytest.raises(DataError, match=words):
            GraphPart.of(other, 0, 10)


def test_ranges_of_a_part() -> None:
    graph = GRAPHS["four classes"]
    limits = ranges_of_work(graph.undirected_adjacency.indptr, 3)
    parts = [GraphPart.of(graph, first, stop) for first, stop in pairwise(limits)]
    assert sum(part.undirected_weights.nnz for part in parts) == graph.undirected_weights.nnz
    assert np.array_equal(np.concatenate([part.x for part in parts]), graph.x)
    assert {part.fingerprint for part in parts} == {graph.fingerprint}
    assert processes.is_rank() is False
