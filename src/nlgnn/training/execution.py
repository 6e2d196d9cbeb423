"""Where and how training runs: device, threads, random numbers, and Ctrl-C. None of it changes a result."""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Literal

import torch
from scipy import sparse
from torch import Tensor, nn

from nlgnn.errors import OptionError, RunFolderError
from nlgnn.graph.graph import Graph

M_MMAP_THRESHOLD, M_TRIM_THRESHOLD = -3, -1  # of malloc.h
# Below this many multiplied entries (edges and feature values) a second thread costs more than it brings.
SMALL_GRAPH = 5_000_000


def choose_device(name: str) -> torch.device:
    """The device of that name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except Exception as error:  # torch raises many kinds of errors here, all of which mean the same
        raise OptionError(
            f"device {name!r} cannot be used: {str(error).splitlines()[0]}", "Use --device cpu or auto."
        ) from None
    if device.type not in ("cpu", "cuda"):
        raise OptionError(f"device {name!r} is neither a CPU nor a CUDA GPU.", "Use --device cpu, cuda or auto.")
    return device


def device_at_hand(name: str) -> torch.device:
    """The device that a model was trained on, or what there is where that is missing: it has no say in predictions."""
    try:
        return choose_device(name)
    except OptionError:
        if not name.startswith("cuda"):
            raise
        return choose_device("auto")


def stored_entries(graph: Graph) -> int:
    """Feature values and edges: what a step goes over."""
    values: int = graph.x.nnz if isinstance(graph.x, sparse.csr_array) else graph.x.size
    edges: int = graph.edge_index.shape[1]
    return values + edges


@contextlib.contextmanager
def limited_threads(threads: int | Literal["auto"], graph: Graph) -> Iterator[None]:
    """Use so many CPU threads, and as many as before afterwards."""
    before = torch.get_num_threads()
    if threads == "auto":
        threads = 1 if stored_entries(graph) < SMALL_GRAPH else before
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def allocation(frugal: bool) -> Iterator[None]:
    """Whether freed arrays go back to the system at once, or are kept for the next step, which is faster.

    By itself glibc gives back arrays above 32 MiB, and getting the pages of such an array again took eight times as
    long as filling it; smaller ones it keeps, in a heap that fragments to twice its size. Elsewhere nothing changes.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is None or not hasattr(libc, "mallopt"):
        yield
        return
    libc.mallopt(M_MMAP_THRESHOLD, 2**20 if frugal else 2**30)
    libc.mallopt(M_TRIM_THRESHOLD, 2**21 if frugal else 2**31 - 1)
    try:
        yield
    finally:  # as glibc has it after some large arrays; what it had before cannot be asked
        libc.mallopt(M_MMAP_THRESHOLD, 32 * 2**20)
        libc.mallopt(M_TRIM_THRESHOLD, 64 * 2**20)
        libc.malloc_trim(0)


def model_like(factory: Callable[[], nn.Module]) -> nn.Module:
    """A model for its shapes alone: its weights are not drawn from the caller's random numbers."""
    with torch.random.fork_rng(devices=[]):
        return factory()


def random_state(device: torch.device) -> Tensor:
    """The state of the generator that draws dropout on this device."""
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


def set_random_state(state: Tensor, device: torch.device) -> None:
    with _same_kind_of_device(device):
        if device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        else:
            torch.set_rng_state(state)


def generator_from(state: Tensor, device: torch.device) -> torch.Generator:
    """A source of its own, which goes on from a state."""
    generator = torch.Generator(device)
    with _same_kind_of_device(device):
        generator.set_state(state)
    return generator


@contextlib.contextmanager
def _same_kind_of_device(device: torch.device) -> Iterator[None]:
    try:
        yield
    except RuntimeError:
        raise RunFolderError(
            f"the interrupted run was on another kind of device than {device}.", "Go on with it where it was begun."
        ) from None


class Interrupt:
    """Turns the first Ctrl-C (or a polite kill) into a request that training answers at the end of an epoch.

    A second one interrupts at once.
    """

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():  # elsewhere signals cannot be caught
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
