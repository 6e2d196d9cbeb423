"""The paper's tables of accuracies: systems in rows, and for each dataset ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from nlgnn.experiments.cells import PRESET, read_cells
from nlgnn.experiments.compare import Spread
from nlgnn.experiments.framework import (
    LOCAL,
    NON_LOCAL,
    SAMPLED,
    FrameworkCell,
    framework_cell,
    framework_cells,
)
from nlgnn.experiments.measured import NOTHING, OPEN, SHORTER_WORDS, Measured
from nlgnn.experiments.paper import Printed, printed_accuracy, printed_cpgcn, printed_validation
from nlgnn.experiments.searched import SEARCH_EPOCHS, SEARCH_SPLITS, SearchedCell
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.systems import system_cells
from nlgnn.experiments.tables import ResultTable

ASSORTATIVE = ("cora", "citeseer", "pubmed", "ogbn-arxiv")
FIRST = ("actor", "cornell-pre2022", "cornell", "texas", "wisconsin")
SECOND = ("chameleon", "squirrel", "snap-patents")
FILTERED = ("chameleon-filtered", "squirrel-filtered")
FIRST_SYSTEMS = ("mlp", "geom-gcn", "geom-gcn-s", "h2gcn", "simp-gcn", "nlmlp")
SECOND_SYSTEMS = ("gcn", "gat", "geom-gcn", "geom-gcn-g", "h2gcn", "fagcn", "nlgcn", "nlgat")
ALL_SYSTEMS = (*LOCAL, "geom-gcn", "geom-gcn-g", "geom-gcn-s", "h2gcn", "simp-gcn", "fagcn", "cpgcn", *NON_LOCAL)
DATASETS_A_TABLE = 3
MARKS = (
    "✓ within one standard deviation of the paper's figure (the paper's, or ours where it prints none), ▲ above, "
    "▼ below."
)


def agreement(ours: Spread, printed: Printed) -> str:
    """Whether two figures agree within the standard deviation that was printed, or else ours."""
    deviation = ours.std if printed.std is None else printed.std
    if deviation is None:
        return ""
    return "✓" if abs(ours.mean - printed.mean) <= deviation else "▲" if ours.mean > printed.mean else "▼"


def cells_of(systems: Sequence[str], datasets: Sequence[str], protocol: str) -> list[SearchedCell]:
    """Of the framework's systems by the protocol; of the others on fixed splits, as in the figures quoted for them."""
    own = [system for system in systems if system in (*NON_LOCAL, *LOCAL)]
    others = [
        cell
        for cell in system_cells()
        if cell.system in systems and cell.system not in own and cell.dataset in datasets and not cell.condition
    ]
    return [*framework_cells(protocol, own, datasets), *others]


def accuracy_sections(
    title: str,
    cells: Sequence[SearchedCell],
    results: Path,
    systems: Sequence[str],
    printed: Callable[[str, str], Printed | None] = printed_accuracy,
    validation: bool = False,
) -> list[Section]:
    found = read_cells(cells, results)
    measured = {(cell.system, cell.dataset): Measured(cell, found.get(cell.name)) for cell in cells}
    datasets = list(dict.fromkeys(cell.dataset for cell in cells))
    sections = []
    for start in range(0, len(datasets), DATASETS_A_TABLE):
        chosen = datasets[start : start + DATASETS_A_TABLE]
        rows: Rows = []
        for system in systems:
            row = {"system": system}
            for dataset in chosen:
                ours, theirs = measured.get((system, dataset)), printed(system, dataset)
                row[dataset] = _text(ours, theirs, validation)
                row[f"paper, {dataset}"] = str(theirs or NOTHING)
            if set(row.values()) - {system, NOTHING}:
                rows.append(row)
        shown = [measured[system, dataset] for system in systems for dataset in chosen if (system, dataset) in measured]
        caption = _caption(shown, validation) if chosen[-1] == datasets[-1] else _short_caption(shown, validation)
        sections.append(Section(f"{title}: {', '.join(chosen)}", rows, caption))
    return sections


def _text(measured: Measured | None, printed: Printed | None, validation: bool) -> str:
    if measured is None:
        return NOTHING
    ours = measured.validation if validation else measured.ours
    if ours is None:
        return measured.figure
    text = str(ours) if validation else measured.figure
    return f"{text} {agreement(ours, printed)}".strip() if printed else text


def _own_protocols(shown: Sequence[Measured]) -> str:
    return " or ".join(sorted({one.cell.protocol for one in shown if isinstance(one.cell, FrameworkCell)}))


def _numbers_of_runs(shown: Sequence[Measured]) -> str:
    return " or ".join(map(str, sorted({one.cell.schedule.splits for one in shown}, reverse=True)))


def _short_caption(shown: Sequence[Measured], validation: bool) -> str:
    what = "Best validation" if validation else "Test"
    protocol = f"{_numbers_of_runs(shown)} runs, protocol {_own_protocols(shown)}"
    return f"{what} accuracy in %, {protocol}; more below the last of these tables."


def _caption(shown: Sequence[Measured], validation: bool) -> str:
    others = sorted({one.cell.protocol for one in shown if not isinstance(one.cell, FrameworkCell)})
    what = "Best validation accuracy" if validation else "Test accuracy, at the first epoch of the best validation,"
    parts = [
        f"{what} in %: mean ± sample standard deviation of {_numbers_of_runs(shown)} runs, "
        f"protocol {_own_protocols(shown)}, preset {PRESET}.",
        f"Settings: published ones where there are some, else the best of {SAMPLED} sampled from the paper's grid by "
        f"validation on {SEARCH_SPLITS} splits, {SEARCH_EPOCHS} epochs at most.",
        f"Compared systems: as their authors train them, on the splits {' or '.join(others)}." if others else "",
        MARKS,
        SHORTER_WORDS if any(map(_is_shorter, shown)) else "",
        f"{OPEN} not measured yet." if any(one.result is None for one in shown) else "",
    ]
    return " ".join(part for part in parts if part)


def _is_shorter(measured: Measured) -> bool:
    return bool(measured.result and measured.result["shortened"])


def _table(title: str, systems: Sequence[str], datasets: Sequence[str], validation: bool = False) -> ResultTable:
    printed = printed_validation if validation else printed_accuracy
    return ResultTable(
        partial(cells_of, systems, datasets),
        lambda cells, results, protocol: accuracy_sections(title, cells, results, systems, printed, validation),
    )


CATEGORIES = _table("Best validation accuracy", LOCAL, (*ASSORTATIVE, *SECOND, *FIRST), validation=True)
FIRST_CATEGORY = _table("First category", FIRST_SYSTEMS, FIRST)
SECOND_CATEGORY = _table("Second category", SECOND_SYSTEMS, SECOND)
ALL_RESULTS = _table("All systems", ALL_SYSTEMS, (*FIRST, *SECOND, *ASSORTATIVE, *FILTERED))


def _cpgcn_cells(protocol: str) -> list[FrameworkCell]:
    return [
        framework_cell(dataset, system, "random-10")
        for system in ("nlgcn", "cpgcn")
        for dataset in ("chameleon", "squirrel")
    ]


def _cpgcn_sections(cells: Sequence[FrameworkCell], results: Path, protocol: str) -> list[Section]:
    return accuracy_sections("Splits of CPGNN, 10/10/80", cells, results, ("nlgcn", "cpgcn"), printed_cpgcn)


CPGCN = ResultTable(_cpgcn_cells, _cpgcn_sections)
