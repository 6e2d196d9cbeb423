"""The pictures of the sorted sequence: one SVG a dataset, from the cells of `experiments.sequences`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from nlgnn.experiments.cells import Cell, read_cells
from nlgnn.experiments.learned_order import SCORE, VOTE, PlantedCell
from nlgnn.experiments.sequences import SequenceCell
from nlgnn.report.figures import labels_chart, save_chart


def draw(cells: Sequence[SequenceCell], results: Path, folder: Path) -> list[Path]:
    """The files that were written, of all cells measured so far; the folder is made."""
    with suppress(OSError):  # which saving a picture says better
        folder.mkdir(parents=True, exist_ok=True)
    found = read_cells(cells, results)
    paths = []
    for cell in cells:
        if cell.name not in found:
            continue
        result = found[cell.name]
        paths.append(folder / f"sequence-{cell.dataset}.svg")
        save_chart(labels_chart(picture_title(cell, result), result["class names"], label_orders(result)), paths[-1])
    return paths


def draw_learned_orders(cells: Sequence[Cell], results: Path, folder: Path) -> list[Path]:
    """One picture a planted graph on which both were trained: the paper's order and the learned one, before and after
    training."""
    own = [cell for cell in cells if isinstance(cell, PlantedCell) and cell.condition in (SCORE, VOTE)]
    found = read_cells(own, results)
    paths = []
    for seed in dict.fromkeys(cell.graph_seed for cell in own):
        both = [cell for cell in own if (cell.graph_seed, cell.nuisance, cell.label_share) == (seed, 0, 1)]
        if not both or any(cell.name not in found for cell in both):
            continue
        orders = {}
        for cell in sorted(both, key=lambda cell: cell.condition == VOTE):
            result = found[cell.name]
            run, labels = result["runs"][0], result["labels"]
            name = "by score" if cell.condition == SCORE else "learned"
            orders[f"{name}, at first"] = [int(digit) for digit in labels["before"]]
            after = f"{name}, epoch {run['chosen_epoch']}"
            orders[after] = [int(digit) for digit in labels["after"]]
        tests = {cell.condition: f"{found[cell.name]['runs'][0]['test']:.1f} %" for cell in both}
        title = (
            f"A planted order (graph {seed}): the labels of all nodes, sorted by score (test {tests[SCORE]}) and in a "
            f"learned order (test {tests[VOTE]})"
        )
        paths.append(folder / f"order-{seed}.svg")
        save_chart(labels_chart(title, result["class names"], orders), paths[-1])
    return paths


def picture_title(cell: SequenceCell, result: Mapping[str, Any]) -> str:
    homophily = result["homophily"]
    return (
        f"{cell.dataset}: all nodes, sorted by the learned score of {cell.system} "
        f"(by chance H {homophily['chance']:.2f}, in the graph {homophily['graph']:.2f})"
    )


def label_orders(result: Mapping[str, Any]) -> dict[str, list[int]]:
    """The labels along both orders of a cell, by what each is called."""
    homophily, run = result["homophily"], result["runs"][0]
    titles = {
        "before": f"before training: H {homophily['before'][0]:.2f}",
        "after": f"epoch {run['chosen_epoch']}: H {homophily['after'][0]:.2f}",
    }
    return {title: [int(digit) for digit in result["labels"][when]] for when, title in titles.items()}
