from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.special import softmax

from each_of import each_of
from nlgnn import load_graph, make_splits
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, random_split
from nlgnn.shallow import neighbour_table
from nlgnn.shallow.base import bytes_tensor
from nlgnn.shallow.forest import Forest
from nlgnn.shallow.table_model import CHECKSUM, TableModel, checksum
from nlgnn.shallow.trees import Trees
from nlgnn.training.metrics import measure

MODELS: list[Any] = [Trees, Forest]
OPTIONS: dict[str, dict[str, Any]] = {
    "none": {"neighbours": "none"},
    "plain": {},
    "undirected": {"neighbours": "undirected", "structure": False},
    "spectral": {"spectral": True},
    "labels": {"labels": True},
}


def small(model: type[TableModel], **options: Any) -> Any:
    """A model that is fitted in a moment."""
    size: dict[str, Any] = {"rounds": 20, "min_leaf": 3} if model is Trees else {"trees": 12}
    return model(**size, **options)


def sample(n: int = 120, num_classes: int = 3, seed: int = 0, **changes: Any) -> tuple[Graph, Split]:
    """A directed graph whose labels follow from the features of out-neighbours."""
    rng = np.random.default_rng(seed)
    x, edges = rng.standard_normal((n, 4)).astype(np.float32), rng.integers(n, size=(2, 5 * n))
    means = np.zeros(n)
    np.add.at(means, edges[0], x[edges[1], 0])
    y = np.argsort(np.argsort(means)) * num_classes // n
    arguments = {"x": x, "edge_index": edges, "y": y, "directed": True} | changes
    return Graph(**arguments), random_split(np.asarray(arguments["y"]), "random-60", 0)


def accuracy(graph: Graph, nodes: np.ndarray, probabilities: np.ndarray) -> float:
    return measure("accuracy", torch.from_numpy(probabilities[nodes]), torch.from_numpy(graph.y[nodes]))


@pytest.mark.parametrize("model", MODELS)
@each_of("options", list(OPTIONS))
def test_fit_predict_save_load(model: Any, options: str) -> None:
    graph, split = sample()
    first, again = (small(model, **OPTIONS[options]).fit(graph, split, seed=3) for _ in range(2))
    predicted = first.predict(graph)
    assert predicted.shape == (120, 3)
    np.testing.assert_allclose(predicted.sum(1), 1, rtol=1e-5)
    assert (again.predict(graph) == predicted).all()
    loaded = small(model, **OPTIONS[options])
    loaded.load_state_dict(first.state_dict())
    assert (loaded.predict(graph) == predicted).all()
    assert all((loaded.state_dict()[name] == tensor).all() for name, tensor in first.state_dict().items())
    assert first.identifies_nodes == (options in ("spectral", "labels"))
    assert first.uses_edges == (options != "none")


@pytest.mark.parametrize("model", MODELS)
def test_balanced_class_weights_favour_small_classes(model: Any) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(400) < 0.1).astype(int)
    graph, split = sample(400, x=(rng.standard_normal((400, 2)) + y[:, None]).astype(np.float32), y=y)
    usual, balanced = model(min_leaf=15), model(min_leaf=15)
    balanced.class_weight = "balanced"
    shares = [one.fit(graph, split).predict(graph)[split.test, 1].mean() for one in (usual, balanced)]
    assert shares[1] > shares[0] + 0.05


