"""Several processes that train one model: how they find each other, share a graph and a run folder, and agree.

Each process is one rank of `torch.distributed`, started by torchrun or by `nlgnn train --processes`. Rank 0 writes the
run folder; what it reads or what fails there reaches all ranks.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from torch import distributed as dist
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.graph.part import GraphPart
from nlgnn.graph.store import IN_MEMORY_BYTES, GraphStore
from nlgnn.nn.base import Model
from nlgnn.nn.kernels.ranks import RankError, Ranks, active_ranks, ranges_of_work, sharing
from nlgnn.nn.kernels.sharded_tables import transposed
from nlgnn.training.device import choose_device, versions
from nlgnn.training.run_folder import RunFolder

Result = TypeVar("Result")
CONNECT_SECONDS, EXCHANGE_SECONDS, POLL_SECONDS = 60, 600, 0.5
ROWS_AT_ONCE = 2**16
FOLDER_KEY = "run-folder"  # in the store of torchrun, which outlives a restart


def is_rank() -> bool:
    """Return whether this process is one of several that torchrun, or `nlgnn train --processes`, has started."""
    return os.environ.get("WORLD_SIZE", "1") != "1" and "RANK" in os.environ


@contextmanager
def connected(seconds: int) -> Iterator[Any]:
    """Join the other processes within the context, and yield the store that they share.

    Args:
        seconds: How long an exchange may take before a process counts as hung.

    Raises:
        OptionError: If the environment does not say where they are.
        RankError: If they do not answer.
    """
    try:
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    except (KeyError, ValueError) as error:
        failure = OptionError(
            f"RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT do not name this process and the others: {error}.",
            "Start the processes by torchrun, or by nlgnn train --processes.",
        )
        failure.of_process = True
        raise failure from None
    wait = timedelta(seconds=min(CONNECT_SECONDS, seconds))
    leads = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
    try:
        if not leads:
            _wait_for(address, port, wait.total_seconds())
        outer = TCPStore(address, port, size if leads else None, leads, timeout=wait, wait_for_workers=False)
        # The store of torchrun survives a restart, and gloo would read the addresses of ended processes.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = PrefixStore(f"nlgnn-attempt-{attempt}", outer)
        store.set(f"present-{rank}", "")
        store.wait([f"present-{number}" for number in range(size)], wait)
        dist.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=timedelta(seconds=seconds))
    except (RuntimeError, ValueError, OSError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise RankError(
            f"process {rank} of {size} did not reach the others at {address}:{port} within {wait.seconds} seconds: "
            f"{why}.",
            "Correct MASTER_ADDR and MASTER_PORT, or the address that torchrun is given, and start all processes.",
        ) from None
    try:
        yield PrefixStore("nlgnn", outer)
    finally:
        dist.destroy_process_group()


def _wait_for(address: str, port: int, seconds: float) -> None:
    """Raise an `OSError` if nothing listens at an address within some seconds; torch would print a stack of C++."""
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((address, port), timeout=seconds).close()
            return
        except OSError:
            if time.monotonic() + POLL_SECONDS > end:
                raise
        time.sleep(POLL_SECONDS)


def on_first(function: Callable[[], Result]) -> Result:
    """Call a function in rank 0 alone, and return its result, or raise its `NlgnnError`, in all ranks."""
    outcome: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            outcome[0] = function()
        except NlgnnError as error:
            outcome[1] = error
    failure = outcome[1]
    sent = [outcome[0], failure and (type(failure), failure.what, failure.how)]
    _exchanged(dist.broadcast_object_list, sent, src=0)
    if failure is not None:
        raise failure
    if sent[1] is not None:
        kind, what, how = sent[1]
        raise kind(what, how)
    result: Result = sent[0]
    return result


def from_all(value: Any) -> list[Any]:
    """Return the values of all ranks."""
    found: list[Any] = [None] * dist.get_world_size()
    _exchanged(dist.all_gather_object, found, value)
    return found


def _exchanged(exchange: Callable[..., None], *arguments: Any, **options: Any) -> None:
    try:
        exchange(*arguments, **options)
    except RuntimeError as error:
        raise RankError.of(error) from None


def check_agreement(settings: Mapping[str, Any]) -> None:
    """Raise an `OptionError` in all ranks unless all have the same versions and settings.

    Args:
        settings: Whatever has to be the same, as texts or numbers, by name.
    """
    first, *others = from_all({**{f"version of {name}": text for name, text in versions().items()}, **settings})
    for rank, other in enumerate(others, start=1):
        for name, value in first.items():
            if other.get(name) != value:
                raise OptionError(
                    f"process {rank} has another {name} than process 0: {other.get(name)!r}, not {value!r}.",
                    "Give all processes the same package, the same data and the same command.",
                )


def everywhere(function: Callable[[], Result]) -> Result:
    """Call a function in every rank, and raise in all of them if it raised an `NlgnnError` in any."""
    result: Any = None
    failure: NlgnnError | None = None
    try:
        result = function()
    except NlgnnError as error:
        failure = error
    all_found = from_all(failure and (type(failure), failure.what, failure.how))
    if failure is not None:
        failure.of_process = any(found != all_found[0] for found in all_found)
        raise failure
    for rank, found in enumerate(all_found):
        if found is not None:
            kind, what, how = found
            raise kind(f"process {rank}: {what}", how)
    return result  # type: ignore[no-any-return]


def check_model(model: Any, name: str, device: str = "cpu") -> None:
    """Raise an `OptionError` for a model, or a device, that several processes cannot train."""
    if choose_device(device).type != "cpu":
        raise OptionError(f"several processes do not train on {device} yet.", "Pass --device cpu.")
    if not isinstance(model, Model) or not model.over_ranks:
        raise OptionError(
            f"{name} cannot be trained over several processes with these options.",
            "Train it in one process, or take mlp, gcn, sage, gat, gcnii, h2gcn, fagcn, dirgcn, bank or one of their "
            "non-local versions, such as nlgcn, without label_input, links and a learned order.",
        )


def check_size(num_nodes: int) -> None:
    """Raise an `OptionError` if there are more processes than nodes."""
    if dist.get_world_size() > num_nodes:
        raise OptionError(
            f"there are {dist.get_world_size()} processes, but {num_nodes} nodes.", "Start at most one per node."
        )


def part_of_graph(load: Callable[[], Graph]) -> tuple[GraphPart, Ranks]:
    """Return this rank's part of a graph that every process can load whole."""
    graph = everywhere(load)
    check_size(graph.num_nodes)
    ranks = Ranks(ranges_of_work(graph.undirected_adjacency.indptr, dist.get_world_size()))
    check_agreement({"graph": graph.fingerprint})
    return GraphPart.of(graph, ranks.first, ranks.stop), ranks


