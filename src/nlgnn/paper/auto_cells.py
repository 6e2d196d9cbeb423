"""Cells of the automatic choice: `nlgnn train` with a time budget, run as users run it, in a process of its own."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from nlgnn.datasets import load_graph
from nlgnn.datasets.accounts import ACCOUNTS_FILE, LABEL, PAYMENTS_FILE, write_account_tables
from nlgnn.datasets.catalog import CATALOG
from nlgnn.datasets.synthetic import planted_order_graph
from nlgnn.errors import NlgnnError
from nlgnn.graph.splits import make_splits
from nlgnn.paper.benchmark import GRAPHS
from nlgnn.paper.cell import SPLITS, Cell
from nlgnn.selection.leaderboard import Leaderboard, read_leaderboard
from nlgnn.selection.race_verdict import category
from nlgnn.training.device import CORES, processor
from nlgnn.training.train import CHOICE_FILE

BUDGETS = ("1m", "10m")
ACCOUNTS, FRAUD_SHARE, SEED = 20_000, 0.04, 401  # of generated graphs; no choice was made on this seed
PLANTED_FILE = "planted-order.npz"
KEPT = ("name", "model", "headline", "verdict", "findings")  # of the choice


def make_accounts(place: Path) -> list[str]:
    """Write the tables of accounts and payments, and return the arguments that give them to a command."""
    write_account_tables(place, ACCOUNTS, SEED, FRAUD_SHARE)
    return ["--nodes", str(place / ACCOUNTS_FILE), "--edges", str(place / PAYMENTS_FILE), "--label", LABEL]


def make_planted_order(place: Path) -> list[str]:
    """Write a graph whose labels only an order reveals, and return the arguments that give it to a command."""
    graph = planted_order_graph(seed=SEED)
    adjacency = sparse.csr_array(graph.undirected_adjacency)
    parts = {name: getattr(adjacency, name) for name in ("data", "indices", "indptr", "shape")}
    arrays: dict[str, Any] = {f"adj_{name}": value for name, value in parts.items()}
    np.savez(place / PLANTED_FILE, **arrays, attr_matrix=graph.dense_features(), labels=graph.y)
    return ["--graph-file", str(place / PLANTED_FILE)]


GENERATED: Mapping[str, Callable[[Path], list[str]]] = {"accounts": make_accounts, "planted-order": make_planted_order}
SIZES = {name: dataset.statistics.nodes for name, dataset in CATALOG.items()}
SIZES |= {"accounts": ACCOUNTS, "planted-order": 3_008}
# Graphs that played no part in ordering the portfolio. The first one is a graph of the benchmark.
HELD_OUT = ("pubmed", "cornell5", "mushroom-body-right", *GENERATED)


def auto_cell(graph: str, budget: str) -> Cell:
    """Return the cell of the automatic choice on a graph: public splits where there are some, else random ones."""
    protocols = CATALOG[graph].protocols if graph in CATALOG else ()
    protocol = (*protocols, "random-60")[0]
    return Cell("auto", graph, (budget,), kind="auto", protocol=protocol, condition=budget, budget=budget)


def auto_cells(results: Path) -> list[Cell]:
    """Return all cells: the small budget on every graph, then the large one, small graphs first."""
    graphs = sorted(dict.fromkeys((*GRAPHS, *HELD_OUT)), key=SIZES.__getitem__)
    return [auto_cell(graph, budget) for budget in BUDGETS for graph in graphs]


def measure_auto(cell: Cell, unfinished: Path, progress: bool) -> dict[str, Any]:
    """Run `nlgnn train` with the budget of a cell, and return leaderboard, choice and the seconds of the command.

    The seconds are those of the whole process: imports, reading, training and report. The graph is written before.

    Raises:
        NlgnnError: If the command fails.
    """
    with TemporaryDirectory(dir=unfinished) as temporary:
        place, out = Path(temporary).absolute(), Path(temporary).absolute() / "run"
        given = GENERATED[cell.dataset](place) if cell.dataset in GENERATED else [cell.dataset]
        runs = ["--runs", str(cell.schedule.splits)] if cell.schedule.splits != SPLITS else []
        arguments = ["train", *given, "--splits", cell.protocol, *runs, "--time-budget", cell.budget]
        date, load, started = datetime.now(UTC).isoformat(timespec="seconds"), [_load()], time.perf_counter()
        command = [sys.executable, "-m", "nlgnn", *arguments, "--out", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - started
        load.append(_load())
        board = read_leaderboard(out)
        if done.returncode or board is None:
            lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
            what = lines[-1].removeprefix("error: ") if lines else f"it ended with exit code {done.returncode}."
            shown = shlex.join(["nlgnn", *arguments])
            raise NlgnnError(f"{shown} failed: {what}", "Run it yourself to see all of its output.")
        choice = json.loads((out / CHOICE_FILE).read_text("utf-8"))
    return {
        "protocol": cell.protocol,
        "shortened": cell.shortened,
        "budget": cell.budget,
        "command": shlex.join(["nlgnn", *(argument.removeprefix(f"{place}/") for argument in arguments)]),
        "metric": board.metric,
        "chosen": choice["name"],
        "choice": {name: choice[name] for name in KEPT},
        "category": _category(cell, board),
        "leaderboard": _leaderboard(board),
        "seconds": round(seconds, 1),
        "load": load,
        "date": date,
        "processor": processor(),
        "cores": CORES,
        "threads": os.environ.get("OMP_NUM_THREADS", "auto"),
    }


def _leaderboard(board: Leaderboard) -> list[dict[str, Any]]:
    """Return the rows of a leaderboard by rank, with the test figure of each run."""
    tests = {row.entry.name: row.figures(board.metric, "test") for row in board.rows}
    return [{**row, "test runs": tests[row["name"]]} for row in board.to_dicts()]


def _category(cell: Cell, board: Leaderboard) -> str | None:
    """Return the category by mlp, gcn and gat of the race, None if one of them is not finished."""
    mlp = board.row("mlp")
    if mlp is None or cell.dataset in GENERATED:
        return None
    graph = load_graph(cell.dataset)
    found = category(board, graph, make_splits(graph, cell.protocol, len(mlp.validation)))
    return found and found.category


def _load() -> float | None:
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