@each_of("n", [12, 40, 60])
def test_trees_split_few_training_nodes(n: int) -> None:
    x = np.repeat([[0.0], [1.0]], n // 2, axis=0).astype(np.float32)
    graph, split = sample(n, x=x, y=x[:, 0].astype(int))
    predicted = Trees(neighbours="none").fit(graph, split).predict(graph)
    assert accuracy(graph, split.test, predicted) == 100


def test_loaded_models_share_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    made, fill = [], neighbour_table.fill_table
    monkeypatch.setattr(neighbour_table, "fill_table", lambda *parts: made.append(1) or fill(*parts))
    for changes in ({}, {"x": sparse.eye_array(120, 200, format="csr")}):
        graph, split = sample(**changes)
        other = replace(graph)
        for seed in range(2):
            loaded = small(Trees, spectral=True)
            loaded.load_state_dict(small(Trees, spectral=True).fit(graph, split, seed=seed).state_dict())
            loaded.predict(other)
        assert len(made) == 2
        made.clear()


@pytest.mark.parametrize("model", MODELS)
def test_edges_decide(model: Any) -> None:
    graph, split = sample(600)
    with_edges, without = (
        accuracy(graph, split.test, small(model, neighbours=way).fit(graph, split).predict(graph))
        for way in ("all", "none")
    )
    assert with_edges > 65
    assert without < 50


@pytest.mark.parametrize("model", MODELS)
def test_test_labels_change_nothing(model: Any) -> None:
    graph, split = sample()
    y = graph.y.copy()
    y[split.test] = np.random.default_rng(0).permutation(y[split.test])
    first, second = (small(model, labels=True).fit(of, split).state_dict() for of in (graph, replace(graph, y=y)))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_validation_labels_change_the_number_of_rounds_only() -> None:
    graph, split = sample(400)
    y = graph.y.copy()
    y[split.val] = np.random.default_rng(0).permutation(y[split.val])
    first, second = (Trees(rounds=60, labels=True).fit(of, split).booster for of in (graph, replace(graph, y=y)))
    rounds = sorted([first.num_trees(), second.num_trees()])
    assert rounds[0] < rounds[1]
    trees = [booster.dump_model(num_iteration=rounds[0] // 3)["tree_info"] for booster in (first, second)]
    assert trees[0] == trees[1]
    forests = [small(Forest, labels=True).fit(of, split).predict(graph) for of in (graph, replace(graph, y=y))]
    assert (forests[0] == forests[1]).all()


@pytest.mark.parametrize("model", MODELS)
def test_another_seed_gives_another_model(model: Any) -> None:
    graph, split = sample()
    first, second = (small(model).fit(graph, split, seed=seed).predict(graph) for seed in (0, 1))
    assert (first != second).any()


def test_rounds_are_chosen_by_the_metric() -> None:
    graph, split = sample(300, 2)
    by_auc, by_loss = (Trees(learning_rate=0.3).fit(graph, split, metric) for metric in ("roc-auc", "log-loss"))
    assert by_auc.booster.num_trees() != by_loss.booster.num_trees()
    for metric, better, worse in (("roc-auc", by_auc, by_loss), ("log-loss", by_loss, by_auc)):
        logits = [torch.from_numpy(np.log(model.predict(graph)[split.val])) for model in (better, worse)]
        scores = [measure(metric, one, torch.from_numpy(graph.y[split.val])) for one in logits]
        assert scores[0] > scores[1]


@pytest.mark.parametrize("model", MODELS)
@each_of("options", ["none", "plain", "undirected"])
def test_new_nodes(model: Any, options: str) -> None:
    graph, split = sample()
    fitted = small(model, **OPTIONS[options]).fit(graph, split)
    larger = Graph(
        np.concatenate([graph.x, graph.x[:2]]), graph.edge_index, np.append(graph.y, [-1, -1]), directed=True
    )
    predicted = fitted.predict(larger)
    assert predicted.shape == (122, 3)
    np.testing.assert_allclose(predicted[:120], fitted.predict(graph), atol=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_edges_without_direction_are_used_in_both_directions(model: Any) -> None:
    graph, split = sample()
    fitted = small(model).fit(graph, split)
    one_way = replace(graph, directed=False)
    other_way = replace(one_way, edge_index=graph.edge_index[::-1])
    np.testing.assert_array_equal(fitted.predict(one_way), fitted.predict(other_way))
    assert (fitted.predict(one_way) != fitted.predict(graph)).any()


@pytest.mark.parametrize("model", MODELS)
@each_of("options", ["spectral", "labels"])
def test_new_nodes_are_refused(model: Any, options: str) -> None:
    graph, split = sample()
    fitted = small(model, **OPTIONS[options]).fit(graph, split)
    larger = Graph(
        np.concatenate([graph.x, graph.x[:2]]), graph.edge_index, np.append(graph.y, [-1, -1]), directed=True
    )
    with pytest.raises(DataError, match="by their number"):
        fitted.predict(larger)


def strange_graphs() -> dict[str, tuple[Graph, Split]]:
    n = 60
    no_edges, empty = np.zeros((2, 0), int), np.zeros((n, 0))
    constant = np.ones((n, 3))
    words = sparse.eye_array(n, 200, format="csr")
    missing_class = sample(n)
    split = Split(missing_class[1].train & (missing_class[0].y != 1), missing_class[1].val, missing_class[1].test)
    one_class = sample(n, y=np.zeros(n, int))
    return {
        "constant columns": sample(n, x=constant),
        "no columns": sample(n, x=empty),
        "one value per node": sample(n, x=np.arange(n)[:, None]),
        "one word per node": sample(n, x=words),
        "no words": sample(n, x=sparse.csr_array((n, 200))),
        "no edges": sample(n, edge_index=no_edges),
        "nothing": sample(n, x=empty, edge_index=no_edges),
        "class without training nodes": (missing_class[0], split),
        "one class": one_class,
        "classes without nodes": sample(n, class_names=tuple("abcdefg")),
        "unknown labels": sample(n, y=np.where(np.arange(n) % 2, -1, np.arange(n) % 4 // 2)),
        "few nodes": sample(
            9, x=sparse.random_array((9, 100), density=0.1, rng=np.random.default_rng(0), format="csr")
        ),
        "no validation nodes": (sample(n)[0], Split(np.arange(n) < 30, np.zeros(n), np.arange(n) >= 30)),
    }


@pytest.mark.parametrize("model", MODELS)
@each_of("case", list(strange_graphs()))
def test_strange_graphs(model: Any, case: str) -> None:
    graph, split = strange_graphs()[case]
    fitted = small(model, spectral=True, labels=True).fit(graph, split)
    predicted = fitted.predict(graph)
    assert predicted.shape == (graph.num_nodes, graph.num_classes)
    np.testing.assert_allclose(predicted.sum(1), 1, rtol=1e-5)
    seen = np.unique(graph.y[split.train & graph.labelled])
    assert (np.delete(predicted, seen, axis=1) == 0).all()
    loaded = small(model, spectral=True, labels=True)
    loaded.load_state_dict(fitted.state_dict())
    assert (loaded.predict(graph) == predicted).all()


@pytest.mark.parametrize("model", MODELS)
def test_a_table_without_columns(model: Any) -> None:
    graph, split = sample(x=np.zeros((120, 0)))
    for options in ({"neighbours": "none"}, {"structure": False}):
        with pytest.raises(DataError, match="no features"):
            small(model, **options).fit(graph, split)


@pytest.mark.parametrize("model", MODELS)
def test_no_training_nodes(model: Any) -> None:
    graph, split = sample()
    with pytest.raises(DataError, match="no labelled training node"):
        small(model).fit(graph, Split(np.zeros(120), split.val, split.test))


def with_missing_values(graph: Graph) -> Graph:
    x = graph.x.copy()
    x[::3, 1] = np.nan
    x[:, 2] = np.nan  # all are missing
    return replace(graph, x=x)


def test_trees_take_missing_values() -> None:
    graph, split = sample(600)
    graph = with_missing_values(graph)
    assert accuracy(graph, split.test, small(Trees).fit(graph, split).predict(graph)) > 65


def test_a_bag_of_words_has_no_missing_values() -> None:
    graph, split = sample(x=np.eye(120))
    with pytest.raises(DataError, match=r"missing feature values(.|\n)*keep at most 64 columns"):
        small(Trees).fit(with_missing_values(graph), split)


def test_forest_refuses_missing_values() -> None:
    graph, split = sample()
    missing, fitted = with_missing_values(graph), small(Forest).fit(graph, split)
    for use in (lambda: small(Forest).fit(missing, split), lambda: fitted.predict(missing)):
        with pytest.raises(DataError, match="the first in column 1 of node 0"):
            use()


@pytest.mark.parametrize("model", MODELS)
def test_damaged_states(model: Any) -> None:
    graph, split = sample()
    state = small(model, labels=True).fit(graph, split).state_dict()
    for name, tensor in state.items():
        changed = tensor.clone()
        changed.view(-1)[len(changed) // 2] += 1
        for damaged in ({**state, name: changed}, {key: one for key, one in state.items() if key != name}):
            with pytest.raises(DataError, match="damaged"):
                small(model, labels=True).load_state_dict(damaged)


@pytest.mark.parametrize("model", MODELS)
def test_states_of_other_models(model: Any) -> None:
    graph, split = sample()
    other = Forest if model is Trees else Trees
    for state in (small(other).fit(graph, split), small(model, neighbours="none").fit(graph, split)):
        with pytest.raises(DataError, match="another model"):
            small(model).load_state_dict(state.state_dict())
    with pytest.raises(DataError, match="another model"):
        small(model).load_state_dict({CHECKSUM: bytes_tensor(hashlib.sha256().digest())})


def test_text_that_is_no_model_of_lightgbm() -> None:
    graph, split = sample()
    state = small(Trees).fit(graph, split).state_dict()
    del state[CHECKSUM]
    state["booster"] = bytes_tensor(b"no trees")
    with pytest.raises(DataError, match="LightGBM cannot read"):
        small(Trees).load_state_dict({**state, CHECKSUM: bytes_tensor(checksum(state))})


@pytest.mark.parametrize("model", MODELS)
def test_a_model_that_is_not_fitted(model: Any) -> None:
    with pytest.raises(NlgnnError, match="not fitted"):
        model().predict(sample()[0])
    with pytest.raises(NlgnnError, match="not fitted"):
        model().state_dict()


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (Trees, {"learning_rate": 0}),
        (Trees, {"num_leaves": 1}),
        (Trees, {"rounds": 0}),
        (Trees, {"column_share": 0}),
        (Trees, {"neighbours": "some"}),
        (Forest, {"trees": 0}),
        (Forest, {"column_share": 1.5}),
        (Forest, {"min_leaf": 0}),
    ],
)
def test_wrong_options(model: Any, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        model(**options)


@pytest.mark.parametrize("num_classes", [2, 3])
def test_contributions_add_up(num_classes: int) -> None:
    graph, split = sample(300, num_classes)
    fitted = small(Trees, labels=True, spectral=True).fit(graph, split)
    nodes = np.array([5, 0, 7])
    found = fitted.contributions(graph, nodes)
    logits = found.values.sum(axis=2) + found.expected
    odds = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(odds, fitted.predict(graph)[nodes], atol=1e-5)
    groups = found.by_group()
    np.testing.assert_allclose(sum(groups.values()), found.values.sum(axis=2), atol=1e-9)
    sizes = {group: np.abs(values).sum() for group, values in groups.items()}
    assert max(sizes, key=sizes.__getitem__) == "neighbours' columns"
    total = np.abs(fitted.contributions(graph, np.arange(300)).values).sum(axis=(0, 1))
    assert found.columns[int(total.argmax())].name() == "mean of feature 0 over out-neighbours"


def test_contributions_without_edges_are_own_columns() -> None:
    graph, split = sample()
    groups = small(Trees, neighbours="none").fit(graph, split).contributions(graph, np.arange(9)).by_group()
    assert [group for group, values in groups.items() if values.any()] == ["own columns"]


def test_contributions_add_up_if_a_class_has_no_training_nodes() -> None:
    graph, split = sample(300)
    for seen in ((0, 2), (1,)):
        some = Split(split.train & np.isin(graph.y, seen), split.val, split.test)
        fitted = small(Trees).fit(graph, some)
        found = fitted.contributions(graph, np.arange(9))
        odds = softmax(found.values.sum(axis=2) + found.expected, axis=1)
        np.testing.assert_allclose(odds, fitted.predict(graph)[:9], atol=1e-5)
        assert fitted.contributions(graph, np.arange(0)).values.shape == (0, *found.values.shape[1:])


def test_contributions_with_one_class() -> None:
    graph, split = sample(y=np.zeros(120, int))
    found = small(Trees).fit(graph, split).contributions(graph, np.array([1]))
    assert found.values.shape[:2] == (1, 1)
    assert not found.values.any()


def test_tolokers(data_root: Path) -> None:
    graph = load_graph("tolokers")
    split = make_splits(graph, "heterophilous")[0]
    fitted = Trees().fit(graph, split, "roc-auc")
    logits = torch.from_numpy(np.log(fitted.predict(graph)))
    assert measure("roc-auc", logits[split.test], torch.from_numpy(graph.y[split.test])) > 84


def test_chameleon_filtered(data_root: Path) -> None:
    graph = load_graph("chameleon-filtered")
    split = make_splits(graph, "heterophilous")[0]
    fitted = Forest(labels=True, trees=100).fit(graph, split)
    assert accuracy(graph, split.test, fitted.predict(graph)) > 38