def part_of_store(store: GraphStore, name: str) -> tuple[GraphPart, Ranks]:
    """Return this rank's part of a graph store. Labels and splits are read of all nodes, all else of the own ones.

    The first process of each machine compares the checksums of the files.

    Args:
        store: The store.
        name: The name of the graph.
    """
    check_size(store.nodes)
    check_agreement({"graph": store.fingerprint})
    if os.environ.get("LOCAL_RANK", "0") == "0":
        everywhere(store.verify)
    else:
        everywhere(lambda: None)
    ranks = Ranks(ranges_of_work(store.arrays["indptr.npy"].read(), dist.get_world_size()))
    fingerprint = on_first(lambda: content_fingerprint(store))
    return everywhere(lambda: _read_part(store, ranks, name, fingerprint)), ranks


def content_fingerprint(store: GraphStore) -> str:
    """Return the fingerprint of the whole graph of a store, from one reading of its files in parts."""
    sizes: tuple[Any, ...] = (store.nodes, store.features, len(store.classes), store.directed)
    sizes = sizes if store.header.row_norm is None else (*sizes, store.header.row_norm)
    digest = hashlib.sha256(repr(sizes).encode())
    limits = [*range(0, store.nodes, ROWS_AT_ONCE), store.nodes]
    for start, stop in pairwise(limits):
        digest.update(np.ascontiguousarray(store.arrays["x.npy"].mapped(start, stop)).data)
    for name in ("sources", "targets", "y", "weights"):
        if name == "weights" and "weights.npy" not in store.arrays:
            continue
        for start, stop in pairwise(limits):
            rows = store.rows(start, stop)
            targets = np.repeat(np.arange(start, stop), np.diff(rows.indptr))
            kept = slice(None) if store.directed else rows.indices <= targets  # as in `to_graph`
            columns = {"sources": rows.indices, "targets": targets, "weights": rows.weights}
            array = rows.y if name == "y" else columns[name][kept]  # type: ignore[index]
            digest.update(np.ascontiguousarray(array, np.float32 if name == "weights" else np.int64).data)
    return digest.hexdigest()[:16]


