"""Roofline: the bytes and flops that kernels and whole steps need, compared with limits measured on the machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.deep import DROPOUT
from benchmarks.deep import HIDDEN as DEEP_HIDDEN
from benchmarks.steps import HIDDEN, THREADS, TURN, Problem, our_step
from benchmarks.timing import stopwatch, threads_in_use
from nlgnn.nn import GCN, NLGCN
from nlgnn.nn.base import prepare
from nlgnn.nn.inputs import Features
from nlgnn.nn.kernels.sparse import Operator, SparseProduct
from nlgnn.training.device import allocation

BYTES = 4  # of a float32 number and of an index
CACHE = 32 * 2**20  # a dense matrix that is larger is read once per stored entry
SQUARE = 2048  # rows of the product whose rate is the limit of flops
ROUNDS = 5


@dataclass(frozen=True)
class Kernel:
    """A product of a training step.

    Args:
        name: Words for it.
        work: Computes it once.
        flops: The additions and multiplications that it needs.
        bytes: What it has to read and write.
        calls: How often a step computes it.
    """

    name: str
    work: Callable[[], object]
    flops: int
    bytes: int
    calls: int


def dense_product(name: str, x: Tensor, weight: Tensor, calls: int) -> Kernel:
    """Return the kernel of a product of two dense matrices."""
    (n, d), f = x.shape, weight.shape[1]
    return Kernel(name, lambda: x @ weight, 2 * n * d * f, BYTES * (n * d + d * f + n * f), calls)


def sparse_product(name: str, operator: Operator, dense: Tensor, calls: int) -> Kernel:
    """Return the kernel of a product of a sparse and a dense matrix."""
    (n, _), f, entries = operator.shape, dense.shape[1], operator.num_entries
    gathered = entries * f if BYTES * dense.numel() > CACHE else dense.numel()
    needed = BYTES * (2 * entries + n + gathered + n * f)
    return Kernel(name, lambda: SparseProduct.forward(operator, dense), 2 * entries * f, needed, calls)


def feature_products(x: Features, width: int) -> list[Kernel]:
    """Return the product of features with the first weight, and that of their transpose with a gradient."""
    assert isinstance(x, Tensor | Operator)
    n, d = x.shape
    weight, gradient = torch.randn(d, width), torch.randn(n, width)
    forward, backward = "features × weight", "featuresᵀ × gradient"
    if isinstance(x, Operator):
        return [sparse_product(forward, x, weight, 1), sparse_product(backward, x.transpose, gradient, 1)]
    return [dense_product(forward, x, weight, 1), dense_product(backward, x.t(), gradient, 1)]


def nlgcn_kernels(problem: Problem, inputs: tuple[Any, ...]) -> list[Kernel]:
    """Return the products of a step of NLGCN with two layers."""
    x, adjacency = inputs
    classes = problem.widths[2]
    hidden, narrow = (torch.randn(x.shape[0], width) for width in (HIDDEN, classes))
    return [
        *feature_products(x, HIDDEN),
        sparse_product(f"adjacency × {HIDDEN} columns", adjacency, hidden, 2),
        sparse_product(f"adjacency × {classes} columns", adjacency, narrow, 2),
    ]


def deep_kernels(inputs: tuple[Any, ...], layers: int) -> list[Kernel]:
    """Return the products of a step of a deep residual GCN: each layer has two weights."""
    x, adjacency = inputs
    hidden, weight = torch.randn(x.shape[0], DEEP_HIDDEN), torch.randn(DEEP_HIDDEN, DEEP_HIDDEN)
    return [
        *feature_products(x, DEEP_HIDDEN),
        sparse_product(f"adjacency × {DEEP_HIDDEN} columns", adjacency, hidden, 2 * layers),
        dense_product("hidden × weight", hidden, weight, 4 * layers),
        dense_product("hiddenᵀ × gradient", hidden.t(), hidden, 2 * layers),
    ]


def measure_roofline(problem: Problem, deep_layers: int | None = None, threads: int = THREADS) -> dict[str, Any]:
    """Return one row per product of a training step, and one for the step itself.

    Args:
        problem: The graph.
        deep_layers: The number of layers of a deep residual GCN. None stands for NLGCN.
        threads: The number of threads.
    """
    model: nn.Module
    if deep_layers is None:
        model = NLGCN(*problem.widths)
    else:
        d, _, classes = problem.widths
        model = GCN(d, DEEP_HIDDEN, classes, num_layers=deep_layers, norm="batch", residual=True, dropout=DROPOUT)
    with threads_in_use(threads), allocation(frugal=False):
        inputs = prepare(model, problem.graph)
        kernels = nlgcn_kernels(problem, inputs) if deep_layers is None else deep_kernels(inputs, deep_layers)
        rate = flops_per_second()
        rows, needed = [], 0.0
        for kernel in kernels:
            limit = max(kernel.flops / rate, copy_seconds(kernel.bytes))
            rows.append(roof(kernel.name, kernel.calls, kernel.flops, kernel.bytes, seconds_of(kernel.work), limit))
            needed += kernel.calls * limit
        flops = sum(kernel.calls * kernel.flops for kernel in kernels)
        moved = sum(kernel.calls * kernel.bytes for kernel in kernels)
        rows.append(roof("the whole step", 1, flops, moved, seconds_of(our_step(problem, model, inputs)), needed))
    return {
        "roofs": rows,
        "rounds": ROUNDS,
        "threads": threads,
        "protocol": f"limit: the longer of flops at the rate of a product of {SQUARE} × {SQUARE} matrices and a copy "
        "of as many bytes, both measured in the same process; of a step, the sum over its products",
    }


def roof(name: str, calls: int, flops: int, moved: int, seconds: float, limit: float) -> dict[str, Any]:
    """Return a row with the share of the limit that is reached."""
    shares = {"seconds": seconds, "limit": limit, "share": limit / seconds}
    return {"what": name, "calls": calls, "flops": flops, "bytes": moved, **shares}


def seconds_of(work: Callable[[], object]) -> float:
    """Return the median time of some work, after a first time."""
    work()
    return median(stopwatch(work, TURN)() for _ in range(ROUNDS))


def flops_per_second() -> float:
    """Return the rate of a product of square matrices."""
    square = torch.rand(SQUARE, SQUARE)
    return 2 * SQUARE**3 / seconds_of(lambda: square @ square)


def copy_seconds(moved: int) -> float:
    """Return the time of a copy that reads and writes this number of bytes, half of them each."""
    source = torch.zeros(max(1, moved // 2 // BYTES))
    target = torch.empty_like(source)
    return seconds_of(lambda: target.copy_(source))
