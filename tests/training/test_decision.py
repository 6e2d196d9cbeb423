"""Decisions by threshold and costs, what they may look at, and where they are kept."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nlgnn import NodeClassifier
from nlgnn.errors import OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.training.costs import cost_matrix, mean_cost
from nlgnn.training.decision import (
    LEAST_COST,
    MOST_PROBABLE,
    Decision,
    check_decision,
    decide,
    decision_of,
    read_decision,
    store_decision,
)
from nlgnn.training.predict import mean_probabilities, temperatures_of
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.thresholds import Rule, answers_of, run_thresholds
from nlgnn.training.train import Plan, read_trained, train
from nlgnn.training.trained import Ensemble


def labels_of(decision: Decision, *rows: tuple[float, float]) -> list[int]:
    return decision.labels(np.array(rows)).tolist()


def test_labels() -> None:
    rows = [(0.9, 0.1), (0.7, 0.3), (0.5, 0.5), (0.2, 0.8)]
    assert labels_of(Decision(), *rows) == [0, 0, 0, 1]
    assert labels_of(Decision("0.3", threshold=0.3), *rows) == [0, 1, 1, 1]
    assert labels_of(Decision("0.6", positive=0, threshold=0.6), *rows) == [0, 0, 1, 1]
    costs = [[0.0, 1.0], [4.0, 0.0]]
    assert labels_of(Decision(LEAST_COST, costs=costs), *rows) == [0, 1, 1, 1]
    assert labels_of(Decision(MOST_PROBABLE, costs=costs), *rows) == [0, 0, 0, 1]


def rare_graph(num_nodes: int = 300, share: float = 0.1, classes: int = 2, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(num_nodes) < share, 1, rng.integers(2, 2 + classes, num_nodes) % classes)
    y = np.where((rng.random(num_nodes) >= share) & (classes == 2), 0, y)
    x = rng.standard_normal((num_nodes, 4)) + 1.2 * (y == 1)[:, None]
    names = ["no", "yes", "other"][:classes]
    return Graph(x, rng.integers(num_nodes, size=(2, 600)), y, class_names=names, name="rare")


def answered(graph: Graph, runs: int = 3) -> tuple[np.ndarray, list[float], list[Split]]:
    rng = np.random.default_rng(1)
    probabilities = rng.dirichlet(np.ones(graph.num_classes), size=(runs, graph.num_nodes))
    return probabilities, [1.0, 0.5, 2.0][:runs], make_splits(graph, "random-60", runs)


def test_defaults() -> None:
    rare, even, three = rare_graph(), rare_graph(share=0.4), rare_graph(classes=3)
    found = decide(*answered(rare)[:2], rare, answered(rare)[2])
    assert (found.rule, found.positive_class, found.is_default) == ("best-f1", "yes", True)
    assert decide(*answered(even)[:2], even, answered(even)[2]).rule == MOST_PROBABLE
    assert decide(*answered(three)[:2], three, answered(three)[2]).positive_class == ""
    turned = replace(rare, y=1 - rare.y, class_names=["yes", "no"])  # the rare class comes first
    found = decide(*answered(turned)[:2], turned, answered(turned)[2])
    assert (found.positive, found.positive_class) == (0, "yes")


def test_costs_of_two_classes_are_a_threshold() -> None:
    graph = rare_graph()
    found = decide(*answered(graph)[:2], graph, answered(graph)[2], cost="yes:9")
    assert (found.rule, found.threshold) == (LEAST_COST, pytest.approx(0.1))
    probabilities = np.random.default_rng(0).dirichlet(np.ones(2), size=500)
    expected = (probabilities @ cost_matrix("yes:9", graph.class_names)).argmin(1)
    assert found.labels(probabilities).tolist() == expected.tolist()


def test_costs_of_three_classes() -> None:
    graph = rare_graph(classes=3)
    probabilities, heats, splits = answered(graph)
    found = decide(probabilities, heats, graph, splits, cost="yes:9")
    assert (found.rule, found.threshold) == (LEAST_COST, None)
    assert found.test.keys() == {"accuracy", "cost", "nodes"}
    plain = decide(probabilities, heats, graph, splits)
    assert (found.labels(probabilities) == 1).sum() > (plain.labels(probabilities) == 1).sum()


def test_a_threshold_comes_before_costs_which_are_still_measured() -> None:
    graph = rare_graph()
    probabilities, _, splits = answered(graph)
    found = decide(probabilities, [1.0] * 3, graph, splits, "0.5", "yes:9")
    nodes = [np.flatnonzero(split.val) for split in splits]
    truth = np.concatenate([graph.y[own] for own in nodes])
    labels = np.concatenate([(one[own, 1] >= 0.5).astype(int) for one, own in zip(probabilities, nodes, strict=True)])
    assert found.threshold == 0.5
    assert found.validation["cost"] == pytest.approx(mean_cost(truth, labels, cost_matrix("yes:9", ["no", "yes"])))
    assert found.validation["precision"] == pytest.approx(100 * truth[labels == 1].mean())
    assert found.validation["recall"] == pytest.approx(100 * labels[truth == 1].mean())


def test_a_precision_that_validation_does_not_reach_is_said() -> None:
    graph = rare_graph()
    _, heats, splits = answered(graph)
    scores = np.where(graph.y == 1, 0.6, np.linspace(0.1, 0.9, graph.num_nodes))  # the highest is of another class
    blind = np.stack([np.column_stack([1 - scores, scores])] * 3)
    found = decide(blind, [1.0] * 3, graph, splits, "precision=0.9")
    assert found.validation["precision"] < 90
    nearest = re.search(r"a threshold of (0\.\d+) comes nearest, with precision (\d+\.\d) %", found.words())
    assert nearest is not None
    again = decide(blind, [1.0] * 3, graph, splits, nearest[1])
    assert again.validation["precision"] == pytest.approx(float(nearest[2]), abs=0.1)
    every = [decide(blind, [1.0] * 3, graph, splits, f"{number / 100}") for number in range(10, 90)]
    assert again.validation["precision"] == pytest.approx(max(one.validation["precision"] for one in every))
    perfect = np.stack([np.eye(2)[graph.y]] * 3)
    assert decide(perfect, heats, graph, splits, "precision=0.9").remark == ""


def test_the_threshold_is_the_median_of_the_runs() -> None:
    graph = rare_graph()
    probabilities, heats, splits = answered(graph)
    each = answers_of(probabilities, heats, graph, splits, "val")
    thresholds = [point.threshold for point in run_thresholds(Rule("recall", 0.5), each, 1)]
    assert decide(probabilities, heats, graph, splits, "recall=0.5").threshold == sorted(thresholds)[1]
    assert len(set(thresholds)) == 3


def test_without_a_positive_validation_node() -> None:
    graph = rare_graph()
    probabilities, heats, splits = answered(graph)
    none = [
        Split(split.train, split.val & (graph.y != 1), split.test, "x", number) for number, split in enumerate(splits)
    ]
    found = decide(probabilities, heats, graph, none)
    assert found.threshold == 0.5
    assert "No validation node is of this class" in found.remark
    empty = [Split(split.train, np.zeros_like(split.val), split.test, "x", 0) for split in splits]
    assert decide(probabilities, heats, graph, empty).validation == {}


def test_what_does_not_apply() -> None:
    with pytest.raises(OptionError, match="needs two classes, this graph has 3"):
        check_decision(rare_graph(classes=3), "best-f1", None)
    with pytest.raises(OptionError, match="neither a class nor an error"):
        check_decision(rare_graph(), None, "fraud:3")


def test_costs_need_probabilities_that_are_frequencies(tmp_path: Path) -> None:
    graph, weighted = rare_graph(), {"class_weight": "balanced"}
    with pytest.raises(OptionError, match="class_weight=balanced"):
        train(Plan("rare", "logistic", options=weighted, cost="yes:10"), graph, tmp_path / "A")
    with pytest.raises(OptionError, match="class_weight=balanced"):
        NodeClassifier("logistic", cost="yes:10", **weighted).fit(graph)
    trained = train(Plan("rare", "logistic", runs=1, options=weighted), graph, tmp_path / "B")
    given = graph, trained.probabilities(graph), [1.0]
    with pytest.raises(OptionError, match="class_weight=balanced"):
        decision_of(trained, *given, cost="yes:10")
    assert "cost" in decision_of(trained, *given, threshold="best-f1", cost="yes:10").test  # reported only


@pytest.mark.parametrize(
    ("threshold", "cost", "options"),
    [
        (None, None, {}),
        ("precision=0.6", "yes:10", {"class_weight": "balanced"}),
        ("recall=0.8", None, {"metric": "precision-at-0.1"}),
        (None, "yes:10", {"metric": "lift-at-10"}),
    ],
)
@pytest.mark.parametrize("model", ["trees", "logistic", "mlp"])
def test_test_labels_decide_nothing(
    model: str, threshold: str | None, cost: str | None, options: dict[str, str], tmp_path: Path
) -> None:
    """Other labels of test nodes change test figures alone: not weights, thresholds, labels or validation figures."""
    graph = rare_graph()
    (split,) = make_splits(graph, "random-60", 1)
    y = graph.y.copy()
    y[split.test] = np.random.default_rng(0).permutation(y[split.test])
    assert (y != graph.y).any()
    found = []
    for number, one in enumerate((graph, replace(graph, y=y))):
        given = replace(one, splits={"column": (split,)})
        rates = {"epochs": 20, "hidden": 8} if model == "mlp" else {}
        plan = Plan("rare", model, "column", options={**rates, **options}, threshold=threshold, cost=cost)
        trained = train(plan, given, tmp_path / f"{number}", progress=False)
        (run,) = trained.runs
        record = json.loads((trained.folder.path / "decision.json").read_text())
        tests = record.pop("test"), run.test
        import pyarrow.parquet as pq

        table = pq.read_table(trained.folder.path / "predictions.parquet").to_pydict()
        table.pop("label")
        state = {name: value.tolist() for name, value in run.state.items()}
        found.append((tests, (record, run.val, run.chosen_epoch, state, table)))
    (one_test, one), (other_test, other) = found
    assert one_test != other_test
    assert one == other


def test_stored_with_the_model_and_applied_to_the_mean(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    graph = rare_graph()
    trained = train(Plan("rare", "logistic", runs=3), graph, tmp_path / "X", progress=False)
    decision = read_decision(tmp_path / "X")
    assert decision is not None
    probabilities = trained.probabilities(graph)
    mean = mean_probabilities(probabilities, temperatures_of(trained, graph, probabilities))
    predicted = pq.read_table(tmp_path / "X" / "predictions.parquet")["prediction"].to_pylist()
    assert predicted == ["yes" if one >= decision.threshold else "no" for one in mean[:, 1]]
    assert read_trained(tmp_path / "X", graph)[0].plan.threshold is None


def test_a_folder_without_a_decision_and_one_that_is_damaged(tmp_path: Path) -> None:
    assert read_decision(tmp_path) is None
    for text in ("", "[]", '{"threshold": "high"}', '{"rule": 3}'):
        (tmp_path / "decision.json").write_text(text)
        with pytest.raises(RunFolderError, match=r"decision\.json cannot be read"):
            read_decision(tmp_path)


def test_an_ensemble_has_a_decision_of_its_own(tmp_path: Path) -> None:
    """It is in the folder of the automatic choice, next to those of the members in theirs."""
    graph = rare_graph()
    choice = RunFolder.create(tmp_path / "X", {"model": "auto"})
    members = [
        train(Plan("rare", model, runs=3), graph, tmp_path / "X" / "models" / model, progress=False)
        for model in ("logistic", "trees")
    ]
    runs = [replace(run, val={}, test={}, state={}) for run in members[0].runs]
    ensemble = Ensemble.of(members, ["logistic", "trees"], [[0.5, 0.5]] * 3, runs)
    stored = store_decision(choice, ensemble, graph)
    probabilities = ensemble.probabilities(graph)
    heats = temperatures_of(ensemble, graph, probabilities)
    assert stored == decide(probabilities, heats, graph, make_splits(graph, "random-60", 3))
    assert stored == read_decision(tmp_path / "X") == decision_of(ensemble, graph, probabilities, heats)
    assert stored.threshold not in [read_decision(member.folder.path).threshold for member in members]  # type: ignore[union-attr]
    assert decision_of(ensemble, graph, probabilities, heats, "0.25").threshold == 0.25
