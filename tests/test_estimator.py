"""NodeClassifier keeps scikit-learn's contract, sees no label that it was not given, and survives saving."""

from __future__ import annotations

import hashlib
import json
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score

from each_of import each_of
from nlgnn import Graph, NodeClassifier, load_graph
from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.splits import learning_splits

GRAPH = load_graph("mushroom-body")
NAMES = np.array(GRAPH.class_names)[GRAPH.y]
NODES = np.arange(GRAPH.num_nodes)
SHORT: dict[str, Any] = {"n_runs": 2, "options": {"epochs": 15, "hidden": 8}}


@pytest.fixture(scope="module")
def fitted() -> NodeClassifier:
    return NodeClassifier("nlgcn", **SHORT).fit(GRAPH)


def test_a_graph_with_labels(fitted: NodeClassifier) -> None:
    probabilities = fitted.predict_proba(GRAPH)
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-6)
    assert (fitted.predict(GRAPH) == fitted.classes_[probabilities.argmax(1)]).all()
    assert fitted.score(GRAPH) == pytest.approx((fitted.predict() == NAMES).mean())
    assert fitted.score(GRAPH) > 0.6


def test_parameters_are_stored_and_cloned_as_given() -> None:
    estimator = NodeClassifier("gcn", graph=GRAPH, n_runs=3, random_state=7, options={"epochs": 2})
    twin = clone(estimator)
    assert twin.get_params() == estimator.get_params()
    assert twin.graph is GRAPH  # never copied
    assert twin.set_params(n_runs=1).n_runs == 1
    with pytest.raises(Exception, match="not fitted"):
        twin.predict()


def test_cross_validation_and_grid_search_over_node_numbers() -> None:
    estimator = NodeClassifier("gcn", graph=GRAPH, **SHORT)
    assert len(cross_val_score(estimator, NODES, NAMES, cv=2, error_score="raise")) == 2
    search = GridSearchCV(estimator, {"model": ["mlp", "gcn"]}, cv=2, error_score="raise").fit(NODES, NAMES)
    assert len(set(search.cv_results_["mean_test_score"])) == 2  # two models, not one twice
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


def test_labels_that_were_not_given_are_not_seen() -> None:
    other = replace(GRAPH, y=np.roll(GRAPH.y, 50))
    learned = NODES[::2]
    one, two = (
        NodeClassifier("nlgcn", graph=graph, **SHORT).fit(learned, NAMES[learned]).predict_proba()
        for graph in (GRAPH, other)
    )
    np.testing.assert_array_equal(one, two)


def test_labels_of_any_kind() -> None:
    for labels in (GRAPH.y * 10, NAMES):
        found = NodeClassifier("mlp", graph=GRAPH, **SHORT).fit(NODES, labels).predict(NODES[:5])
        assert found.dtype.kind == np.asarray(labels).dtype.kind
        assert set(found) <= set(labels)


def test_auto_chooses_and_says_why(short_portfolio: None, tmp_path: Path) -> None:
    estimator = NodeClassifier(n_runs=2, time_budget="none", options={"epochs": 15}).fit(GRAPH)
    best, *others = estimator.leaderboard_
    assert estimator.model_ == best["model"]
    assert f"Chose {best['name']}: validation accuracy" in estimator.reason_
    assert estimator.verdict_
    assert best["validation accuracy"] == np.mean([run.val["accuracy"] for run in estimator.runs_])
    # two more, the non-local version with its control, one for directed edges, and the ensemble
    assert len(others) == 6
    estimator.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model", GRAPH)
    assert (loaded.verdict_, loaded.reason_) == (estimator.verdict_, estimator.reason_)
    assert loaded.leaderboard_ == estimator.leaderboard_


def test_auto_sees_no_other_labels_and_the_metric_that_is_asked_for(short_portfolio: None) -> None:
    learned = NODES[::2]
    options = {"epochs": 5, "hidden": 4}
    one, two = (
        NodeClassifier(graph=graph, n_runs=2, metric="macro-f1", time_budget="none", options=options).fit(
            learned, NAMES[learned]
        )
        for graph in (GRAPH, replace(GRAPH, y=np.roll(GRAPH.y, 50)))
    )
    assert "validation macro-f1" in one.reason_
    assert (one.model_, one.reason_, one.verdict_) == (two.model_, two.reason_, two.verdict_)
    np.testing.assert_array_equal(one.predict_proba(), two.predict_proba())


def test_balanced_classes_reach_the_recipe() -> None:
    assert NodeClassifier("mlp", class_weight="balanced", **SHORT).fit(GRAPH).recipe_.class_weight == "balanced"


def test_the_same_seed_gives_the_same(fitted: NodeClassifier) -> None:
    again = clone(fitted).fit(GRAPH)
    np.testing.assert_array_equal(again.predict_proba(), fitted.predict_proba())
    other = clone(fitted).set_params(random_state=5).fit(GRAPH)
    assert not np.allclose(other.predict_proba(), fitted.predict_proba())


