"""Models without gradient training are trained, kept, resumed, compared and used as all others are."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import nlgnn
from each_of import each_of
from nlgnn.errors import DataError, OptionError, RunFolderError
from nlgnn.graph.graph import Graph
from nlgnn.models.registry import SYSTEMS
from nlgnn.shallow import Logistic, ShallowModel
from nlgnn.training.fit import fit, fit_settings, predict
from nlgnn.training.recipe import Recipe
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, Trained
from run_folders import assert_same_folder
from training_samples import GRAPH, assert_same_runs, easy_graph, fit_module, quiet_resume, quiet_train, splits_of

SHALLOW = [name for name, system in SYSTEMS.items() if system.kind == "shallow"]
SMALL = {"trees": {"rounds": 5, "min_leaf": 2}, "forest": {"trees": 5}}


class Majority(ShallowModel):
    """Predicts shares of classes, whatever the features are."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight

    def fit(self, graph: Graph, split: Any, metric: str = "accuracy", seed: int = 0) -> Majority:
        self.seen = graph.x
        self.shares = np.bincount(graph.y[split.train], minlength=graph.num_classes) * self.weight
        return self

    def predict(self, graph: Graph) -> Any:
        return np.tile(self.shares / self.shares.sum(), (graph.num_nodes, 1))

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"shares": torch.from_numpy(self.shares)}

    def load_state_dict(self, state: Any) -> None:
        self.shares = state["shares"].numpy()


def shallow_plan(model: str = "logistic", runs: int = 3, **options: Any) -> Plan:
    return Plan("easy", model, runs=runs, preset="paper", options=SMALL.get(model, {}) | options)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    return quiet_train(shallow_plan(), tmp_path_factory.mktemp("whole") / "run")


@each_of("model", SHALLOW)
def test_runs_have_figures_and_no_epochs(model: str) -> None:
    factory, recipe = nlgnn.configure(model, GRAPH, **SMALL.get(model, {}))
    runs = fit(factory, GRAPH, splits_of(GRAPH, 2), recipe, progress=False)
    for number, run in enumerate(runs):
        assert (run.index, run.seed, run.epochs, run.chosen_epoch, run.curves) == (number, number, 0, 0, {})
        assert run.val.keys() == run.test.keys() >= {"accuracy", "macro-f1", "roc-auc"}
        assert run.seconds > 0
    probabilities = predict(factory, GRAPH, runs, recipe)
    torch.testing.assert_close(probabilities.sum(2), torch.ones(2, GRAPH.num_nodes))
    test = torch.from_numpy(splits_of(GRAPH, 2)[1].test)
    correct = (probabilities[1].argmax(1) == torch.from_numpy(GRAPH.y))[test].double().mean()
    assert runs[1].test["accuracy"] == pytest.approx(100 * float(correct))


def test_a_factory_gets_unscaled_features_unless_the_recipe_says_otherwise() -> None:
    made: list[Majority] = []

    def make() -> Majority:
        made.append(Majority())
        return made[-1]

    for recipe, scaling in ((None, "none"), (Recipe(seed=3), "none"), (Recipe(features="unit-l2"), "unit-l2")):
        (run,) = fit(make, GRAPH, splits_of(GRAPH), recipe, progress=False)
        np.testing.assert_array_equal(made[-1].seen, GRAPH.scale_features(scaling).x)
        assert run.val["accuracy"] == pytest.approx(50, abs=20)


def test_probabilities_that_are_not_finite_fail_the_run() -> None:
    runs = fit_settings([(partial(Majority, np.nan), Recipe()), (Majority, Recipe())], GRAPH, splits_of(GRAPH))
    assert runs[0][0].failure is not None
    assert runs[1][0].failure is None


@each_of("features", ["none", "unit-sum"])
def test_options_of_the_recipe_that_hold(features: str) -> None:
    factory, recipe = nlgnn.configure("logistic", GRAPH, metric="macro-f1", seed=5, threads=1, features=features)
    assert (recipe.metric, recipe.seed, recipe.threads, recipe.features) == ("macro-f1", 5, 1, features)
    assert fit(factory, GRAPH, splits_of(GRAPH), recipe, progress=False)[0].seed == 5


