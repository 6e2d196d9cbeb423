"""The paper's tables and figures as sections: statistics, accuracies, verdicts, homophily, sequences, step times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from nlgnn.paper import plans
from nlgnn.paper.cell import HUGE_DATASETS, NOTHING, OLDER, OPEN, Cell, Found, Measured, caption, words
from nlgnn.paper.measure import TIMED_SYSTEMS, TURN, timed_systems
from nlgnn.paper.numbers import (
    ABOVE,
    AGREES,
    BELOW,
    Printed,
    agreement,
    printed_accuracy,
    printed_cpgcn,
    printed_speed,
    printed_statistics,
    printed_validation,
)
from nlgnn.paper.plans import ATTENTION_SAMPLED, GEOM_GCN, LOCAL, RANDOM_60, SAMPLED, SYSTEM_ORDER
from nlgnn.report.table import Rows, Section
from nlgnn.selection.statistics import Spread, spread

DATASETS_PER_TABLE = 3
CATEGORIES = {None: "assortative", 1: "first", 2: "second"}


# Table 1


STATISTICS = {**{name: name for name in ("nodes", "features", "classes", "edges")}, "homophily": "H(G)"}  # headings


def dataset_sections(found: Found) -> list[Section]:
    """Return the statistics of the graphs compared with table 1, and the reason for each difference."""
    rows: Rows = []
    differences: Rows = []
    for one in found.values():
        ours, printed = one.result, printed_statistics(one.cell.dataset)
        row = {"dataset": one.cell.dataset, "category": CATEGORIES[printed["category"]] if printed else NOTHING}
        for name, heading in STATISTICS.items():
            row[heading] = _number(ours[name], 3) if ours else one.text("")
            row[f"paper, {heading}"] = _number(printed[name], 2) if printed else NOTHING
            if ours and printed and round(ours[name], 2) != printed[name]:
                differences.append(
                    {
                        "dataset": one.cell.dataset,
                        "statistic": heading,
                        "ours": row[heading],
                        "paper": row[f"paper, {heading}"],
                        "reason": _reason(ours, name, printed[name]),
                    }
                )
        rows.append(row | {"chance": _number(ours["chance"], 3) if ours else NOTHING})
    if not rows:
        return []
    sections = [Section("Datasets (table 1)", rows, caption("datasets", rows), text_columns=2)]
    if differences:
        sections.append(Section("Differences from table 1", differences, "", text_columns=2))
    return sections


def _reason(ours: Mapping[str, Any], name: str, printed: float) -> str:
    reasons = words()["reasons"]
    if name == "edges":
        for count in reasons["counts"]:
            if ours[count["of"]] / count["divisor"] == printed:
                return str(count["text"].format_map(ours))
    return str(reasons.get(ours["dataset"], {}).get(name, "not known"))


def _number(value: float, places: int) -> str:
    return str(value) if isinstance(value, int) else f"{value:.{places}f}"


# Tables 2 to 5


def accuracy_sections(
    title: str,
    found: Found,
    printed: Callable[[str, str], Printed | None] = printed_accuracy,
    validation: bool = False,
) -> list[Section]:
    """Return accuracies by system, splits and dataset, each followed by the printed one.

    Args:
        title: The title of the table.
        found: The cells of the table, whose datasets and systems are shown in this order.
        printed: Returns the printed figure of a system on a dataset.
        validation: Show validation accuracies in place of test accuracies.
    """
    measured = {(one.cell.system, splits_of(one.cell), one.cell.dataset): one for one in found.values()}
    datasets = list(dict.fromkeys(one.cell.dataset for one in found.values()))
    keys = sorted({(SYSTEM_ORDER.index(system), system, splits) for system, splits, _ in measured})
    runs = " or ".join(map(str, sorted({one.cell.schedule.splits for one in found.values()}, reverse=True)))
    sections = []
    for start in range(0, len(datasets), DATASETS_PER_TABLE):
        chosen = datasets[start : start + DATASETS_PER_TABLE]
        rows: Rows = []
        for _, system, splits in keys:
            row = {"system": system, "splits": splits}
            for dataset in chosen:
                theirs = printed(system, dataset)
                row[dataset] = _accuracy(measured.get((system, splits, dataset)), theirs, validation)
                row[f"paper, {dataset}"] = str(theirs or NOTHING)
            if any((system, splits, dataset) in measured for dataset in chosen):
                rows.append(row)
        what = "Best validation accuracy" if validation else "Test accuracy at the first epoch of the best validation"
        name = "accuracies-last" if chosen[-1] == datasets[-1] else "accuracies"
        text = caption(name, rows, what=what, runs=runs, sampled=SAMPLED, attention=ATTENTION_SAMPLED)
        sections.append(Section(f"{title}: {', '.join(chosen)}", rows, text, text_columns=2))
    return sections


def splits_of(cell: Cell) -> str:
    """Return the protocol of a cell. Graphs with splits of their own belong to the row of random splits."""
    return RANDOM_60 if cell.dataset in HUGE_DATASETS else cell.protocol


def _accuracy(one: Measured | None, printed: Printed | None, validation: bool) -> str:
    if one is None:
        return NOTHING
    ours = one.validation if validation else one.test
    return one.text(ours) + (f" {agreement(ours, printed)} {ours.mean - printed.mean:+.1f}" if ours and printed else "")


# Agreement with tables 2 to 5


class AccuracyTable(NamedTuple):
    """A table of accuracies in the paper: its name, its cells, what it prints, and whether that is validation."""

    name: str
    cells: Callable[[Path], Sequence[Cell]]
    printed: Callable[[str, str], Printed | None] = printed_accuracy
    validation: bool = False


ACCURACY_TABLES = (
    AccuracyTable("best validation (table 2)", plans.category_cells, printed_validation, validation=True),
    AccuracyTable("first category (table 3)", plans.first_category_cells),
    AccuracyTable("second category (table 4)", plans.second_category_cells),
    AccuracyTable("all graphs (table 5)", plans.all_result_cells),
    AccuracyTable("splits of CPGNN", plans.cpgcn_cells, printed_cpgcn),
)


def agreement_cells(results: Path) -> list[Cell]:
    """Return the cells of the paper's tables of accuracies."""
    return [cell for table in ACCURACY_TABLES for cell in table.cells(results)]


