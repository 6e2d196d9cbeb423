"""Findings as sections: the best model of each graph, its controls, the paper's claims, ablation and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from nlgnn.models.registry import get_system
from nlgnn.paper import plans
from nlgnn.paper.cell import (
    HUGE_DATASETS,
    NOTHING,
    OPEN,
    Cell,
    Difference,
    Found,
    Measured,
    caption,
    check_unchanged,
    difference,
    words,
)
from nlgnn.paper.numbers import BELOW, Printed, agreement, printed_accuracy, program_accuracies, shortfall
from nlgnn.paper.plans import GEOM_GCN, LOCAL, NON_LOCAL, RANDOM_60, SEEDS, framework_cell
from nlgnn.paper.ties import ORDERS
from nlgnn.report.table import Rows, Section
from nlgnn.selection.controls import CONTROLS
from nlgnn.selection.statistics import paired_interval, spread, tally

MAIN, OTHERS = "main", ("local", *CONTROLS)


class Comparison(NamedTuple):
    """Conditions on one graph that are compared with each other, each by seed."""

    dataset: str
    by_seed: Mapping[str, Sequence[Measured]]

    @property
    def main(self) -> Measured:
        """The non-local model in its usual form."""
        return self.by_seed[MAIN][0]

    def has(self, name: str) -> bool:
        """Return True if the condition is planned."""
        return bool(self.by_seed.get(name))

    def figure(self, name: str) -> str:
        """Return the test figure of a condition for the first seed."""
        return self.by_seed[name][0].figure if self.has(name) else NOTHING

    def minus(self, name: str, other: str) -> Difference | None:
        """Return the paired difference of two conditions."""
        return difference(zip(self.by_seed.get(name, ()), self.by_seed.get(other, ()), strict=False))

    def text(self, name: str, other: str) -> str:
        """Return the paired difference of two conditions as text."""
        return str(self.minus(name, other) or OPEN) if self.has(name) and self.has(other) else NOTHING


def read_comparisons(found: Found, protocol: str = RANDOM_60) -> list[Comparison]:
    """Return one comparison for each non-local main cell among the cells."""
    cells = [one.cell for one in found.values()]
    mains = [cell for cell in cells if cell.system in NON_LOCAL and cell.main is None and not cell.condition]
    return [
        _comparison(cell, found)
        for cell in mains
        if cell.protocol == protocol or (cell.dataset in HUGE_DATASETS and protocol == RANDOM_60)
    ]


def _comparison(cell: Cell, found: Found) -> Comparison:
    local = str(get_system(cell.system).local)
    sides = {MAIN: (cell.system, ""), "local": (local, ""), **{name: (cell.system, name) for name in CONTROLS}}
    by_seed: dict[str, list[Measured]] = {}
    for side, (system, control) in sides.items():
        wanted = [framework_cell(cell.dataset, system, cell.protocol, control, again) for again in range(SEEDS)]
        by_seed[side] = [found.get(one.name, Measured(one, None)) for one in wanted if wanted[0].name in found]
        for one in by_seed[side]:
            _check_follower(one, found)
    return Comparison(cell.dataset, by_seed)


def _check_follower(one: Measured, found: Found) -> None:
    """Raise DataError if a control or a further seed has other options than its main cell of the same version."""
    main = found.get(one.cell.main.name) if one.cell.main else None
    if main and main.result and one.result and main.older == one.older:
        file = f"{one.cell.store}/{one.cell.name}.json"
        check_unchanged(file, one.options, {**main.options, **one.cell.changes})


def result_sections(found: Found) -> list[Section]:
    """Return the best model of each graph, the paper's claims, and the cost of all cells."""
    comparisons = read_comparisons(found)
    if not comparisons:
        return []
    sections = [*best_sections(comparisons), program_section(found), claim_section(comparisons, found)]
    return [*sections, *control_sections(found), cost_section(found)]


