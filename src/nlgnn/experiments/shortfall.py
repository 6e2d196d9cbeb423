"""Where the best non-local model stays below the paper's band, and which change of it is inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nlgnn.experiments.ablation import AblationCell, ablation_cells
from nlgnn.experiments.accuracy import agreement
from nlgnn.experiments.cells import read_cells
from nlgnn.experiments.measured import NOTHING, Measured
from nlgnn.experiments.paper import Printed
from nlgnn.experiments.section import Section


def shortfall_sections(below: Mapping[str, Printed], results: Path, protocol: str) -> list[Section]:
    """Of datasets where ours is `below` what is printed: the changes of the ablation that are inside, and the others.

    Nothing where no change has been measured.
    """
    changed = [cell for cell in ablation_cells(protocol) if isinstance(cell, AblationCell) and cell.dataset in below]
    found = read_cells(changed, results)
    if not found:
        return []
    rows = []
    for dataset in dict.fromkeys(cell.dataset for cell in changed):
        printed = below[dataset]
        own = [Measured(cell, found.get(cell.name)) for cell in changed if cell.dataset == dataset]
        outside = [one for one in own if one.ours and agreement(one.ours, printed) == "▼"]
        inside = [one for one in own if one.ours and one not in outside]
        rows.append(
            {
                "dataset": dataset,
                "band from": f"{printed.mean - (printed.std or 0.0):.1f}",
                "changed, and inside": _list([f"{one.cell.condition} {one.figure}" for one in inside]),
                "changed, and below": _list([f"{one.cell.condition} {one.figure}" for one in outside]),
                "open": _list([one.cell.condition for one in own if one.ours is None]),
            }
        )
    caption = (
        "The published settings with one thing changed, on the same splits and seeds: test accuracy in %, mean ± "
        f"sample standard deviation over ten runs, protocol {protocol}. Band: from one of the paper's standard "
        "deviations below its mean. "
        "Validation did not choose among these changes: they show what the distance may be made of, and are no better "
        "result. Only datasets with published settings have an ablation."
    )
    return [Section(f"Where ours is below, {protocol}", rows, caption, text_columns=5)]


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) or NOTHING
