"""Checks of graph and splits before training."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nlgnn.errors import DataError, NlgnnWarning
from nlgnn.graph.splits import Split
from nlgnn.training.fit import fit
from training_samples import easy_graph, recipe, splits_of


def test_a_graph_without_features_is_refused_by_models_that_need_some() -> None:
    graph = replace(easy_graph(60), x=np.zeros((60, 0)))
    for name in ("mlp", "bank", "sage", "logistic"):
        with pytest.raises(DataError, match="has no features"):
            fit(name, graph, splits_of(graph), progress=False)
    assert fit("forest", graph, splits_of(graph), progress=False)[0].failure is None


def test_classes_without_training_nodes_are_named() -> None:
    """The warning names the class and the number of splits; a class of a single node gives none."""
    graph = easy_graph(60)
    with_all = splits_of(graph, 1)[0]
    without = Split(with_all.train & (graph.y != 0), with_all.val, with_all.test, "own", 1)
    name = graph.class_names[0]
    with pytest.warns(NlgnnWarning, match=rf"in some of 2 splits .*'{name}' \(1\)"):
        fit("mlp", graph, [with_all, without], recipe(epochs=1), progress=False)
    y = graph.y.copy()
    y[y == 0] = 1
    y[with_all.test.nonzero()[0][0]] = 0
    fit("mlp", replace(graph, y=y), with_all, recipe(epochs=1), progress=False)
