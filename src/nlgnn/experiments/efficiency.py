"""The paper's table of running times: a training step of each system beside that of GCN, on one machine in one run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

import torch

from nlgnn.experiments.bench.machine import environment
from nlgnn.experiments.bench.steps import HEADS, HIDDEN, Problem, our_step
from nlgnn.experiments.bench.timing import paired_ratio, side_by_side, stopwatch
from nlgnn.experiments.cells import Cell, Settings, read_cells
from nlgnn.experiments.measured import NOTHING, not_measured
from nlgnn.experiments.paper import paper_results
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.tables import ResultTable
from nlgnn.nn.inputs import prepare
from nlgnn.training.execution import allocation, limited_threads
from nlgnn.training.systems import get_system, load

DATASETS = ("chameleon", "squirrel", "snap-patents")
REFERENCE = "gcn"  # what the others are compared with
SYSTEMS = (REFERENCE, "gat", "geom-gcn", "nlgcn")
ALSO_TIMED = ("mlp", "nlmlp", "nlgat")
EPOCHS, SECONDS = 500, 25.0  # of one system; it sits out once it has taken so long
TURN, TURN_SECONDS = 10, 1.0  # steps before the next system has its turn, fewer where they are long
WARM_UP = 2


@dataclass(frozen=True)
class EfficiencyCell(Cell):
    """All systems on one dataset: they take turns, so that ratios are of one machine at one time."""

    store: ClassVar[str] = "efficiency"
    dataset: str
    epochs: int = EPOCHS
    system: str = ""

    @property
    def label(self) -> str:
        return "step times"

    @property
    def systems(self) -> tuple[str, ...]:
        """On a graph that the paper itself has no time of a system for, it is not waited for, nor are ours like it."""
        printed = [system for system in SYSTEMS if printed_speed(system, self.dataset)["status"] == "ok"]
        return (*printed, *ALSO_TIMED) if printed == list(SYSTEMS) else tuple(printed)

    def quick(self) -> EfficiencyCell:
        return replace(self, epochs=2 * TURN)

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return {"epochs": self.epochs, "hidden": HIDDEN, "heads": HEADS, "seconds a system": SECONDS}

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        """Without a progress bar, whose drawing would be timed too."""
        started, machine = time.perf_counter(), environment()  # before we ourselves make it busy
        problem = Problem.named(self.dataset)
        with limited_threads("auto", problem.graph), allocation(frugal=False):  # as in training
            times = time_steps(problem, self.systems, self.epochs)
            threads = torch.get_num_threads()
        return {
            "dataset": self.dataset,
            **self.settings({}),
            "steps": times,
            "threads": threads,
            "model": {},
            "recipe": {},
            "seconds": round(time.perf_counter() - started, 1),
            **machine,
        }


def time_steps(problem: Problem, systems: Sequence[str], epochs: int) -> dict[str, dict[str, float]]:
    """Of every system: how many steps were timed, their median and mean in ms, and the ratio to GCN."""
    taken: dict[str, list[float]] = {system: [] for system in systems}
    sides = {}
    for system in systems:
        model = load(get_system(system))(*problem.widths)
        step = our_step(problem, model, prepare(model, problem.graph))
        for _ in range(WARM_UP):
            step()
        sides[system] = partial(_turn, step, taken[system])
    turns = side_by_side(sides, rounds=math.ceil(epochs / TURN), warm_up=0)
    return {
        system: {
            "epochs": len(taken[system]),
            "median ms": round(1000 * median(taken[system]), 3),
            "mean ms": round(1000 * fmean(taken[system]), 3),
            "ratio": round(_ratio(turns[system], turns[REFERENCE]), 3),
        }
        for system in systems
    }


def _turn(step: Callable[[], None], taken: list[float]) -> float:
    """The mean of some steps one after the other, as in training, or nan once the system has had its time."""
    if sum(taken) > SECONDS:
        return math.nan
    times: list[float] = []
    while len(times) < TURN and sum(times) < TURN_SECONDS:
        times.append(stopwatch(step)())
    taken += times
    return fmean(times)


def _ratio(numerators: list[float], denominators: list[float]) -> float:
    """The median over the rounds that both took part in."""
    both = [(a, b) for a, b in zip(numerators, denominators, strict=True) if not math.isnan(a) and not math.isnan(b)]
    return paired_ratio([a for a, _ in both], [b for _, b in both]).median


def efficiency_cells(protocol: str) -> list[EfficiencyCell]:
    """The protocol plays no part."""
    return [EfficiencyCell(dataset) for dataset in DATASETS]


def printed_speed(system: str, dataset: str) -> Mapping[str, Any]:
    """The paper's entry; of a system that it did not time, one that says so."""
    for printed_system, cells in paper_results()["tables"]["speed"]["rows"].items():
        for printed_dataset, cell in cells.items():
            if (printed_system.lower(), printed_dataset.lower()) == (system, dataset):
                found: Mapping[str, Any] = cell
                return found
    return {"status": "not_reported"}


