"""The paper's picture of the sorted sequence: the labels along the order, before training and at the chosen epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from nlgnn.analysis import SortedSequence, order_before_and_after
from nlgnn.experiments.cells import PRESET, read_cells
from nlgnn.experiments.framework import FrameworkCell, protocol_for
from nlgnn.experiments.measured import NOTHING, not_measured
from nlgnn.experiments.searched import Schedule
from nlgnn.experiments.section import Rows, Section
from nlgnn.experiments.tables import ResultTable
from nlgnn.graph.graph import Graph
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Run
from nlgnn.training.systems import PUBLISHED

CAPTION = (
    "H of the re-connected graph: the mean share of the nodes within reach of the convolutions, along the order, that "
    "have a node's own label; by chance: its expectation in a random order; H(G): the same share among neighbours in "
    f"the graph. One training on the first split, protocol {{protocol}}, published settings, preset {PRESET}; chosen: "
    "the first epoch with the best validation accuracy. Labels of all nodes are used, for this picture only. The paper "
    "prints no figures here. The pictures are in the folder results/sequence."
)


@dataclass(frozen=True)
class SequenceCell(FrameworkCell):
    """One training, kept with the labels along its orders."""

    store: ClassVar[str] = "sequence"

    def _also(self, graph: Graph, factory: partial[nn.Module], recipe: Recipe, runs: list[Run]) -> dict[str, Any]:
        before, after = order_before_and_after(factory, graph.scale_features(recipe.features), runs[0])
        return {
            **super()._also(graph, factory, recipe, runs),
            "class names": list(graph.class_names),
            "labels": {"before": labels_as_text(before), "after": labels_as_text(after)},
        }


def labels_as_text(order: SortedSequence) -> str:
    """A digit a node: no dataset with published settings has more than ten classes, or nodes of unknown label."""
    return "".join(map(str, order.labels))


def sequence_cells(protocol: str) -> list[SequenceCell]:
    return [
        SequenceCell(dataset, published.system, ({},), Schedule({}, splits=1), protocol_for(dataset, protocol))
        for dataset, published in PUBLISHED.items()
    ]


def sequence_sections(cells: Sequence[SequenceCell], results: Path, protocol: str) -> list[Section]:
    if not cells:
        return []
    found = read_cells(cells, results)
    rows: Rows = [_row(cell, found.get(cell.name)) for cell in cells]
    protocols = " or ".join(dict.fromkeys(cell.protocol for cell in cells))
    caption = CAPTION.format(protocol=protocols)
    return [Section("The sorted sequence", rows, caption, _text(list(found.values())), text_columns=2)]


def _row(cell: SequenceCell, result: Mapping[str, Any] | None) -> dict[str, str]:
    row = {"dataset": cell.dataset, "model": cell.system}
    names = ("H before training", "H at the chosen epoch", "by chance", "H(G)", "chosen epoch", "test %")
    if result is None:
        absent = not_measured(cell.dataset)
        return row | dict.fromkeys(names, NOTHING) | {names[0]: absent}
    homophily, run = result["homophily"], result["runs"][0]
    agreements = (homophily["before"][0], homophily["after"][0], homophily["chance"], homophily["graph"])
    figures = [*(f"{value:.3f}" for value in agreements), str(run["chosen_epoch"]), f"{run['test']:.1f}"]
    return row | dict(zip(names, figures, strict=True))


def _text(results: Sequence[Mapping[str, Any]]) -> str:
    if not results:
        return ""
    all_homophily = [result["homophily"] for result in results]
    above_graph = sum(one["after"][0] > one["graph"] for one in all_homophily)
    chance_above_graph = sum(one["chance"] > one["graph"] for one in all_homophily)
    risen = sum(one["after"][0] > one["before"][0] for one in all_homophily)
    above_chance = sum(one["after"][0] > one["chance"] for one in all_homophily)
    return (
        f"Of {len(results)} orders at the chosen epoch, {above_graph} have a higher H than their graph, which is the "
        f"paper's claim; but on {chance_above_graph} of these datasets a random order is expected to have one too. "
        f"{above_chance} are above chance, and {risen} above the order before training."
    )


SEQUENCE_TABLE = ResultTable(sequence_cells, sequence_sections)
