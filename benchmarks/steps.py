"""Training steps on one split of a graph, on one thread."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.peers import PlainGAT, Variant, check_equal, variants
from benchmarks.plain_nlgcn import PlainNLGCN
from benchmarks.timing import LARGE_GRAPH_THREADS, compare, paired_ratio, side_by_side, stopwatch, threads_in_use
from nlgnn.datasets import load_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.models.registry import SYSTEMS, get_system
from nlgnn.nn import GAT, GCN, NLGCN
from nlgnn.nn.base import as_model, prepare
from nlgnn.training.device import allocation, stored_entries
from nlgnn.training.loop import Objective
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Adam

THREADS = 1
HIDDEN, HEADS, LR, WEIGHT_DECAY = 48, 8, 0.01, 5e-4
SYSTEMS_SECONDS = 4  # times as long as a case of two or three sides
TURN = 0.05  # seconds: as in training, most steps then find their own data in the cache, not another side's
A_STEP = f"training steps (forward, loss, backward, Adam), no dropout, for at least {TURN:g} s per turn"


@dataclass(frozen=True)
class Effort:
    """The amount of measuring.

    Args:
        rounds: The largest number of rounds of single steps.
        seconds: The time after which no round of single steps begins.
        splits: The number of splits.
        epochs: The number of epochs of each training.
        whole_rounds: The number of rounds in which all splits are trained to the end.
        peer_seconds: The seconds of each peer in each of those rounds.
        sampled: One of this many settings of a search is trained alone in each round.
        compiled: Whether peers are also timed compiled, which takes half a minute each before the first round.
    """

    rounds: int = 200
    seconds: float = 15.0
    splits: int = 10
    epochs: int = 200
    whole_rounds: int = 2
    peer_seconds: float = 6.0
    sampled: int = 6
    compiled: bool = True


QUICK = Effort(rounds=5, seconds=1, splits=2, epochs=5, whole_rounds=2, peer_seconds=0.1, sampled=18, compiled=False)
SHORT = Effort(rounds=20, seconds=6, whole_rounds=1, peer_seconds=2, sampled=36, compiled=False)


@dataclass(frozen=True)
class Problem:
    """A graph with scaled features, and the training nodes of one split."""

    graph: Graph
    y: Tensor
    train: Tensor

    @classmethod
    def of(cls, graph: Graph) -> Problem:
        split = make_splits(graph, "random-60", 1)[0]
        return cls(graph, torch.tensor(graph.y), torch.from_numpy(split.train.nonzero()[0]))

    @classmethod
    def named(cls, name: str) -> Problem:
        return cls.of(load_graph(name).scale_features("unit-sum"))

    @property
    def widths(self) -> tuple[int, int, int]:
        return self.graph.num_features, HIDDEN, self.graph.num_classes


def our_step(problem: Problem, model: nn.Module, inputs: tuple[Any, ...]) -> Callable[[], None]:
    """Return a training step of our model, as `fit` does it."""
    objective, adam = Objective(as_model(model)).train(), Adam(model, Recipe(lr=LR, weight_decay=WEIGHT_DECAY))

    def step() -> None:
        _, loss = objective(inputs, problem.y, problem.train)
        adam.step(torch.autograd.grad(loss, adam.parameters, allow_unused=True))

    return step


def peer_step(peer: nn.Module, inputs: tuple[Any, ...], y: Tensor, nodes: Tensor) -> Callable[[], None]:
    """Return a training step of the peer, with the fused Adam of torch."""
    optimizer = torch.optim.Adam(peer.parameters(), lr=LR, weight_decay=WEIGHT_DECAY, fused=True)

    def step() -> None:
        peer.train()
        loss = F.cross_entropy(peer(*inputs)[nodes], y[nodes])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measure_nlgcn(name: str, effort: Effort) -> dict[str, Any]:
    problem = Problem.named(name)
    return against_peer(problem, NLGCN(*problem.widths), lambda: PlainNLGCN(*problem.widths), effort)


def measure_gat(name: str, effort: Effort) -> dict[str, Any]:
    problem = Problem.named(name)
    ours = GAT(*problem.widths, heads=HEADS)
    return against_peer(problem, ours, lambda: PlainGAT(*problem.widths, heads=HEADS), effort)


def against_peer(
    problem: Problem,
    ours: nn.Module,
    make_peer: Callable[[], Any],
    effort: Effort,
    forms: list[Variant] | None = None,
    protocol: str = A_STEP,
) -> dict[str, Any]:
    """Time a step of ours and of the peer in all of its forms, after checking each to be equal to ours."""
    with threads_in_use(THREADS), allocation(frugal=False):  # as in training, for all sides
        sides = {"ours": stopwatch(our_step(problem, ours, prepare(ours, problem.graph)), TURN)}
        for form in variants(effort.compiled) if forms is None else forms:
            check_equal(ours, make_peer(), problem.graph, problem.train, form.inputs)
            step = peer_step(form.ready(make_peer()), form.inputs(problem.graph), problem.y, problem.train)
            sides[form.label] = stopwatch(step, TURN)
        times = side_by_side(sides, effort.rounds, effort.seconds)
        return compare(times, f"{protocol}; all Adams are fused")


def measure_overhead(name: str, effort: Effort) -> dict[str, Any]:
    with threads_in_use(THREADS):
        return nlgcn_and_gcn(Problem.named(name), effort.rounds, effort.seconds)


def nlgcn_and_gcn(problem: Problem, rounds: int, seconds: float) -> dict[str, Any]:
    """Time NLGCN and GCN on the same prepared inputs; the ratio is NLGCN to GCN."""
    models = {"NLGCN": NLGCN(*problem.widths), "GCN": GCN(*problem.widths)}
    inputs = prepare(models["GCN"], problem.graph)
    sides = {label: stopwatch(our_step(problem, model, inputs), TURN) for label, model in models.items()}
    times = side_by_side(sides, rounds, seconds)
    result = compare(times, f"{A_STEP}; ratio: NLGCN to GCN")
    return {**result, "ratios": {"GCN": paired_ratio(times["NLGCN"], times["GCN"])._asdict()}}


def measure_threads(make: Callable[[], Problem], effort: Effort) -> dict[str, Any]:
    """Time a step on one thread and on more. `threads="auto"` is based on these times."""
    problem = make()
    model = NLGCN(*problem.widths)
    step = our_step(problem, model, prepare(model, problem.graph))

    def on(threads: int) -> None:
        torch.set_num_threads(threads)
        step()

    with threads_in_use(THREADS):
        numbers = (LARGE_GRAPH_THREADS, THREADS)
        sides = {f"on {threads}": stopwatch(partial(on, threads), TURN) for threads in numbers}
        times = side_by_side(sides, effort.rounds, effort.seconds)
        result = compare(times, f"{A_STEP}, on {LARGE_GRAPH_THREADS} threads and on {THREADS}")
        return {**result, "threads": LARGE_GRAPH_THREADS, "stored entries": stored_entries(problem.graph)}


def measure_systems(name: str, effort: Effort) -> dict[str, Any]:
    """Time a training step of every system compared with GCN, and separately the preparation of the graph."""
    problem = Problem.named(name)
    sides, prepared = {}, {}
    names = sorted(SYSTEMS, key=lambda system: system != "gcn")  # first the one that others are compared with
    with threads_in_use(THREADS), allocation(frugal=False):  # as in training
        for system in names:
            if get_system(system).local is None:
                model = configure(system, problem.graph, preset="paper", hidden=HIDDEN)[0]()
                started = time.perf_counter()
                inputs = prepare(model, problem.graph)
                prepared[system] = time.perf_counter() - started
                sides[system] = stopwatch(our_step(problem, model, inputs), TURN)
        times = side_by_side(sides, effort.rounds, SYSTEMS_SECONDS * effort.seconds)
        protocol = f"training steps, hidden {HIDDEN}, else with each system's own defaults, dropout among them"
        return {**compare(times, protocol), "prepared once": prepared}
