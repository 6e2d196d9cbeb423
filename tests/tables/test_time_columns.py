"""Columns of times and groups: how they are read, and the splits of the graph."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from each_of import each_of
from nlgnn import NodeClassifier, Recipe, fit
from nlgnn.cli.given_graph import own_tables
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.tables import TableGraph, read_graph
from nlgnn.tables.source import OwnTables
from nlgnn.tables.time_columns import read_groups, read_times
from nlgnn.tables.values import Table
from nlgnn.training.fit import predict

RNG = np.random.default_rng(0)
COUNT = 40
DAYS = [f"{1 + day % 28:02d}.{1 + day // 28:02d}.2024" for day in range(COUNT)]
NODES = pl.DataFrame(
    {
        "account": [f"a{i}" for i in range(COUNT)],
        "opened": DAYS,
        "step": np.arange(COUNT) * 10,
        "size": RNG.normal(size=COUNT),
        "home": [f"h{i % 9}" for i in range(COUNT)],
        "label": np.array(["x", "y"])[np.arange(COUNT) % 2],
    }
)
ENDS = RNG.integers(COUNT, size=(2, 80))
EDGES = pl.DataFrame(
    {
        "source": [f"a{i}" for i in ENDS[0]],
        "target": [f"a{i}" for i in ENDS[1]],
        "made": [DAYS[i] for i in ENDS.max(0)],
        "step": ENDS.max(0) * 10,
    }
)


def read(nodes: pl.DataFrame = NODES, edges: pl.DataFrame | None = EDGES, **options: object) -> TableGraph:
    return read_graph(nodes, edges, **{"label": "label", **options})


@each_of(
    ("cells", "days"),
    [
        (["2024-01-01", "2024-01-02", None], [19723.0, 19724.0, np.nan]),
        (["1.1.1970", "13.1.1970", ""], [0.0, 12.0, np.nan]),
        ([1_700_000_000, 1_700_086_400, 1_700_172_800], [19675.925925925927, 19676.925925925927, 19677.925925925927]),
        (["20240101", "20240103"], [19723.0, 19725.0]),
        ([pl.date(1970, 1, 2)], None),
    ],
)
def test_dates_are_days(cells: list[object], days: list[float] | None) -> None:
    if days is None:
        frame = pl.select(when=pl.date_range(pl.date(1970, 1, 2), pl.date(1970, 1, 3)))
        days = [1.0, 2.0]
    else:
        frame = pl.DataFrame({"when": cells})
    times = read_times(Table.from_frame(frame, "t"), "when")
    assert times.are_dates
    assert np.allclose(times.values, days, equal_nan=True)


@each_of("cells", [[3, 1, 2], ["1,5", "2,5", ""], [1990.0, 2000.0, 2010.0]])
def test_other_numbers_stay_numbers(cells: list[object]) -> None:
    assert not read_times(Table.from_frame(pl.DataFrame({"when": cells}), "t"), "when").are_dates


@each_of(
    ("cells", "words"),
    [
        ([None, None], "blank in all rows"),
        (["", " "], "blank in all rows"),
        (["2024-01-01", "2024-01-01", ""], "one time, 2024-01-01"),
        (["2024-01-01", "soon", "2024-01-02"], "row 2.*'soon'"),
        ([True, False], "type"),
        ([[1], [2]], "type"),
    ],
)
def test_columns_that_hold_no_times(cells: list[object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        read_times(Table.from_frame(pl.DataFrame({"when": cells}), "t"), "when")


def test_a_blank_group_is_a_group_of_one_node() -> None:
    groups = read_groups(Table.from_frame(pl.DataFrame({"home": ["b", None, " b", "", "a"]}), "t"), "home")
    assert groups[0] == groups[2]
    assert len(set(groups.tolist())) == 4


@each_of("column", ["opened", "step"])
def test_split_by_time(column: str) -> None:
    found = read(time=column)
    (split,) = found.graph.splits["time"]
    assert np.flatnonzero(split.train).tolist() == list(range(24))
    assert np.flatnonzero(split.val).tolist() == list(range(24, 32))
    assert np.flatnonzero(split.test).tolist() == list(range(32, 40))
    assert found.graph.later_edges is None


def test_nodes_without_time_or_label_are_in_no_part() -> None:
    number = pl.int_range(COUNT)
    nodes = NODES.with_columns(opened=pl.when(number != 5).then("opened"), label=pl.when(number != 7).then("label"))
    found = read(nodes, time="opened")
    (split,) = found.graph.splits["time"]
    assert np.flatnonzero(~(split.train | split.val | split.test)).tolist() == [5, 7]
    assert any("without a time" in note and "(1 such node)" in note for note in found.notes)


@each_of("role", ["time", "group"])
def test_the_column_is_a_feature_only_if_it_is_chosen(role: str) -> None:
    column = {"time": "step", "group": "home"}[role]

    def used(**options: object) -> set[str]:
        found = read(**{role: column, **options})
        assert found.encoder is not None
        return {one.name for one in found.encoder.columns}

    others = {"opened", "step", "size", "home"} - {column}
    assert used() == others
    assert used(drop=column) == others
    assert used(kind={column: "category"}) == others | {column}
    assert used(keep=["size", column]) == {"size", column}


def test_splits_by_group() -> None:
    splits = read(group="home").graph.splits["group"]
    assert len(splits) == 5
    for split in splits:
        tested = set(NODES.filter(pl.Series(split.test))["home"])
        assert not tested & set(NODES.filter(pl.Series(split.train | split.val))["home"])


def test_later_edges_are_those_after_the_last_validation_node() -> None:
    for column, times in (("opened", "made"), ("step", "step")):
        graph = read(time=column, edge_time=times).graph
        assert graph.later_edges is not None
        assert graph.later_edges.tolist() == (ENDS.max(0) >= 32).tolist()
        assert graph.past.edge_index.tolist() == ENDS[:, ENDS.max(0) < 32].tolist()


def test_edges_without_a_time_are_later_edges() -> None:
    edges = EDGES.with_columns(made=pl.when(pl.int_range(pl.len()) != 0).then("made"))
    found = read(edges=edges, time="opened", edge_time="made")
    assert found.graph.later_edges is not None
    assert found.graph.later_edges[0]
    assert any("(1 such edge)" in note for note in found.notes)


def test_dropped_edges_lose_their_times() -> None:
    stranger = pl.DataFrame({"source": "zz", "target": "a0", "made": DAYS[0], "step": 0}, schema=EDGES.schema)
    edges = pl.concat([stranger, EDGES])
    graph = read(edges=edges, time="opened", edge_time="made", unknown_nodes="drop").graph
    assert graph.fingerprint == read(time="opened", edge_time="made").graph.fingerprint
    assert graph.fingerprint != read(time="opened").graph.fingerprint


def test_features_made_from_edges_know_no_later_edge() -> None:
    nodes = NODES.select("account", "opened", "label")
    graph = read(nodes, time="opened", edge_time="made").graph
    changed = EDGES.with_columns(target=pl.when(pl.Series(ENDS.max(0) < 32)).then("target").otherwise(pl.lit("a0")))
    assert np.array_equal(graph.x, read(nodes, changed, time="opened", edge_time="made").graph.x)
    assert not np.array_equal(graph.x, read(nodes, time="opened").graph.x)


@each_of("model", ["mlp", "gcn", "nlgcn", "logistic", "trees"])
def test_later_edges_change_test_figures_only(model: str) -> None:
    """Without them, and with others in their place, a model is the same."""
    graph = read(time="opened", edge_time="made").graph
    edges = graph.edge_index.copy()
    edges[:, graph.later_edges] = RNG.integers(COUNT, size=(2, int(graph.later_edges.sum())))
    recipe = Recipe(epochs=3) if model in ("mlp", "gcn", "nlgcn") else None
    variants = [graph, replace(graph, edge_index=edges), replace(graph.past, splits=graph.splits)]
    first, *others = [fit(model, one, recipe=recipe, progress=False)[0] for one in variants]
    for other in others:
        assert other.val == first.val
        assert all((other.state[name] == value).all() for name, value in first.state.items())


def test_validation_nodes_are_predicted_as_in_validation() -> None:
    from nlgnn.models.build import configure

    graph = read(time="opened", edge_time="made").graph
    factory, recipe = configure("gcn", graph, epochs=3)
    runs = fit(factory, graph, recipe=recipe, progress=False)
    found = predict(factory, graph, runs, recipe)[0].numpy()
    (split,) = graph.splits["time"]
    past, full = (
        predict(factory, one, runs, recipe)[0].numpy() for one in (graph.past, replace(graph, later_edges=None))
    )
    assert np.array_equal(found[split.val], past[split.val])
    assert np.array_equal(found[split.test], full[split.test])
    assert runs[0].validation is not None
    assert np.allclose(found[split.val], runs[0].validation.numpy(), atol=1e-6)
    assert not np.allclose(past, full)


def test_node_classifier_uses_the_split_by_time() -> None:
    graph = read(time="opened", edge_time="made").graph
    fitted = NodeClassifier("mlp", n_runs=1, options={"epochs": 2}).fit(graph)
    assert fitted.runs_[0].protocol == "time"
    assert fitted.predict().shape == (COUNT,)


@each_of(
    ("options", "error", "words"),
    [
        ({"time": "nope"}, DataError, "'nope' for the times"),
        ({"group": "nope"}, DataError, "'nope' for the groups"),
        ({"time": "opened", "edge_time": "nope"}, DataError, "'nope' for the times"),
        ({"time": "label"}, OptionError, "two roles"),
        ({"time": "opened", "split": "home"}, OptionError, "both the column 'home' and 'opened'"),
        ({"group": "home", "split": "home"}, OptionError, "both"),
        ({"edge_time": "made"}, OptionError, "nodes have none"),
        ({"time": "opened", "edge_time": "step"}, DataError, "Times of nodes are dates"),
        ({"time": "step", "edge_time": "source"}, DataError, "not a date"),
        ({"time": "opened", "edge_time": "source", "source": "source"}, OptionError, "two roles"),
        ({"group": "label_copy"}, DataError, "2 groups"),
    ],
)
def test_what_is_refused(options: dict[str, str], error: type[NlgnnError], words: str) -> None:
    with pytest.raises(error, match=words):
        read(NODES.with_columns(label_copy=pl.col("label")), **options)


def test_training_without_any_edge_is_refused() -> None:
    late = EDGES.with_columns(made=pl.lit("1.1.2025"), step=pl.int_range(pl.len()))
    with pytest.raises(DataError, match="All edges are later"):
        read(
            edges=pl.concat([late[:3].with_columns(made=pl.lit("2.1.2025")), late[3:]]), time="opened", edge_time="made"
        )


def test_flags_and_tables_say_the_same() -> None:
    flags = {"time_column": "opened", "edge_time_column": "made", "group_column": "home"}
    tables = own_tables({"nodes": "n.csv", "edges": "e.csv", "label": "label", **flags})
    assert tables is not None
    assert (tables.time, tables.edge_time, tables.group) == ("opened", "made", "home")
    assert tables.flags[-6:] == ["--time-column", "opened", "--group-column", "home", "--edge-time-column", "made"]
    assert OwnTables.at("n.csv", "e.csv", label="label", time="opened", edge_time="made", group="home") == tables
    with pytest.raises(OptionError, match="both say how to split"):
        own_tables({"nodes": "n.csv", "time_column": "opened", "splits": "random-60"})
    assert own_tables({"nodes": "n.csv", "time_column": "opened", "splits": "time"}) is not None