def efficiency_sections(cells: Sequence[EfficiencyCell], results: Path, protocol: str) -> list[Section]:
    if not cells:
        return []
    found = read_cells(cells, results)
    rows: Rows = []
    for cell in cells:
        absent = not_measured(cell.dataset)
        for system in dict.fromkeys((*SYSTEMS, *cell.systems)):
            result = found.get(cell.name)
            rows.append(_row(cell, system, result["steps"].get(system) if result else None, absent))
            absent = NOTHING  # once is enough
    return [Section("Running times", rows, _caption(list(found.values())), _text(found), text_columns=2)]


def _row(cell: EfficiencyCell, system: str, ours: Mapping[str, float] | None, absent: str) -> dict[str, str]:
    printed = printed_speed(system, cell.dataset)
    no_time = "out of memory" if printed["status"] == "out_of_memory" else NOTHING
    timed = printed["status"] == "ok"
    return {
        "dataset": cell.dataset,
        "model": system,
        "median ms": f"{ours['median ms']:.1f}" if ours else absent if system in cell.systems else NOTHING,
        "mean ms": f"{ours['mean ms']:.1f}" if ours else NOTHING,
        "ratio to GCN": f"{ours['ratio']:.2f}" if ours else NOTHING,
        "epochs": str(ours["epochs"]) if ours else NOTHING,
        "paper, ms": f"{printed['ms_per_epoch']:.1f}" if timed else no_time,
        "paper, ratio": f"{printed['ratio_to_gcn']:.1f}" if timed else NOTHING,
    }


def _caption(results: Sequence[Mapping[str, Any]]) -> str:
    machines = dict.fromkeys(
        f"{result['processor']}, {result['threads']} thread{'s' if result['threads'] > 1 else ''}, "
        f"torch {result['versions']['torch']}, load {result['load']} in the minute before ({result['dataset']})"
        for result in results
    )
    parts = [
        f"Milliseconds of a training step alone: forward, loss, backward, Adam; no evaluation. {EPOCHS} epochs after "
        f"a warm-up, fewer of a system once it has taken {SECONDS:g} s; systems take turns of {TURN} steps in one "
        "process. Ratio: the median over rounds of a turn's time to that of GCN in the same round.",
        f"Hidden {HIDDEN}, attention with {HEADS} heads, no dropout; first split of random-60, which makes no "
        "difference to times.",
        "The paper: mean over 500 epochs; Geom-GCN by its authors' program, where ours is this package's; the hardware "
        "is not named.",
        f"Ours: {'; '.join(machines)}." if machines else "",
    ]
    return " ".join(part for part in parts if part)


def _text(found: Mapping[str, Mapping[str, Any]]) -> str:
    """What the paper's table is there to show: how much longer than GCN the non-local one takes."""
    return " ".join(
        f"On {result['dataset']} NLGCN takes {result['steps']['nlgcn']['ratio']:.1f} times as long as GCN (the paper: "
        f"{printed_speed('nlgcn', result['dataset'])['ratio_to_gcn']:.1f})."
        for result in found.values()
    )


EFFICIENCY_TABLE = ResultTable(efficiency_cells, efficiency_sections)
