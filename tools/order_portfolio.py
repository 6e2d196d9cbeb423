"""Print the order of the portfolio that the cells of the benchmark suggest: the largest gain in validation per second.

Starting from a constant answer, each step takes the model that raises the best validation figure so far most, in the
mean over graphs and per second of training of all splits. Held-out graphs are not used. Run it from the repository:
python tools/order_portfolio.py
"""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

from nlgnn.datasets.catalog import CATALOG
from nlgnn.paper.auto_cells import HELD_OUT
from nlgnn.paper.benchmark import GRAPHS, entry_cells
from nlgnn.paper.cell import Measured, read_cells

CONSTANT = {"accuracy": 20.0, "roc-auc": 50.0}  # a constant answer, about


def main() -> None:
    found = [one for one in read_cells(entry_cells(), Path("results")).values() if one.validation and one.result]
    graphs = [graph for graph in GRAPHS if graph not in HELD_OUT]
    cells: dict[str, dict[str, Measured]] = {}
    for one in found:
        if one.cell.dataset in graphs:
            cells.setdefault(one.cell.condition, {})[one.cell.dataset] = one
    best = {graph: CONSTANT[CATALOG[graph].metric] for graph in graphs}
    while cells:
        gains, seconds = {}, {}
        for name, own in cells.items():
            gains[name] = fmean(max(0.0, _figure(own.get(graph)) - best[graph]) for graph in graphs)
            seconds[name] = fmean(one.result["seconds"] for one in own.values() if one.result)
        name = max(cells, key=lambda name: gains[name] / seconds[name])
        print(f"{name:26s} {gains[name]:6.2f} points  {seconds[name]:8.1f} s  {len(cells[name]):2d} graphs")
        for graph, one in cells.pop(name).items():
            best[graph] = max(best[graph], _figure(one))


def _figure(one: Measured | None) -> float:
    return one.validation.mean if one and one.validation else 0.0


if __name__ == "__main__":
    main()
