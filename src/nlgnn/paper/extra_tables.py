"""Tables that the paper does not have: every compared system with printed figures, and the learned order."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from nlgnn.models.registry import PUBLISHED, get_system
from nlgnn.paper import plans
from nlgnn.paper.cell import NOTHING, OPEN, Found, Measured, caption, words
from nlgnn.paper.findings import Comparison
from nlgnn.paper.numbers import (
    AGREES,
    agreement_with_any,
    comparable_figures,
    option_text,
    printed_figures,
    sources,
    split_names,
)
from nlgnn.paper.structure_cells import is_structure
from nlgnn.report.table import Rows, Section

# Compared systems


def system_sections(found: Found) -> list[Section]:
    """Return all systems in one matrix, then each with its printed figures."""
    main = sorted(found.values(), key=lambda one: plans.SYSTEM_ORDER.index(one.cell.system))
    if not main:
        return []
    sections = [_matrix(main)]
    for system in dict.fromkeys(one.cell.system for one in main):
        sections.append(_system(system, [one for one in main if one.cell.system == system]))
    figures = [figure for one in main for figure in printed_figures(one.cell.system, one.cell.dataset)]
    used = {figure.split for figure in figures} | {figure.source for figure in figures}
    rows = [{"name": name, "description": text} for name, text in (split_names() | sources()).items() if name in used]
    return [*sections, *([Section("Origin of printed figures", rows, "", text_columns=2)] if rows else [])]


def _matrix(main: Sequence[Measured]) -> Section:
    systems = list(dict.fromkeys(one.cell.system for one in main))
    datasets = list(dict.fromkeys(one.cell.dataset for one in main))
    figures = {(one.cell.system, one.cell.dataset): one.figure for one in main}
    rows = [
        {"system": system, **{dataset: figures.get((system, dataset), NOTHING) for dataset in datasets}}
        for system in systems
    ]
    marks = [mark for one in main if (mark := system_agreement(one))]
    return Section("All systems", rows, caption("matrix", rows, agreeing=marks.count(AGREES), compared=len(marks)))


def system_agreement(one: Measured) -> str:
    """Return the mark of agreement with the comparable printed figures, empty if there are none."""
    figures = comparable_figures(one.cell.system, one.cell.dataset, one.cell.protocol, one.options)
    return agreement_with_any(one.test, figures) if one.test else ""


def _system(system: str, own: Sequence[Measured]) -> Section:
    rows: Rows = []
    for one in own:
        printed = comparable_figures(system, one.cell.dataset, one.cell.protocol, one.options)
        means = sorted(figure.mean for figure in printed)
        single = str(printed[0]) if printed else NOTHING
        rows.append(
            {
                "dataset": one.cell.dataset,
                "ours": one.figure,
                "settings": _settings(one),
                "printed": f"{means[0]} to {means[-1]}" if len(set(means)) > 1 else single,
                "agrees": system_agreement(one) or NOTHING,
                "split": ", ".join(dict.fromkeys(figure.split for figure in printed)) or NOTHING,
                "source": "; ".join(dict.fromkeys(figure.source for figure in printed)) or NOTHING,
                "seconds": f"{one.seconds:.0f}" if one.result else OPEN,
            }
        )
    return Section(system, rows, caption("system", rows, source=get_system(system).source.rstrip(".")))


def _settings(one: Measured) -> str:
    """Describe where the settings of a cell come from and what was chosen."""
    known = get_system(one.cell.system)
    if one.cell.dataset in known.published:
        origin = "published"
    elif not known.program and one.cell.dataset in PUBLISHED:
        origin = f"those of {PUBLISHED[one.cell.dataset].system}"
    else:
        origin = "" if len(one.cell.candidates) > 1 else "defaults"
    number = len(one.cell.candidates)
    chosen = f"{option_text(one.options) or OPEN} (of {number})" if number > 1 else option_text(one.options)
    return "; ".join(part for part in (origin, chosen) if part)


# The learned order


VOTE_FINDS, CONV_FINDS = 85.0, 80.0  # test accuracies from which on the planted order is found
NOT_COUNTED = "cornell-pre2022"  # captions.toml says why
CONTROLS_OF = {
    plans.VOTE: (plans.FROZEN, plans.RANDOM),
    plans.CONV: (plans.CONV_FROZEN, plans.CONV_RANDOM, plans.KERNEL_1),
}


def order_sections(found: Found) -> list[Section]:
    """Return the summary, the planted graphs, harder planted graphs, and the real graphs."""
    found = {name: one for name, one in found.items() if not is_structure(one)}
    planted = [one for one in found.values() if one.cell.planted]
    easy = [one for one in planted if one.cell.planted and one.cell.planted[1:] == (0, 1.0)]
    by_graph: dict[str, dict[str, list[Measured]]] = {}
    for one in found.values():
        if not one.cell.planted:
            by_graph.setdefault(one.cell.dataset, {})[one.cell.condition] = [one]
    graphs = [Comparison(dataset, own) for dataset, own in by_graph.items()]
    sentences = [*_planted_summary(easy), *_real_summary(graphs)]
    sections = [Section("Summary", [], "", " ".join(sentences))] if sentences else []
    sections += [_planted(easy)] if easy else []
    sections += [_harder(planted)] if len(planted) > len(easy) else []
    return [*sections, *(_real(graphs) if graphs else [])]


def _planted(cells: Sequence[Measured]) -> Section:
    rows: Rows = []
    for condition in plans.CONDITIONS:
        tests = _by_seed([one for one in cells if one.cell.condition == condition.name])
        known = [test.mean for one in tests.values() if (test := one.test)]
        row = {"model": condition.name}
        row |= {f"graph {seed}": tests[seed].figure if seed in tests else OPEN for seed in plans.PLANTED_SEEDS}
        marks = "".join(dict.fromkeys(mark for one in tests.values() for mark in one.marks))
        rows.append(row | {"mean": f"{fmean(known):.1f}{marks}" if len(known) == len(plans.PLANTED_SEEDS) else OPEN})
    return Section("A planted order", rows, caption("planted", rows, epochs=plans.ON_PLANTED["epochs"]))


def _harder(cells: Sequence[Measured]) -> Section:
    rows: Rows = []
    for title, nuisance, share in (
        ("as above", 0, 1.0),
        *((f"columns of noise: {number}", number, 1.0) for number in plans.NUISANCES),
        *((f"{100 * share:g} % of the training labels", 0, share) for share in plans.LABEL_SHARES),
    ):
        row = {"graph": title}
        for name in (plans.VOTE, plans.MANY.name):
            alike = [one for one in cells if one.cell.condition == name
                     and one.cell.planted and one.cell.planted[1:] == (nuisance, share)]  # fmt: skip
            tests = _by_seed(alike)
            figures = [tests[seed].figure if seed in tests else OPEN for seed in plans.PLANTED_SEEDS]
            row[name] = " / ".join(figures) if alike else NOTHING
        rows.append(row)
    return Section("Harder planted graphs", rows, caption("harder", rows))


def _by_seed(cells: Sequence[Measured]) -> dict[int, Measured]:
    return {one.cell.planted.seed: one for one in cells if one.cell.planted and one.result}


def _real(graphs: Sequence[Comparison]) -> list[Section]:
    names = [condition.name for condition in plans.CONDITIONS]
    rows = _rows(graphs, names, [])
    text = caption("real", rows, seeds=plans.SEEDS, options=option_text(plans.COMMON))
    sections = [Section("Real graphs", rows, text, text_columns=2)]
    rows = _rows(graphs, [], [name for name in names if name != plans.LOCAL_PART])
    sections.append(Section("Differences from the local part", rows, caption("real-differences", rows), text_columns=2))
    votes = [plans.VOTE, plans.SHRUNK.name]
    rows = _rows([graph for graph in graphs if graph.dataset in plans.WIDE], [plans.LOCAL_PART, *votes], votes)
    text = caption("shrinkage", rows, shrinkage=plans.SHRUNK.options["space_shrinkage"])
    return [*sections, Section("Smaller shrinkage", rows, text, text_columns=2)] if rows else sections


def _rows(graphs: Sequence[Comparison], figures: Sequence[str], differences: Sequence[str]) -> Rows:
    """Return test figures of some conditions, and differences of some from the local part."""
    return [
        {"dataset": graph.dataset, "local": plans.LOCAL_OF[graph.dataset]}
        | {name: graph.figure(name) for name in figures}
        | {f"{name} − local": graph.text(name, plans.LOCAL_PART) for name in differences}
        for graph in graphs
    ]


def _planted_summary(cells: Sequence[Measured]) -> list[str]:
    tests: dict[str, list[float]] = {condition.name: [] for condition in plans.CONDITIONS}
    for one in cells:
        if one.test:
            tests[one.cell.condition].append(one.test.mean)
    votes, convolutions = tests[plans.VOTE], tests[plans.CONV]
    if not votes:
        return []
    controls = [test for condition in plans.CONDITIONS if condition.control for test in tests[condition.name]]
    values = {
        "votes": f"{sum(test > VOTE_FINDS for test in votes)} of {len(votes)}",
        "convolutions": f"{sum(test > CONV_FINDS for test in convolutions)} of {len(convolutions)}",
        "controls": len(controls),
        "found": sum(test >= CONV_FINDS for test in controls),
    }
    return [words()["summary"]["planted"].format_map(values)]


def _real_summary(graphs: Sequence[Comparison]) -> list[str]:
    counted = [graph for graph in graphs if graph.dataset != NOT_COUNTED]
    sentences = [
        *_standing(counted, plans.VOTE, "votes along the learned order", "a frozen space and random orders"),
        *_standing(counted, plans.CONV, "convolutions along it", "a frozen space, a random order and kernel 1"),
    ]
    return [*sentences, words()["summary"]["not-counted"]] if sentences else []


def _standing(graphs: Sequence[Comparison], reading: str, subject: str, controls: str) -> list[str]:
    """Say where one use of the learned order is ahead of the local part, and where of its controls too."""
    intervals = {graph.dataset: found.interval for graph in graphs if (found := graph.minus(reading, plans.LOCAL_PART))}
    if not intervals:
        return []
    ahead = [dataset for dataset, interval in intervals.items() if interval.is_above_zero]
    values = {
        "ahead": _named(ahead),
        "behind": _named([dataset for dataset, interval in intervals.items() if interval.is_below_zero]),
        "by_order": _named([one.dataset for one in graphs if one.dataset in ahead and _beats_controls(one, reading)]),
    }
    return [words()["summary"]["real"].format(graphs=len(intervals), words=subject, controls=controls, **values)]


def _beats_controls(graph: Comparison, reading: str) -> bool:
    differences = [graph.minus(reading, control) for control in CONTROLS_OF[reading]]
    return all(found is not None and found.interval.is_above_zero for found in differences)


def _named(datasets: Sequence[str]) -> str:
    return f"{len(datasets)}" + (f" ({', '.join(datasets)})" if datasets else "")
