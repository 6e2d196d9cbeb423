"""Kernel ridge regression: equal to scikit-learn's, blind to test labels, and useful on poor graphs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.kernel_ridge import KernelRidge

from each_of import each_of
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph import Graph, Split
from nlgnn.graph.descriptions import DESCRIPTIONS
from nlgnn.shallow import similarity
from nlgnn.shallow.kernel import RIDGES, KernelClassifier
from nlgnn.shallow.kernel_search import Score, Validation
from nlgnn.shallow.kernel_votes import solve_nystroem, solve_ridge
from nlgnn.shallow.similarity import Kernel, closeness, similarities_of, stored_rows

FEATURES_ONLY = "features+means+degrees"


def random_graph(n: int = 90, classes: int = 3, seed: int = 0, **changes: Any) -> Graph:
    """Return a graph in which nodes of one class link to the same nodes and have similar features."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    x = rng.random((n, 6)) + np.eye(classes, 6)[y]
    source = rng.integers(n, size=6 * n)
    target = np.where(rng.random(6 * n) < 0.7, (y[source] * 7 + rng.integers(5, size=6 * n)) % n, rng.integers(n))
    values = {"x": x, "edge_index": np.stack([source, target]), "y": y, "directed": True, **changes}
    return Graph(**values)


def thirds(n: int, seed: int = 0) -> Split:
    """Return a random split into three parts of equal size."""
    return Split.from_indices(n, *np.array_split(np.random.default_rng(seed).permutation(n), 3))


def accuracy(model: KernelClassifier, graph: Graph, nodes: np.ndarray) -> float:
    return float((model.predict(graph).argmax(1) == graph.y)[nodes].mean())


def positive_matrix(n: int, seed: int = 0) -> np.ndarray:
    factor = np.random.default_rng(seed).normal(size=(n, n))
    return factor @ factor.T / n


def test_solution_equals_that_of_scikit_learn() -> None:
    kernel, targets = positive_matrix(40), np.random.default_rng(1).normal(size=(40, 3))
    ours = solve_ridge(kernel, targets, [0.03, 1.0])
    for ridge, coefficients in zip([0.03, 1.0], ours, strict=True):
        theirs = KernelRidge(alpha=ridge, kernel="precomputed").fit(kernel, targets).dual_coef_
        np.testing.assert_allclose(coefficients, theirs, rtol=1e-9)


def test_weighted_solution_equals_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    kernel, targets, weights = positive_matrix(40), rng.normal(size=(40, 3)), rng.random(40) + 0.1
    ours = solve_ridge(kernel, targets, [0.3], weights)[0]
    theirs = KernelRidge(alpha=0.3, kernel="precomputed").fit(kernel, targets, sample_weight=weights).dual_coef_
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@each_of("exact_nodes", [10_000, 1])
def test_balanced_class_weights_favour_small_classes(exact_nodes: int) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.1).astype(int)
    graph, split = random_graph(300, x=rng.standard_normal((300, 2)) + y[:, None], y=y), thirds(300)
    usual, balanced = (KernelClassifier(FEATURES_ONLY, exact_nodes=exact_nodes) for _ in range(2))
    balanced.class_weight = "balanced"
    means = [one.fit(graph, split).predict(graph)[split.test, 1].mean() for one in (usual, balanced)]
    assert means[1] > means[0] + 0.1


def test_a_ridge_that_float32_loses_is_solved_in_float64() -> None:
    kernel = np.full((50, 50), 1e6, np.float32)
    targets = np.random.default_rng(0).normal(size=(50, 2))
    expected = np.linalg.solve(kernel.astype(np.float64) + 0.01 * np.eye(50), targets)
    np.testing.assert_allclose(solve_ridge(kernel, targets, [0.01])[0], expected, rtol=1e-4, atol=1e-4)


