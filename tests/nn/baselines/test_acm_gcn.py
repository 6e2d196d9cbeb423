import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import stack_module_state

import reference
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.models.build import configure
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.acm_gcn import ACMGCN
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

OPTIONS = [
    {},
    {"relu_first": True},
    {"structure": True, "num_nodes": 7},
    {"structure": True, "num_nodes": 7, "residual": True, "layer_norm": True},
]


def literal(model, x, edges, relu_first):
    pairs, h = [tuple(pair) for pair in edges.t().tolist()], x
    for layer in (model.first, model.second):
        if layer is model.second:
            h = h.relu()
            if model.residual is not None:
                h = h + (x @ model.residual.weight + model.residual.bias).relu()
        weights = layer.weight.chunk(3, dim=1)
        h = reference.acm_layer(h, pairs, weights, layer.scores, layer.mixing, layer.structure, relu_first)
    return h


@given(st.integers(1, 9), st.integers(0, 30), *[st.booleans()] * 3, seeds)
def test_acm_gcn_equals_a_literal_version(num_nodes, num_edges, relu_first, structure, residual, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    options = {"structure": structure, "num_nodes": num_nodes, "residual": residual}
    model = randomise(ACMGCN(5, 4, 2, relu_first=relu_first, **options), seed)
    sparse_x, x = random_operator(num_nodes, 5, 14, seed)
    x.requires_grad_()
    expected = literal(model, x, edges, relu_first)
    assert_same(model(x, edges), expected, [x, *model.parameters()])
    assert_same(model(sparse_x, edges), expected, list(model.parameters()))


def test_layer_norm_changes_the_shares_only():
    """A channel that is the same in all columns has no score after it, and all shares are equal."""
    model = randomise(ACMGCN(3, 1, 1, layer_norm=True))
    for norm in model.first.norms:
        norm.reset_parameters()
    x, alone = noise(4, 3).detach(), torch.zeros(2, 0, dtype=torch.long)
    model.first.mixing.data.fill_(1.0)
    low, _, own = model.first.weight.unbind(1)
    expected = (x @ low).relu() + (x @ own).relu()  # an isolated node is its own average
    _, average, _ = model.double().prepare(Graph(x.numpy(), alone.numpy(), [0] * 4))
    torch.testing.assert_close(model.first(x, average, None).squeeze(1), expected)


@pytest.mark.parametrize("options", OPTIONS)
def test_prepared_inputs_equal_edge_index(options):
    x = np.random.default_rng(0).normal(size=(7, 3))
    graph = Graph(x, np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]]), np.arange(7) % 2, directed=True)
    both_directions = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    model = randomise(ACMGCN(3, 4, 2, **options))
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    assert_same(model(*prepare(model, graph)), model(dense, both_directions), list(model.parameters()))


def replicas(number, **options):
    models = [randomise(ACMGCN(3, 4, 2, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


def small_inputs(model):
    x = np.random.default_rng(0).normal(size=(7, 3))
    return prepare(model, Graph(x, random_edges(7, 12).numpy(), np.arange(7) % 2))


@pytest.mark.parametrize("options", OPTIONS)
def test_replicas_equal_a_loop_over_models(options):
    models, stacked = replicas(3, **options)
    assert_stack_equals_a_loop(models, stacked, small_inputs(models[0]))


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5, residual=True)
    inputs = small_inputs(models[0])
    assert_replicas_draw_as_alone(models, lambda model: model(*inputs))


def test_with_structure_it_knows_nodes_by_number():
    with pytest.raises(OptionError, match="number of nodes"):
        ACMGCN(3, 4, 2, structure=True)
    model = ACMGCN(3, 4, 2, structure=True, num_nodes=7)
    assert model.identifies_nodes
    assert not ACMGCN(3, 4, 2).identifies_nodes
    with pytest.raises(DataError, match="knows 7 nodes"):
        model(torch.ones(8, 3), random_edges(8, 4))


@pytest.mark.parametrize("name", ["acm-gcn", "nl-acm-gcn", "vote-acm-gcn"])
def test_the_number_of_nodes_is_that_of_the_graph(name):
    graph = Graph(np.eye(4), [[0, 1], [1, 2]], [0, 1, 0, 1], name="texas")
    model = configure(name, graph)[0]()
    local = model if name == "acm-gcn" else model.local
    assert local.num_nodes == 4  # structure is part of the settings for texas
    assert configure(name, graph, structure=False)[0]()(*prepare(model, graph)).shape == (4, 2)


def test_parameters_are_drawn_as_by_the_authors():
    layer = ACMGCN(100, 25, 2).first
    assert 0.19 < layer.weight.abs().max() <= 0.2  # 1 / sqrt(25)
    assert 0.9 < layer.scores.abs().max() <= 1
    assert layer.mixing.abs().max() <= 3**-0.5
