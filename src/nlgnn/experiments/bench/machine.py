"""What the figures were measured on: versions, processor, and how fast it copies and multiplies."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

import torch

from nlgnn import __version__
from nlgnn.experiments.bench.timing import quartiles, stopwatch, threads_in_use
from nlgnn.training.machine import CORES, processor, text_of

GIB = 1024**3
LARGE_GRAPH_THREADS = min(2, CORES)


def environment() -> dict[str, Any]:
    """Stands in every result."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": CORES,
        "load": round(os.getloadavg()[0], 2)
        if hasattr(os, "getloadavg")
        else None,  # of the minute before: what else the machine was doing
        "versions": {
            "nlgnn": __version__,
            "torch": torch.__version__,
            "torch_geometric": next((d.version for d in metadata.distributions(name="torch_geometric")), None),
            "python": platform.python_version(),
        },
    }


def peak_memory() -> int:
    """Bytes that this process has held at most. Linux counts the parent's into `ru_maxrss` of a child."""
    found = re.search(r"VmHWM:\s*(\d+) kB", text_of("/proc/self/status"))
    if found:
        return int(found[1]) * 1024
    import resource  # not on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def measure_machine(threads: int, megabytes: int, width: int, repetitions: int) -> dict[str, Any]:
    """Memory bandwidth as STREAM measures it, and the rate of float32 matrix products.

    Args:
        megabytes: of one array; far more than the cache holds.
        width: of the square matrices.
    """
    count = megabytes * 2**20 // 4
    a, b, c = torch.zeros(count), torch.ones(count), torch.ones(count)
    square = torch.rand(width, width)
    tall, narrow = torch.rand(count // 1024, 256), torch.rand(256, 48)  # as a first layer of dense features
    works: dict[str, tuple[Callable[[], object], int, str]] = {
        "copy": (lambda: a.copy_(b), 2 * 4 * count, "GB/s"),
        "triad": (lambda: torch.add(b, c, alpha=3.0, out=a), 3 * 4 * count, "GB/s"),
        "square product": (lambda: square @ square, 2 * width**3, "GFLOP/s"),
        "tall product": (lambda: tall @ narrow, 2 * tall.numel() * 48, "GFLOP/s"),
    }
    rates = {}
    with threads_in_use(threads):
        for name, (work, amount, unit) in works.items():
            work()
            times = [stopwatch(work)() for _ in range(repetitions)]
            rates[f"{name}, {unit}"] = round(amount / quartiles(times).median / 1e9, 2)
    return {
        "rates": rates,
        "threads": threads,
        "protocol": f"Medians of {repetitions}; arrays of {megabytes} MiB, square matrices of {width} rows, "
        f"a tall one of {len(tall)} × 256 times 256 × 48; float32",
    }
