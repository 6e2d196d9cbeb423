import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call, stack_module_state
from torch_geometric import nn as pyg

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.baselines.linkx import LINKX
from nlgnn.nn.inputs import move
from nlgnn.nn.kernels.sparse import Operator
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


def adjacency(edges, num_nodes):
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for source, target in edges.t().tolist():
        matrix[target, source] += 1
    return matrix


def literal_mlp(mlp, x):
    for number, layer in enumerate(mlp.layers):
        x = x.relu() if number else x
        x = x @ layer.weight + layer.bias
    return x


def literal(model, x, edges):
    from_edges, from_features = literal_mlp(model.edge_mlp, adjacency(edges, len(x))), literal_mlp(model.node_mlp, x)
    both = torch.cat([from_edges, from_features], dim=1)
    mixed = both @ model.mix.weight + model.mix.bias + from_edges + from_features
    return literal_mlp(model.final_mlp, mixed.relu())


layers = st.integers(1, 3)


@given(st.integers(1, 9), st.integers(0, 30), layers, layers, layers, seeds)
def test_linkx_equals_a_literal_version(num_nodes, num_edges, edge_layers, node_layers, num_layers, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    options = {"num_edge_layers": edge_layers, "num_node_layers": node_layers, "num_layers": num_layers}
    model = randomise(LINKX(5, 4, 2, num_nodes=num_nodes, **options), seed)
    sparse_x, x = random_operator(num_nodes, 5, 14, seed)
    x.requires_grad_()
    expected = literal(model, x, edges)
    assert_same(model(x, edges), expected, [x, *model.parameters()])
    assert_same(model(sparse_x, edges), expected, list(model.parameters()))


@pytest.mark.parametrize("layers", [1, 2])
def test_linkx_agrees_with_pyg(layers):
    """Deeper parts of PyG's model have batch normalisation, which is taken out."""
    edges, x = random_edges(9, 20), noise(9, 3)
    model = randomise(LINKX(3, 4, 2, num_nodes=9, num_edge_layers=layers, num_node_layers=layers, num_layers=layers))
    theirs = pyg.LINKX(9, 3, 4, 2, num_layers=layers, num_edge_layers=layers, num_node_layers=layers)
    for module in list(theirs.modules()):
        if isinstance(module, pyg.MLP):
            module.norms = torch.nn.ModuleList(torch.nn.Identity() for _ in module.norms)
    theirs.edge_norm = None if layers == 1 else torch.nn.Identity()
    first, *further = model.edge_mlp.layers
    parameters = {"edge_lin.weight": first.weight, "edge_lin.bias": first.bias}
    parameters |= {"cat_lin1.weight": model.mix.weight[:4].t(), "cat_lin2.weight": model.mix.weight[4:].t()}
    parameters |= {"cat_lin1.bias": model.mix.bias, "cat_lin2.bias": torch.zeros(4).double()}
    for name, own in [
        ("edge_mlp", further),
        ("node_mlp", model.node_mlp.layers),
        ("final_mlp", model.final_mlp.layers),
    ]:
        for number, layer in enumerate(own):
            parameters |= {f"{name}.lins.{number}.weight": layer.weight.t(), f"{name}.lins.{number}.bias": layer.bias}
    assert parameters.keys() == dict(theirs.named_parameters()).keys()
    assert_same(model(x, edges), functional_call(theirs, parameters, (x, edges)), [x, *model.parameters()])


@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_inputs_equal_edge_index(as_stored):
    x = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    graph = Graph(as_stored(x), np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]]), np.array([0, 1, 0, 1, 0]), directed=True)
    both_directions = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    model = randomise(LINKX(3, 4, 2, num_nodes=5))
    prepared = move(model.prepare(graph), torch.float64)
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    assert_same(model(*prepared), model(dense, both_directions), list(model.parameters()))


def test_nodes_are_known_by_their_numbers():
    """Two nodes with equal features and as many neighbours differ; numbered anew, nodes get other results."""
    assert LINKX.identifies_nodes
    edges, x = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.ones(4, 3).double()
    model = randomise(LINKX(3, 4, 2, num_nodes=4))
    assert not torch.allclose(model(x, edges)[0], model(x, edges)[2])
    order = torch.tensor([2, 0, 3, 1])
    assert not torch.allclose(model(x[order], order.argsort()[edges]), model(x, edges)[order])


def test_another_graph_is_refused():
    model = LINKX(3, 4, 2, num_nodes=5)
    with pytest.raises(DataError, match="knows 5 nodes by their numbers, but x has 6 rows"):
        model(torch.ones(6, 3), random_edges(6, 4))
    with pytest.raises(DataError, match="x has 5 rows"):
        model(torch.ones(5, 3), torch.tensor([[0], [5]]))


def replicas(number, **options):
    models = [randomise(LINKX(3, 4, 2, num_nodes=7, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


def neighbours():
    return Operator.from_scipy(sparse.csr_array(adjacency(random_edges(7, 12), 7).numpy()))


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("as_operator", [False, True])
def test_replicas_equal_a_loop_over_models(layers, as_operator):
    models, stacked = replicas(3, num_edge_layers=layers, num_node_layers=layers)
    operator, dense = random_operator(7, 3, 12)
    x, edges = operator if as_operator else dense, neighbours()
    assert_stack_equals_a_loop(models, stacked, (x, edges))


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5)
    x, edges = noise(7, 3).detach(), neighbours()
    assert_replicas_draw_as_alone(models, lambda model: model(x, edges))


def test_only_hidden_units_after_the_mixing_are_dropped():
    """Neither features nor neighbours nor the mixture: with one layer after it, there is nothing to drop."""
    options = {"num_nodes": 5, "num_edge_layers": 2, "num_node_layers": 2, "dropout": 0.5}
    x, edges = noise(5, 3), random_edges(5, 9)
    deep = randomise(LINKX(3, 64, 2, num_layers=2, **options))
    assert not deep.deterministic
    assert not torch.equal(deep(x, edges), deep(x, edges))
    shallow = randomise(LINKX(3, 64, 2, num_layers=1, **options))
    assert torch.equal(shallow(x, edges), shallow.eval()(x, edges))
    assert LINKX(3, 4, 2, num_nodes=5).deterministic


@each_of("option", ["num_nodes", "num_edge_layers", "num_node_layers", "num_layers"])
@pytest.mark.usefixtures("as_users_run_it")
def test_impossible_options_are_refused(option):
    with pytest.raises(OptionError, match=f"{option}=0"):
        LINKX(3, 4, 2, **({"num_nodes": 5} | {option: 0}))
