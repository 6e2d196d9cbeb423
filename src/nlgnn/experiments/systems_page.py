"""What is shown of the compared systems: all in one matrix, then each beside the figures that others printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nlgnn.experiments.cells import PRESET, read_cells
from nlgnn.experiments.compare import selection_words
from nlgnn.experiments.measured import NOTHING, OPEN, SHORTER, Measured, letter
from nlgnn.experiments.notes import read_notes
from nlgnn.experiments.printed import printed_figures, sources, split_words, words
from nlgnn.experiments.searched import SEARCH_EPOCHS, SEARCH_SPLITS, SPLITS, SearchedCell
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.systems import system_cells
from nlgnn.training.systems import PUBLISHED, get_system

PRINTED_CAPTION = (
    "A cell stands beside the figure of the system's own authors for its variant, or for the best of all variants; "
    "where none is known for such splits, beside the range of what third parties printed. Differences are from the "
    "nearer end of a range, in units of our standard deviation, combined with theirs where one is printed. Printed "
    "figures of Cornell are of the file of before July 2022. Seconds are those of all trainings of a cell, candidates "
    "included."
)


def system_sections(cells: Sequence[SearchedCell], results: Path, protocol: str) -> list[Section]:
    """Always of the fixed splits, whatever the protocol: what others printed is of them."""
    found = read_cells(cells, results)
    everything = [Measured(cell, found.get(cell.name)) for cell in cells]
    main = [measured for measured in everything if not measured.cell.condition]
    extra = [measured for measured in everything if measured.cell.condition]
    # also those that are not to be shown, which a note may speak of
    by_name = {cell.name: Measured(cell, found.get(cell.name)) for cell in [*system_cells(), *cells]}
    notes = read_notes(results / SearchedCell.store / "notes.md", by_name)
    sections = [_matrix(main), *_outside(main, extra, notes)]
    for system in dict.fromkeys(measured.cell.system for measured in everything):
        own = [measured for measured in main if measured.cell.system == system]
        if own:
            sections.append(_system(system, own, notes.get(system, "")))
        others = [measured for measured in extra if measured.cell.system == system]
        if others:
            sections.append(_conditions(system, others, by_name))
    return [*sections, *_origins(everything)]


def _matrix(main: Sequence[Measured]) -> Section:
    systems = list(dict.fromkeys(measured.cell.system for measured in main))
    datasets = list(dict.fromkeys(measured.cell.dataset for measured in main))
    figures = {(measured.cell.system, measured.cell.dataset): measured.figure + measured.letter for measured in main}
    rows = [
        {"system": system, **{dataset: figures.get((system, dataset), "") for dataset in datasets}}
        for system in systems
    ]
    variants = [
        f"{system}: {', '.join(f'{letter(number)} {words(one)}' for number, one in enumerate(known))}"
        for system in systems
        if (known := get_system(system).variants)
    ]
    compared = [measured for measured in main if measured.distance is not None]
    within = sum(measured.within for measured in compared)
    parts = [
        f"Test accuracy in %: mean ± sample standard deviation. {_protocol(main)}",
        f"{within} of {len(compared)} compared cells are within two standard deviations of what was printed.",
        f"Letters: the variant that validation chose ({'; '.join(variants)})." if variants else "",
        f"{OPEN} not measured yet." if any(measured.result is None for measured in main) else "",
    ]
    return Section("All systems", rows, " ".join(part for part in parts if part))


def _outside(main: Sequence[Measured], extra: Sequence[Measured], notes: Mapping[str, str]) -> Iterator[Section]:
    """Which cells are farther from what was printed than two standard deviations, and what was measured about it."""
    rows = []
    for measured in main:
        if measured.distance is None or measured.within:
            continue
        system, dataset = measured.cell.system, measured.cell.dataset
        about = [
            f"{one.cell.condition}: {one.figure}"
            for one in extra
            if (one.cell.system, one.cell.dataset) == (system, dataset)
        ]
        about += ["see the text"] if dataset in notes.get(system, "").lower() else []
        rows.append(
            {
                "system": system,
                "dataset": dataset,
                "ours": measured.figure,
                "printed": measured.printed_text,
                "difference (s.d.)": _signed(measured.distance),
                "measured about it": "; ".join(about) or NOTHING,
            }
        )
    if rows:
        yield Section("Outside two standard deviations", rows, _runs(main))


def _system(system: str, own: Sequence[Measured], note: str) -> Section:
    rows: Rows = []
    for measured in own:
        result = measured.result
        rows.append(
            {
                "dataset": measured.cell.dataset,
                "ours": measured.figure,
                "settings": _settings(measured),
                "printed": measured.printed_text,
                "split": ", ".join(dict.fromkeys(figure.split for figure in measured.printed)) or NOTHING,
                "source": "; ".join(dict.fromkeys(figure.source for figure in measured.printed)) or NOTHING,
                "difference (s.d.)": _signed(measured.distance),
                "within 2 s.d.": NOTHING if measured.distance is None else "yes" if measured.within else "no",
                "seconds": OPEN if result is None else f"{result['seconds'] + result['search_seconds']:.0f}",
            }
        )
    return Section(system, rows, f"{get_system(system).source.rstrip('.')}. {_protocol(own)}", note)


def _conditions(system: str, others: Sequence[Measured], by_name: Mapping[str, Measured]) -> Section:
    rows = []
    for measured in others:
        cell = measured.cell
        main = by_name[f"{cell.dataset}-{cell.system}"]
        rows.append(
            {
                "dataset": cell.dataset,
                "condition": cell.condition,
                "why": cell.why,
                "protocol": cell.protocol,
                "this": measured.figure,
                "above": main.figure,
                "this − above": measured.minus(main),
                "printed": measured.printed_text,
                "difference (s.d.)": _signed(measured.distance),
            }
        )
    caption = (
        f"{_runs(others)} Nothing was searched for these cells. this − above: paired over splits (standard error), "
        "where the splits are the same."
    )
    return Section(f"{system} under other conditions", rows, caption)


def _origins(everything: Sequence[Measured]) -> Iterator[Section]:
    """Splits and sources by the names that stand in the tables."""
    figures = [figure for one in everything for figure in printed_figures(one.cell.system, one.cell.dataset)]
    used = {figure.split for figure in figures} | {figure.source for figure in figures}
    rows = [{"name": name, "what it is": text} for name, text in (split_words() | sources()).items() if name in used]
    if rows:
        yield Section("Printed figures", rows, PRINTED_CAPTION, text_columns=2)


def _settings(measured: Measured) -> str:
    """Where the settings of a cell come from, and what was chosen."""
    cell = measured.cell
    known = get_system(cell.system)
    if cell.dataset in known.published:
        origin = "published"
    elif not known.program and cell.dataset in PUBLISHED:
        origin = f"those of {PUBLISHED[cell.dataset].system}"
    else:
        origin = "" if len(cell.candidates) > 1 else "defaults"
    number = len(cell.candidates)
    chosen = f"{words(measured.options) or OPEN} (of {number})" if number > 1 else words(measured.options)
    return "; ".join(part for part in (origin, chosen) if part)


def _protocol(measured: Sequence[Measured]) -> str:
    """All that is to be known about how the figures of a table came about."""
    search = _either(sorted({one.cell.schedule.search_splits for one in measured if len(one.cell.candidates) > 1}))
    rules = dict.fromkeys(one.result["recipe"]["selection"] for one in measured if one.result)
    selections = "; ".join(selection_words(rule, "accuracy") for rule in rules)
    shorter: dict[str, list[str]] = {}
    for one in measured:
        if one.cell.shortened:
            shorter.setdefault(_schedule(one.cell), []).append(f"{one.cell.system} on {one.cell.dataset}")
    parts = [
        _runs(measured),
        f"Figures of {'one epoch, by the rule of each system: ' if len(rules) > 1 else ''}{selections}."
        if rules
        else "",
        f"Candidates: the best validation accuracy on the first {search} splits, in {SEARCH_EPOCHS} epochs at most."
        if search
        else "",
        *(
            f"{SHORTER} shortened to {schedule}: {', '.join(names) if len(names) < 6 else f'{len(names)} cells'}."
            for schedule, names in shorter.items()
        ),
    ]
    return " ".join(part for part in parts if part)


def _runs(measured: Sequence[Measured]) -> str:
    protocols = list(dict.fromkeys(one.cell.protocol for one in measured))
    splits = sorted({one.cell.schedule.splits for one in measured})
    return f"Protocol {_either(protocols)}, {_either(splits)} splits, one run on each; preset {PRESET}."


def _schedule(cell: SearchedCell) -> str:
    """In what it differs from the full one."""
    options, splits, search_splits = cell.schedule.options, cell.schedule.splits, cell.schedule.search_splits
    parts = [
        words(options),
        f"{splits} splits" if splits != SPLITS else "",
        f"{search_splits} for candidates" if search_splits != SEARCH_SPLITS else "",
    ]
    return ", ".join(part for part in parts if part)


def _either(values: Sequence[object]) -> str:
    return " or ".join(map(str, values))


def _signed(number: float | None) -> str:
    return NOTHING if number is None else f"{number:+.1f}" if number else "inside"
