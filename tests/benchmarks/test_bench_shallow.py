"""LightGBM and scikit-learn alone, with the same parameters, predict what `Trees` and `KernelClassifier` predict."""

from __future__ import annotations

import numpy as np

from benchmarks.shallow import kernel_ridge_alone, lightgbm_alone
from nlgnn.datasets import load_graph
from nlgnn.graph.splits import make_splits
from nlgnn.shallow import KernelClassifier, Trees


def test_lightgbm_alone_is_equal() -> None:
    graph = load_graph("mushroom-body")
    split = make_splits(graph, "random-60", 1)[0]
    model = Trees(rounds=20)
    expected = model.fit(graph, split, "accuracy", 0).predict(graph)
    assert np.allclose(lightgbm_alone(model, graph, split, "accuracy", 0), expected, atol=1e-6)
    assert not np.allclose(lightgbm_alone(model, graph, split, "accuracy", 1), expected, atol=1e-6)


def test_kernel_ridge_alone_is_equal() -> None:
    graph = load_graph("mushroom-body")
    split = make_splits(graph, "random-60", 1)[0]
    model = KernelClassifier().fit(graph, split)
    assert np.allclose(kernel_ridge_alone(model, graph), model.predict(graph), atol=1e-3)
