"""The columns of a user's own table: what became of them, and which of them a model uses."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nlgnn.analysis import columns
from nlgnn.analysis.columns import column_effects, encoder_of, metric_lost
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.report.explanation import effects_section
from nlgnn.report.run_page import table_sections
from nlgnn.tables.source import OwnTables
from nlgnn.training.train import Plan, Trained, train

NOTES = ("a note", "warning: The column 'colour' alone tells all.")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Trained, Graph]:
    """The colour tells the label; size and edges say nothing."""
    folder, rng = tmp_path_factory.mktemp("columns"), np.random.default_rng(0)
    labels = rng.permutation(np.arange(60) % 2)
    with open(folder / "nodes.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", "size", "colour", "serial", "label"])
        table.writerows(
            [number, f"{rng.normal():.3f}", ["red", "blue"][label], f"k{number}", "ab"[label]]
            for number, label in enumerate(labels)
        )
    (folder / "edges.csv").write_text("source,target\n" + "".join(f"{n},{n + 1}\n" for n in range(59)) + "3,99\n")
    tables = OwnTables.at(folder / "nodes.csv", folder / "edges.csv", label="label", unknown_nodes="add")
    found = tables.read()
    assert found.encoder is not None
    options = {"epochs": 60, "stopping": "never", "hidden": 8, "lr": 0.05, "dropout": 0.0}
    plan = Plan("nodes", "mlp", runs=3, preset="robust", options=options, tables=tables, notes=NOTES)
    plan = replace(plan, encoder=json.loads(found.encoder.to_json()))
    return train(plan, found.graph, folder / "run", progress=False), found.graph


def test_the_column_that_matters_for_a_node(trained: tuple[Trained, Graph]) -> None:
    one, graph = trained
    first, second = column_effects(one, graph, 4, one.runs[0])
    assert (first.column, second.column) == ("colour", "size")
    assert first.change < -3 * abs(second.change)
    assert (first.value, first.prediction) in (("red", "b"), ("blue", "a"))  # without it, taken for the other class
    section = effects_section([first, second], "a", 5, 1)
    assert [row["column"] for row in section.rows] == ["colour"]
    assert "2 of 5 columns were tried, those in which" in section.caption


def test_a_node_that_only_edges_name_has_no_values(trained: tuple[Trained, Graph]) -> None:
    one, graph = trained
    assert {effect.value for effect in column_effects(one, graph, 60, one.runs[0])} == {"missing"}


def test_fewer_columns_are_tried_of_large_graphs(
    trained: tuple[Trained, Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, graph = trained
    monkeypatch.setattr(columns, "MOST_COLUMNS", 1)
    assert len(column_effects(one, graph, 4, one.runs[0])) == 1
    encoder = encoder_of(one.plan)
    assert encoder is not None
    splits = make_splits(graph, "random-60", 3)
    assert list(metric_lost(one, graph, splits, encoder)) == ["colour", "size"]
    monkeypatch.setattr(columns, "MOST_EVALUATED", 1)
    assert metric_lost(one, graph, make_splits(graph, "random-60", 3), encoder) == {}


def test_features_made_from_links_are_told_as_numbers(trained: tuple[Trained, Graph], tmp_path: Path) -> None:
    one, _ = trained
    assert one.plan.tables is not None
    tables = replace(one.plan.tables, nodes=str(tmp_path / "nodes.csv"), unknown_nodes="error")
    Path(str(tables.nodes)).write_text("id,label\n" + "".join(f"{n},{'ab'[n % 2]}\n" for n in [*range(60), 99]))
    found = tables.read()
    assert found.encoder is not None
    plan = replace(one.plan, tables=tables, encoder=json.loads(found.encoder.to_json()))
    made = train(plan, found.graph, tmp_path / "run", progress=False)
    effects = {effect.column: effect.value for effect in column_effects(made, found.graph, 3, made.runs[0])}
    assert effects["log degree"] == f"{np.log1p(3):.4g}"  # 2, 4 and 99
    (section,) = table_sections(made, found.graph, make_splits(found.graph, "random-60", 3))
    assert section.caption.startswith("Made from the links.")


def test_the_section_of_a_page(trained: tuple[Trained, Graph]) -> None:
    one, graph = trained
    (section,) = table_sections(one, graph, make_splits(graph, "random-60", 3))
    rows = {row["column"]: row for row in section.rows}
    assert rows["colour"] == {
        "column": "colour",
        "became": "category",
        "remark": "",
        "features": "4",
        "missing values": "1",
        "test accuracy lost": rows["colour"]["test accuracy lost"],
    }
    lost = {name: float(row["test accuracy lost"].split()[0]) for name, row in rows.items() if name != "serial"}
    assert lost["colour"] > 25 > abs(lost["size"])
    assert rows["serial"]["test accuracy lost"] == ""  # it is no feature
    assert "over 3 runs, protocol random-60" in section.caption
    assert section.text == "Warning: The column 'colour' alone tells all.\n\na note"


def test_the_loss_is_measured_by_the_metric_of_the_training(trained: tuple[Trained, Graph]) -> None:
    one, graph = trained
    other = replace(one, recipe=one.recipe.model_copy(update={"metric": "log-loss"}))
    (section,) = table_sections(other, graph, make_splits(graph, "random-60", 3))
    lost = {row["column"]: float(row["test log-loss lost"].split()[0]) for row in section.rows[:2]}
    assert lost["colour"] > 10 + abs(lost["size"])


def test_nothing_is_told_of_named_graphs_and_of_arrays_only_notes(trained: tuple[Trained, Graph]) -> None:
    one, graph = trained
    named = replace(one, plan=replace(one.plan, tables=None, encoder=None))
    assert table_sections(named, graph, []) == []
    assert column_effects(named, graph, 4, one.runs[0]) == []
    arrays = replace(one, plan=replace(one.plan, encoder=None))
    (section,) = table_sections(arrays, graph, [])
    assert (section.rows, section.caption) == ([], "")
    assert column_effects(arrays, graph, 4, one.runs[0]) == []
