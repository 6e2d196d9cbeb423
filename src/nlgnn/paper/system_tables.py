"""Tables of the compared systems with their printed figures."""

from __future__ import annotations

from collections.abc import Sequence

from nlgnn.models.registry import PUBLISHED, get_system
from nlgnn.paper import plans
from nlgnn.paper.cell import NOTHING, OPEN, Found, Measured, caption
from nlgnn.paper.numbers import (
    AGREES,
    agreement_with_any,
    comparable_figures,
    option_text,
    printed_figures,
    sources,
    split_names,
)
from nlgnn.report.table import Rows, Section


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
