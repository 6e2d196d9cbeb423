"""Logistic regression equals scikit-learn's on a table that is written out, and takes any graph that it can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from battery_graphs import random_graph, split_of
from each_of import each_of
from nlgnn.errors import DataError, NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.shallow import Logistic
from nlgnn.shallow.logistic import STRENGTHS


def directed_graph(num_classes: int = 3) -> Graph:
    rng = np.random.default_rng(1)
    graph = replace(random_graph(40, num_classes), directed=True)
    return replace(graph, edge_weight=rng.integers(1, 5, graph.edge_index.shape[1]))


def literal_table(graph: Graph, neighbours: str) -> NDArray[np.float64]:
    """Own columns, then weighted means over neighbours, node by node."""
    x = graph.dense_features().astype(np.float64)
    out, both = graph.directed_weights.toarray(), graph.undirected_weights.toarray()
    directions = {"none": [], "undirected": [both], "all": [both, out, out.T]}[neighbours]
    blocks = [x]
    for weights in directions:
        means = [row @ x / row.sum() if row.sum() else np.zeros(x.shape[1]) for row in weights]
        blocks.append(np.array(means))
    return np.concatenate(blocks, axis=1)


@each_of("neighbours", ["none", "undirected", "all"])
@each_of("num_classes", [2, 3])
@each_of("form", [np.asarray, sparse.csr_array])
def test_equals_scikit_learn(neighbours: str, num_classes: int, form) -> None:
    graph = directed_graph(num_classes)
    graph = replace(graph, x=form(np.where(graph.x > -1, graph.x, 0)))
    split = split_of(graph)
    scaler = StandardScaler() if isinstance(graph.x, np.ndarray) else MaxAbsScaler()
    oracle = make_pipeline(scaler, LogisticRegression(C=0.5, max_iter=1000))
    table = literal_table(graph, neighbours)
    oracle.fit(table[split.train], graph.y[split.train])
    found = Logistic(neighbours, 0.5).fit(graph, split).predict(graph)
    np.testing.assert_allclose(found, oracle.predict_proba(table), atol=1e-6)


def test_the_strength_is_chosen_by_validation() -> None:
    graph = random_graph(80)
    split = split_of(graph)
    each = [Logistic(strength=strength).fit(graph, split) for strength in STRENGTHS]
    correct = [(model.predict(graph).argmax(1) == graph.y)[split.val].mean() for model in each]
    chosen = Logistic().fit(graph, split)
    assert (chosen.predict(graph).argmax(1) == graph.y)[split.val].mean() == max(correct)
    assert len({model.coefficients.weight.tobytes() for model in each}) == len(STRENGTHS)


def test_class_weights() -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.1).astype(int)
    graph = Graph(rng.standard_normal((200, 2)) + y[:, None], np.empty((2, 0), np.int64), y)
    split, balanced = split_of(graph), Logistic()
    balanced.class_weight = "balanced"
    usual, even = (model.fit(graph, split).predict(graph)[:, 1].mean() for model in (Logistic(), balanced))
    assert even > usual + 0.1


@each_of("neighbours", ["none", "all"])
def test_new_nodes(neighbours: str) -> None:
    graph = directed_graph()
    model = Logistic(neighbours).fit(graph, split_of(graph))
    larger = Graph(
        np.concatenate([graph.x, graph.x[:2]]),
        np.concatenate([graph.edge_index, [[40], [41]]], axis=1),
        np.concatenate([graph.y, [-1, -1]]),
        directed=True,
        class_names=graph.class_names,
        edge_weight=np.concatenate([graph.edge_weight, [1]]),
    )
    found = model.predict(larger)
    np.testing.assert_allclose(found[:40], model.predict(graph))
    if neighbours == "none":
        np.testing.assert_allclose(found[40:], found[:2])
    with pytest.raises(DataError, match="fitted on others"):
        model.predict(replace(graph, x=graph.x[:, :3]))


def test_a_class_without_training_nodes_is_never_predicted() -> None:
    graph = random_graph(40)
    split = split_of(graph)
    without = Split(split.train & (graph.y != 1), split.val, split.test)
    found = Logistic().fit(graph, without).predict(graph)
    assert found[:, 1].max() < 1e-10
    np.testing.assert_allclose(found.sum(1), 1)


def test_one_class_in_training() -> None:
    graph = random_graph(40)
    split = split_of(graph)
    found = Logistic().fit(graph, Split(split.train & (graph.y == 2), split.val, split.test)).predict(graph)
    assert (found[:, 2] > 0.999).all()


@each_of("column", [np.zeros(40), np.arange(40.0), np.full(40, 1e6), np.arange(40) * 1e-6])
def test_columns_that_say_nothing(column: NDArray[np.float64]) -> None:
    graph = random_graph(40)
    graph = replace(graph, x=np.column_stack([graph.x, column]))
    assert np.isfinite(Logistic("undirected").fit(graph, split_of(graph)).predict(graph)).all()


def test_missing_values_are_refused_in_training_and_prediction() -> None:
    graph = random_graph()
    model = Logistic().fit(graph, split_of(graph))
    x = graph.x.copy()
    x[3, 2] = np.nan
    missing = replace(graph, x=x)
    for use in (lambda: model.predict(missing), lambda: Logistic().fit(missing, split_of(graph))):
        with pytest.raises(DataError, match=r"missing feature value \(NaN\), in column 2 of node 3\.\nFill"):
            use()


def test_edges_without_direction_are_used_in_both_directions() -> None:
    graph = directed_graph()
    model = Logistic("all").fit(graph, split_of(graph))
    one_way = replace(graph, directed=False)
    other_way = replace(one_way, edge_index=graph.edge_index[::-1])
    np.testing.assert_allclose(model.predict(one_way), model.predict(other_way))
    assert np.abs(model.predict(one_way) - model.predict(graph)).max() > 0.01


def test_directions_of_edges_that_have_their_reverse_are_the_same() -> None:
    graph = random_graph(40)
    both_ways = replace(graph, edge_index=np.hstack([graph.edge_index, graph.edge_index[::-1]]), directed=True)
    found = [Logistic(way).fit(both_ways, split_of(graph)).predict(graph) for way in ("all", "undirected")]
    np.testing.assert_array_equal(*found)


def test_nodes_without_label_are_not_trained_on() -> None:
    graph = random_graph(60)
    split, known = split_of(graph), np.arange(60) % 3 > 0
    parts = [Split(split.train & known, split.val & known, split.test), split]
    hidden = replace(graph, y=np.where(known, graph.y, -1))
    np.testing.assert_array_equal(*(Logistic().fit(hidden, part).predict(graph) for part in parts))


def test_splits_that_lack_a_part() -> None:
    graph = random_graph(40)
    split, nobody = split_of(graph), np.zeros(40, bool)
    without_val = Logistic().fit(graph, Split(split.train, nobody, split.test)).predict(graph)
    np.testing.assert_array_equal(without_val, Logistic(strength=1.0).fit(graph, split).predict(graph))
    with pytest.raises(DataError, match="no labelled training node"):
        Logistic().fit(graph, Split(nobody, split.val, split.test))
    with pytest.raises(DataError, match="5 entries"):
        Logistic().fit(graph, Split(nobody[:5], nobody[:5], nobody[:5]))


def test_a_model_that_is_not_fitted() -> None:
    for use in (Logistic().state_dict, lambda: Logistic().predict(random_graph())):
        with pytest.raises(NlgnnError, match="not fitted"):
            use()


def test_no_features() -> None:
    graph = replace(random_graph(), x=np.zeros((24, 0)))
    with pytest.raises(DataError, match="no features"):
        Logistic().fit(graph, split_of(graph))


@each_of(
    "state",
    [
        {},
        {"weight": torch.zeros(3, dtype=torch.float64)},
        {name: torch.zeros(2, 1, 2, dtype=torch.float64) for name in ("weight", "bias", "centre")},
        {"weight": torch.zeros(2, 1, 5), "bias": torch.zeros(2), "centre": torch.zeros(1, 5)},
        Logistic("undirected").fit(random_graph(), split_of(random_graph())).state_dict(),
    ],
)
def test_a_state_of_another_model(state: dict[str, torch.Tensor]) -> None:
    with pytest.raises(DataError, match="not the state of a Logistic"):
        Logistic("none").load_state_dict(state)