def best_sections(comparisons: Sequence[Comparison]) -> list[Section]:
    """Return which non-local model validation chose on each graph, compared with the paper's best."""
    by_dataset: dict[str, list[Comparison]] = {}
    for one in comparisons:
        by_dataset.setdefault(one.dataset, []).append(one)
    rows: Rows = []
    reached = compared = 0
    for dataset, three in by_dataset.items():
        known = [one for one in three if one.main.validation]
        best = max(known, key=_validation, default=None)
        printed = best_printed(dataset)
        row = {"dataset": dataset, "chosen": best.main.cell.system if best else three[0].main.text("")}
        ours = best.main.test if best else None
        mark = ""
        if ours and printed:
            mark = agreement(ours, printed)
            compared, reached = compared + 1, reached + (mark != BELOW)
        row["validation"] = best.main.text(best.main.validation) if best else OPEN
        row["test"] = best.main.figure if best else OPEN
        row["paper's best"] = str(printed or NOTHING)
        distance = f" {shortfall(ours, printed):.2f}" if ours and printed and mark == BELOW else ""
        row["agrees"] = f"{mark}{distance}" if mark else OPEN
        row |= {f"− {other}": best.text(MAIN, other) if best else OPEN for other in OTHERS}
        row["measured"] = f"{len(known)} of {len(three)}"
        rows.append(row)
    text = caption("best", rows, reached=reached, compared=compared)
    return [Section("Best non-local model by validation", rows, text, text_columns=2)]


def program_section(found: Found) -> Section:
    """Return what the authors' program gives next to the paper's figures and ours."""
    rows: Rows = []
    for dataset, program in program_accuracies().items():
        printed, cell = printed_accuracy("nlmlp", dataset), framework_cell(dataset, "nlmlp")
        one = found.get(cell.name, Measured(cell, None))
        differences = [
            (ours.mean - other.mean if (ours := one.test) and other else None) for other in (program, printed)
        ]
        from_program, from_paper = (OPEN if value is None else f"{value:+.1f}" for value in differences)
        rows.append(
            {
                "dataset": dataset,
                "paper": str(printed),
                "authors' program": str(program),
                "ours": one.figure,
                "ours − program": from_program,
                "ours − paper": from_paper,
            }
        )
    return Section("NLMLP: the paper, its program and ours", rows, caption("program", rows))


def _validation(one: Comparison) -> float:
    return one.main.validation.mean if one.main.validation else 0.0


def best_printed(dataset: str) -> Printed | None:
    """Return the best figure that the paper prints for one of the three non-local models."""
    figures = [figure for system in NON_LOCAL if (figure := printed_accuracy(system, dataset))]
    return max(figures, key=lambda figure: figure.mean, default=None)


# Claims


def claim_section(comparisons: Sequence[Comparison], found: Found) -> Section:
    """Return each claim of the paper with what was measured about it."""
    known = [one for one in comparisons if one.dataset not in HUGE_DATASETS]
    disassortative = [one for one in known if one.dataset in (*plans.FIRST, *plans.SECOND)]
    assortative = [one for one in known if one.dataset in plans.ASSORTATIVE]
    claims = words()["claims"]
    rows = [
        _category_claim(claims["first"], plans.FIRST, found, neighbours_help=False),
        _category_claim(claims["second"], plans.SECOND, found, neighbours_help=True),
        _difference_claim(claims["disassortative"], disassortative, "local"),
        _difference_claim(claims["assortative"], assortative, "local", better=False),
        *(_difference_claim(claims[control], disassortative, control) for control in CONTROLS),
        _homophily_claim(claims["homophily"], known),
    ]
    text = caption("claims", rows)
    return Section("The paper's claims", rows, text, text_columns=3)


def _claim(claim: str, seen: str, agreeing: int, known: int, total: int) -> dict[str, str]:
    verdict = "held" if agreeing == total else "did not hold" if not agreeing else "held in part"
    verdict = "undecided" if known < total else verdict
    counts = f"{agreeing} of {known}" + (f", {total - known} open" if total > known else "")
    return {"claim": claim, "measured": seen or OPEN, "holds on": counts, "verdict": verdict}


def _category_claim(claim: str, datasets: Sequence[str], found: Found, neighbours_help: bool) -> dict[str, str]:
    datasets = [dataset for dataset in datasets if dataset not in HUGE_DATASETS]
    seen, agreeing = [], 0
    for dataset in datasets:
        cells = {system: found.get(framework_cell(dataset, system).name) for system in LOCAL}
        means = {system: one.validation.mean for system, one in cells.items() if one and one.validation}
        if "mlp" in means and len(means) > 1:
            agreeing += (max(means.values()) > means["mlp"]) == neighbours_help
            marks = {system: one.marks for system, one in cells.items() if one}
            seen.append(f"{dataset}: " + ", ".join(f"{name} {mean:.1f}{marks[name]}" for name, mean in means.items()))
    return _claim(claim, "; ".join(seen), agreeing, len(seen), len(datasets))


