"""One thing changed at a time: the equation, the width of z, the preset, the kernel, the splits, the file of Cornell.

Every cell is its main cell, which has the authors' published settings, with one change; splits and seeds are the same,
so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, NamedTuple

from nlgnn.experiments.accuracy import MARKS, agreement
from nlgnn.experiments.cells import PRESET, Settings, read_cells
from nlgnn.experiments.compare import Spread, paired_difference
from nlgnn.experiments.framework import PROTOCOLS, FrameworkCell, framework_cell, protocol_for
from nlgnn.experiments.measured import NOTHING, OPEN, Measured
from nlgnn.experiments.paper import printed_accuracy
from nlgnn.experiments.searched import SPLITS
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.tables import ResultTable
from nlgnn.training.systems import PUBLISHED

DATASETS = ("texas", "wisconsin", "cornell-pre2022", "chameleon")
OLD_CORNELL, CORNELL = "cornell-pre2022", "cornell"
CLEAR = 2  # standard errors


class Condition(NamedTuple):
    """What is other than in the main cell."""

    question: str
    name: str
    options: Settings
    preset: str = PRESET


EQUATION, WIDTH, PRESETS, KERNEL = (
    "Equation 5 in place of equation 6",
    "Width of the embedding",
    "Presets",
    "Kernel sizes",
)
QUESTIONS: Mapping[str, str] = {
    EQUATION: "Embeddings are not multiplied by their score, so that no gradient reaches it: the order follows from "
    "the embeddings alone.",
    WIDTH: "The released program makes the embedding that is sorted as wide as there are classes.",
    PRESETS: f"The main cell has preset {PRESET}; paper is the same without the bias of the score; robust is ours: "
    "features of length 1, a standardised score, a non-local part that begins as nothing, a loss of the local part, "
    "and its own stopping rule.",
    KERNEL: "The kernel that was published for a dataset is its main cell's.",
}
CONDITIONS = (
    Condition(EQUATION, "equation 5", {"multiply_score": False}),
    *(Condition(WIDTH, f"width {width}", {"embedding": width}) for width in (16, 48, 96)),
    *(Condition(PRESETS, f"preset {preset}", {}, preset) for preset in ("paper", "robust")),
    *(Condition(KERNEL, f"kernel {size}", {"kernel_size": size}) for size in (3, 5, 7)),
)


@dataclass(frozen=True)
class AblationCell(FrameworkCell):
    """A main cell with one thing changed.

    Args:
        question: the section that it belongs to.
    """

    store: ClassVar[str] = "ablation"
    question: str = ""

    @property
    def unchanged(self) -> FrameworkCell:
        """The main cell that it is compared with, as long trained."""
        return replace(framework_cell(self.dataset, self.system, self.protocol), schedule=self.schedule)


def ablation_cells(protocol: str) -> list[FrameworkCell]:
    """The main cells that others are compared with, then the changed ones."""
    main = [
        framework_cell(dataset, PUBLISHED[dataset].system, one) for dataset in (*DATASETS, CORNELL) for one in PROTOCOLS
    ]
    main += [framework_cell(dataset, "mlp", protocol_for(dataset, protocol)) for dataset in (OLD_CORNELL, CORNELL)]
    changed = [
        AblationCell(
            dataset,
            PUBLISHED[dataset].system,
            (condition.options,),
            protocol=protocol_for(dataset, protocol),
            condition=condition.name,
            preset=condition.preset,
            question=condition.question,
        )
        for condition in CONDITIONS
        for dataset in DATASETS
        if not condition.options or not condition.options.items() <= PUBLISHED[dataset].options.items()
    ]
    return [*main, *changed]


def ablation_sections(cells: Sequence[FrameworkCell], results: Path, protocol: str) -> list[Section]:
    changed = [cell for cell in cells if isinstance(cell, AblationCell)]
    main = [cell for cell in cells if not isinstance(cell, AblationCell)]
    by_name: dict[str, FrameworkCell] = {cell.name: cell for cell in (*cells, *(one.unchanged for one in changed))}
    found = read_cells(list(by_name.values()), results)
    measured = {name: Measured(cell, found.get(name)) for name, cell in by_name.items()}
    sections = [
        _question(question, [measured[cell.name] for cell in changed if cell.question == question], measured)
        for question in dict.fromkeys(cell.question for cell in changed)
    ]
    all_main = [measured[cell.name] for cell in main]
    return [*sections, *_splits(all_main), *_cornell(all_main, protocol)]


def _question(question: str, changed: Sequence[Measured], measured: Mapping[str, Measured]) -> Section:
    rows: Rows = []
    differences: dict[str, dict[str, Spread | None]] = {}
    for one in changed:
        assert isinstance(one.cell, AblationCell)
        main, printed = measured[one.cell.unchanged.name], printed_accuracy(one.cell.system, one.cell.dataset)
        difference = _paired(one, main)
        differences.setdefault(one.cell.condition, {})[one.cell.dataset] = difference
        rows.append(
            {
                "dataset": one.cell.dataset,
                "condition": one.cell.condition,
                "changed": one.figure,
                "published": main.figure,
                "difference": _difference_text(difference, one, main),
                "paper": str(printed or NOTHING),
                "agrees": agreement(one.ours, printed) if one.ours and printed else OPEN if printed else NOTHING,
                "H": _agreement(one),
                "published H": _agreement(main),
            }
        )
    caption = (
        f"{QUESTIONS[question]} {_protocol(changed)} Differences: paired over splits and seeds (standard error). "
        f"Agrees: the changed one. {MARKS} H: of the re-connected graph at the chosen epoch, mean over runs."
    )
    text = " ".join(_sentence(condition, found) for condition, found in differences.items())
    return Section(question, rows, caption, text, text_columns=2)


def _splits(main: Sequence[Measured]) -> Iterator[Section]:
    """Random splits beside fixed ones, of the main cells that are there by both."""
    cells = {(one.cell.dataset, one.cell.system, one.cell.protocol): one for one in main}
    rows: Rows = []
    differences = {}
    for dataset, system in dict.fromkeys((one.cell.dataset, one.cell.system) for one in main):
        random, fixed = (cells.get((dataset, system, protocol)) for protocol in PROTOCOLS)
        if random is None or fixed is None:
            continue
        difference = _unpaired(random, fixed)
        differences[dataset] = difference
        rows.append(
            {
                "dataset": dataset,
                "model": system,
                "random-60": random.figure,
                "geom-gcn": fixed.figure,
                "difference": _difference_text(difference, random, fixed),
                "paper": str(printed_accuracy(system, dataset) or NOTHING),
            }
        )
    if rows:
        caption = (
            "random-60 trains on 60 % of each class, validates on 20 % and tests on the rest, which is how the "
            "released program splits; geom-gcn are the ten public splits, 48, 32 and 20 %. "
            f"{_protocol(list(cells.values()))} Differences: of means over different splits (standard error)."
        )
        yield Section("Splits", rows, caption, _sentence("random splits", differences), text_columns=2)


def _cornell(main: Sequence[Measured], protocol: str) -> Iterator[Section]:
    """The file that the paper trained on beside the corrected one."""
    cells = {
        (one.cell.system, one.cell.dataset): one
        for one in main
        if one.cell.protocol == protocol_for(one.cell.dataset, protocol)
    }
    rows: Rows = []
    differences = {}
    for system in dict.fromkeys(system for system, dataset in cells if dataset == OLD_CORNELL):
        old, corrected = cells[system, OLD_CORNELL], cells.get((system, CORNELL))
        if corrected is None:
            continue
        difference = _unpaired(old, corrected)
        differences[system] = difference
        rows.append(
            {
                "model": system,
                OLD_CORNELL: old.figure,
                CORNELL: corrected.figure,
                "difference": _difference_text(difference, old, corrected),
                "paper": str(printed_accuracy(system, OLD_CORNELL) or NOTHING),
            }
        )
    if rows:
        caption = (
            f"{OLD_CORNELL}: Texas's features and labels over Cornell's links, which the paper trained on. "
            f"{_protocol(list(cells.values()))} Differences: of means over different graphs (standard error)."
        )
        yield Section("Cornell's two files", rows, caption, _sentence("the older file", differences, "with"))


def _protocol(shown: Sequence[Measured]) -> str:
    protocols = " or ".join(dict.fromkeys(one.cell.protocol for one in shown))
    open_cells = f" {OPEN} not measured yet." if any(one.result is None for one in shown) else ""
    return (
        f"Test accuracy in %, at the first epoch of the best validation: mean ± sample standard deviation of {SPLITS} "
        f"runs, one a split; protocol {protocols}. Clearly: by more than {CLEAR} standard errors, which overlapping "
        f"splits make rather too small.{open_cells}"
    )


def _paired(one: Measured, other: Measured) -> Spread | None:
    return paired_difference(one.tests, other.tests) if len(one.tests) == len(other.tests) else None


def _unpaired(one: Measured, other: Measured) -> Spread | None:
    """The difference of two means, and its standard error."""
    if not (one.ours and other.ours) or one.ours.std is None or other.ours.std is None:
        return None
    runs = [len(measured.tests) - measured.tests.count(None) for measured in (one, other)]
    variance = one.ours.std**2 / runs[0] + other.ours.std**2 / runs[1]
    return Spread(one.ours.mean - other.ours.mean, variance**0.5)


def _difference_text(difference: Spread | None, one: Measured, other: Measured) -> str:
    if difference is None:
        return OPEN if one.result is None or other.result is None else NOTHING
    return difference.signed


def _agreement(measured: Measured) -> str:
    """H of the re-connected graph at the chosen epochs, its mean over runs."""
    if measured.result is None:
        return OPEN
    after = measured.result["homophily"]["after"]
    return f"{sum(after) / len(after):.2f}"


def _sentence(what: str, differences: Mapping[str, Spread | None], joint: str = "on") -> str:
    """Where a change made a clear difference and where none."""
    verdicts: dict[str, list[str]] = {}
    for where, difference in differences.items():
        verdicts.setdefault(_verdict(difference), []).append(where)
    found = [f"{verdict} {joint} {', '.join(where)}" for verdict, where in verdicts.items()]
    text = f"{what}: {'; '.join(found)}."
    return text[0].upper() + text[1:]


def _verdict(difference: Spread | None) -> str:
    if difference is None or difference.std is None:
        return "open"
    if abs(difference.mean) <= CLEAR * difference.std:
        return "no clear difference"
    return "clearly higher" if difference.mean > 0 else "clearly lower"


ABLATION_TABLE = ResultTable(ablation_cells, ablation_sections)