def test_all_nodes_as_landmarks_equal_the_exact_solution() -> None:
    kernel, targets = positive_matrix(40), np.random.default_rng(1).normal(size=(40, 3))
    parts = [(kernel[:15], targets[:15]), (kernel[15:], targets[15:])]
    ours = solve_nystroem(kernel, parts, [0.1, 1.0])
    np.testing.assert_allclose(kernel @ ours, kernel @ solve_ridge(kernel, targets, [0.1, 1.0]), atol=1e-4)


def test_scores_of_landmarks_equal_their_equation() -> None:
    kernel, targets = positive_matrix(40), np.random.default_rng(1).normal(size=(40, 3))
    some = kernel[:, :10]
    expected = np.linalg.solve(some.T @ some + 0.3 * kernel[:10, :10], some.T @ targets)
    ours = solve_nystroem(kernel[:10, :10], [(some, targets)], [0.3])[0]
    np.testing.assert_allclose(some @ ours, some @ expected, rtol=1e-4, atol=1e-5)


def test_landmarks_with_short_descriptions() -> None:
    """Their kernel has a low rank, and rounding makes some of its eigenvalues negative."""
    x = np.random.default_rng(0).normal(size=(900, 3))
    graph = Graph(x, np.zeros((2, 0), np.int64), (x[:, 0] > 0.2 * x[:, 1]).astype(int))
    model = KernelClassifier(descriptions="features", gamma=0.1, exact_nodes=10, landmarks=250)
    model.fit(graph, thirds(900))
    landmarks = stored_rows(graph, "features")[model.votes.anchors]
    assert np.linalg.eigvalsh(np.exp(0.1 * closeness("features", landmarks, landmarks)))[0] < -1e-7
    assert accuracy(model, graph, thirds(900).test) > 0.9


def validation_score(graph: Graph, split: Split, kernels: Sequence[Kernel], ridge: float) -> Score:
    """Return the validation score of a sum of kernels, in float64."""
    train, val = np.flatnonzero(split.train), np.flatnonzero(split.val)
    kernel = np.zeros((90, 90))
    for name, gamma, weight in kernels:
        kernel += weight * np.exp(gamma * similarities_of(graph).closeness(name, np.arange(90), np.arange(90)))
    one_hot = np.eye(graph.num_classes)[graph.y[train]]
    coefficients = solve_ridge(kernel[np.ix_(train, train)], one_hot - one_hot.mean(0), [ridge])[0]
    return Validation("accuracy", graph.y[val]).score(kernel[np.ix_(val, train)] @ coefficients + one_hot.mean(0))


def best_step(graph: Graph, split: Split, chosen: Sequence[Kernel]) -> Score:
    """Return the best score with one more kernel: every candidate has weight 1, and the best has other weights too."""
    used = {kernel.description for kernel in chosen}
    candidates = [kernel for kernel in KernelClassifier()._candidates(graph) if kernel.description not in used]
    scores = [validation_score(graph, split, [*chosen, kernel], 0.3) for kernel in candidates]
    best = candidates[scores.index(max(scores))]
    weights = (0.5, 1.5) if chosen else ()
    others = [validation_score(graph, split, [*chosen, best._replace(weight=weight)], 0.3) for weight in weights]
    return max([*scores, *others])


@each_of("seed", range(4))
def test_kernels_are_added_as_long_as_validation_rises(seed: int) -> None:
    graph, split = random_graph(seed=seed), thirds(90, seed)
    wrong = np.random.default_rng(seed).random(90) < 0.3  # otherwise one kernel is always right
    graph = replace(graph, y=np.where(wrong, (graph.y + 1) % 3, graph.y))
    chosen = KernelClassifier(max_kernels=3, ridge=0.3).fit(graph, split).votes.kernels
    scores = [validation_score(graph, split, chosen[:number], 0.3) for number in range(1, len(chosen) + 1)]
    assert scores == sorted(scores)
    for number in range(len(chosen)):
        expected = best_step(graph, split, chosen[:number])
        assert scores[number] == pytest.approx(expected, abs=1e-4)
    rises = best_step(graph, split, chosen) > scores[-1]
    assert not rises or len(chosen) == 3


