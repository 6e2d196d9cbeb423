"""Does the order matter? Every non-local cell beside its local part and its controls, and how far neighbours agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nlgnn.experiments.cells import PRESET, cell_path, check_unchanged, read_cells
from nlgnn.experiments.compare import CONTROLS, Spread, paired_difference, paired_mean, spread
from nlgnn.experiments.framework import NON_LOCAL, SEEDS, FrameworkCell, framework_cell, framework_cells
from nlgnn.experiments.interval import Interval, paired_interval
from nlgnn.experiments.measured import NOTHING, OPEN, Measured
from nlgnn.experiments.paper import printed_accuracy
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.tables import ResultTable
from nlgnn.training.systems import get_system

DIFFERENCES = (
    "Differences are paired over the same splits and seeds; the standard error (in brackets) is over splits, which "
    "overlap: it understates the noise. × n: the mean of n seeds a split."
)


class Beside(NamedTuple):
    """A non-local main cell and, by seed, the test figures of it and of what goes with it; None where open."""

    main: Measured
    tests: Mapping[str, list[list[float | None] | None]]

    @property
    def dataset(self) -> str:
        return self.main.cell.dataset

    @property
    def system(self) -> str:
        return self.main.cell.system

    def seeds(self, other: str) -> int:
        return len(self._pairs(other))

    def difference(self, other: str) -> Spread | None:
        """Main minus the other, over all seeds that both have, with the standard error over splits."""
        by_split = self._by_split(other)
        return paired_difference(by_split, [0.0] * len(by_split))

    def interval(self, other: str) -> Interval | None:
        """The same with its t-interval."""
        by_split = self._by_split(other)
        return paired_interval(by_split, [0.0] * len(by_split))

    def _by_split(self, other: str) -> list[float | None]:
        pairs = self._pairs(other)
        mains = zip(*(main for main, _ in pairs), strict=True)  # by split, then by seed
        others = zip(*(one for _, one in pairs), strict=True)
        return [paired_mean(main, one) for main, one in zip(mains, others, strict=True)]

    def _pairs(self, other: str) -> list[tuple[list[float | None], list[float | None]]]:
        both = zip(self.tests["main"], self.tests[other], strict=True)
        return [(main, one) for main, one in both if main is not None and one is not None]

    def figure(self, other: str) -> str:
        """Of the first seed, as the main figure is."""
        tests = self.tests[other][0]
        return OPEN if tests is None else str(spread([test for test in tests if test is not None]))


def protocols(cells: Sequence[FrameworkCell]) -> str:
    return " or ".join(dict.fromkeys(cell.protocol for cell in cells))


def read_beside(cells: Sequence[FrameworkCell], results: Path) -> list[Beside]:
    """One for every non-local main cell among `cells`."""
    found = read_cells(cells, results)
    return [
        Beside(
            Measured(cell, found.get(cell.name)),
            {
                "main": _by_seed(found, results, cell, cell.system),
                "local": _by_seed(found, results, cell, str(get_system(cell.system).local)),
                **{control: _by_seed(found, results, cell, cell.system, control) for control in CONTROLS},
            },
        )
        for cell in cells
        if cell.system in NON_LOCAL and not cell.changes
    ]


def _by_seed(
    found: Mapping[str, dict[str, Any]], results: Path, cell: FrameworkCell, system: str, control: str = ""
) -> list[list[float | None] | None]:
    """The test figures of what goes with a main cell, which must have been trained with the options of that cell."""
    main = found.get(framework_cell(cell.dataset, system, cell.protocol).name)
    tests: list[list[float | None] | None] = []
    for again in range(SEEDS):
        one = framework_cell(cell.dataset, system, cell.protocol, control, again)
        result = found.get(one.name)
        if result is not None and main is not None:
            check_unchanged(cell_path(one, results), result["options"], {**main["options"], **one.changes})
        tests.append([run["test"] for run in result["runs"]] if result is not None and main is not None else None)
    return tests


def control_sections(cells: Sequence[FrameworkCell], results: Path, protocol: str) -> list[Section]:
    rows: Rows = []
    for beside in read_beside(cells, results):
        if beside.main.result is None:
            continue
        printed = printed_accuracy(beside.system, beside.dataset)
        rows.append(
            {
                "dataset": beside.dataset,
                "model": beside.system,
                "ours": beside.main.figure,
                "paper": str(printed or NOTHING),
                "its local part": beside.figure("local"),
                **{control: beside.figure(control) for control in CONTROLS},
                "− local": difference_text(beside, "local"),
                **{f"− {control}": difference_text(beside, control) for control in CONTROLS},
            }
        )
    caption = (
        f"Test accuracy in %: mean ± sample standard deviation over ten runs, protocol {protocols(cells)}, preset "
        f"{PRESET}, the first epoch of the best validation accuracy. The local part has settings of its own, the best "
        "of a sample by validation, also where the model has those that its authors published; kernel 1 and random "
        f"order have those of the model. {DIFFERENCES} {OPEN} not measured yet, or not chosen."
    )
    return [Section("Does the order matter?", rows, caption, text_columns=2)] if rows else []


def difference_text(beside: Beside, other: str) -> str:
    difference = beside.difference(other)
    if difference is None:
        return OPEN
    seeds = beside.seeds(other)
    return difference.signed + (f" × {seeds}" if seeds > 1 else "")


def homophily_sections(cells: Sequence[FrameworkCell], results: Path, protocol: str) -> list[Section]:
    found = read_cells([cell for cell in cells if cell.system in NON_LOCAL and not cell.changes], results)
    rows: Rows = []
    for result in found.values():
        levels = result["homophily"]
        rows.append(
            {
                "dataset": result["dataset"],
                "model": result["system"],
                "H(G)": f"{levels['graph']:.2f}",
                "chance": f"{levels['chance']:.2f}",
                "H(Ĝ) untrained": _two_decimals(spread(levels["before"])),
                "H(Ĝ) trained": _two_decimals(spread(levels["after"])),
                "trained − untrained": _two_decimals(paired_difference(levels["after"], levels["before"]), "+"),
            }
        )
    caption = (
        "H(G): mean share of a node's neighbours with its label. H(Ĝ): the same for the neighbours that the "
        "convolutions reach along the sorted order; of the untrained model, and at the epoch that validation chose; "
        f"mean ± sample standard deviation over the runs, protocol {protocols(cells)}. Chance: what a random order "
        "gives. The last column is paired over runs (standard error). Labels of all nodes are used: an analysis, not a "
        "score. The paper shows bars without numbers, and no chance level."
    )
    return [Section("Homophily of the re-connected graph", rows, caption, text_columns=2)] if rows else []


def _two_decimals(value: Spread | None, sign: str = "") -> str:
    if value is None:
        return NOTHING
    if sign:
        return f"{value.mean:+.2f} ({value.std:.2f})"
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")


def _cells(protocol: str) -> list[FrameworkCell]:
    return framework_cells(protocol, controls=True)


CONTROL_TABLE = ResultTable(_cells, control_sections)
HOMOPHILY_TABLE = ResultTable(lambda protocol: framework_cells(protocol, NON_LOCAL), homophily_sections)