def test_saved_and_loaded(fitted: NodeClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = NodeClassifier.load(tmp_path / "model", GRAPH)
    np.testing.assert_array_equal(loaded.predict_proba(), fitted.predict_proba())
    assert loaded.get_params()["options"] == SHORT["options"]
    assert loaded.verdict_ is None
    with pytest.raises(NlgnnError, match="exists already"):
        fitted.save(tmp_path / "model")


@each_of(
    ("change", "words"),
    [
        (lambda folder: (folder / "00.safetensors").write_bytes(b"x"), "checksum"),
        (lambda folder: flip_a_byte(folder / "00.safetensors"), "checksum"),
        (lambda folder: put_a_pickle(folder), "is damaged"),
        (lambda folder: (folder / "01.safetensors").unlink(), "is missing"),
        (lambda folder: (folder / "model.json").write_text("{"), "cannot be read as a model folder"),
        (lambda folder: (folder / "model.json").unlink(), "it has no model.json"),
        (lambda folder: rewrite(folder, format_version=99), "newer version"),
        (lambda folder: rewrite(folder, files={"../../00.safetensors": "0"}), "is not a file of weights"),
        (lambda folder: rewrite(folder, format_version="x"), "cannot be read as a model folder"),
        (lambda folder: rewrite(folder, files=[]), "cannot be used"),
        (lambda folder: rewrite(folder, parameters={"nosuch": 1}), "cannot be used"),
    ],
)
def test_damaged_folders(fitted: NodeClassifier, tmp_path: Path, change: Any, words: str) -> None:
    fitted.save(tmp_path / "model")
    change(tmp_path / "model")
    with pytest.raises(NlgnnError, match=words):
        NodeClassifier.load(tmp_path / "model", GRAPH)


def flip_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def put_a_pickle(folder: Path) -> None:
    """With its right checksum: it must be refused for what it is."""
    content = pickle.dumps({})
    (folder / "00.safetensors").write_bytes(content)
    files = json.loads((folder / "model.json").read_text())["files"]
    rewrite(folder, files=files | {"00.safetensors": hashlib.sha256(content).hexdigest()})


def rewrite(folder: Path, **changed: Any) -> None:
    content = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(content | changed))


@each_of(
    ("fit", "words"),
    [
        (lambda: NodeClassifier("gcn").fit([0, 1], ["a", "b"]), "node numbers are given without a graph"),
        (lambda: NodeClassifier("gcn", graph=GRAPH).fit([0, 1], ["a"]), "2 nodes, but labels of shape"),
        (lambda: NodeClassifier("gcn", graph=GRAPH).fit([0, 9999], ["a", "b"]), "no node numbers from 0 to 208"),
        (lambda: NodeClassifier("gcn").fit(GRAPH, [1]), "a graph has its own labels"),
        (lambda: NodeClassifier("gcn", graph=GRAPH).fit(NODES, ["a"] * 209), "fewer than two classes"),
        (lambda: NodeClassifier("gcm").fit(GRAPH), "there is no model 'gcm'"),
        (lambda: NodeClassifier("gcn", n_runs=0).fit(GRAPH), "n_runs=0"),
        (lambda: NodeClassifier("gcn", random_state=-1).fit(GRAPH), "seed=-1"),
        (lambda: NodeClassifier("gcn", graph=GRAPH).fit([], []), "fewer than two classes"),
        (lambda: NodeClassifier("gcn", graph=GRAPH).fit([3, 3], ["a", "b"]), "given twice, with different labels"),
        (lambda: NodeClassifier("gcn", graph=GRAPH).fit(np.zeros((3, 2), int), ["a"] * 3), "no node number"),
    ],
)
def test_mistakes(fit: Any, words: str) -> None:
    with pytest.raises(NlgnnError, match=words):
        fit()


def larger(graph: Graph, further: int) -> Graph:
    """The graph with copies of its first nodes, of unknown label, joined as those are."""
    copied = graph.edge_index[:, graph.edge_index[0] < further].copy()
    copied[0] += graph.num_nodes
    return Graph(
        np.concatenate([graph.dense_features(), graph.dense_features()[:further]]),
        np.concatenate([graph.edge_index, copied], axis=1),
        np.concatenate([graph.y, np.full(further, -1)]),
        directed=graph.directed,
        class_names=graph.class_names,
    )


def test_nodes_never_seen(fitted: NodeClassifier) -> None:
    found = fitted.predict(larger(GRAPH, 5))
    assert len(found) == GRAPH.num_nodes + 5
    linkx = NodeClassifier("linkx", **SHORT).fit(GRAPH)
    with pytest.raises(NlgnnError, match="linkx knows nodes by their number"):
        linkx.predict(larger(GRAPH, 5))


def test_a_failed_fit_leaves_what_was_there(fitted: NodeClassifier) -> None:
    before = fitted.predict_proba()
    with pytest.raises(NlgnnError):
        fitted.fit(Graph(GRAPH.x, GRAPH.edge_index, np.zeros(209, int)))
    np.testing.assert_array_equal(fitted.predict_proba(), before)
    assert len(fitted.predict([])) == 0


