"""Tables of accounts and payments: what they hold, and that only the direction of payments gives fraud away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from nlgnn.datasets.accounts import account_tables, write_account_tables
from nlgnn.graph.graph import Graph
from nlgnn.tables import read_graph

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_examples_are_made_by_it(tmp_path: Path) -> None:
    for path in write_account_tables(tmp_path):
        assert path.read_text() == (EXAMPLES / path.name).read_text()


def test_seed_decides() -> None:
    assert account_tables(50, seed=1) == account_tables(50, seed=1) != account_tables(50, seed=2)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Graph:
    paths = write_account_tables(tmp_path_factory.mktemp("tables"), 20_000, 5, 0.04)
    return read_graph(*paths, label="is_fraud", directed=True).graph


def test_a_rare_class_mixed_columns_and_gaps(graph: Graph) -> None:
    rows, payments = account_tables(20_000, 5, 0.04)
    assert len(rows) == graph.num_nodes + 1
    kinds = {type(value) for row in rows[1:] for value in row[1:5]}
    assert kinds == {str, int, float}
    assert {row[3] == "" for row in rows[1:]} == {True, False}
    assert graph.class_names == ("no", "yes")
    assert (graph.y == 1).sum() / graph.labelled.sum() == pytest.approx(0.04, abs=0.005)
    assert graph.labelled.mean() == pytest.approx(0.9, abs=0.01)
    assert len(payments) == pytest.approx(120_000, rel=0.02)


def separation(columns: np.ndarray, fraud: np.ndarray) -> float:
    """Return the largest difference of class means over all columns, in standard deviations."""
    difference = columns[fraud].mean(0) - columns[~fraud].mean(0)
    return float(np.abs(difference / (columns.std(0) + 1e-9)).max())


def means(adjacency: sparse.csr_array, x: np.ndarray) -> np.ndarray:
    return np.asarray(adjacency @ x / np.maximum(adjacency.sum(1), 1)[:, None])


def test_only_direction_gives_it_away(graph: Graph) -> None:
    x, fraud, known = graph.dense_features(), graph.y == 1, graph.labelled
    forward = graph.directed_adjacency
    separations = {
        name: separation(columns[known], fraud[known])
        for name, columns in {
            "own": x,
            "undirected": means(graph.undirected_adjacency, x),
            "out": means(forward, x),
            "in": means(forward.T.tocsr(), x),
        }.items()
    }
    assert min(separations["out"], separations["in"]) > 0.8
    assert separations["own"] < 0.65
    assert separations["undirected"] < 0.2