def test_the_ridge_is_chosen_by_validation() -> None:
    graph, split = random_graph(seed=2), thirds(90)
    chosen = KernelClassifier(descriptions="features", gamma=1.0).fit(graph, split).votes
    scores = {ridge: validation_score(graph, split, chosen.kernels, ridge) for ridge in RIDGES}
    assert scores[chosen.ridge] == max(scores.values()) > min(scores.values())


@each_of("options", [{}, {"exact_nodes": 1, "landmarks": 1_000}])
def test_model_equals_its_equation(options: dict[str, Any]) -> None:
    graph, split = random_graph(), thirds(90)
    model = KernelClassifier(**options).fit(graph, split)
    votes = model.votes
    kernel = np.zeros((90, 90))
    for name, gamma, weight in votes.kernels:
        rows = stored_rows(graph, name)
        rows = np.asarray(rows.toarray() if isinstance(rows, sparse.csr_array) else rows, np.float64)
        squared = ((rows[:, None] - rows[None]) ** 2).sum(2)
        distance = squared if name == "degrees" else 1 - rows @ rows.T
        kernel += weight * np.exp(-gamma * distance)
    one_hot = np.eye(3)[graph.y[split.train]]
    theirs = KernelRidge(alpha=votes.ridge, kernel="precomputed")
    theirs.fit(kernel[np.ix_(split.train, split.train)], one_hot - one_hot.mean(0))
    scores = theirs.predict(kernel[:, split.train]) + one_hot.mean(0)
    expected = torch.from_numpy(scores / votes.temperature).softmax(1).numpy()
    np.testing.assert_allclose(model.predict(graph), expected, atol=2e-3)
    np.testing.assert_allclose(model.predict(graph).sum(1), 1, atol=1e-5)


def test_it_learns() -> None:
    graph, split = random_graph(300), thirds(300)
    assert accuracy(KernelClassifier().fit(graph, split), graph, split.test) > 0.9
    few = KernelClassifier(exact_nodes=50, landmarks=40, search_nodes=30).fit(graph, split)
    assert len(few.votes.anchors) == 40
    assert accuracy(few, graph, split.test) > 0.8


def test_labels_of_test_nodes_are_never_read() -> None:
    graph, split = random_graph(), thirds(90)
    y = graph.y.copy()
    y[split.test] = np.random.default_rng(3).permutation(y[split.test])
    first = KernelClassifier().fit(graph, split).state_dict()
    second = KernelClassifier().fit(replace(graph, y=y), split).state_dict()
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


@each_of("metric", ["accuracy", "macro-f1", "roc-auc"])
def test_metrics(metric: str) -> None:
    graph, split = random_graph(classes=2), thirds(90)
    assert accuracy(KernelClassifier().fit(graph, split, metric), graph, split.test) > 0.7


def test_roc_auc_of_three_classes_is_refused() -> None:
    with pytest.raises(OptionError, match="two classes"):
        KernelClassifier().fit(random_graph(), thirds(90), "roc-auc")


def test_temperature_has_the_largest_likelihood() -> None:
    scores, labels = np.random.default_rng(0).random((50, 3), np.float32), np.arange(50) % 3
    scores[np.arange(50), labels] += 0.3
    best = Validation("accuracy", labels).temperature(scores)

    def loss(temperature: float) -> float:
        logits = torch.from_numpy(scores) / temperature
        return float(torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)))

    assert loss(best) <= min(loss(best * 1.3), loss(best / 1.3))
    assert Validation("log-loss", labels).score(scores).metric == pytest.approx(-100 * loss(best), rel=1e-4)
    assert Validation("accuracy", labels).score(scores).likelihood == pytest.approx(-loss(best), rel=1e-4)


