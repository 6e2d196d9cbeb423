import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call, stack_module_state, vmap
from torch_geometric.nn import SAGEConv

from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import sage
from nlgnn.nn.inputs import move
from nlgnn.nn.kernels import two_products
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.local import MLP
from nlgnn.nn.sage import GraphSAGE, MeanConvolution, mean_operator
from nn_samples import (
    assert_replicas_draw_as_alone,
    assert_same,
    noise,
    random_edges,
    random_operator,
    randomise,
    seeds,
)

multigraphs = given(st.integers(1, 9), st.integers(0, 30), st.integers(1, 3), seeds)


def graph_of(num_nodes=9, num_edges=20, seed=0, as_stored=np.asarray):
    """Directed, with repetitions, loops and an isolated node; some features are zero."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num_nodes, 3)) * rng.integers(2, size=(num_nodes, 3))
    return Graph(as_stored(x), random_edges(num_nodes, num_edges, seed).numpy(), np.zeros(num_nodes, int))


def inputs(model, graph):
    return move(model.prepare(graph), dtype=torch.float64)


def literal(model, x, pairs):
    """One node after another, its mean over the edges that end in it."""
    for number, layer in enumerate(model.layers):
        root, neighbour = layer.weight.chunk(2, dim=1)
        x = torch.relu(x) if number else x
        rows = []
        for node in range(len(x)):
            senders = [x[u] for u, v in pairs if v == node]
            mean = torch.stack(senders).mean(0) if senders else torch.zeros_like(x[node])
            rows.append(x[node] @ root + mean @ neighbour + layer.bias)
        x = torch.stack(rows)
    return x


@multigraphs
def test_model_and_its_gradients_equal_a_literal_version(num_nodes, num_edges, num_layers, seed):
    edges, x = random_edges(num_nodes, num_edges, seed), noise(num_nodes, 3, seed=seed)
    model = randomise(GraphSAGE(3, 4, 2, num_layers=num_layers), seed)
    assert_same(model(x, edges), literal(model, x, edges.t().tolist()), [x, *model.parameters()])


@multigraphs
def test_agrees_with_pyg(num_nodes, num_edges, num_layers, seed):
    edges, x = random_edges(num_nodes, num_edges, seed), noise(num_nodes, 3, seed=seed)
    model = randomise(GraphSAGE(3, 4, 2, num_layers=num_layers), seed)
    h = x
    for number, layer in enumerate(model.layers):
        root, neighbour = layer.weight.t().chunk(2)  # ours, so that gradients reach them
        parameters = {"lin_r.weight": root, "lin_l.weight": neighbour, "lin_l.bias": layer.bias}
        h = functional_call(SAGEConv(root.shape[1], len(root)), parameters, (h.relu() if number else h, edges))
    assert_same(model(x, edges), h, [x, *model.parameters()])


@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("seed", range(3))
def test_prepared_graphs_are_symmetric_without_loops_and_repetitions(as_stored, seed):
    graph, model = graph_of(seed=seed, as_stored=as_stored), randomise(GraphSAGE(3, 4, 2))
    pairs = {(u, v) for u, v in graph.edge_index.T.tolist() if u != v}
    pairs |= {(v, u) for u, v in pairs}
    prepared = inputs(model, graph)
    assert isinstance(prepared.x, Operator) == (as_stored is sparse.csr_array)
    expected = literal(model, torch.from_numpy(graph.dense_features()).double(), pairs)
    assert_same(model(*prepared), expected, list(model.parameters()))


def test_sparse_features_equal_dense_ones():
    x, dense = random_operator(6, 3, 14)
    edges, model = random_edges(6, 12), randomise(GraphSAGE(3, 4, 2))
    assert_same(model(x, edges), model(dense, edges), list(model.parameters()))


def test_the_mean_over_no_neighbours_is_zero():
    layer, x = randomise(MeanConvolution(3, 2)), noise(3, 3)
    mean = mean_operator(torch.tensor([[0, 1, 2], [1, 2, 1]]), 3, torch.float64)
    own, neighbour = layer.weight.chunk(2, dim=1)
    torch.testing.assert_close(layer(x, mean)[0], x[0] @ own + layer.bias)
    torch.testing.assert_close(layer(x, mean)[1] - x[1] @ own - layer.bias, (x[0] + x[2]) / 2 @ neighbour)


def test_without_edges_it_is_an_mlp():
    model, mlp = randomise(GraphSAGE(3, 4, 2)), MLP(3, 4, 2).double()
    for ours, theirs in zip(model.layers, mlp.layers, strict=True):
        theirs.weight.data, theirs.bias.data = ours.weight.chunk(2, dim=1)[0].detach(), ours.bias.detach()
    prepared = inputs(model, graph_of(num_edges=0))
    assert len(prepared.edge_index.columns) == 0  # loops alone are no edges
    torch.testing.assert_close(model(*prepared), mlp(prepared.x), rtol=0, atol=1e-12)


def test_operators_are_exact_in_the_type_of_the_model():
    graph = Graph(np.ones((4, 3)), np.array([[0, 0, 0], [1, 2, 3]]), np.zeros(4, int))
    for model in (GraphSAGE(3, 4, 2), GraphSAGE(3, 4, 2).double()):
        dtype = next(model.parameters()).dtype
        third = torch.tensor(1, dtype=dtype) / 3
        assert model.prepare(graph).edge_index.values.tolist() == [third, third, third, 1, 1, 1]


def test_nothing_follows_the_last_layer():
    model, edges = randomise(GraphSAGE(3, 64, 64, num_layers=1, dropout=0.5)), random_edges(5, 9)
    result = model(noise(5, 3), edges)
    assert (result < 0).any()
    assert not (result == 0).any()


def test_dropout_between_layers_acts_in_training_only():
    model, x, edges = randomise(GraphSAGE(3, 64, 2, dropout=0.5)), noise(5, 3), random_edges(5, 9)
    assert not model.deterministic
    torch.manual_seed(0)
    first, second = model.layers
    mean = mean_operator(edges, 5, torch.float64)
    expected = second(model.dropout(first(x, mean).relu(), 0), mean)
    torch.manual_seed(0)
    assert model(x, edges).equal(expected)
    assert not model(x, edges).equal(expected)
    model.eval()
    assert model(x, edges).equal(second(first(x, mean).relu(), mean))
    assert GraphSAGE(3, 4, 2).deterministic


@pytest.mark.parametrize("as_operator", [False, True])
def test_input_dropout_drops_dense_and_sparse_features(as_operator):
    model = GraphSAGE(1, 4, 1, num_layers=1, input_dropout=0.5).double()
    torch.nn.init.ones_(model.layers[0].weight)
    torch.nn.init.zeros_(model.layers[0].bias)
    ones, nobody = torch.ones(200, 1).double(), torch.zeros(2, 0, dtype=torch.long)
    x = Operator.from_scipy(sparse.csr_array(ones.numpy())) if as_operator else ones
    assert set(model(x, nobody).flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(model.eval()(x, nobody), ones)
    assert GraphSAGE(1, 4, 1, dropout=0.5).input_dropout.p == 0


def test_replicas_equal_each_alone():
    models = [randomise(GraphSAGE(3, 4, 2), seed) for seed in range(3)]
    prepared = inputs(models[0], graph_of())
    state = {name: value.detach().requires_grad_() for name, value in stack_module_state(models)[0].items()}

    def result(own):
        return functional_call(models[0], own, tuple(prepared))

    alone = torch.stack([result({name: value[r] for name, value in state.items()}) for r in range(3)])
    assert_same(vmap(result)(state), alone, list(state.values()))


def test_replicas_drop_what_they_would_drop_alone():
    models = [randomise(GraphSAGE(3, 4, 2, dropout=0.5, input_dropout=0.25), seed) for seed in range(3)]
    prepared = inputs(models[0], graph_of(as_stored=sparse.csr_array))
    assert_replicas_draw_as_alone(models, lambda model: model(*prepared))


def test_parameters_are_drawn_again_as_those_of_linear():
    model = GraphSAGE(400, 100, 7)
    for layer, inputs_of in zip(model.layers, (400, 100), strict=True):
        before = layer.weight.clone()
        layer.bias.data.fill_(100.0)
        model.reset_parameters()
        assert not torch.equal(before, layer.weight)
        assert 0.98 * inputs_of**-0.5 < layer.weight.abs().max() <= inputs_of**-0.5
        assert layer.bias.abs().max() <= inputs_of**-0.5


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("options", [{"num_layers": 0}, {"dropout": 1.0}, {"input_dropout": -0.1}])
def test_options_that_make_no_sense(options):
    with pytest.raises(OptionError):
        GraphSAGE(3, 4, 2, **options)


def test_edges_are_needed():
    with pytest.raises(OptionError, match="edge_index"):
        GraphSAGE(3, 4, 2)(torch.ones(5, 3))


def test_large_graphs_take_one_operation_with_the_same_result(monkeypatch: pytest.MonkeyPatch) -> None:
    model = randomise(GraphSAGE(3, 4, 2, num_layers=3, norm="batch", residual=True))
    x, edges = noise(9, 3), random_edges(9, 20)
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    expected = model(x, edges)
    for module in (sage, two_products):
        monkeypatch.setattr(module, "SMALL_PRODUCT", -1)
    assert_same(model(x, edges), expected, [x, *weights], tolerance=1e-12)
