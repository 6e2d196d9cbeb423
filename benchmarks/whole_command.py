"""The whole command `nlgnn train`, compared with a plain script that does the same runs."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers import PYG_SPARSE, edge_inputs
from benchmarks.steps import THREADS, Effort
from benchmarks.timing import compare, side_by_side, stopwatch, threads_in_use
from nlgnn.datasets import load_graph
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits

PROTOCOL = "random-60"
# Replaces the module of the report by one that writes nothing.
WITHOUT_REPORT = """
import sys, types
from nlgnn.cli.main import main
sys.modules["nlgnn.report.run_page"] = types.SimpleNamespace(write_run_page=lambda *given, **named: None)
main()
"""


def measure_command(name: str, effort: Effort, report: bool) -> dict[str, Any]:
    """Time both programs from their start to their end."""
    graph = load_graph(name)
    with tempfile.TemporaryDirectory() as place, threads_in_use(THREADS):
        file = Path(place) / "graph.npz"
        write_problem(file, graph, make_splits(graph, PROTOCOL, effort.splits))
        peer = ["-m", "benchmarks.plain_nlgcn", str(file), str(effort.epochs)]
        sides = {
            "ours": stopwatch(partial(run_ours, name, effort, report, Path(place))),
            PYG_SPARSE: stopwatch(partial(run_program, peer)),
        }
        times = side_by_side(sides, effort.whole_rounds, warm_up=0)
        ours = f"nlgnn train {name} --model nlgcn, {'with' if report else 'without'} its report"
        return compare(times, f"processes from start to end; {effort.splits} splits, {effort.epochs} epochs; {ours}")


def write_problem(file: Path, graph: Graph, splits: list[Split]) -> None:
    """Write a graph, with unscaled features, and its splits as arrays."""
    x, edge_index = edge_inputs(graph)
    parts: dict[str, Any] = {
        part: np.stack([getattr(split, part) for split in splits]) for part in ("train", "val", "test")
    }
    np.savez(file, x=x.numpy(), edge_index=edge_index.numpy(), y=graph.y, **parts)


def run_ours(name: str, effort: Effort, report: bool, place: Path) -> None:
    """Train by our command into a new folder."""
    out = tempfile.mkdtemp(dir=place) + "/run"
    flags = f"--model nlgcn --splits {PROTOCOL} --runs {effort.splits} --epochs {effort.epochs} --stopping never"
    command = ["train", name, *flags.split(), "--threads", str(THREADS), "--out", out]
    run_program([*(["-m", "nlgnn"] if report else ["-c", WITHOUT_REPORT]), *command])
    if (Path(out) / "report.html").exists() != report:
        raise NlgnnError("the report was written or left out against the wish.", "See benchmarks/whole_command.py.")


def run_program(arguments: list[str]) -> str:
    """Run Python on one thread, and return what it prints."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": str(THREADS)},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        last_lines = " ".join(done.stderr.strip().splitlines()[-2:])
        raise NlgnnError(f"{' '.join(arguments)[:60]} ended with code {done.returncode}. {last_lines}", "Run it alone.")
    return done.stdout
