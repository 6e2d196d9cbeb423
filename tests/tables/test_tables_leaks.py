"""Columns that give the label away are named; strong but honest ones are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.tables import read_graph
from nlgnn.tables.labels import predicted_by_values

RNG = np.random.default_rng(0)
LABELS = RNG.integers(3, size=200)
NAMES = np.array(["cat", "dog", "bird"])[LABELS]
NOISE = RNG.normal(size=200)


def leaks(**columns: object) -> list[str]:
    frame = pl.DataFrame({"id": [f"n{i}" for i in range(200)], "label": NAMES, "noise": NOISE, **columns})
    found = read_graph(frame, label="label")
    return [warning.split("'")[1] for warning in found.warnings if "alone tells" in warning]


GIVEAWAYS = {
    "the label itself": NAMES,
    "its number": LABELS,
    "as text with blanks": [f" {name} " for name in NAMES],
    "with some cells missing": [None if i % 100 == 0 else name for i, name in enumerate(NAMES)],
    "with a little noise": LABELS + 0.01 * NOISE,
    "as a date": pl.Series(LABELS * 100 + RNG.integers(50, size=200)).cast(pl.Int32).cast(pl.Date),
    "a finer code": [f"{name}-{i % 10}" for i, name in enumerate(NAMES)],
    "as prose": [
        f"this node is of the class {name} for sure" + " and so on" * (i % 12) for i, name in enumerate(NAMES)
    ],
}
HONEST = {
    "noise": NOISE,
    "a strong feature": LABELS + 0.4 * NOISE,
    "90 % of the label": np.where(RNG.random(200) < 0.9, NAMES, "cat"),
    "one class told": NAMES == "cat",
    "values that few share": [f"v{i // 2}" for i in range(200)],
}


@each_of("values", GIVEAWAYS.values(), ids=GIVEAWAYS)
def test_giveaways(values: object) -> None:
    assert leaks(c=values) == ["c"]


@each_of("values", HONEST.values(), ids=HONEST)
def test_honest_columns(values: object) -> None:
    assert leaks(c=values) == []


def test_where_nearly_all_nodes_are_of_one_class() -> None:
    """A column that says nothing tells 99 % of the labels, and is not named."""
    labels = ["rare"] * 2 + ["common"] * 198
    frame = pl.DataFrame({"id": [f"n{i}" for i in range(200)], "label": labels, "c": ["x", "y"] * 100})
    assert read_graph(frame, label="label").warnings == ("No edges were given: only features can help.",)


def test_a_node_does_not_tell_its_own_label() -> None:
    assert predicted_by_values(np.arange(6), np.array([0, 1, 0, 1, 0, 0])) == pytest.approx(4 / 6)  # majority
    assert predicted_by_values(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])) == 0


@pytest.mark.parametrize("name", ["texas", "tolokers", "minesweeper"])
def test_real_graphs_have_none(name: str, data_root: Path) -> None:
    graph = load_graph(name)
    x = graph.dense_features()[:, :200]
    columns = {f"x{i}": column for i, column in enumerate(x.T)}
    frame = pl.DataFrame({"node": range(graph.num_nodes), "label": graph.y, **columns})
    assert not any("alone tells" in warning for warning in read_graph(frame, id="node", label="label").warnings)
