"""Measured: a cell of a compared system with what it gave, beside what others printed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from nlgnn.datasets import is_present
from nlgnn.experiments.compare import Spread, paired_difference, spread
from nlgnn.experiments.framework import HUGE_DATASETS
from nlgnn.experiments.printed import Figure, comparable_figures, distance, printed_figures
from nlgnn.experiments.searched import SearchedCell
from nlgnn.training.systems import get_system

OPEN, NOTHING, SHORTER, NO_FILES = "…", "–", "*", "files not here"
SHORTER_WORDS = f"{SHORTER} searched or trained on fewer splits or for fewer epochs than usual."


files_are_here = cache(is_present)  # asked for every open cell of a page


def not_measured(dataset: str) -> str:
    """What stands in place of a figure. Other files than those of huge datasets are fetched when they are needed."""
    return NO_FILES if dataset in HUGE_DATASETS and not files_are_here(dataset) else OPEN


def letter(variant: int) -> str:
    return "abcdefgh"[variant]


class Measured(NamedTuple):
    """A cell with what it gave, None where it is open."""

    cell: SearchedCell
    result: Mapping[str, Any] | None

    @property
    def tests(self) -> list[float | None]:
        return [run["test"] for run in self.result["runs"]] if self.result else []

    @property
    def vals(self) -> list[float | None]:
        return [run["val"] for run in self.result["runs"]] if self.result else []

    @property
    def validation(self) -> Spread | None:
        return spread([val for val in self.vals if val is not None])

    @property
    def ours(self) -> Spread | None:
        return spread([test for test in self.tests if test is not None])

    @property
    def options(self) -> Mapping[str, Any]:
        return self.result["options"] if self.result else {}

    @property
    def printed(self) -> list[Figure]:
        """What it is compared with."""
        return comparable_figures(self.cell.system, self.cell.dataset, self.cell.protocol, self.options)

    @property
    def distance(self) -> float | None:
        return distance(self.ours, self.printed) if self.ours and self.printed else None

    @property
    def within(self) -> bool:
        """Two standard deviations."""
        return self.distance is not None and abs(self.distance) <= 2

    def minus(self, other: Measured) -> str:
        """The paired difference with its standard error, where the splits are the same."""
        if self.result is None or other.result is None:
            return OPEN
        same = self.cell.protocol == other.cell.protocol and len(self.tests) == len(other.tests)
        difference = paired_difference(self.tests, other.tests) if same else None
        return difference.signed if difference else NOTHING

    @property
    def figure(self) -> str:
        """Mean and spread, with marks: a shortened schedule, failed runs."""
        if self.result is None:
            return not_measured(self.cell.dataset)
        failed = self.tests.count(None)
        mark = SHORTER if self.result["shortened"] else ""
        return f"{self.ours}{mark}" + (f" ({failed} of {len(self.tests)} runs failed)" if failed else "")

    @property
    def letter(self) -> str:
        """Which variant validation chose."""
        if self.result is None or not self.result["search"]:
            return ""
        variants = get_system(self.cell.system).variants
        chosen = [number for number, variant in enumerate(variants) if variant.items() <= self.options.items()]
        return f" {letter(chosen[0])}" if chosen else ""

    @property
    def printed_text(self) -> str:
        """The figure that a cell is compared with, or the range of several; then what else its authors printed."""
        compared = self.printed
        rest = [
            figure
            for figure in printed_figures(self.cell.system, self.cell.dataset)
            if figure not in compared and figure.kind == "authors"
        ]
        text = []
        if compared:
            low, high = min(compared, key=lambda one: one.mean), max(compared, key=lambda one: one.mean)
            text = [str(low) if low == high else f"{low.mean} to {high.mean}"]
            text[0] += " (third-party)" if low.kind == "third-party" else ""
        other_splits = [figure for figure in rest if figure.split not in {one.split for one in compared}]
        text += [f"on {figure.split} {figure}" for figure in other_splits]
        variants = [figure for figure in rest if figure not in other_splits and isinstance(figure.variant, dict)]
        best = max((*compared, *variants), key=lambda one: one.mean, default=None)
        text += [f"best {best}"] if best in variants else []
        return "; ".join(text) or NOTHING
