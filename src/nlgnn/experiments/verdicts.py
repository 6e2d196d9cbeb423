"""The verdict of `nlgnn diagnose` on the paper's graphs, beside the paper's own categories."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from nlgnn.datasets import load_graph
from nlgnn.experiments.cells import Cell, Settings, read_cells, versions
from nlgnn.experiments.diagnose import diagnose
from nlgnn.experiments.evidence import SHORT
from nlgnn.experiments.interval import Interval
from nlgnn.experiments.measured import NOTHING, OPEN
from nlgnn.experiments.paper import paper_results
from nlgnn.experiments.paper_datasets import PAPER_NAMES
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.systems import SMALL_DATASETS
from nlgnn.experiments.tables import ResultTable

CATEGORIES = {None: "assortative", 1: "first", 2: "second"}


@dataclass(frozen=True)
class VerdictCell(Cell):
    """One diagnosis, as a user would ask for it."""

    store: ClassVar[str] = "verdicts"
    dataset: str
    system: str = ""

    @property
    def label(self) -> str:
        return "verdict"

    def quick(self) -> VerdictCell:
        return self

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return SHORT

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        graph = load_graph(self.dataset, allow_unverified=True)
        wall, cpu = time.perf_counter(), time.process_time()
        diagnosis = diagnose(graph, progress=progress)
        difference = diagnosis.evidence.difference
        return {
            "dataset": self.dataset,
            "category": diagnosis.category,
            "adjusted_homophily": round(diagnosis.evidence.adjusted_homophily, 4),
            "protocol": diagnosis.evidence.protocol,
            "splits": diagnosis.evidence.splits,
            "validation": {name: round(mean, 3) for name, mean in diagnosis.evidence.means.items()},
            "difference": difference._asdict() if difference else None,
            "seconds": round(time.perf_counter() - wall, 1),
            "cpu_seconds": round(time.process_time() - cpu, 1),
            "model": {},
            "recipe": dict(SHORT),
            "versions": versions(),
        }


def paper_category(dataset: str) -> str | None:
    """As the paper has it; both files of Cornell are its Cornell."""
    printed = {name.lower(): row for name, row in paper_results()["datasets"].items()}
    row = printed.get(PAPER_NAMES.get(dataset, dataset))
    return CATEGORIES[row["category"]] if row else None


def verdict_sections(cells: Sequence[VerdictCell], results: Path, protocol: str) -> list[Section]:
    found = read_cells(cells, results)
    rows: Rows = []
    equal = 0
    for cell in cells:
        result, printed = found.get(cell.name), paper_category(cell.dataset)
        row = {"dataset": cell.dataset, "paper": printed or NOTHING, "ours": result["category"] if result else OPEN}
        equal += row["paper"] == row["ours"]
        row |= {name: f"{result['validation'][name]:.1f}" if result else OPEN for name in ("mlp", "gcn", "gat")}
        row["better graph model − mlp"] = str(Interval(**result["difference"])) if result else OPEN
        row["splits"] = f"{result['splits']} of {result['protocol']}" if result else OPEN
        row["seconds"] = f"{result['seconds']:.0f} ({result['cpu_seconds']:.0f})" if result else OPEN
        rows.append(row)
    caption = (
        f"What nlgnn diagnose says: {equal} of {len(found)} verdicts equal the paper's category. Best validation "
        "accuracy in % of short trainings, mean over splits; the difference with its 95 % t-interval. Seconds: of the "
        "clock (of the processor)."
    )
    return [Section("Verdicts", rows, caption, text_columns=3)] if cells else []


VERDICT_TABLE = ResultTable(lambda protocol: [VerdictCell(dataset) for dataset in SMALL_DATASETS], verdict_sections)
