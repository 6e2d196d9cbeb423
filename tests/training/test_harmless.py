"""Where features say all, the robust preset must stay within noise of its local model."""

import numpy as np
import pytest

from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.training.fit import fit


def telling_features(num_nodes: int = 300, seed: int = 0) -> Graph:
    """Three well separated clouds of points, with edges that mean nothing."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=num_nodes)
    x = 3 * np.eye(3)[y] + rng.standard_normal((num_nodes, 3))
    return Graph(x, rng.integers(num_nodes, size=(2, 2 * num_nodes)), y, name="telling-features")


@pytest.mark.slow
@pytest.mark.parametrize("local", ["mlp", "gcn"])
def test_robust_does_not_hurt(local):
    graph = telling_features()
    splits = make_splits(graph, "random-60", 5)
    means = {}
    for system in (local, f"nl{local}"):
        factory, recipe = configure(system, graph, preset="robust", epochs=200)
        runs = fit(factory, graph, splits, recipe, progress=False)
        means[system] = np.mean([run.test["accuracy"] for run in runs])
    if local == "mlp":
        assert means["mlp"] > 90  # else the features do not say all, and the test says nothing
    assert means[f"nl{local}"] > means[local] - 2