def agreement_sections(found: Found) -> list[Section]:
    """Return how many figures of each table agree with the paper, and by how much they differ."""
    rows: Rows = []
    for table in ACCURACY_TABLES:
        names = [cell.name for cell in table.cells(Path()) if not _is_on_other_splits(cell)]
        printed = [
            (found[name], figure)
            for name in names
            if name in found and (figure := table.printed(found[name].cell.system, found[name].cell.dataset))
        ]
        known = [(one, ours, figure) for one, figure in printed
                 if (ours := one.validation if table.validation else one.test)]  # fmt: skip
        marks = [agreement(ours, figure) for _, ours, figure in known]
        differences = {f"{one.cell.system} on {one.cell.dataset}{one.marks}": ours.mean - figure.mean
                       for one, ours, figure in known}  # fmt: skip
        largest = max(differences, key=lambda name: abs(differences[name]), default="")
        rows.append(
            {
                "table": table.name,
                "printed": str(len(printed)),
                "compared": str(len(known)),
                **{mark: str(marks.count(mark)) for mark in (AGREES, ABOVE, BELOW)},
                "mean difference": f"{fmean(differences.values()):+.1f}" if known else OPEN,
                "mean distance": f"{fmean(map(abs, differences.values())):.1f}" if known else OPEN,
                "largest difference": f"{differences[largest]:+.1f}, {largest}" if known else OPEN,
            }
        )
    return [Section("Agreement with the paper", rows, caption("agreement", rows))] if found else []


def _is_on_other_splits(cell: Cell) -> bool:
    """Return True for a model of the framework on the public splits: the paper trains it on random ones."""
    return cell.store == "framework" and cell.protocol == GEOM_GCN


# Verdicts, homophily and sequences


