"""CPU seconds that users wait for: start-up, reports, tables of the paper, and the reading of large tables."""

from __future__ import annotations

import os
import pstats
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from benchmarks.steps import THREADS
from benchmarks.timing import quartiles
from nlgnn.datasets.accounts import write_account_tables
from nlgnn.errors import NlgnnError

ROOT = Path(__file__).parents[1]
MOST_NAMED = 4  # packages of a profile
# Ends the command where its training would begin.
TRAIN = """
import sys, tempfile
from nlgnn.training.run_folder import RunFolder

def end(*given):
    raise SystemExit

RunFolder.note_execution = end
from nlgnn.cli.main import main
with tempfile.TemporaryDirectory() as place:
    sys.argv += ["--out", place + "/run"]
    main()
"""
READ = """
import sys
from nlgnn import read_graph
read_graph(nodes=sys.argv[1], edges=sys.argv[2], label="is_fraud", directed=True)
"""


@dataclass(frozen=True)
class Wait:
    """Something that users wait for.

    Args:
        arguments: Returns the arguments of Python, given an empty folder, in which it may prepare something.
        rounds: How often it is measured.
        code: The exit code.
    """

    arguments: Callable[[Path], list[str]]
    rounds: int = 5
    code: int = 0


def typo(folder: Path) -> list[str]:
    """Misspell a command."""
    return ["-m", "nlgnn", "trian"]


def training(folder: Path) -> list[str]:
    """Train on Texas up to the first epoch."""
    return [script(folder, TRAIN), "train", "texas", "--model", "nlmlp"]


def report(name: str, folder: Path) -> list[str]:
    """Write the report of a short training again."""
    run = str(folder / "run")
    flags = f"--model nlgcn --runs 1 --epochs 5 --allow-unverified --out {run}".split()
    run_python(["-m", "nlgnn", "train", name, *flags], 0)
    return ["-m", "nlgnn", "report", run]


def reproduced_tables(folder: Path) -> list[str]:
    """Show the paper's tables from the measured cells."""
    return ["-m", "nlgnn", "reproduce", "--table"]


def tables(accounts: int, folder: Path) -> list[str]:
    """Read two CSV files."""
    paths = write_account_tables(folder, accounts)
    return [script(folder, READ), *map(str, paths)]


def script(folder: Path, text: str) -> str:
    """Write a program, because code of `python -c` cannot be profiled, and return its path."""
    path = folder / "program.py"
    path.write_text(text)
    return str(path)


def measure_wait(wait: Wait) -> dict[str, Any]:
    """Return the CPU seconds of processes, and in which packages the time of one more process goes."""
    with tempfile.TemporaryDirectory() as place:
        arguments = wait.arguments(Path(place))
        seconds = [run_python(arguments, wait.code) for _ in range(wait.rounds)]
        file = Path(place) / "profile"
        run_python(["-m", "cProfile", "-o", str(file), *arguments], 0)  # which does not pass on the exit code
        shares = package_shares(file)
    return {
        "seconds": {"ours": quartiles(seconds)._asdict()},
        "means": {"ours": fmean(seconds)},
        "rounds": wait.rounds,
        "threads": THREADS,
        "profile": shares,
        "protocol": "CPU seconds (user and system) of a process from start to end, imports included; profile: cProfile",
    }


def run_python(arguments: list[str], code: int) -> float:
    """Run Python on one thread, and return its CPU seconds."""
    before = os.times()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": str(THREADS), "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    after = os.times()
    if done.returncode != code:
        last_lines = " ".join(done.stderr.strip().splitlines()[-2:])
        raise NlgnnError(f"{' '.join(arguments)[:60]} ended with code {done.returncode}. {last_lines}", "Run it alone.")
    return after.children_user + after.children_system - before.children_user - before.children_system


def package_shares(file: Path) -> dict[str, float]:
    """Return the shares of the time by package, largest first. Compiled functions count for their callers."""
    own: Counter[str] = Counter()
    for (path, _, _), (_, _, seconds, _, callers) in pstats.Stats(str(file)).stats.items():  # type: ignore[attr-defined]
        if path == "~" and callers:
            for (caller, _, _), (_, _, part, _) in callers.items():
                own[package(caller)] += part
        else:
            own[package(path)] += seconds
    whole = sum(own.values())
    return {name: round(seconds / whole, 3) for name, seconds in own.most_common(MOST_NAMED)}


def package(path: str) -> str:
    """Return the package of a file."""
    if path.startswith("<frozen importlib"):
        return "import of modules"
    parts = Path(path).parts
    for folder in ("site-packages", "src"):
        if folder in parts[:-1]:
            return parts[parts.index(folder) + 1].removesuffix(".py")
    return "Python"
