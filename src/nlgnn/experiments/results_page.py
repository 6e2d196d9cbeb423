"""The page of results: the best non-local model of each dataset, both protocols, what held, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nlgnn.experiments.accuracy import agreement
from nlgnn.experiments.beside import DIFFERENCES, Beside, control_sections, difference_text, protocols, read_beside
from nlgnn.experiments.cells import PRESET, read_cells
from nlgnn.experiments.claims import Findings, claim_sections
from nlgnn.experiments.compare import CONTROLS, Spread
from nlgnn.experiments.framework import HUGE_DATASETS, LOCAL, NON_LOCAL, PROTOCOLS, FrameworkCell, framework_cells
from nlgnn.experiments.measured import NOTHING, OPEN, SHORTER_WORDS, Measured
from nlgnn.experiments.paper import Printed, printed_accuracy
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.shortfall import shortfall_sections
from nlgnn.experiments.tables import ResultTable


def best_sections(cells: Sequence[FrameworkCell], results: Path, wanted: str) -> list[Section]:
    """Which of the three validation chose, beside the best of the three that the paper prints, and its controls."""
    by_dataset: dict[str, list[Beside]] = {}
    for beside in read_beside(cells, results):
        by_dataset.setdefault(beside.dataset, []).append(beside)
    rows: Rows = []
    below: dict[str, Printed] = {}
    for dataset, three in by_dataset.items():
        known = [one for one in three if one.main.validation is not None]
        best = max(known, key=lambda one: one.main.validation.mean if one.main.validation else 0.0, default=None)
        printed = best_printed(dataset)
        ours = best.main.ours if best else None
        if ours and printed and agreement(ours, printed) == "▼":
            below[dataset] = printed
        rows.append(
            {
                "dataset": dataset,
                "chosen": best.system if best else three[0].main.figure,
                "validation": str(best.main.validation) if best else OPEN,
                "test": best.main.figure if best else OPEN,
                "paper's best": str(printed or NOTHING),
                "agrees": _agrees(ours, printed) if ours and printed else OPEN if printed else NOTHING,
                **{f"− {other}": difference_text(best, other) if best else OPEN for other in ("local", *CONTROLS)},
                "measured": f"{len(known)} of {len(three)}",
            }
        )
    marks = [row["agrees"][:1] for row in rows if row["agrees"][:1] in ("✓", "▲", "▼")]
    whole = sum(all(one.main.result for one in three) for three in by_dataset.values())
    caption = (
        "Of NLMLP, NLGCN and NLGAT, as far as they are measured, the one with the best mean validation accuracy, and "
        f"its test accuracy in %: mean ± sample standard deviation over ten runs, protocol {protocols(cells)}, preset "
        f"{PRESET}; beside it the best of the three that the paper prints (on random splits; none for the corrected "
        "Cornell and the filtered graphs). ✓ within one of the paper's standard deviations, ▲ above, ▼ below, and how "
        f"far from within: {len(marks) - marks.count('▼')} of {len(marks)} reach it so far; all three are measured for "
        f"{whole} datasets. {SHORTER_WORDS} {DIFFERENCES}"
    )
    best_of_three = Section(f"Best non-local model by validation, {wanted}", rows, caption, text_columns=2)
    return [best_of_three, *shortfall_sections(below, results, wanted)]


def _agrees(ours: Spread, printed: Printed) -> str:
    """With how much is missing to within a standard deviation."""
    mark = agreement(ours, printed)
    return f"{mark} {printed.low - ours.mean:.2f}" if mark == "▼" else mark


def best_printed(dataset: str) -> Printed | None:
    figures = [figure for system in NON_LOCAL if (figure := printed_accuracy(system, dataset))]
    return max(figures, key=lambda figure: figure.mean, default=None)


def read_findings(cells: Sequence[FrameworkCell], results: Path) -> Findings:
    found = read_cells([cell for cell in cells if not cell.changes], results)
    measured = [Measured(cell, found[cell.name]) for cell in cells if cell.name in found]
    return Findings(
        [one for one in read_beside(cells, results) if one.dataset not in HUGE_DATASETS or one.main.result],
        {(one.cell.system, one.cell.dataset): one.validation.mean for one in measured if one.validation},
    )


def cost_sections(cells: Sequence[FrameworkCell], results: Path) -> list[Section]:
    """Seconds of every cell, search and training, controls and further seeds included."""
    found = read_cells(cells, results)
    rows: Rows = []
    seconds = {name: result["seconds"] + result["search_seconds"] for name, result in found.items()}
    measured = [cell for cell in cells if cell.name in found]
    for dataset in dict.fromkeys(cell.dataset for cell in measured):
        row = {"dataset": dataset}
        for system in (*NON_LOCAL, *LOCAL):
            own = [cell for cell in measured if (cell.dataset, cell.system) == (dataset, system)]
            main = [f"{cell.protocol} {seconds[cell.name]:.0f}" for cell in own if not cell.changes]
            others = [seconds[cell.name] for cell in own if cell.changes]
            row[system] = ", ".join(main) + (f" + {sum(others):.0f} for {len(others)}" if others else "") or OPEN
        rows.append(row)
    caption = (
        "Seconds of training, shared by what was trained at once: the main cell of each protocol (search and ten "
        "runs), then the sum of its controls and further seeds. In all "
        f"{sum(seconds.values()) / 3600:.1f} hours for {len(seconds)} cells; {len(cells) - len(seconds)} are open."
    )
    return [Section("What it cost", rows, caption)]


def _cells(protocol: str) -> list[FrameworkCell]:
    """Of both protocols, whatever is asked for: non-local systems first."""
    both = [framework_cells(wanted, controls=True) for wanted in PROTOCOLS]
    return list({cell.name: cell for pair in zip(*both, strict=True) for cell in pair}.values())


def _sections(cells: Sequence[FrameworkCell], results: Path, protocol: str) -> list[Section]:
    sections = []
    for wanted in PROTOCOLS:
        names = {cell.name for cell in framework_cells(wanted, controls=True)}
        own = [cell for cell in cells if cell.name in names]
        if not read_cells(own, results):
            continue
        sections += best_sections(own, results, wanted)
        sections += claim_sections(read_findings(own, results), protocols(own))
        sections += control_sections(own, results, wanted)
    return [*sections, *cost_sections(cells, results)]


RESULTS = ResultTable(_cells, _sections)