def _read_part(store: GraphStore, ranks: Ranks, name: str, fingerprint: str) -> GraphPart:
    rows = store.rows(ranks.first, ranks.stop)
    shape = (store.nodes, store.nodes)
    targets = np.repeat(np.arange(ranks.first, ranks.stop), np.diff(rows.indptr))
    values = np.ones(len(targets), np.float32) if rows.weights is None else rows.weights
    kept = (targets != rows.indices) & (values > 0)
    index = np.int32 if store.nodes <= np.iinfo(np.int32).max else np.int64
    ends = (targets[kept].astype(index), rows.indices[kept].astype(index))
    received = sparse.csr_array((values[kept], ends), shape=shape)  # rows are targets
    received.sort_indices()
    with sharing(ranks):
        sent = transposed(received) if store.directed else received
    both = sparse.csr_array(received.maximum(sent)) if store.directed else received
    fields = {
        "y": store.arrays["y.npy"].read(),
        "directed": store.directed,
        "name": name,
        "class_names": store.classes,
        "node_names": None,
        "splits": store.splits_of(store.arrays["split.npy"].read()),
        "edge_weight": rows.weights,
        "row_norm": store.header.row_norm,
        "fingerprint": fingerprint,
    }
    stored = store.arrays["x.npy"]
    x: Any = FeaturesOnDisk(stored.path, stored.offset, (store.nodes, store.features)).part(ranks.first, ranks.stop)
    if 4 * x.size <= IN_MEMORY_BYTES:  # pages of a memory map would count twice
        x = stored.read(ranks.first, ranks.stop)
    return GraphPart(ranks.first, x, {"undirected_weights": both, "directed_weights": sent}, fields)


class SharedRunFolder(RunFolder):
    """A run folder that rank 0 reads and writes for all ranks."""

    @classmethod
    def create(cls, path: Path, config: dict[str, Any]) -> SharedRunFolder:
        return cls._of(on_first(lambda: RunFolder.create(path, config)))

    @classmethod
    def open(cls, path: Path) -> SharedRunFolder:
        return cls._of(on_first(lambda: RunFolder.open(path)))

    def remove_if_nothing_was_trained(self) -> None:
        """Remove an empty folder, without the other ranks, which may have ended."""
        if is_first():
            super().remove_if_nothing_was_trained()

    @classmethod
    def _of(cls, folder: RunFolder) -> SharedRunFolder:
        shared = object.__new__(cls)
        vars(shared).update(vars(folder))
        return shared


def _shared(name: str) -> Callable[..., Any]:
    method = getattr(RunFolder, name)

    @wraps(method)
    def in_first(self: SharedRunFolder, *arguments: Any, **options: Any) -> Any:
        folder = object.__new__(RunFolder)  # whose methods call each other without the other ranks
        folder.__dict__ = self.__dict__
        return on_first(lambda: method(folder, *arguments, **options))

    return in_first


SHARED_METHODS = (
    *("claim", "finished_run", "finished_runs", "save_run", "save_checkpoints", "checkpoints", "remove_checkpoints"),
    *("write_json", "write_predictions"),
)
for _name in SHARED_METHODS:
    setattr(SharedRunFolder, _name, _shared(_name))


def folder_class() -> type[RunFolder]:
    """Return the class of run folders: of one process, or of all ranks."""
    return RunFolder if active_ranks() is None else SharedRunFolder


def is_first() -> bool:
    """Return whether this process writes files and prints: the only process, or rank 0."""
    ranks = active_ranks()
    return ranks is None or ranks.rank == 0