def test_labels_of_one_class_do_not_make_a_model_certain() -> None:
    scores = np.random.default_rng(0).random((50, 2), np.float32)
    validation = Validation("log-loss", np.ones(50, np.int64))
    assert validation.temperature(scores) == 1
    expected = np.log(np.exp(scores).sum(1)) - scores[:, 1]
    assert validation.score(scores).metric == pytest.approx(-100 * float(expected.mean()), rel=1e-4)


@each_of("descriptions", ["all", "out-links", FEATURES_ONLY])
def test_state_round_trip(descriptions: str) -> None:
    graph, split = random_graph(), thirds(90)
    model = KernelClassifier(descriptions=descriptions).fit(graph, split)
    loaded = KernelClassifier(descriptions=descriptions)
    loaded.load_state_dict(model.state_dict())
    assert loaded.identifies_nodes == model.identifies_nodes
    assert loaded.votes.kernels == model.votes.kernels
    np.testing.assert_allclose(loaded.predict(graph), model.predict(graph), atol=1e-4)


def test_other_graphs() -> None:
    graph, split, other = random_graph(), thirds(90), random_graph(120, seed=1)
    by_features = KernelClassifier(descriptions=FEATURES_ONLY).fit(graph, split)
    assert not by_features.identifies_nodes
    assert accuracy(by_features, other, np.arange(120)) > 0.6
    by_links = KernelClassifier(descriptions="out-links").fit(graph, split)
    assert by_links.identifies_nodes
    with pytest.raises(DataError, match="90 nodes"):
        by_links.predict(other)
    with pytest.raises(DataError, match="6 feature columns"):
        by_features.predict(replace(other, x=np.ones((120, 5))))


def damaged_states() -> dict[str, dict[str, torch.Tensor]]:
    """Return states of a model, each with one fault."""
    state = KernelClassifier(descriptions="features").fit(random_graph(), thirds(90)).state_dict()
    return {
        "empty": {},
        "missing": {key: value for key, value in state.items() if key != "anchors"},
        "names": {**state, "descriptions": torch.tensor([255, 254], dtype=torch.uint8)},
        "unknown name": {**state, "descriptions": torch.tensor(list(b"feature"), dtype=torch.uint8)},
        "short": {**state, "coefficients": state["coefficients"][:-1]},
        "not a number": {**state, "coefficients": state["coefficients"] * torch.nan},
        "node": {**state, "anchors": state["anchors"] + 1_000},
        "type": {**state, "anchors": state["anchors"].double()},
        "classes": {**state, "mean": state["mean"][:-1]},
        "temperature": {**state, "temperature": torch.tensor(0.0)},
        "rows": {**state, "rows.features": state["rows.features"][1:]},
        "without rows": {key: value for key, value in state.items() if key != "rows.features"},
        "shape": {**state, "ridge": torch.ones(3)},
    }


@pytest.mark.parametrize("fault", damaged_states())
def test_damaged_state(fault: str) -> None:
    with pytest.raises(DataError, match="damaged"):
        KernelClassifier().load_state_dict(damaged_states()[fault])


@each_of(
    "changes",
    [
        {"edge_index": np.zeros((2, 0), np.int64)},
        {"x": np.zeros((90, 0))},
        {"x": np.zeros((90, 0)), "edge_index": np.zeros((2, 0), np.int64)},
        {"x": np.ones((90, 4))},
        {"x": sparse.csr_array((90, 4))},
        {"y": np.zeros(90, np.int64)},
        {"class_names": ("a", "b", "c", "without nodes")},
    ],
    ids=["no edges", "no features", "neither", "constant features", "zeros", "one class", "empty class"],
)
@each_of("options", [{}, {"exact_nodes": 10, "landmarks": 20}], ids=["exact", "landmarks"])
def test_poor_graphs(changes: dict[str, Any], options: dict[str, Any]) -> None:
    graph, split = random_graph(**changes), thirds(90)
    probabilities = KernelClassifier(**options).fit(graph, split).predict(graph)
    assert probabilities.shape == (90, graph.num_classes)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)


