"""Processes on this machine that share one graph, for tests."""

from __future__ import annotations

import io
import multiprocessing
import os
import tempfile
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist


def on_ranks(
    size: int, function: Callable[..., Any], *arguments: Any, seconds: int = 60, ends: bool = True
) -> list[Any]:
    """Call a function in several processes of one process group, and return the result of each rank.

    Args:
        size: The number of processes.
        function: Called with the arguments in every process.
        arguments: Anything; the processes are forks of this one.
        seconds: How long an exchange may take.
        ends: Whether every process must end by itself; the result is None for one that does not.
    """
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # this process has threads, none of which holds a lock
        pipes = [context.Pipe(duplex=False) for _ in range(size)]
        processes = [
            context.Process(
                target=_run,
                args=(rank, size, seconds, Path(folder) / "store", pipes[rank][1], function, arguments),
                daemon=True,
            )
            for rank in range(size)
        ]
        for process in processes:
            process.start()
        for _, sender in pipes:
            sender.close()
        results, failures = [], []
        for rank, (receiver, _) in enumerate(pipes):
            try:
                result, failure = torch.load(io.BytesIO(receiver.recv_bytes()), weights_only=False)
            except EOFError:
                result, failure = None, "it ended without a result" if ends else None
            results.append(result)
            failures += [f"rank {rank}: {failure}"] if failure else []
        for process in processes:
            process.join(5)
            process.kill()
    assert not failures, "\n".join(failures)
    return results


def _run(
    rank: int,
    size: int,
    seconds: int,
    store: Path,
    sender: Connection,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    try:
        wait = timedelta(seconds=seconds)
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size, timeout=wait)
        _send(sender, function(*arguments), None)
        dist.destroy_process_group()
    except BaseException:
        _send(sender, None, traceback.format_exc())


def _send(sender: Connection, result: Any, failure: str | None) -> None:
    data = io.BytesIO()
    torch.save((result, failure), data)  # pickled tensors would stay in this process
    sender.send_bytes(data.getvalue())
