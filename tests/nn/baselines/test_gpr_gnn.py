import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import stack_module_state
from torch_geometric.nn import APPNP

import reference
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.gpr_gnn import GPRGNN
from nlgnn.nn.layers import normalised_adjacency
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Adam
from nn_samples import (
    assert_replicas_draw_as_alone,
    assert_same,
    assert_stack_equals_a_loop,
    noise,
    random_edges,
    random_operator,
    randomise,
    seeds,
)


@given(st.integers(1, 9), st.integers(0, 30), st.integers(1, 3), st.integers(1, 4), seeds)
def test_gpr_gnn_equals_a_literal_version(num_nodes, num_edges, num_layers, hops, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    model = randomise(GPRGNN(5, 4, 2, num_layers=num_layers, hops=hops), seed)
    sparse_x, x = random_operator(num_nodes, 5, 14, seed)
    x.requires_grad_()
    layers = [(layer.weight, layer.bias) for layer in model.mlp.layers]
    expected = reference.gpr_gnn(x, [tuple(pair) for pair in edges.t().tolist()], layers, model.coefficients)
    assert_same(model(x, edges), expected, [x, *model.parameters()])
    assert_same(model(sparse_x, edges), expected, list(model.parameters()))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_at_the_start_it_is_appnp_of_pyg(alpha):
    edges, x = random_edges(9, 20), noise(9, 3)
    model = GPRGNN(3, 4, 2, hops=5, alpha=alpha).double()
    model.reset_parameters()  # in double precision
    assert_same(model(x, edges), APPNP(5, alpha)(model.mlp(x), edges), [x, *model.mlp.parameters()])


@pytest.mark.parametrize(
    ("kind", "alpha", "expected"),
    [
        ("ppr", 0.25, [1 / 4, 3 / 16, 9 / 64, 27 / 64]),
        ("ppr", 0.0, [0, 0, 0, 1]),
        ("nppr", 0.25, [64 / 85, 16 / 85, 4 / 85, 1 / 85]),
        ("sgc", 0.5, [0, 0, 0, 1]),
    ],
)
def test_coefficients_at_the_start(kind, alpha, expected):
    model = GPRGNN(3, 4, 2, hops=3, coefficients=kind, alpha=alpha)
    torch.testing.assert_close(model.coefficients.detach(), torch.tensor(expected, dtype=torch.float32))


def test_random_coefficients_have_absolute_values_that_add_up_to_1():
    torch.manual_seed(0)
    drawn = GPRGNN(3, 4, 2, coefficients="random").coefficients.detach()
    assert drawn.min() < 0 < drawn.max()
    torch.testing.assert_close(drawn.abs().sum(), torch.tensor(1.0))


def test_coefficients_have_no_weight_decay():
    model = GPRGNN(3, 4, 2)
    groups = Adam(model, Recipe(weight_decay=0.5)).groups
    named = [name for name, _ in model.named_parameters()]
    assert [named[place] for place in groups[0.0, 1.0]] == ["coefficients"]
    assert len(groups[0.5, 1.0]) == 4


def test_prepared_inputs_equal_edge_index():
    x = np.random.default_rng(0).normal(size=(5, 3))
    graph = Graph(x, np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]]), np.array([0, 1, 0, 1, 0]), directed=True)
    both_directions = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    model = randomise(GPRGNN(3, 4, 2))
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    assert_same(model(*prepare(model, graph)), model(dense, both_directions), list(model.parameters()))


def replicas(number, **options):
    models = [randomise(GPRGNN(3, 4, 2, hops=3, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


def test_replicas_equal_a_loop_over_models():
    models, stacked = replicas(3)
    operator, _ = random_operator(7, 3, 12)
    assert_stack_equals_a_loop(models, stacked, (operator, normalised_adjacency(random_edges(7, 12), 7, torch.float64)))


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5, propagation_dropout=0.5)
    x, edges = noise(7, 3).detach(), normalised_adjacency(random_edges(7, 12), 7, torch.float64)
    assert_replicas_draw_as_alone(models, lambda model: model(x, edges))


def test_outputs_of_the_mlp_are_dropped_in_training_only():
    model = GPRGNN(3, 4, 2, propagation_dropout=0.5)
    x, alone = torch.ones(200, 3), torch.zeros(2, 0, dtype=torch.long)
    assert (model(x, alone) == 0).float().mean() == pytest.approx(0.5, abs=0.15)
    assert (model.eval()(x, alone) != 0).all()
