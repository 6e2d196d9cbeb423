"""Training of NLGCN over several processes: CPU seconds, bytes sent and peak memory of each.

    python -m benchmarks.processes 500000 --near 0.9
    python tools/write_machines_page.py

The first command writes a file into benchmarks/results, the second the page that shows all of these files. `near` is
the share of edges between nodes at most 1,000 numbers apart; the others are drawn as in patents-like. Bytes are those
of one epoch, a training step whose forward also evaluates, summed over the processes. All other figures are means over
them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from benchmarks.scale import CLASSES, EDGES, FEATURES, NODES
from benchmarks.steps import HIDDEN
from benchmarks.timing import cores_of_others, environment, peak_memory, usage
from nlgnn.datasets.synthetic import patents_like_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.graph.store import GraphStore
from nlgnn.limits import resident_bytes
from nlgnn.nn import NLGCN
from nlgnn.nn.base import as_model
from nlgnn.nn.kernels.ranks import Ranks, sharing
from nlgnn.training.fit import fit
from nlgnn.training.processes import connected, part_of_store
from nlgnn.training.recipe import Recipe

WARM_UP, EPOCHS = 1, 5
RESULTS = Path(__file__).parent / "results"
CASES = ((1, 1), (2, 1), (4, 1), (1, 2))  # processes, and threads of each
MODELLED = ("neighbours", "routing", "keys", "gradients")  # what the cost model counts of what is sent


def make_store(nodes: int, near: float, folder: Path) -> None:
    """Generate a graph and write it as a store."""
    edges = round(nodes * EDGES / NODES)
    GraphStore.write(patents_like_graph(nodes, edges, FEATURES, CLASSES, near_share=near), folder)


def work(folder: Path) -> dict[str, Any]:
    """Train as one of the processes, or as the only one, and return its figures per epoch."""
    threads = int(os.environ["OMP_NUM_THREADS"])
    torch.set_num_threads(threads)
    imported = resident_bytes()
    store = GraphStore.open(folder)
    ranks: Ranks | None = None
    graph: Graph
    stamps: list[tuple[float, float, Counter[str]]] = []
    with ExitStack() as stack:
        if int(os.environ["WORLD_SIZE"]) > 1:
            stack.enter_context(connected(600))
            graph, ranks = part_of_store(store, "patents-like")
            stack.enter_context(sharing(ranks))
        else:
            graph = store.to_graph(on_disk=False, named=False)
        read = peak_memory()

        def factory() -> nn.Module:
            model = as_model(NLGCN(FEATURES, HIDDEN, CLASSES))
            loss = model.loss

            def noting(output: Any, y: Tensor, nodes: Tensor) -> Tensor:
                sent = Counter[str]() if ranks is None else ranks.sent.copy()
                stamps.append((time.process_time(), time.perf_counter(), sent))
                return loss(output, y, nodes)

            model.loss = noting  # type: ignore[method-assign]
            return model

        epochs = WARM_UP + EPOCHS + 1
        recipe = Recipe(features="none", epochs=epochs, stopping="never", threads=threads, device="cpu")
        fit(factory, graph, make_splits(graph, "random-60", 1), recipe, progress=False)
        used = stamps[-(EPOCHS + 1) :]
        cpu, wall = (np.diff([stamp[place] for stamp in used]) for place in (0, 1))
        sent = used[-1][2] - used[0][2]
        return {
            "cpu": median(cpu),
            "wall": median(wall),
            "sent": {purpose: count / EPOCHS for purpose, count in sent.items()},
            "peak": peak_memory() - imported,
            "read": read - imported,
            "halo": 0 if ranks is None else halo_rows(graph, ranks),
            "own": graph.num_nodes if ranks is None else ranks.num_own,
            "parameters": sum(parameter.numel() for parameter in NLGCN(FEATURES, HIDDEN, CLASSES).parameters()),
        }


def halo_rows(graph: Graph, ranks: Ranks) -> int:
    """Return the number of nodes of other ranks that are neighbours of nodes of this rank."""
    columns = np.unique(graph.undirected_weights.indices)
    return int(((columns < ranks.first) | (columns >= ranks.stop)).sum())


def modelled_bytes(parts: list[dict[str, Any]]) -> float:
    """Return the bytes that all processes send in an epoch by the cost model: halo, routing, keys and gradients."""
    size, halo = len(parts), 2 * 4 * (HIDDEN + CLASSES) * sum(part["halo"] for part in parts)
    routing = 4 * (4 * CLASSES + 1) * sum(part["own"] for part in parts) * (size - 1) / size
    gradients = 2 * 4 * parts[0]["parameters"] * (size - 1)
    return float(halo + routing + gradients)


def measure(folder: Path, processes: int, threads: int) -> list[dict[str, Any]]:
    """Return the figures of each of some processes on this machine."""
    meeting = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    shared = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(meeting.port)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "OMP_NUM_THREADS": str(threads), "GLOO_SOCKET_IFNAME": "lo"}
    command = [sys.executable, "-m", "benchmarks.processes", "--work", str(folder)]
    running = [
        subprocess.Popen(
            command, env={**os.environ, **shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, stdout=subprocess.PIPE
        )
        for rank in range(processes)
    ]
    return [json.loads(process.communicate()[0].splitlines()[-1]) for process in running]


def row(parts: list[dict[str, Any]], threads: int) -> dict[str, Any]:
    """Return the figures of some processes as one row."""
    return {
        "processes": len(parts),
        "threads": threads,
        "CPU seconds": round(fmean(part["cpu"] for part in parts), 4),
        "peak bytes": round(fmean(part["peak"] for part in parts)),
        "halo rows": sum(part["halo"] for part in parts),
        "bytes sent": round(sum(part["sent"].get(purpose, 0) for part in parts for purpose in MODELLED)),
        "other bytes sent": round(
            sum(count for part in parts for purpose, count in part["sent"].items() if purpose not in MODELLED)
        ),
        "bytes by the model": round(modelled_bytes(parts)) if len(parts) > 1 else 0,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("nodes", type=int, nargs="?", default=NODES)
    parser.add_argument("--near", type=float, default=0.0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--make", type=Path)
    given = parser.parse_args()
    if given.work:
        sys.stdout.write(json.dumps(work(given.work)) + "\n")
        return
    if given.make:
        make_store(given.nodes, given.near, given.make)
        return
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "store"
        make = [sys.executable, "-m", "benchmarks.processes", str(given.nodes), "--near", str(given.near)]
        subprocess.run([*make, "--make", str(folder)], check=True)
        before, rows = usage(), []
        for processes, threads in CASES:
            rows.append(row(measure(folder, processes, threads), threads))
            sys.stdout.write(f"{rows[-1]}\n")
            sys.stdout.flush()
        store = GraphStore.open(folder)
        result = {
            **environment(),
            "cores of others": cores_of_others(before, usage()),
            "protocol": f"Medians of {EPOCHS} epochs, means over processes; peak memory above that after imports",
            "nodes": store.nodes,
            "entries": store.edges,
            "near": given.near,
            "rows": rows,
        }
        given.out.mkdir(parents=True, exist_ok=True)
        name = f"processes-{given.nodes}-{round(100 * given.near)}.json"
        (given.out / name).write_text(json.dumps(result, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
