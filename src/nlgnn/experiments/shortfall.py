"""Where the best non-local model stays below the paper's band, and which change of it does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from nlgnn.experiments.ablation import DATASETS, AblationCell, ablation_cells
from nlgnn.experiments.accuracy import agreement
from nlgnn.experiments.cells import read_cells
from nlgnn.experiments.measured import NOTHING, Measured
from nlgnn.experiments.paper import Printed
from nlgnn.experiments.searched import SPLITS
from nlgnn.experiments.section import Section


def shortfall_sections(below: Mapping[str, Printed], results: Path, protocol: str) -> list[Section]:
    """Of datasets where ours is `below` what is printed: the changes of the ablation that are not, and the others.

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
        short = [one for one in own if one.ours and agreement(one.ours, printed) == "▼"]
        reaching = [one for one in own if one.ours and one not in short]
        rows.append(
            {
                "dataset": dataset,
                "band from": f"{printed.low:.1f}",
                "changed, and not below": _list([f"{one.cell.condition} {one.figure}" for one in reaching]),
                "changed, and below": _list([f"{one.cell.condition} {one.figure}" for one in short]),
                "open": _list([one.cell.condition for one in own if one.ours is None]),
            }
        )
    caption = (
        "The published settings with one thing changed, on the same splits and seeds: test accuracy in %, mean ± "
        f"sample standard deviation over {SPLITS} runs, protocol {protocol}. Band: from one of the paper's standard "
        "deviations below its mean. "
        "Validation did not choose among these changes: they show what the distance may be made of, and are no better "
        f"result. Only {', '.join(DATASETS)} have an ablation."
    )
    return [Section(f"Where ours is below, {protocol}", rows, caption, text_columns=5)]


def _list(words: Sequence[str]) -> str:
    return ", ".join(words) or NOTHING
