import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call, stack_module_state
from torch_geometric.nn import GCN2Conv

from nlgnn.graph.graph import Graph
from nlgnn.nn.baselines.gcnii import GCNII
from nlgnn.nn.inputs import move
from nlgnn.nn.layers import normalised_adjacency
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


def literal_operator(edges, num_nodes):
    """Edge after edge, one loop a node."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for source, target in edges.t().tolist():
        matrix[target, source] += source != target
    matrix += torch.eye(num_nodes)
    scale = matrix.sum(1) ** -0.5
    return scale[:, None] * matrix * scale


def literal(model, x, edges, alpha, theta):
    operator, identity = literal_operator(edges, len(x)), torch.eye(model.weights.shape[-1]).double()
    h = first = (x @ model.first.weight + model.first.bias).relu()
    for number, weights in enumerate(model.weights, start=1):
        beta = math.log(theta / number + 1)
        maps = [(1 - beta) * identity + beta * weight for weight in weights]
        h = ((1 - alpha) * operator @ h @ maps[0] + alpha * first @ maps[-1]).relu()
    return h @ model.last.weight + model.last.bias


@given(st.integers(1, 9), st.integers(0, 30), st.integers(1, 4), st.booleans(), seeds)
def test_gcnii_equals_a_literal_version(num_nodes, num_edges, num_layers, variant, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    options = {"num_layers": num_layers, "alpha": 0.3, "theta": 1.5, "own_weights": variant}
    model = randomise(GCNII(5, 4, 2, **options), seed)
    sparse_x, x = random_operator(num_nodes, 5, 14, seed)
    x.requires_grad_()
    expected = literal(model, x, edges, 0.3, 1.5)
    assert_same(model(x, edges), expected, [x, *model.parameters()])
    assert_same(model(sparse_x, edges), expected, list(model.parameters()))


@pytest.mark.parametrize("variant", [False, True])
def test_gcnii_agrees_with_pyg(variant):
    edges, x = random_edges(9, 20), noise(9, 3)
    model = randomise(GCNII(3, 4, 2, num_layers=3, alpha=0.2, theta=0.5, own_weights=variant))
    h = first = (x @ model.first.weight + model.first.bias).relu()
    for number, weights in enumerate(model.weights, start=1):
        layer = GCN2Conv(4, 0.2, 0.5, number, shared_weights=not variant)
        h = functional_call(layer, {f"weight{i}": w for i, w in enumerate(weights, start=1)}, (h, first, edges)).relu()
    assert_same(model(x, edges), h @ model.last.weight + model.last.bias, [x, *model.parameters()])


def test_with_equal_weights_the_variant_is_the_plain_model():
    edges, x = random_edges(7, 12), noise(7, 3)
    plain, variant = randomise(GCNII(3, 4, 2)), GCNII(3, 4, 2, own_weights=True).double()
    state = plain.state_dict()
    variant.load_state_dict(state | {"weights": state["weights"].expand(-1, 2, -1, -1)})
    torch.testing.assert_close(variant(x, edges), plain(x, edges))


def test_many_layers_keep_nodes_apart():
    """GCN without the way back makes all nodes of a connected graph alike; the share of the first layer does not."""
    ring = torch.stack([torch.arange(12), torch.arange(1, 13) % 12])
    edges, x = torch.cat([ring, ring.flip(0)], dim=1), noise(12, 3).detach()
    torch.manual_seed(0)
    deep = GCNII(3, 16, 16, num_layers=64, theta=0.5).double()
    deep.last.weight.data = torch.eye(16).double()
    assert deep(x, edges).std(0).max() > 0.05
    deep.alpha = 0.0
    assert deep(x, edges).std(0).max() < 1e-3


@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_inputs_equal_edge_index(as_stored):
    x = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    graph = Graph(as_stored(x), np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]]), np.array([0, 1, 0, 1, 0]), directed=True)
    both_directions = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    model = randomise(GCNII(3, 4, 2))
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    prepared = move(model.prepare(graph), torch.float64)
    assert_same(model(*prepared), model(dense, both_directions), list(model.parameters()))


def replicas(number, **options):
    models = [randomise(GCNII(3, 4, 2, num_layers=3, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


@pytest.mark.parametrize("variant", [False, True])
@pytest.mark.parametrize("as_operator", [False, True])
def test_replicas_equal_a_loop_over_models(variant, as_operator):
    models, stacked = replicas(3, own_weights=variant)
    operator, dense = random_operator(7, 3, 12)
    x, edges = operator if as_operator else dense, normalised_adjacency(random_edges(7, 12), 7, torch.float64)
    assert_stack_equals_a_loop(models, stacked, (x, edges))


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5)
    x, edges = noise(7, 3).detach(), normalised_adjacency(random_edges(7, 12), 7, torch.float64)
    assert_replicas_draw_as_alone(models, lambda model: model(x, edges))


def test_dropout_acts_before_every_product_and_in_training_only():
    """Worked out by hand for isolated nodes. What is gathered and what is read is dropped, the way back is not."""
    model = GCNII(1, 1, 1, num_layers=1, alpha=0.5, dropout=0.5).double()
    for parameter in model.parameters():
        torch.nn.init.ones_(parameter)
    for layer in (model.first, model.last):
        torch.nn.init.zeros_(layer.bias)
    x, alone = torch.ones(400, 1).double(), torch.zeros(2, 0, dtype=torch.long)
    # Dropout multiplies by 0 or 2: first is 0 or 2, then (drop(first) + first) / 2 is 1 or 3, the result 0 or twice it.
    assert set(model(x, alone).flatten().tolist()) == {0.0, 2.0, 6.0}
    assert set(model.eval()(x, alone).flatten().tolist()) == {1.0}
    assert not model.deterministic
    assert GCNII(3, 4, 2).deterministic


def test_parameters_are_drawn_as_by_the_authors():
    model = GCNII(100, 25, 2)
    assert 0.19 < model.weights.abs().max() <= 0.2  # 1 / sqrt(25)
    assert 0.09 < model.first.weight.abs().max() <= 0.1