def test_what_cannot_be_saved(fitted: NodeClassifier, tmp_path: Path) -> None:
    odd = clone(fitted).set_params(options={"epochs": 2, "lr": np.float32(0.01)}).fit(GRAPH)
    with pytest.raises(NlgnnError, match="cannot be saved"):
        odd.save(tmp_path / "odd")
    assert list(tmp_path.iterdir()) == []


def test_other_features_are_refused(fitted: NodeClassifier) -> None:
    with pytest.raises(NlgnnError, match="has 2 features; the model has"):
        fitted.predict(Graph(np.ones((3, 2)), np.zeros((2, 0), int), [0, 1, 2]))


def test_divisions_are_by_class_and_differ() -> None:
    splits = learning_splits(GRAPH, 3, 0)
    assert not (splits[0].val == splits[1].val).all()
    for split in splits:
        assert not split.test.any()
        assert (split.train | split.val).sum() == GRAPH.num_nodes
        assert set(GRAPH.y[split.val]) == set(GRAPH.y)


def test_a_model_that_votes_knows_its_own_nodes_only(tmp_path: Path) -> None:
    names = [f"customer {number}" for number in range(GRAPH.num_nodes)]
    graph = replace(GRAPH, node_names=names)
    model = NodeClassifier("vote-mlp", n_runs=1, options={"epochs": 3}).fit(graph)
    others = replace(GRAPH, node_names=names[::-1])
    model.save(tmp_path / "model")
    for asked in (model, NodeClassifier.load(tmp_path / "model", graph)):
        assert asked.predict_proba(graph).shape == (GRAPH.num_nodes, GRAPH.num_classes)
        with pytest.raises(NlgnnError, match="knows nodes by their number"):
            asked.predict_proba(others)


def test_pickled_for_another_process(tmp_path: Path) -> None:
    """As `n_jobs` of scikit-learn does it: there, nobody has made the class of the model yet."""
    fitted = NodeClassifier("nl-h2gcn", n_runs=1, options={"epochs": 2}).fit(GRAPH)
    (tmp_path / "fitted.pickle").write_bytes(pickle.dumps(fitted))
    code = "import pickle, sys; print(pickle.load(open(sys.argv[1], 'rb')).predict_proba().sum().round())"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "fitted.pickle")], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == str(float(GRAPH.num_nodes)), done.stderr


def test_fitted_on_a_device_that_is_not_here(fitted: NodeClassifier, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    rewrite(tmp_path / "model", recipe={**fitted.recipe_.model_dump(), "device": "cuda:77"})
    loaded = NodeClassifier.load(tmp_path / "model", GRAPH)
    np.testing.assert_array_equal(loaded.predict_proba(), fitted.predict_proba())


def rare_graph() -> Graph:
    """Thirty of 300 nodes are of class yes, and a column tells something about it."""
    rng = np.random.default_rng(0)
    y = (np.arange(300) % 10 == 0).astype(int)
    x = np.column_stack([rng.standard_normal(300) + 1.5 * y, rng.random(300)])
    return Graph(x, rng.integers(300, size=(2, 600)), y, class_names=["no", "yes"], name="rare")


def test_a_rare_class_is_predicted_from_the_threshold_of_the_best_f1(tmp_path: Path) -> None:
    graph = rare_graph()
    classifier = NodeClassifier("logistic", n_runs=2).fit(graph)
    decision, probabilities = classifier.decision_, classifier.predict_proba()
    assert (decision.rule, decision.positive_class) == ("best-f1", "yes")
    wanted = np.where(probabilities[:, 1] >= decision.threshold, "yes", "no")
    assert (classifier.predict() == wanted).all()
    assert (wanted == "yes").sum() > (probabilities.argmax(1) == 1).sum()
    classifier.save(tmp_path / "model")
    read = NodeClassifier.load(tmp_path / "model", graph)
    assert (read.decision_, read.predict().tolist()) == (decision, wanted.tolist())


def test_thresholds_and_costs() -> None:
    graph = rare_graph()

    def found(**given: Any) -> NodeClassifier:
        return NodeClassifier("logistic", n_runs=2, **given).fit(graph)

    given = found(threshold=0.07)
    assert (given.predict() == np.where(given.predict_proba()[:, 1] >= 0.07, "yes", "no")).all()
    assert found(cost="yes:19").decision_.threshold == pytest.approx(0.05)
    high = found(threshold="recall=0.9").decision_
    assert high.validation["recall"] >= found(threshold="recall=0.5").decision_.validation["recall"]
    for wrong in ({"threshold": "high"}, {"threshold": 3}, {"cost": "maybe:3"}):
        with pytest.raises(OptionError):
            found(**wrong)


def test_the_rare_class_may_be_the_first_one() -> None:
    graph = rare_graph()
    names = np.where(graph.y == 1, "fraud", "legit")
    classifier = NodeClassifier("logistic", graph=graph, n_runs=2, threshold="0.1").fit(np.arange(300), names)
    assert classifier.decision_.positive_class == "fraud"
    assert (classifier.predict() == np.where(classifier.predict_proba()[:, 0] >= 0.1, "fraud", "legit")).all()
