"""Fits without gradients end in time: with what they have, or by the error of whoever watches them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nlgnn import load_graph, make_splits
from nlgnn.shallow import forest
from nlgnn.shallow.base import ShallowModel, must_end, watched_fits
from nlgnn.shallow.forest import Forest
from nlgnn.shallow.kernel import KernelClassifier
from nlgnn.shallow.logistic import Logistic
from nlgnn.shallow.trees import Trees

GRAPH = load_graph("mushroom-body")
SPLIT = make_splits(GRAPH, "random-60", 1)[0]
MODELS: dict[str, Any] = {
    "trees": Trees,
    "forest": lambda: Forest(trees=60),
    "logistic": Logistic,
    "kernel": KernelClassifier,
}


class StopError(Exception):
    pass


def fitted(make: Any) -> ShallowModel:
    model: ShallowModel = make().fit(GRAPH, SPLIT)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_steps_of_a_fit(name: str) -> None:
    """Shares rise to at most 1, an error passes, and a fit that must end predicts for all nodes."""
    shares: list[float] = []

    def note(done: float | None) -> bool:
        if done is not None:
            shares.append(done)
        return False

    with watched_fits(note):
        whole = fitted(MODELS[name]).predict(GRAPH)
    np.testing.assert_array_equal(whole, fitted(MODELS[name]).predict(GRAPH))
    assert len(shares) > 1
    assert shares == sorted(shares)
    assert 0 <= shares[0] < shares[-1] <= 1

    def stop(done: float | None) -> bool:
        raise StopError

    with watched_fits(stop), pytest.raises(StopError):
        fitted(MODELS[name])
    with watched_fits(lambda done: True):
        short = fitted(MODELS[name]).predict(GRAPH)
    np.testing.assert_allclose(short.sum(1), 1, atol=1e-5)
    assert not must_end(0.5)  # nobody watches any more


@pytest.mark.parametrize("weight", ["none", "balanced"])
def test_a_forest_in_parts_is_the_same_forest(weight: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for together in (7, 1000):
        monkeypatch.setattr(forest, "TREES_AT_ONCE", together)
        model = Forest(trees=30)
        model.class_weight = weight
        found.append(model.fit(GRAPH, SPLIT, seed=3).predict(GRAPH))
    np.testing.assert_array_equal(*found)