def test_classes_that_weigh_alike() -> None:
    graph = replace(GRAPH, y=(np.arange(GRAPH.num_nodes) % 5 == 0).astype(int))
    means = []
    for weight in ("none", "balanced"):
        factory, recipe = nlgnn.configure("logistic", graph, class_weight=weight)
        runs = fit(factory, graph, splits_of(graph), recipe, progress=False)
        means.append(float(predict(factory, graph, runs, recipe)[0, :, 1].mean()))
    assert means[1] > means[0] + 0.05


@each_of("model", SHALLOW)
@each_of("option", ["epochs", "lr", "device", "stopping", "hidden"])
def test_options_of_gradient_training_are_refused(model: str, option: str) -> None:
    with pytest.raises(OptionError, match=f"{model} has no option '{option}'"):
        nlgnn.configure(model, GRAPH, **{option: 1})


def test_settings_of_both_kinds_are_trained_together() -> None:
    splits = splits_of(GRAPH, 2)
    settings = [nlgnn.configure(name, GRAPH, **options) for name, options in (("mlp", {"epochs": 3}), ("logistic", {}))]
    both = fit_settings(settings, GRAPH, splits, progress=False)
    for setting, runs in zip(settings, both, strict=True):
        assert_same_runs(runs, fit(setting[0], GRAPH, splits, setting[1], progress=False))


def test_compare_passes_over_options_that_a_model_does_not_have() -> None:
    found = nlgnn.compare({"l": "logistic", "m": "mlp"}, GRAPH, splits_of(GRAPH, 2), Recipe(epochs=3), progress=False)
    assert [run.epochs for run in found.runs["m"]] == [3, 3]
    assert [run.epochs for run in found.runs["l"]] == [0, 0]
    assert "the first epoch" in str(found)
    alone = nlgnn.compare({"a": "logistic", "b": Logistic}, GRAPH, splits_of(GRAPH, 2), progress=False)
    assert "epoch" not in str(alone)
    assert_same_runs(list(alone.runs["a"]), list(alone.runs["b"]))


def test_a_folder_keeps_what_holds_for_the_model(whole: Trained) -> None:
    config = json.loads((whole.folder.path / "config.json").read_text())
    assert config["recipe"].keys() == {"features", "metric", "class_weight", "seed", "threads"}
    assert_same_runs(RunFolder.open(whole.folder.path).finished_runs(), whole.runs)


