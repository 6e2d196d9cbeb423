"""The picture of how a learned order degrades: test accuracy against columns of noise, and against known labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from nlgnn.experiments.cells import Cell, read_cells
from nlgnn.experiments.learned_order import LABEL_SHARES, LOCAL, MANY, NUISANCES, VOTE, PlantedCell
from nlgnn.report.figures import save_chart
from nlgnn.report.palette import PALETTE

NOISE, LABELS = "columns of noise", "training labels kept"
LEVELS = {
    NOISE: [str(number) for number in (0, *NUISANCES)],
    LABELS: [f"{100 * share:g} %" for share in (1, *LABEL_SHARES)],
}
MODELS = [VOTE, MANY.name]


def draw_degradation(cells: Sequence[Cell], results: Path, folder: Path) -> list[Path]:
    """The file, if anything harder than the planted graph itself was measured."""
    planted = [cell for cell in cells if isinstance(cell, PlantedCell)]
    found = read_cells(planted, results)
    rows = degradation_rows(planted, found)
    if not any(row["level"] not in ("0", "100 %") for row in rows):
        return []
    tests = [found[cell.name]["runs"][0]["test"] for cell in planted if cell.condition == LOCAL and cell.name in found]
    path = folder / "order-degrades.svg"
    save_chart(degradation_chart(rows, fmean(tests) if tests else None), path)
    return [path]


def degradation_rows(cells: Sequence[PlantedCell], found: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A row a training; the planted graph as it is stands in both panels."""
    rows = []
    for cell in cells:
        if cell.name not in found or cell.condition not in MODELS:
            continue
        places = {NOISE: str(cell.nuisance)} if cell.label_share == 1 else {}
        places |= {LABELS: f"{100 * cell.label_share:g} %"} if cell.nuisance == 0 else {}
        test = found[cell.name]["runs"][0]["test"]
        rows += [
            {"panel": panel, "level": level, "model": cell.condition, "test": test} for panel, level in places.items()
        ]
    return rows


def degradation_chart(rows: Sequence[Mapping[str, Any]], local: float | None) -> Any:
    """A point a graph, lines through their means; dashed: what the local part gives."""
    import altair

    colour = altair.Color("model:N", scale=altair.Scale(domain=MODELS, range=PALETTE[: len(MODELS)]), title=None)
    scale = altair.Scale(zero=False)
    panels = []
    for panel, levels in LEVELS.items():
        base = altair.Chart(altair.Data(values=[row for row in rows if row["panel"] == panel]))
        x = altair.X("level:O", scale=altair.Scale(domain=levels), title=panel, axis=altair.Axis(labelAngle=0))
        y = altair.Y("test:Q", scale=scale, title="test accuracy %")
        points = base.mark_point(filled=True, opacity=0.7, size=50).encode(x=x, y=y, color=colour)
        means = base.mark_line().encode(x=x, y=altair.Y("mean(test):Q", scale=scale), color=colour)
        layers = [means, points]
        if local is not None:
            rule = altair.Chart(altair.Data(values=[{"local": local}])).mark_rule(strokeDash=[5, 4], color="#666")
            layers.append(rule.encode(y=altair.Y("local:Q", scale=scale)))
        panels.append(altair.layer(*layers).properties(width=330, height=260))
    title = "A planted order, made harder: test accuracy on three graphs, lines through the means"
    if local is not None:
        title += f"; dashed: the local part on the graph as it is, {local:.1f}"
    return altair.hconcat(*panels).properties(title=title)
