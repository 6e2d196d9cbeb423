"""Types of edges: how a column of them is read, and which models use them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from each_of import each_of
from nlgnn import NodeClassifier, Recipe, fit
from nlgnn.cli.given_graph import own_tables
from nlgnn.errors import DataError, NlgnnError, NlgnnWarning, OptionError
from nlgnn.graph.descriptions import describe, description_names
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.shallow.base import ShallowModel
from nlgnn.shallow.neighbour_table import Blocks, neighbour_table
from nlgnn.tables import read_graph
from nlgnn.tables.edges import MOST_TYPES, read_types
from nlgnn.tables.values import Table, stack_tables

RNG = np.random.default_rng(0)
COUNT = 40
ENDS = RNG.integers(COUNT, size=(2, 120))
KINDS = np.array(["call", "pay"])[ENDS.sum(0) % 2]


def typed_graph(directed: bool = False) -> Graph:
    x = np.random.default_rng(1).normal(size=(COUNT, 2))
    return Graph(
        x, ENDS, np.arange(COUNT) % 2, directed, edge_type=ENDS.sum(0) % 2, edge_types=("call", "pay"), row_norm=1.0
    )


def types(cells: list[object], further: list[object] | None = None) -> tuple[list[int], tuple[str, ...], list[str]]:
    table = Table.from_frame(pl.DataFrame({"type": cells}), "t")
    if further is not None:
        table = stack_tables(table, Table.from_frame(pl.DataFrame({"type": further}), "u"))
    codes, names, notes = read_types(table, "type")
    return codes.tolist(), names, notes


def test_types_are_numbered_by_frequency() -> None:
    assert types(["b", "a", "b", "b", None, "a"])[:2] == ([0, 1, 0, 0, 2, 1], ("b", "a", "unknown"))
    assert types([" Pay", "pay", "PAY ", "call"])[0] == [0, 0, 0, 1]
    assert types([1, 2, 2])[1] == ("2", "1")
    assert types([True, False, True])[0] == [0, 1, 0]


def test_rare_types_become_other() -> None:
    cells = [f"t{number:02d}" for number in range(30) for _ in range(31 - number)]
    codes, names, notes = types(cells)
    assert len(names) == MOST_TYPES
    assert names == (*(f"t{number:02d}" for number in range(MOST_TYPES - 1)), "other")
    merged = sum(31 - number for number in range(MOST_TYPES - 1, 30))
    assert codes.count(MOST_TYPES - 1) == merged
    assert f"({merged} such edges)" in notes[-1]


def test_types_of_training_stay_with_further_edges() -> None:
    codes, names, _ = types(["a", "a", "b"], ["b", "b", "b", "c"])
    assert (codes, names) == ([0, 0, 1, 1, 1, 1, 2], ("a", "b", "other"))


@each_of(
    ("cells", "words"),
    [(["a", "a"], "all edges have the type 'a'"), (list(range(30)), "30 different numbers"), ([[1], [2]], "type")],
)
def test_columns_that_hold_no_types(cells: list[object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        types(cells)


def test_types_of_dropped_edges_are_dropped() -> None:
    nodes = pl.DataFrame({"id": [f"a{i}" for i in range(COUNT)], "label": np.array(["x", "y"])[np.arange(COUNT) % 2]})
    names = {"source": [f"a{i}" for i in ENDS[0]], "target": [f"a{i}" for i in ENDS[1]]}
    edges = pl.DataFrame({**names, "kind": KINDS})
    stranger = pl.DataFrame({"source": ["zz"], "target": ["a1"], "kind": ["pay"]})
    found = read_graph(nodes, pl.concat([stranger, edges]), label="label", edge_type="kind", unknown_nodes="drop").graph
    assert np.array(found.edge_types)[found.edge_type].tolist() == KINDS.tolist()
    for error, options in (
        (DataError, {"edge_type": "nope"}),
        (OptionError, {"edge_type": "source", "source": "source"}),
    ):
        with pytest.raises(error):
            read_graph(nodes, edges, label="label", **options)


@each_of(
    ("edge_type", "edge_types"), [([0, 1], ("a", "b")), ([0] * 120, ()), ([2] * 120, ("a", "b")), ([-1] * 120, ("a",))]
)
def test_graphs_check_types(edge_type: list[int], edge_types: tuple[str, ...]) -> None:
    with pytest.raises(NlgnnError):
        replace(typed_graph(), edge_type=np.array(edge_type), edge_types=edge_types)


@each_of("directed", [False, True])
def test_table_has_literal_means_by_type(directed: bool) -> None:
    graph = typed_graph(directed)
    table = neighbour_table(graph, Blocks())
    names = [column.name() for column in table.columns]
    for number, name in enumerate(graph.edge_types):
        pairs = {
            (int(a), int(b)) for (a, b), kind in zip(ENDS.T, graph.edge_type, strict=True) if kind == number and a != b
        }
        reverse = {(b, a) for a, b in pairs}
        for direction, of_direction in (
            {"out-": pairs, "in-": reverse}.items() if directed else {"": pairs | reverse}.items()
        ):
            around = f"{direction}neighbours by `{name}`"
            means = table.values[:, names.index(f"mean of feature 1 over {around}")]
            degrees = table.values[:, names.index(f"log number of {around}")]
            for node in range(COUNT):
                near = [b for a, b in of_direction if a == node]
                assert means[node] == pytest.approx(graph.x[near, 1].mean() if near else 0, abs=1e-6)
                assert degrees[node] == pytest.approx(np.log1p(len(near)))


def test_descriptions_by_type_are_those_of_the_edges_of_the_type() -> None:
    graph = typed_graph()
    names = description_names(graph)
    assert [name for name in names if " by " in name] == [
        "links by call",
        "links by pay",
        "means by call",
        "means by pay",
    ]
    calls = Graph(graph.x, ENDS[:, graph.edge_type == 0], graph.y)
    assert np.array_equal(describe(graph, "means by call"), describe(calls, "means"))
    assert (describe(graph, "links by call") != describe(calls, "links")).nnz == 0
    with pytest.raises(OptionError):
        describe(graph, "degrees by call")


@each_of(("model", "uses"), [("trees", True), ("kernel", True), ("bank", True), ("mlp", True), ("gcn", False)])
def test_models_use_types_or_say_that_they_do_not(model: str, uses: bool) -> None:
    graph = typed_graph()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", NlgnnWarning)
        fit(model, graph, "random-60", Recipe(epochs=2) if model in ("bank", "mlp", "gcn") else None, progress=False)
    assert any("types of edges" in str(warning.message) for warning in caught) != uses


def test_bank_has_the_means_by_type_as_inputs() -> None:
    graph = typed_graph()
    factory, _ = configure("bank", graph, unit_rows=False)
    inputs = factory().prepare(graph)
    assert len(inputs) == len(factory().maps)
    for number, table in enumerate(inputs[-2:]):
        calls = Graph(graph.x, ENDS[:, graph.edge_type == number], graph.y)
        assert np.allclose(table.numpy(), describe(calls, "means"), atol=1e-6)
    with pytest.raises(DataError, match="types of edges"):
        factory().prepare(replace(graph, edge_type=None, edge_types=()))
    assert "num_edge_types" not in configure("bank", replace(graph, edge_type=None, edge_types=()))[0].keywords


@each_of("model", ["trees", "kernel"])
def test_states_of_models_keep_types(model: str) -> None:
    graph = typed_graph()
    factory, recipe = configure(model, graph)
    (split,) = make_splits(graph, "random-60", 1)
    (run,) = fit(factory, graph, split, recipe, progress=False)
    again = factory()
    assert isinstance(again, ShallowModel)
    again.load_state_dict(run.state)
    assert run.validation is not None
    assert np.allclose(again.predict(graph)[split.val], run.validation.numpy(), atol=1e-6)


def test_node_classifier_and_flags() -> None:
    fitted = NodeClassifier("bank", n_runs=1, options={"epochs": 2}).fit(typed_graph())
    assert fitted.predict().shape == (COUNT,)
    tables = own_tables({"nodes": "n.csv", "edges": "e.csv", "label": "l", "edge_type_column": "kind"})
    assert tables is not None
    assert tables.edge_type == "kind"
    assert tables.flags[-2:] == ["--edge-type-column", "kind"]
