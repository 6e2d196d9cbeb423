"""Models of one's own side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from experiment_samples import small_graph
from nlgnn.errors import OptionError
from nlgnn.graph.splits import make_splits
from nlgnn.nn import GCN, MLP, NonLocal
from nlgnn.selection.controls import compare
from nlgnn.selection.statistics import paired_interval
from nlgnn.training.fit import fit
from nlgnn.training.recipe import Recipe

RECIPE = Recipe(epochs=3, lr=0.05)


def test_every_model_is_trained_as_it_would_be_alone() -> None:
    graph = small_graph()
    splits = make_splits(graph, "random-60", 3)

    def gcn() -> GCN:
        return GCN(graph.num_features, 4, graph.num_classes)

    def mlp() -> MLP:
        return MLP(graph.num_features, 4, graph.num_classes)

    found = compare({"mine": gcn, "other": mlp, "named": "mlp"}, graph, splits, RECIPE, progress=False)
    alone = {
        "mine": fit(gcn, graph, splits, RECIPE, progress=False),
        "other": fit(mlp, graph, splits, RECIPE, progress=False),
        "named": fit("mlp", graph, splits, RECIPE, progress=False),
    }
    tests = {name: [run.test["accuracy"] for run in runs] for name, runs in alone.items()}
    assert {name: [run.test["accuracy"] for run in runs] for name, runs in found.runs.items()} == tests
    (section,) = found.sections()
    assert [row["mine minus it"] for row in section.rows] == [
        "",
        str(paired_interval(tests["mine"], tests["other"])),
        str(paired_interval(tests["mine"], tests["named"])),
    ]
    assert "over 3 runs, one per split, protocol random-60, figures of the first epoch with the best" in section.caption
    assert str(found).startswith("| model | validation accuracy % | test accuracy % | mine minus it |")


def test_named_systems_are_judged_as_the_others_are() -> None:
    """By themselves they have rules of their own: gcnii takes the epoch of the lowest loss."""
    graph = small_graph()
    found = compare({"mlp": "mlp", "gcnii": "gcnii"}, graph, make_splits(graph, "random-60", 1), RECIPE, progress=False)
    assert {recipe.selection for _, recipe in found.settings.values()} == {RECIPE.selection}
    assert "over 1 run, one per split" in found.sections()[0].caption


def test_one_that_does_not_fit_is_told_before_any_is_trained() -> None:
    graph, epochs = small_graph(), []

    class Counts(MLP):
        def forward(self, *inputs: Any) -> Any:
            epochs.append(self.training)
            return super().forward(*inputs)

    models = {
        "good": lambda: Counts(graph.num_features, 4, graph.num_classes),
        "bad": lambda: MLP(graph.num_features, 4, graph.num_classes + 1),
    }
    with pytest.raises(OptionError, match="MLP gives"):
        compare(models, graph, "random-60", RECIPE, progress=False)
    assert not any(epochs)


@pytest.mark.usefixtures("as_users_run_it")
def test_mistakes() -> None:
    graph = small_graph()
    with pytest.raises(OptionError, match="recipe is a dict"):
        compare({"mlp": "mlp"}, graph, recipe={"epochs": 3})  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="a str is not a Graph"):
        compare({"mlp": "mlp"}, "texas")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="not a model"):
        compare({"mine": MLP(3, 4, 2)}, graph)
    with pytest.raises(OptionError, match="no models to compare"):
        compare(["mlp", "gcn"], graph)  # type: ignore[arg-type]


def test_models_that_share_weights_are_refused_on_one_split_too() -> None:
    """What the first learned would be the start of the second."""
    graph = small_graph()
    shared = MLP(graph.num_features, 4, graph.num_classes)
    models = {"nl": lambda: NonLocal(shared, graph.num_classes, graph.num_classes), "local": lambda: shared}
    with pytest.raises(OptionError, match="MLP shares weights with another model"):
        compare(models, graph, make_splits(graph, "random-60", 1), RECIPE, progress=False)


def test_a_dataset_is_judged_by_its_own_metric() -> None:
    graph = replace(small_graph(), name="minesweeper")
    splits = make_splits(graph, "random-60", 1)
    found = compare({"mlp": "mlp", "gcn": "gcn"}, graph, splits, RECIPE, progress=False)
    assert {recipe.metric for _, recipe in found.settings.values()} == {"roc-auc"}
    accuracy = RECIPE.model_copy(update={"metric": "accuracy"})
    found = compare({"mlp": "mlp", "gcn": "gcn"}, graph, splits, accuracy, progress=False)
    assert {recipe.metric for _, recipe in found.settings.values()} == {"accuracy"}


def test_nothing_to_compare() -> None:
    with pytest.raises(OptionError, match="no models to compare"):
        compare({}, small_graph())
