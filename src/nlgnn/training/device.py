"""Device, processor, threads, memory allocation and Ctrl-C. None of them changes a result."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Literal, TypeVar

import torch
from scipy import sparse

from nlgnn import __version__
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # of malloc.h
AnyModel = TypeVar("AnyModel")
# Below this many stored entries (edges and feature values) a second thread costs more time than it saves.
SMALL_GRAPH = 5_000_000


def processor() -> str:
    """Return the name of the processor."""
    found = re.search(r"model name\s*: (.*)", text_of("/proc/cpuinfo"))
    return found[1] if found else platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions that decide figures."""
    return {"nlgnn": __version__, "torch": torch.__version__, "python": platform.python_version()}


def text_of(path: str) -> str:
    """Return the content of a file, or an empty text if it does not exist."""
    try:
        return Path(path).read_text("utf-8", "replace")
    except OSError:
        return ""


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU if there is one.

    Raises:
        OptionError: If the device cannot be used.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise OptionError(f"device {name!r} is neither a CPU nor a CUDA GPU.", "Use --device cpu, cuda or auto.")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except Exception as error:  # torch raises many types of errors here
        raise OptionError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}", "Use --device cpu or auto."
        ) from None
    return device


def device_at_hand(name: str) -> torch.device:
    """Return the device of a name, or another one if a GPU is missing: predictions do not depend on it."""
    try:
        return choose_device(name)
    except OptionError:
        if not name.startswith("cuda"):
            raise
        return choose_device("auto")


def stored_entries(graph: Graph) -> int:
    """Return the number of feature values and edges, which a training step reads."""
    values: int = graph.x.nnz if isinstance(graph.x, sparse.csr_array) else graph.x.size
    edges: int = graph.edge_index.shape[1]
    return values + edges


@contextlib.contextmanager
def limited_threads(threads: int | Literal["auto"], graph: Graph) -> Iterator[int]:
    """Limit the number of CPU threads within the context, and yield the number before.

    `auto` uses one thread for small graphs. Trainings of many epochs measure instead (`threads.fastest_threads`).
    """
    before = torch.get_num_threads()
    if threads == "auto":
        threads = 1 if stored_entries(graph) < SMALL_GRAPH else before
    torch.set_num_threads(threads)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def allocation(frugal: bool) -> Iterator[None]:
    """Decide what happens to freed arrays within the context, on systems with glibc.

    By default glibc returns arrays above 32 MiB to the system, and obtaining the pages of such an array again took
    eight times as long as filling it; smaller arrays stay in a heap that fragments to twice its size.

    Args:
        frugal: If True, freed arrays are returned to the system at once; else they are kept for the next step, which is
            faster.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(M_MMAP_THRESHOLD, 2**20 if frugal else 2**30)
    libc.mallopt(M_TRIM_THRESHOLD, 2**21 if frugal else 2**31 - 1)
    try:
        yield
    finally:  # the values of glibc after some large arrays; the previous ones cannot be read
        libc.mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
        libc.mallopt(M_TRIM_THRESHOLD, 64 * 2**20)
        libc.malloc_trim(0)


def model_like(factory: Callable[[], AnyModel]) -> AnyModel:
    """Return a model for its shapes, without changing the state of the global random numbers."""
    with torch.random.fork_rng(devices=[]):
        return factory()


class Interrupt:
    """Turns the first Ctrl-C (or SIGTERM, or SIGHUP of a closed terminal) into a request.

    Training answers it at the end of an epoch. A second one interrupts at once.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # other threads cannot catch signals
            for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
                if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
                    self._before.setdefault(number, signal.getsignal(number))
                    signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
