"""Training of deep stacks: replicas, run folders, statistics for other graphs, and labels that stay unseen."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nlgnn.errors import DataError
from nlgnn.estimator import NodeClassifier
from nlgnn.graph.graph import Graph
from nlgnn.models.build import configure
from nlgnn.training.fit import fit, predict
from nlgnn.training.loop import evaluate
from nlgnn.training.replica import Replica, Run
from nlgnn.training.run_folder import RunFolder
from training_samples import (
    assert_close_runs,
    assert_same_runs,
    doubled,
    easy_graph,
    quiet_resume,
    quiet_train,
    signal_at,
    small_plan,
    splits_of,
    watch_stacks,
)

pytestmark = pytest.mark.usefixtures("as_users_run_it")

BATCH_NORM = {"norm": "batch", "residual": True, "num_layers": 3}
LABELS = {"norm": "batch", "residual": True, "jumping": "max", "label_input": 0.5}
SYSTEMS = [("gcn", BATCH_NORM), ("sage", LABELS), ("nlgcn", LABELS), ("gat", {"norm": "layer", "label_input": 0.5})]
SHORT = {"hidden": 6, "epochs": 6, "lr": 0.05, "stopping": "never", "dropout": 0.3, "device": "cpu"}


def noisy_graph() -> Graph:
    """Features say little, so that weights go on changing."""
    graph = easy_graph(40, 3)
    return replace(graph, x=graph.x + 3 * np.random.default_rng(1).random(graph.x.shape))


GRAPH = noisy_graph()


@pytest.mark.parametrize(("system", "options"), SYSTEMS)
def test_replicas_equal_models_trained_alone(
    system: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    factory, recipe = configure(system, GRAPH, "paper", **SHORT | options)
    in_float64, sizes = doubled(factory.func, **factory.keywords), watch_stacks(monkeypatch)
    runs = [
        fit(in_float64, GRAPH, splits_of(GRAPH, 3), recipe.model_copy(update={"replicas": replicas}), progress=False)
        for replicas in (1, 3)
    ]
    assert sizes == [3]
    assert_close_runs(*runs)


@pytest.mark.parametrize(("system", "options"), SYSTEMS)
def test_permuting_validation_and_test_labels_changes_no_weight(system: str, options: dict[str, Any]) -> None:
    (split,) = splits_of(GRAPH)
    others = np.flatnonzero(~split.train)
    y = GRAPH.y.copy()
    y[others] = np.random.default_rng(0).permutation(y[others])
    assert (y != GRAPH.y).any()
    weights = []

    def keep(replicas: Sequence[Replica]) -> None:
        state = replicas[0].model.state_dict()
        weights.append({name: value.clone() for name, value in state.items()})

    for graph in (GRAPH, replace(GRAPH, y=y)):
        factory, recipe = configure(system, graph, "paper", **SHORT | options)
        fit(factory, graph, [split], recipe, progress=False, watch=keep)
    assert len(weights) == 2 * SHORT["epochs"]
    for name, value in weights[5].items():
        assert value.equal(weights[11][name]), name
    assert not all(value.equal(weights[0][name]) for name, value in weights[5].items())


@pytest.mark.parametrize(("system", "options"), SYSTEMS)
@pytest.mark.usefixtures("checkpoint_every_epoch")
def test_interrupted_and_resumed(
    system: str, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = small_plan(system, **SHORT | options)
    expected = quiet_train(plan, tmp_path / "whole", GRAPH)
    with monkeypatch.context() as patch:
        signal_at(4, signal.SIGINT, patch)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(plan, tmp_path / "part", GRAPH)
    assert RunFolder.open(tmp_path / "part").checkpoints()
    assert_same_runs(quiet_resume(tmp_path / "part", GRAPH).runs, expected.runs)


@pytest.mark.parametrize(("system", "options"), SYSTEMS)
def test_saved_runs_predict_what_training_measured(system: str, options: dict[str, Any], tmp_path: Path) -> None:
    trained = quiet_train(small_plan(system, **SHORT | options), tmp_path / "run", GRAPH)
    kept = [RunFolder.open(tmp_path / "run").finished_run(index) for index in (0, 1)]
    runs = [run for run in kept if run is not None]
    probabilities = predict(trained.factory, GRAPH, runs, trained.recipe)
    for run, split, of_run in zip(runs, splits_of(GRAPH, 2), probabilities, strict=True):
        accuracy = 100 * (of_run.numpy().argmax(1) == GRAPH.y)[split.test].mean()
        assert accuracy == pytest.approx(run.test["accuracy"])


def trained_run(**options: Any) -> tuple[Any, Run]:
    factory, recipe = configure("mlp", GRAPH, "paper", features="none", **SHORT | BATCH_NORM | options)
    return factory, fit(factory, GRAPH, splits_of(GRAPH), recipe, progress=False)[0]


def test_statistics_of_training_hold_for_other_nodes() -> None:
    """Without edges, a node is classified alike whichever nodes come with it."""
    factory, run = trained_run()
    model = factory()
    model.load_state_dict(run.state)
    x = torch.from_numpy(GRAPH.dense_features()).float()
    whole = evaluate(model, (x,))
    torch.testing.assert_close(evaluate(model, (x[:3],)), whole[:3])
    torch.testing.assert_close(evaluate(model, (torch.cat([x, 100 * x]),))[: len(x)], whole)
    before_training = evaluate(factory(), (x[:3],)), evaluate(factory(), (x,))[:3]
    assert not torch.allclose(*before_training)


def test_stored_statistics_are_those_of_the_chosen_epoch() -> None:
    factory, run = trained_run()
    model, again = factory(), factory()
    model.load_state_dict(run.state)
    fresh = {
        name: value for name, value in run.state.items() if name.split(".")[-1] not in ("mean", "variance", "stored")
    }
    again.load_state_dict(fresh, strict=False)
    x = torch.from_numpy(GRAPH.dense_features()).float()
    assert evaluate(again, (x,)).equal(evaluate(model, (x,)))  # statistics of the nodes at hand


def test_an_estimator_predicts_another_graph_and_refuses_with_labels_as_input(tmp_path: Path) -> None:
    other = easy_graph(17, 3, seed=5)
    batch = NodeClassifier("gcn", n_runs=2, options={**SHORT, **BATCH_NORM}).fit(GRAPH)
    batch.save(tmp_path / "model")
    probabilities = batch.predict_proba(other)
    np.testing.assert_allclose(NodeClassifier.load(tmp_path / "model", GRAPH).predict_proba(other), probabilities)
    twice = Graph(
        np.concatenate([other.x, other.x]),
        np.concatenate([other.edge_index, other.edge_index + 17], axis=1),
        np.concatenate([other.y, other.y]),
        class_names=other.class_names,
    )
    far = replace(twice, x=twice.x * np.where(np.arange(34) < 17, 1, 50)[:, None])
    np.testing.assert_allclose(batch.predict_proba(far)[:17], probabilities, rtol=1e-4, atol=1e-6)
    labels = NodeClassifier("sage", n_runs=2, options={**SHORT, **LABELS}).fit(GRAPH)
    assert len(labels.predict(GRAPH)) == 40
    with pytest.raises(DataError, match="reads the labels of training nodes"):
        labels.predict(other)