def test_class_without_training_nodes_is_not_predicted() -> None:
    graph, split = random_graph(), thirds(90)
    some = Split(split.train & (graph.y != 2), split.val, split.test)
    assert (KernelClassifier().fit(graph, some).predict(graph).argmax(1) != 2).all()


def test_unlabelled_nodes_are_not_trained_on() -> None:
    graph, split = random_graph(), thirds(90)
    y = np.where(split.train & (np.arange(90) % 2 == 0), -1, graph.y)
    model = KernelClassifier().fit(replace(graph, y=y), split)
    assert (model.votes.anchors % 2 == 1).all()


@each_of("part", ["train", "val"])
def test_a_part_without_labels_is_refused(part: str) -> None:
    graph, split = random_graph(), thirds(90)
    parts = {"train": split.train, "val": split.val, "test": split.test, part: np.zeros(90)}
    with pytest.raises(DataError, match=r"no labelled (training|validation) node"):
        KernelClassifier().fit(graph, Split(**parts))


def test_missing_features_are_refused() -> None:
    x = random_graph().x.copy()
    x[3, 2] = np.nan
    with pytest.raises(DataError, match=r"missing feature value \(NaN\), in column 2 of node 3\.\nFill"):
        KernelClassifier().fit(random_graph(x=x), thirds(90))
    assert KernelClassifier("links+degrees").fit(random_graph(x=x), thirds(90)).votes.kernels


def test_unfitted_model() -> None:
    with pytest.raises(NlgnnError, match="not fitted"):
        KernelClassifier().predict(random_graph())


@each_of(
    "options", [{"descriptions": "feature"}, {"max_kernels": 5}, {"ridge": 0}, {"landmarks": 0}, {"descriptions": ""}]
)
def test_bad_options(options: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        KernelClassifier(**options)


def test_options_are_kept() -> None:
    model = KernelClassifier(descriptions="out-links+degrees", gamma=3.0, ridge=0.2).fit(random_graph(), thirds(90))
    assert {kernel.description for kernel in model.votes.kernels} <= {"out-links", "degrees"}
    assert {kernel.gamma for kernel in model.votes.kernels} <= {3.0, 2.0}
    assert model.votes.ridge == 0.2


@each_of("name", DESCRIPTIONS)
def test_kept_and_computed_closeness_are_equal(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, nodes, others = random_graph(), np.array([3, 5, 80]), np.array([7, 3])
    kept = similarity.Similarities(graph).closeness(name, nodes, others)
    monkeypatch.setattr(similarity, "KEPT_BYTES", 0)
    np.testing.assert_allclose(similarity.Similarities(graph).closeness(name, nodes, others), kept, atol=1e-6)
    rows = stored_rows(graph, name)
    np.testing.assert_allclose(closeness(name, rows[nodes], rows[others]), kept, atol=1e-6)
    assert kept[0, 1] == pytest.approx(0 if rows[[3]].sum() else -1, abs=1e-6)  # node 3 and itself


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, split = random_graph(), thirds(90)
    whole = KernelClassifier(exact_nodes=20, landmarks=15).fit(graph, split).predict(graph)
    monkeypatch.setattr(similarity, "CHUNK_ENTRIES", 50)
    parts = KernelClassifier(exact_nodes=20, landmarks=15).fit(graph, split).predict(graph)
    np.testing.assert_allclose(parts, whole, atol=1e-4)


def test_memory_of_similarities_is_bounded() -> None:
    graph = random_graph()
    similarities = similarities_of(graph)
    for name in DESCRIPTIONS:
        similarities.rows(name)
    assert len(similarities._rows) == similarity.MOST_KERNELS
    similarities_of(random_graph())  # another graph
    assert similarities_of(graph) is not similarities


def test_a_graph_is_not_kept_alive() -> None:
    graph = random_graph()
    model, gone = KernelClassifier().fit(graph, thirds(90)), weakref.ref(graph)
    assert similarities_of(graph) is similarities_of(graph)
    del graph
    gc.collect()
    assert gone() is None
    assert model.state_dict()
