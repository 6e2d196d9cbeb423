"""Measure the memory of one process that fits, predicts and writes reports again and again.

python tools/measure_long_run.py --minutes 20 prints one line per minute: the rounds so far and the resident memory. The
last line is the growth per hour from the second quarter on, by least squares; the first quarter fills caches.
"""

from __future__ import annotations

import argparse
import gc
import io
import shutil
import tempfile
import time
import warnings
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path

import numpy as np

import nlgnn
from nlgnn.cli import main as cli
from nlgnn.limits import resident_bytes

MODELS = ("mlp", "nlgcn", "gcn", "logistic", "vote-gcn", "trees")
PAUSE = 60.0


def command(*arguments: str) -> None:
    """Run a command of the command line and hide what it prints.

    Raises:
        RuntimeError: If it fails.
    """
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown), suppress(SystemExit):
        cli.main(list(arguments))
        return
    if "error:" in shown.getvalue():
        raise RuntimeError(shown.getvalue())


def one_round(number: int, folder: Path) -> None:
    """Fit, predict and report once, with another model each time."""
    model = MODELS[number % len(MODELS)]
    run = folder / f"run{number}"
    short = [] if model in ("logistic", "trees") else ["--epochs", "20"]
    command("train", "mushroom-body", "--model", model, "--runs", "2", *short, "--out", str(run))
    command("predict", str(run), "--all", "--out", str(folder / "labels.csv"), "--force")
    graph = nlgnn.planted_order_graph(200, seed=number)
    nlgnn.fit("mlp", graph, "random-60", nlgnn.Recipe(epochs=5), progress=False)
    shutil.rmtree(run)


def main() -> None:
    """Run rounds for the given time."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=120.0)
    minutes = parser.parse_args().minutes
    warnings.simplefilter("ignore")
    started = shown = time.monotonic()
    points: list[tuple[float, int]] = []
    number = 0
    with tempfile.TemporaryDirectory() as name:
        while time.monotonic() - started < 60 * minutes:
            one_round(number, Path(name))
            number += 1
            gc.collect()
            points.append((time.monotonic() - started, resident_bytes()))
            if time.monotonic() - shown >= PAUSE:
                shown = time.monotonic()
                minute, size = points[-1][0] / 60, points[-1][1] / 2**20
                print(f"{minute:5.1f} min  {number:5d} rounds  {size:7.1f} MiB", flush=True)
    late = [point for point in points if point[0] > 15 * minutes]
    seconds, sizes = np.array(late, dtype=float).T
    slope = np.polyfit(seconds / 3600, sizes / 2**20, 1)[0]
    print(f"{number} rounds; {sizes.min() / 2**20:.1f} to {sizes.max() / 2**20:.1f} MiB; {slope:+.1f} MiB per hour")


if __name__ == "__main__":
    main()