def verdict_sections(found: Found) -> list[Section]:
    """Return the verdicts of `nlgnn diagnose` next to the paper's categories."""
    rows: Rows = []
    equal = 0
    for one in found.values():
        result, printed = one.result, printed_statistics(one.cell.dataset)
        paper = CATEGORIES[printed["category"]] if printed else NOTHING
        equal += result is not None and result["category"] == paper
        row = {"dataset": one.cell.dataset, "paper": paper, "ours": one.text(result["category"] if result else "")}
        for name in LOCAL:
            row[name] = f"{result['validation'][name]:.1f}" if result else OPEN
        interval = result["difference"] if result else None
        text = "{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        row["better graph model − mlp"] = text.format_map(interval) if interval else OPEN
        row["seconds"] = f"{result['seconds']:.0f}" if result else OPEN
        rows.append(row)
    how = caption("verdicts", rows, equal=equal, total=len(rows))
    return [Section("Categories found by diagnose", rows, how, text_columns=3)]


def homophily_sections(title: str, name: str, found: Found) -> list[Section]:
    """Return the homophily of the re-connected graph, before training and at the chosen epoch.

    Args:
        title: The title of the table.
        name: The name of its caption.
        found: The cells of the table.
    """
    rows: Rows = []
    trained = []
    for one in found.values():
        if one.result is None:
            continue
        levels = one.result["homophily"]
        trained.append((levels["graph"], levels["chance"], fmean(levels["before"]), fmean(levels["after"])))
        rows.append(
            {
                "dataset": one.cell.dataset,
                "model": one.cell.system + OLDER * one.older,
                "H(G)": f"{levels['graph']:.2f}",
                "chance": f"{levels['chance']:.2f}",
                "H(Ĝ) untrained": _two_places(spread(levels["before"])),
                "H(Ĝ) trained": _two_places(spread(levels["after"])),
            }
        )
    above = [sum(after > values[side] for *values, after in trained) for side in range(3)]
    text = words()["summary"]["homophily"].format(*above, orders=len(trained))
    return [Section(title, rows, caption(name, rows), text, text_columns=2)] if rows else []


def _two_places(value: Spread | None) -> str:
    if value is None:
        return NOTHING
    return f"{value.mean:.2f}" + ("" if value.std is None else f" ± {value.std:.2f}")


# Table 6


def efficiency_sections(found: Found) -> list[Section]:
    """Return the times of a training step compared with table 6."""
    rows: Rows = []
    machines: dict[str, None] = {}
    for one in found.values():
        dataset, result = one.cell.dataset, one.result
        systems = timed_systems(dataset)
        for system in dict.fromkeys((*TIMED_SYSTEMS, *systems)):
            ours, printed = result["steps"].get(system) if result else None, printed_speed(system, dataset)
            timed = printed["status"] == "ok"
            rows.append(
                {
                    "dataset": dataset,
                    "model": system + OLDER * one.older,
                    "median ms": f"{ours['median ms']:.1f}" if ours else one.text("") if not result else NOTHING,
                    "mean ms": f"{ours['mean ms']:.1f}" if ours else NOTHING,
                    "ratio to gcn": f"{ours['ratio']:.2f}" if ours else NOTHING,
                    "paper, ms": f"{printed['ms_per_epoch']:.1f}"
                    if timed
                    else printed["status"].replace("_", " ").replace("not reported", NOTHING),
                    "paper, ratio": f"{printed['ratio_to_gcn']:.1f}" if timed else NOTHING,
                }
            )
        if result:
            machines[f"{result['processor']}, threads {result['threads']}, load {result['load']} ({dataset})"] = None
    options = next((one.cell.schedule.options for one in found.values()), {})
    values = {name: options.get(name) for name in ("epochs", "hidden", "heads")}
    values |= {"load": options.get("largest load"), "seconds": f"{options.get('seconds a system', 0):g}", "turn": TURN}
    ours = f"Ours: {'; '.join(machines)}." if machines else ""
    text = caption("efficiency", rows, machines=ours, **values)
    return [Section("Step times (table 6)", rows, text, text_columns=2)] if rows else []
