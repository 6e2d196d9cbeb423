"""The stored form of a forest."""

from __future__ import annotations

import numpy as np
import pytest

from each_of import each_of
from nlgnn.shallow.forest import Forest, round_down, tree_nodes
from shallow.test_trees import sample, small


@each_of(("min_leaf", "class_weight"), [(1, None), (3, None), (1, "balanced")])
def test_forest_equals_scikit_learn(min_leaf: int, class_weight: str | None) -> None:
    from sklearn.ensemble import ExtraTreesClassifier

    graph, split = sample()
    forest = Forest(trees=30, neighbours="none", min_leaf=min_leaf)
    forest.class_weight = class_weight or "none"
    forest.fit(graph, split, seed=5)
    peer = ExtraTreesClassifier(
        30, max_features=0.25, min_samples_leaf=min_leaf, class_weight=class_weight, random_state=5
    )
    peer.fit(graph.x[split.train], graph.y[split.train])
    np.testing.assert_allclose(forest.predict(graph), peer.predict_proba(graph.x), atol=1e-6)
    assert len(tree_nodes([tree.tree_ for tree in peer.estimators_]).roots) == 30


def test_thresholds_are_rounded_down() -> None:
    numbers = np.random.default_rng(0).standard_normal(1000)
    near = numbers.astype(np.float32)
    for value in (near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))):
        assert ((value <= numbers) == (value <= round_down(numbers))).all()


def test_a_large_forest_sees_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    from nlgnn.shallow import forest

    graph, split = sample()
    whole = small(Forest).fit(graph, split).nodes
    monkeypatch.setattr(forest, "LARGEST_SAMPLE", 20)
    sampled = small(Forest).fit(graph, split).nodes
    assert len(sampled.feature) < len(whole.feature) / 2