@each_of("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_between_runs(
    whole: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    begun: list[object] = []

    def counting(bar: object, last: object) -> None:
        begun.append(last)
        if len(begun) == 2:
            signal.raise_signal(number)

    path = tmp_path / number.name
    with monkeypatch.context() as patch:
        patch.setattr(fit_module.TrainingProgress, "begin_run", counting)
        with pytest.raises(KeyboardInterrupt):
            quiet_train(shallow_plan(), path)
    assert [run.index for run in RunFolder.open(path).finished_runs()] == [0, 1]  # the second was finished first
    monkeypatch.setattr(fit_module.TrainingProgress, "begin_run", lambda bar, last: begun.append(last))
    quiet_resume(path)
    assert len(begun) == 3  # finished runs are not trained again
    assert_same_folder(path, whole.folder.path)


class Killed(BaseException):
    """Ends a process without letting anybody clean up, as far as a test can."""


def test_killed_at_any_rename(whole: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rename, deaths = Path.replace, 0
    while True:
        path, left = tmp_path / str(deaths), deaths

        def dying(source: Path, target: Path) -> Path:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return rename(source, target)

        monkeypatch.setattr(Path, "replace", dying)
        try:
            quiet_train(shallow_plan(), path)
            break
        except Killed:
            deaths += 1
        finally:
            monkeypatch.setattr(Path, "replace", rename)
        assert_same_runs(quiet_resume(path).runs, whole.runs)
    # the claim and the threads; weights, probabilities of validation nodes, curves and summary of each run; decision;
    # predictions
    assert deaths == 2 + 3 * 4 + 2


@each_of("model", SHALLOW)
def test_flipped_bytes_are_noticed_before_anything_is_parsed(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / model
    quiet_train(shallow_plan(model, 1), path)
    weights = path / "models" / "00.safetensors"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 0xFF
    weights.write_bytes(content)
    with pytest.raises(RunFolderError, match="checksum"):
        quiet_resume(path)


@each_of("model", SHALLOW)
def test_a_state_of_another_model(model: str, whole: Trained) -> None:
    other = "trees" if model == "logistic" else "logistic"
    factory, recipe = nlgnn.configure(other, GRAPH, **SMALL.get(other, {}))
    runs = fit(factory, GRAPH, splits_of(GRAPH), recipe, progress=False)
    with pytest.raises(RunFolderError, match="run 0 cannot be used"):
        predict(nlgnn.configure(model, GRAPH)[0], GRAPH, runs, recipe)


def test_a_folder_of_other_options_is_refused(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", {})
    for factory in (partial(Logistic, neighbours="all"), partial(Logistic, neighbours="all")):
        fit(factory, GRAPH, splits_of(GRAPH), folder=folder, progress=False)
    with pytest.raises(RunFolderError, match="another training"):
        fit(partial(Logistic, neighbours="none"), GRAPH, splits_of(GRAPH), folder=folder, progress=False)


def test_missing_features_are_left_to_the_model() -> None:
    x = easy_graph(60).x.copy()
    x[::7, 1] = np.nan
    graph = replace(easy_graph(60), x=x)
    for model in ("logistic", "gcn"):
        with pytest.raises(DataError, match="the first in column 1 of node 0"):
            fit(model, graph, splits_of(graph), progress=False)
    factory, recipe = nlgnn.configure("trees", graph, **SMALL["trees"])
    assert fit(factory, graph, splits_of(graph), recipe, progress=False)[0].val["accuracy"] > 60


@each_of("model", SHALLOW)
def test_estimator(model: str, tmp_path: Path) -> None:
    options = SMALL.get(model, {})
    classifier = nlgnn.NodeClassifier(model, n_runs=2, options=options).fit(GRAPH)
    assert classifier.score(GRAPH) > 0.6
    classifier.save(tmp_path / "model")
    again = nlgnn.NodeClassifier.load(tmp_path / "model", GRAPH)
    np.testing.assert_array_equal(again.predict_proba(), classifier.predict_proba())


@each_of(
    ("model", "options", "knows"),
    [
        ("logistic", {"neighbours": "all"}, False),
        ("trees", SMALL["trees"], False),
        ("trees", SMALL["trees"] | {"labels": True}, True),
        ("forest", SMALL["forest"], False),
        ("kernel", {"descriptions": "links"}, True),
        ("kernel", {"descriptions": "features+means"}, False),
    ],
)
def test_estimator_refuses_nodes_that_the_model_does_not_know(model: str, options: Any, knows: bool) -> None:
    classifier = nlgnn.NodeClassifier(model, n_runs=1, options=options).fit(GRAPH)
    if knows:
        with pytest.raises(DataError, match=f"{model} .*: it cannot predict nodes"):
            classifier.predict(easy_graph(40))
    else:
        assert classifier.predict_proba(easy_graph(40)).shape == (40, 2)


def test_a_registered_class(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nlgnn.models.registry.SYSTEMS", dict(SYSTEMS))
    nlgnn.register("majority", Majority, summary="shares of classes")
    (run,) = fit("majority", GRAPH, splits_of(GRAPH), progress=False)
    assert run.failure is None


def test_search(tmp_path: Path) -> None:
    found = nlgnn.tune(
        GRAPH, "logistic", "random-60", search_splits=2, study=str(tmp_path / "study.db"), progress=False
    )
    assert {row.setting["neighbours"] for row in found.rows} == {"none", "undirected", "all"}
    assert all(row.mean is not None and row.epochs == 0 for row in found.rows)
