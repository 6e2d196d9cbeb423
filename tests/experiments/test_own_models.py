"""Models of one's own side by side."""

from __future__ import annotations

import pytest
from experiment_samples import small_graph

from nlgnn.errors import OptionError
from nlgnn.experiments.interval import paired_interval
from nlgnn.experiments.own_models import compare
from nlgnn.graph.splits import make_splits
from nlgnn.nn import GCN, MLP
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
    assert "over 3 runs on 3 splits of protocol random-60" in section.caption
    assert str(found).startswith("| model | validation accuracy % | test accuracy % | mine minus it |")


def test_nothing_to_compare() -> None:
    with pytest.raises(OptionError, match="no models to compare"):
        compare({}, small_graph())
