"""Reasons for predictions as sections: of one node, and of several nodes as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from nlgnn.analysis.explain import NodeFacts
from nlgnn.analysis.reasons import Neighbour, Reasons
from nlgnn.report.page import caption
from nlgnn.report.table import Rows, Section, short
from nlgnn.training.prediction_files import Columns
from nlgnn.training.trained import Trained

MOST_NODES_SHOWN, MOST_NAMED = 50, 3  # rows on the console, and neighbours in one of them
DIGITS = 6  # of contributions in files
ALL_MEMBERS = " Of the ensemble, all members predict."


def reasons_section(reasons: Reasons, of_ensemble: bool) -> Section:
    """Return what each part of the input contributes to the probability of the predicted class."""
    rows = [{"part": name, "contribution": f"{change:+.3f}"} for name, change in reasons.parts.items()]
    text = caption("parts", explained=short(reasons.of_class), probability=f"{reasons.probability:.3f}")
    title = f"Contributions to the probability of {short(reasons.of_class)}"
    return Section(title, rows, text + ALL_MEMBERS * of_ensemble)


def neighbours_section(reasons: Reasons, top: int) -> Section:
    """Return the neighbours that contribute most."""
    shown, count = reasons.neighbours[:top], reasons.num_neighbours
    rows = [
        {
            "node": short(other.name),
            "label": label_of(other),
            "prediction": short(other.prediction),
            "contribution": f"{other.contribution:+.3f}",
        }
        for other in shown
    ]
    tried = f"{len(reasons.neighbours):,} of {count:,} neighbours were removed"
    tried += (
        "" if len(reasons.neighbours) == count else ": those with the largest edge weight and the fewest neighbours"
    )
    text = caption("removed", explained=short(reasons.of_class), tried=tried)
    return Section("Neighbours that contribute most", rows, text, text_columns=3)


def several_sections(found: Sequence[Reasons], trained: Trained) -> list[Section]:
    """Return one row per node: its prediction, and what each part and the strongest neighbours contribute."""
    rows: Rows = []
    classes = {one.of_class for one in found}
    heading = f"probability of {short(classes.pop())}" if len(classes) == 1 else "probability"
    for one in found[:MOST_NODES_SHOWN]:
        named = [f"{short(other.name)} {other.contribution:+.3f}" for other in one.neighbours[:MOST_NAMED]]
        rows.append(
            {
                "node": short(one.name),
                "label": label_of(one),
                "prediction": short(one.prediction),
                heading: f"{one.probability:.3f}",
                **{name: f"{change:+.3f}" for name, change in one.parts.items()},
                "strongest neighbours": ", ".join(named) or "–",
            }
        )
    text = caption("several") + (
        f" The first {MOST_NODES_SHOWN} of {len(found):,} nodes." if len(found) > MOST_NODES_SHOWN else ""
    )
    text += ALL_MEMBERS * (trained is not trained.leading)
    return [Section("Reasons", rows, text, text_columns=3)]


def reason_columns(found: Sequence[Reasons], top: int) -> Columns:
    """Return one row per node as columns of a table file. Cells of neighbours that a node does not have are empty."""
    columns: dict[str, Any] = {
        "node": [one.name for one in found],
        "label": [one.label for one in found],
        "prediction": [one.prediction for one in found],
        "explained class": [one.of_class for one in found],
        "probability": [round(one.probability, DIGITS) for one in found],
    }
    columns |= {name: [round(one.parts[name], DIGITS) for one in found] for name in found[0].parts}
    for place in range(min(top, max(len(one.neighbours) for one in found))):
        others = [one.neighbours[place] if place < len(one.neighbours) else None for one in found]
        columns[f"neighbour {place + 1}"] = [other and other.name for other in others]
        figures = [other and round(other.contribution, DIGITS) for other in others]
        columns[f"contribution of neighbour {place + 1}"] = figures
    return columns


def reasons_dict(reasons: Reasons, top: int) -> dict[str, Any]:
    """Return reasons for JSON, with at most `top` neighbours."""
    return asdict(reasons) | {"neighbours": [asdict(other) for other in reasons.neighbours[:top]]}


def label_of(node: NodeFacts | Neighbour) -> str:
    """Return the label of a node for tables."""
    return "unknown" if node.label is None else short(node.label)
