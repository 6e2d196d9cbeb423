"""The checks of the battery that models without gradient training pass, and those that are theirs alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import battery
from battery import Case
from battery_graphs import random_graph
from nlgnn.models.registry import SYSTEMS
from nlgnn.shallow import ShallowModel


def shallow_cases() -> list[Case]:
    """One case of every system without gradient training."""
    return [Case(name, "paper") for name, system in SYSTEMS.items() if system.kind == "shallow"]


def check_contributions(case: Case) -> None:
    """Contributions of columns, where a model has some, add up to the probabilities, of any nodes in any order."""
    graph, nodes = random_graph(), np.array([7, 0, 23])
    model = case.model(graph)
    if not isinstance(model, ShallowModel) or (found := model.contributions(graph, nodes)) is None:
        pytest.skip(f"{case.system} does not split its predictions")
    total = torch.from_numpy(found.expected + found.values.sum(2))
    np.testing.assert_allclose(total.softmax(1), model.predict(graph)[nodes], rtol=1e-6)
    groups = sum(found.by_group().values())
    np.testing.assert_allclose(groups, found.values.sum(2), atol=1e-12)
    assert found.values.shape[2] == len({column.name() for column in found.columns})


SHALLOW = (
    battery.check_shape,
    battery.check_permutation_equivariance,
    battery.check_ties,
    battery.check_isolated_nodes,
    battery.check_no_edges,
    battery.check_one_class,
    battery.check_seeds,
    battery.check_run_folder,
    battery.check_sparse_features,
    battery.check_evaluation_is_not_random,
    battery.check_unknown_labels,
    battery.check_test_labels_do_not_matter,
    battery.check_weights_of_edges,
    check_contributions,
)
