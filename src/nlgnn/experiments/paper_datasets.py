"""The paper's table of its datasets, measured on the loaded graphs, with the reason wherever a figure is another."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from nlgnn.datasets import load_graph
from nlgnn.experiments.cells import Cell, Settings, read_cells, versions
from nlgnn.experiments.measured import NOTHING, not_measured
from nlgnn.experiments.paper import paper_results
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.tables import ResultTable
from nlgnn.graph.homophily import chance_homophily, node_homophily

# Both files of Cornell stand beside the one that the paper prints; the filtered graphs are younger than the paper.
PAPER_NAMES = {"cornell-pre2022": "cornell"}
ALSO_SHOWN = ("cornell-pre2022", "chameleon-filtered", "squirrel-filtered")
KINDS = {None: "assortative", 1: "first category", 2: "second category"}
FIGURES = ("nodes", "features", "classes", "edges", "homophily")

SIZES_CAPTION = "Counted on the graphs as loaded, each beside what the paper's table 1 prints."
HOMOPHILY_CAPTION = (
    "Edges: pairs of different nodes, whatever the direction, each once. H(G): the mean over nodes of the share of "
    "their distinct neighbours that have their label; a node without neighbours adds 0. Chance: what neighbours "
    "drawn from all nodes would give. Kinds are the paper's; both categories are of disassortative graphs."
)
# Where counting in another way does not explain it.
REASONS: Mapping[tuple[str, str], str] = {
    ("actor", "edges"): "no way of counting the public file gives the printed number; it repeats many of its lines",
    ("actor", "features"): "the header of the public file is short by one: columns are numbered from 0 to the number "
    "that it names",
    ("actor", "homophily"): "no way of counting the public file gives the printed value",
    ("cornell-pre2022", "homophily"): "the paper's program trains on this file, which has Texas's features and labels "
    "over Cornell's links; the printed value is that of the corrected file",
}


@dataclass(frozen=True)
class DatasetCell(Cell):
    """One graph, counted. There is nothing to choose, so nothing can be out of date."""

    store: ClassVar[str] = "datasets"
    dataset: str
    system: str = ""

    @property
    def label(self) -> str:
        return "statistics"

    def quick(self) -> DatasetCell:
        return self

    def settings(self, result: Mapping[str, Any]) -> Settings:
        return {}

    def measure(self, unfinished: Path, progress: bool) -> dict[str, Any]:
        started = time.perf_counter()
        graph = load_graph(self.dataset, allow_unverified=True)  # of some nobody knows a checksum
        source, target = graph.edge_index
        return {
            "dataset": self.dataset,
            "nodes": graph.num_nodes,
            "features": graph.num_features,
            "classes": graph.num_classes,
            "edges": graph.num_edges,
            "edges either way": graph.directed_adjacency.nnz,
            "edges in file": len(source),
            "loops in file": int(np.count_nonzero(source == target)),
            "homophily": round(node_homophily(graph), 5),
            "chance": round(chance_homophily(graph), 5),
            "model": {},
            "recipe": {},
            "seconds": round(time.perf_counter() - started, 2),
            "versions": versions(),
        }


def dataset_cells(protocol: str) -> list[DatasetCell]:
    """In the paper's order; the protocol plays no part."""
    return [DatasetCell(dataset.lower()) for dataset in paper_results()["datasets"]] + [
        DatasetCell(dataset) for dataset in ALSO_SHOWN
    ]


def printed_statistics(dataset: str) -> Mapping[str, Any]:
    """The paper's figures; empty for a graph that it does not have."""
    name = PAPER_NAMES.get(dataset, dataset)
    printed: Mapping[str, Any] = next(
        (found for printed_name, found in paper_results()["datasets"].items() if printed_name.lower() == name), {}
    )
    return printed


def dataset_sections(cells: Sequence[DatasetCell], results: Path, protocol: str) -> list[Section]:
    if not cells:
        return []
    found = read_cells(cells, results)
    sizes: Rows = []
    homophily: Rows = []
    differences: Rows = []
    for cell in cells:
        ours, printed = found.get(cell.name), printed_statistics(cell.dataset)
        absent = not_measured(cell.dataset)
        sizes.append({"dataset": cell.dataset, **_pairs(FIGURES[:3], ours, printed, absent)})
        homophily.append(
            {
                "dataset": cell.dataset,
                "kind": KINDS[printed["category"]] if printed else NOTHING,
                **_pairs(FIGURES[3:], ours, printed, absent),
                "chance": f"{ours['chance']:.3f}" if ours else NOTHING,
            }
        )
        if ours:
            differences += _differences(ours, printed)
    sections = [
        Section("Sizes", sizes, SIZES_CAPTION),
        Section("Edges and homophily", homophily, HOMOPHILY_CAPTION, text_columns=2),
    ]
    if differences:
        caption = "H(G) differs where it does so when rounded to the two places that the paper prints."
        sections.append(Section("Other than printed", differences, caption, text_columns=3))
    return sections


def _pairs(
    figures: Sequence[str], ours: Mapping[str, Any] | None, printed: Mapping[str, Any], absent: str
) -> dict[str, str]:
    """Ours and the paper's; that there is nothing of ours is said once a row."""
    row = {}
    for number, figure in enumerate(figures):
        name = _name(figure)
        row[name] = _text(ours[figure]) if ours else NOTHING if number else absent
        row[f"paper, {name}"] = _text(printed[figure], places=2) if printed else NOTHING
    return row


def _differences(ours: Mapping[str, Any], printed: Mapping[str, Any]) -> Rows:
    return [
        {
            "dataset": ours["dataset"],
            "what": _name(figure),
            "why": _reason(ours, figure, printed[figure]),
            "ours": _text(ours[figure]),
            "paper": _text(printed[figure], places=2),
        }
        for figure in FIGURES
        if printed and round(ours[figure], 2) != printed[figure]
    ]


# Of a measured graph: other ways of counting its edges, and how one says so.
COUNTS: tuple[tuple[Callable[[Mapping[str, Any]], float], str], ...] = (
    (lambda ours: ours["edges either way"], "the paper counts two edges where nodes point to each other"),
    (
        lambda ours: ours["edges in file"],
        "the paper counts the lines of the file: two where nodes point to each other, {loops in file} loops too",
    ),
    (
        lambda ours: ours["edges in file"] / 2,
        "the paper has half of the {edges in file} entries of the neighbour lists, which hold repetitions and "
        "{loops in file} loops",
    ),
)


def _reason(ours: Mapping[str, Any], figure: str, printed: float) -> str:
    if figure == "edges":
        for count, words in COUNTS:
            if count(ours) == printed:
                return words.format_map(ours)
    return REASONS.get((ours["dataset"], figure), "not known")


def _name(figure: str) -> str:
    return "H(G)" if figure == "homophily" else figure


def _text(figure: float, places: int = 3) -> str:
    return str(figure) if isinstance(figure, int) else f"{figure:.{places}f}"


DATASETS_TABLE = ResultTable(dataset_cells, dataset_sections)
