"""Test figures without nodes that have a twin in training."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from experiment_samples import small_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.nn import MLP
from nlgnn.paper.twins import measure_without_twins, out_twins
from nlgnn.training.fit import fit, predict
from nlgnn.training.recipe import Recipe


def test_twins_have_the_same_out_neighbours_in_any_order() -> None:
    graph = Graph(x=[[1.0]] * 5, edge_index=[[0, 0, 1, 1, 2, 3], [3, 4, 4, 3, 3, 4]], y=[0, 1, 0, 1, 0], directed=True)
    groups = out_twins(graph).tolist()
    assert groups[0] == groups[1]
    assert len(set(groups)) == 4  # node 4 links to nothing


def test_figures_are_those_of_the_remaining_nodes() -> None:
    graph = small_graph()
    splits, recipe = make_splits(graph, "random-60", 2), Recipe(epochs=3)
    factory = partial(MLP, graph.num_features, 8, graph.num_classes)
    runs = fit(factory, graph, splits, recipe, progress=False)
    runs.insert(1, replace(runs[0], failure="infinite"))
    found = measure_without_twins(graph, [splits[0], splits[0], splits[1]], factory, recipe, runs)
    assert found["shares"][1] is found["test"][1] is None
    groups = out_twins(graph)
    probabilities = predict(factory, graph, [runs[0], runs[2]], recipe)
    for place, split, own in zip((0, 2), splits, probabilities, strict=True):
        rest = split.test & ~np.isin(groups, groups[split.train])
        right = own.argmax(1) == torch.from_numpy(graph.y)
        assert found["test"][place] == pytest.approx(100 * float(right[torch.from_numpy(rest)].double().mean()))
        assert found["shares"][place] == pytest.approx(1 - rest.sum() / split.test.sum(), abs=1e-5)
