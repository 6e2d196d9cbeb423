"""Balanced class weights: every model takes them."""

from __future__ import annotations

import numpy as np
import pytest

from battery_graphs import random_graph, with_labels
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.models.registry import SYSTEMS, load
from nlgnn.training.fit import fit, predict

GRAPH = with_labels(random_graph(60, 2, 150), (np.arange(60) % 5 == 0).astype(int))
SPLITS = make_splits(GRAPH, "random-60", 1)


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_rare_class_becomes_more_probable(name: str) -> None:
    system, options = SYSTEMS[name], {}
    if system.kind != "shallow":
        options = {"epochs": 5, "stopping": "never", "selection": "lowest-loss"}
        options |= {"pretrain_epochs": 2} if load(system).pretrains else {}
    means = {}
    for weight in ("none", "balanced"):
        factory, recipe = configure(name, GRAPH, "paper", class_weight=weight, **options)
        runs = fit(factory, GRAPH, SPLITS, recipe, progress=False)
        means[weight] = predict(factory, GRAPH, runs, recipe)[0, :, 1].mean().item()
    assert means["balanced"] > means["none"]