def _difference_claim(claim: str, comparisons: Sequence[Comparison], other: str, better: bool = True) -> dict[str, str]:
    found = [(one, one.minus(MAIN, other)) for one in comparisons if one.has(other)]
    known = [(one, value) for one, value in found if value is not None]
    clear = [f"{one.main.cell.system} on {one.dataset} {value}" for one, value in known if value.interval.excludes_zero]
    seen = tally([value.interval for _, value in known])
    agreeing = seen.above if better else len(known) - seen.below
    return _claim(claim, str(seen) + (f" ({'; '.join(clear)})" if clear else ""), agreeing, len(known), len(found))


def _homophily_claim(claim: str, comparisons: Sequence[Comparison]) -> dict[str, str]:
    levels = [one.main.result["homophily"] for one in comparisons if one.main.result]
    trained = [fmean(level["after"]) for level in levels]
    above_graph = sum(after > level["graph"] for after, level in zip(trained, levels, strict=True))
    above_chance = sum(after > level["chance"] for after, level in zip(trained, levels, strict=True))
    seen = f"of {len(levels)} cells {above_graph} above H(G), {above_chance} above chance" if levels else ""
    return _claim(claim, seen, above_graph, len(levels), len(comparisons))


# Controls and cost


def control_sections(found: Found) -> list[Section]:
    """Return every measured non-local model with its local part and its controls, on both kinds of splits."""
    sections = []
    for protocol in (RANDOM_60, GEOM_GCN):
        rows: Rows = []
        for one in read_comparisons(found, protocol):
            if one.main.result is None:
                continue
            row = {"dataset": one.dataset, "model": one.main.cell.system, "ours": one.main.figure}
            row["paper"] = str(printed_accuracy(one.main.cell.system, one.dataset) or NOTHING)
            sides = OTHERS if protocol == RANDOM_60 else ("local",)
            row |= {other: one.figure(other) for other in sides}
            rows.append(row | {f"− {other}": one.text(MAIN, other) for other in sides})
        if rows:
            text = caption("controls", rows, protocol=protocol)
            sections.append(Section(f"Controls, {protocol}", rows, text, text_columns=2))
    return sections


def cost_section(found: Found) -> Section:
    """Return the seconds of training by graph and model."""
    measured = [one for one in found.values() if one.result]
    rows: Rows = []
    for dataset in dict.fromkeys(one.cell.dataset for one in measured):
        row = {"dataset": dataset}
        for system in (*LOCAL, *NON_LOCAL):
            own = [one.seconds for one in measured if (one.cell.dataset, one.cell.system) == (dataset, system)]
            row[system] = f"{sum(own):.0f} ({len(own)})" if own else OPEN
        rows.append(row)
    hours = sum(one.seconds for one in measured) / 3600
    text = caption("cost", rows, hours=hours, measured=len(measured), open=len(found) - len(measured))
    return Section("Cost of a repetition", rows, text)


# Ablation


def ablation_sections(found: Found) -> list[Section]:
    """Return the test figures of published models, also as means over the orders of tied nodes."""
    rows = [_ties_row(one) for one in found.values() if one.cell.condition == "ties"]
    text = caption("ties", rows, orders=ORDERS)
    return [Section("Ties", rows, text, text_columns=2)] if rows else []


def _ties_row(one: Measured) -> dict[str, str]:
    ties = one.result["ties"] if one.result else {"nodes": [], "test": []}
    nodes = [number for number in ties["nodes"] if number is not None]
    averaged = spread([test for test in ties["test"] if test is not None])
    interval = paired_interval(ties["test"], one.tests) if one.result else None
    return {
        "dataset": one.cell.dataset,
        "model": one.cell.system,
        "nodes with equal keys": f"{fmean(nodes):.0f}" if nodes else OPEN,
        "ties by number": one.figure,
        "mean over ties": one.text(averaged),
        "difference": str(interval or OPEN),
        "paper": str(printed_accuracy(one.cell.system, one.cell.dataset) or NOTHING),
    }
