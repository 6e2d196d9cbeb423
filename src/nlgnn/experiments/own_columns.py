"""The columns of a user's own table: what became of them, which of them a model uses, and which mattered for a node."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nlgnn.analysis.feature_columns import averaged, by_distance, row_and_average, shuffled
from nlgnn.datasets.tables import FeatureEncoder
from nlgnn.datasets.tables.columns import Numbers
from nlgnn.experiments.compare import spread
from nlgnn.experiments.section import Section
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.training.fit import predict
from nlgnn.training.run import Run
from nlgnn.training.train import Plan, Trained

MOST_COLUMNS = 30  # that are tried
MOST_EVALUATED = 5_000_000  # nodes, over all trials: some seconds
MOST_SHOWN = 200
LONGEST_VALUE = 60
WARNING = "warning: "  # how such notes begin


class ColumnEffect(NamedTuple):
    """A column of one node: its value, and what the model says of the node where it is as on average."""

    column: str
    value: str
    probability: float  # of the class that is predicted with it
    change: float
    prediction: str


def encoder_of(plan: Plan) -> FeatureEncoder | None:
    """What made the features of a training; None where they came as numbers."""
    return None if plan.encoder is None else FeatureEncoder.from_json(json.dumps(plan.encoder))


def num_columns(plan: Plan) -> int:
    encoder = encoder_of(plan)
    return 0 if encoder is None else len(encoder.columns)


def column_effects(trained: Trained, graph: Graph, node: int, run: Run) -> list[ColumnEffect]:
    """Of the columns in which a node is furthest from the average, those first that change most; none without columns.

    Other nodes, and all other columns, stay as the encoder made them: where rows are scaled, that comes afterwards.
    """
    encoder = encoder_of(trained.plan)
    if encoder is None or trained.plan.tables is None:
        return []
    slots = encoder.slots
    most = min(MOST_COLUMNS, max(3, MOST_EVALUATED // graph.num_nodes))
    table = None if encoder.structural else trained.plan.tables.node_table()
    row, _ = row_and_average(graph, node)
    before = predict(trained.factory, graph, [run], trained.recipe)[0, node].numpy()
    predicted, effects = int(before.argmax()), []
    for name in by_distance(graph, node, slots)[:most]:
        changed = averaged(graph, node, slots[name])
        after = predict(trained.factory, changed, [run], trained.recipe)[0, node].numpy()
        if table is None:
            value = f"{_number(encoder, name, float(row[slots[name].start])):.4g}"
        else:
            cell = table.column(name)[node] if node < table.num_rows else None  # edges may name further nodes
            value = "missing" if cell is None or cell == "" else str(cell)
        change = float(after[predicted] - before[predicted])
        effects.append(
            ColumnEffect(name, value, float(after[predicted]), change, graph.class_names[int(after.argmax())])
        )
    return sorted(effects, key=lambda effect: -abs(effect.change))


def _number(encoder: FeatureEncoder, name: str, slot: float) -> float:
    """What a number was before it was brought to mean 0 and deviation 1."""
    (column,) = [column for column in encoder.columns if column.name == name]
    assert isinstance(column, Numbers)  # all that is made from links is a number
    return slot * column.scale + column.offset


def effects_section(effects: Sequence[ColumnEffect], prediction: str, num_columns: int, top: int) -> Section:
    rows = [
        {
            "column": _short(one.column),
            "value": _short(one.value),
            "without it": f"{one.probability:.3f}",
            "change": f"{one.change:+.3f}",
            "then taken for": _short(one.prediction),
        }
        for one in effects[:top]
    ]
    caption = (
        f"Without it: the probability of {_short(prediction)} by the same run if that column of this node were as it "
        "is on average over all nodes. Other nodes, and its other columns as encoded, are unchanged; where rows are "
        "scaled to one length (unit-l2, unit-sum), its row is scaled anew. Columns that tell the same can stand in for "
        f"each other: without one of them little changes. {len(effects)} of {num_columns} columns were tried"
        + (", those in which the node differs most from the average." if len(effects) < num_columns else ".")
    )
    return Section("Its own columns", rows, caption, text_columns=2)


def table_sections(trained: Trained, graph: Graph, splits: Sequence[Split]) -> list[Section]:
    """One section for a training on the user's own graph: columns, what became of them, and what was said of them."""
    plan = trained.plan
    if plan.tables is None:
        return []
    encoder = encoder_of(plan)
    described = [] if encoder is None else encoder.describe()
    lost = {} if encoder is None else accuracy_lost(trained, graph, splits, encoder)
    rows = []
    for row in described[:MOST_SHOWN]:
        cells = {"column": str(row["column"]), "became": str(row["kind"])}
        cells |= {"features": f"{row['slots']:,}", "missing values": f"{row['missing']:,}"}
        rows.append(cells | ({"test accuracy lost": lost.get(str(row["column"]), "")} if lost else {}))
    caption = "Made from the links. " * (encoder is not None and encoder.structural)
    if len(described) > MOST_SHOWN:
        caption += f"The first {MOST_SHOWN} of {len(described)} columns. "
    if lost:
        caption += (
            f"Lost: points of accuracy on test nodes where a column is dealt out anew among all nodes, mean ± sample "
            f"standard deviation over {len(trained.finished)} runs, protocol {plan.protocol}. Columns that tell the "
            "same can stand in for each other: then none of them seems to matter."
        )
    words = [*warnings_of(plan), *(note for note in plan.notes if not note.startswith(WARNING))]
    return [Section("Your table", rows, caption.strip(), "\n\n".join(words), text_columns=2)]


def accuracy_lost(trained: Trained, graph: Graph, splits: Sequence[Split], encoder: FeatureEncoder) -> dict[str, str]:
    """By column, in points, where it does not take too long and test nodes have labels."""
    runs = trained.finished
    tested = [splits[run.index].test & graph.labelled for run in runs]
    trials = len(encoder.columns) * len(runs) * graph.num_nodes
    if len(encoder.columns) > MOST_COLUMNS or trials > MOST_EVALUATED or not all(mask.any() for mask in tested):
        return {}

    def accuracies(changed: Graph) -> list[float]:
        predictions = predict(trained.factory, changed, runs, trained.recipe).numpy().argmax(2)  # [runs, n]
        return [100 * float((of_run == graph.y)[mask].mean()) for of_run, mask in zip(predictions, tested, strict=True)]

    before, lost = np.array(accuracies(graph)), {}
    for number, (name, slots) in enumerate(encoder.slots.items()):
        lost[name] = str(spread((before - accuracies(shuffled(graph, slots, number))).tolist()))
    return lost


def warnings_of(plan: Plan) -> list[str]:
    """What reading the tables warned of, such as a column that tells the label."""
    return [f"Warning: {note.removeprefix(WARNING)}" for note in plan.notes if note.startswith(WARNING)]


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"
