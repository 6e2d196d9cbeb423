"""LightGBM alone, with the same parameters on the same table, predicts what `Trees` predicts."""

from __future__ import annotations

import numpy as np

from benchmarks.shallow import lightgbm_alone
from nlgnn.datasets import load_graph
from nlgnn.graph.splits import make_splits
from nlgnn.shallow import Trees


def test_lightgbm_alone_is_equal() -> None:
    graph = load_graph("mushroom-body")
    split = make_splits(graph, "random-60", 1)[0]
    model = Trees(rounds=20)
    expected = model.fit(graph, split, "accuracy", 0).predict(graph)
    assert np.allclose(lightgbm_alone(model, graph, split, "accuracy", 0), expected, atol=1e-6)
    assert not np.allclose(lightgbm_alone(model, graph, split, "accuracy", 1), expected, atol=1e-6)
