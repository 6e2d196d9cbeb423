import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call
from torch_geometric.nn import GCNConv

import reference
from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import GAT, GCN, MLP
from nlgnn.nn.inputs import Inputs, move, prepare_plain
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.layers import PART_WIDTH, normalised_adjacency
from nn_samples import assert_same, noise, random_edges, random_operator, randomise, seeds

MODELS = [MLP, GCN, GAT]
multigraphs = given(st.integers(1, 9), st.integers(0, 30), seeds)


@multigraphs
def test_gcn_agrees_with_pyg(num_nodes, num_edges, seed):
    edges, x = random_edges(num_nodes, num_edges, seed), noise(num_nodes, 3, seed=seed)
    model = randomise(GCN(3, 4, 2))
    first, second = model.layers

    def theirs(convolution, ours, x):
        parameters = {"lin.weight": ours.weight.t(), "bias": ours.bias}  # ours, so that gradients reach them
        return functional_call(convolution, parameters, (x, edges))

    hidden = theirs(GCNConv(3, 4), first, x).relu()
    assert_same(model(x, edges), theirs(GCNConv(4, 2), second, hidden), [x, *model.parameters()])


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_all_three_equal_the_reference(num_layers):
    edges, x = random_edges(7, 12), noise(7, 3)
    pairs = [(int(u), int(v)) for u, v in edges.t()]

    mlp = randomise(MLP(3, 4, 2, num_layers=num_layers))
    expected = reference.mlp(x, [(layer.weight, layer.bias) for layer in mlp.layers])
    assert_same(mlp(x), expected, [x, *mlp.parameters()])

    gcn = randomise(GCN(3, 4, 2, num_layers=num_layers))
    expected = reference.gcn(x, pairs, [(layer.weight, layer.bias) for layer in gcn.layers])
    assert_same(gcn(x, edges), expected, [x, *gcn.parameters()])

    gat = randomise(GAT(3, 4, 2, num_layers=num_layers, heads=2))
    expected = reference.gat(x, pairs, [heads_of(layer) for layer in gat.layers])
    assert_same(gat(x, edges), expected, [x, *gat.parameters()])


def heads_of(layer):
    """One (W, a_src, a_dst, b) a head."""
    width = layer.out_channels
    return list(
        zip(
            layer.weight.split(width, dim=1),
            layer.attention_source,
            layer.attention_target,
            layer.bias.split(width),
            strict=True,
        )
    )


@pytest.mark.parametrize("model_class", MODELS)
def test_sparse_features_equal_dense_ones(model_class):
    x, dense = random_operator(6, 5, 14)
    edges, model = random_edges(6, 12), randomise(model_class(5, 4, 2))
    assert_same(model(x, edges), model(dense, edges), list(model.parameters()))


@pytest.mark.parametrize("model_class", MODELS)
@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_inputs_equal_edge_index(model_class, as_stored):
    x = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    directed = np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]])  # a repetition once undirected, a loop, an isolated node
    graph = Graph(as_stored(x), directed, np.array([0, 1, 0, 1, 0]))
    both_directions = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    model = randomise(model_class(3, 4, 2))
    prepared = move(model.prepare(graph), torch.float64)
    assert isinstance(prepared.x, Operator) == (as_stored is sparse.csr_array)
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    assert_same(model(*prepared), model(dense, both_directions), list(model.parameters()))


def test_plain_inputs_keep_whole_node_numbers():
    graph = Graph(sparse.csr_array(np.eye(3)), np.array([[0, 1], [1, 2]]), np.zeros(3, int))
    inputs = move(prepare_plain(graph), torch.float64)
    assert inputs.x.dtype == torch.float64
    assert sorted(map(tuple, inputs.edge_index.t().tolist())) == [(0, 1), (1, 0), (1, 2), (2, 1)]
    assert move(Inputs(inputs.x, None), torch.float32).edge_index is None


def test_gcn_without_edges_is_an_mlp():
    gcn, mlp = randomise(GCN(3, 4, 2)), MLP(3, 4, 2).double()
    mlp.load_state_dict(gcn.state_dict())
    x = noise(5, 3)
    torch.testing.assert_close(gcn(x, torch.zeros(2, 0, dtype=torch.long)), mlp(x), rtol=0, atol=1e-12)


def test_gcn_operator_on_a_graph_worked_out_by_hand():
    # 0 -> 1 twice, and a loop that is replaced: in-degrees with one loop a node are 1 and 3.
    operator = normalised_adjacency(torch.tensor([[0, 0, 1], [1, 1, 1]]), 2)
    torch.testing.assert_close(operator.matrix.to_dense(), torch.tensor([[1.0, 0.0], [2 / 3**0.5, 1 / 3]]))


def test_mlp_ignores_edges():
    model, x = randomise(MLP(3, 4, 2)), noise(5, 3)
    assert torch.equal(model(x), model(x, random_edges(5, 9)))


@pytest.mark.parametrize("model_class", MODELS)
def test_dropout_acts_in_training_only(model_class):
    model, x, edges = randomise(model_class(3, 64, 2, dropout=0.5)), noise(5, 3), random_edges(5, 9)
    assert not model.deterministic
    assert not torch.equal(model(x, edges), model(x, edges))
    model.eval()
    assert torch.equal(model(x, edges), model(x, edges))
    assert model_class(3, 4, 2).deterministic


def test_only_the_mlp_drops_input_features_by_itself():
    assert MLP(3, 4, 2, dropout=0.5).input_dropout.p == 0.5
    assert MLP(3, 4, 2, dropout=0.5, input_dropout=0.0).input_dropout.p == 0.0
    assert GCN(3, 4, 2, dropout=0.5).input_dropout.p == GAT(3, 4, 2, dropout=0.5).input_dropout.p == 0.0


@pytest.mark.parametrize("as_operator", [False, True])
def test_input_dropout_drops_dense_and_sparse_features(as_operator):
    model = MLP(1, 4, 1, num_layers=1, input_dropout=0.5).double()
    torch.nn.init.ones_(model.layers[0].weight)
    torch.nn.init.zeros_(model.layers[0].bias)
    ones = torch.ones(200, 1).double()
    x = Operator.from_scipy(sparse.csr_array(ones.numpy())) if as_operator else ones
    assert set(model(x).flatten().tolist()) == {0.0, 2.0}
    assert torch.equal(model.eval()(x), ones)


@pytest.mark.parametrize("model_class", MODELS)
def test_parameters_are_drawn_anew(model_class):
    model = model_class(3, 4, 2)
    before = model.layers[1].weight.clone()
    model.reset_parameters()
    assert not torch.equal(before, model.layers[1].weight)


@pytest.mark.usefixtures("as_users_run_it")
@each_of("model_class", MODELS)
@each_of(
    ("widths", "options", "message"),
    [
        ((3, -4, 2), {}, "hidden_channels=-4"),
        ((3, 4, 0), {}, "out_channels=0"),
        ((3, 4, 2), {"num_layers": 0}, "num_layers=0"),
        ((3, 4, 2), {"dropout": 1.5}, "dropout=1.5"),
        ((3, 4, 2), {"input_dropout": -0.1}, "input_dropout=-0.1"),
    ],
)
def test_impossible_options_are_refused(model_class, widths, options, message):
    with pytest.raises(OptionError, match=message):
        model_class(*widths, **options)


@pytest.mark.usefixtures("as_users_run_it")
def test_impossible_options_of_gat_are_refused():
    with pytest.raises(OptionError, match="heads=0"):
        GAT(3, 4, 2, heads=0)
    with pytest.raises(OptionError, match="activation='tanh'"):
        GAT(3, 4, 2, activation="tanh")


@pytest.mark.parametrize("model_class", [GCN, GAT])
def test_edges_must_be_given_and_be_between_nodes(model_class):
    model, x = model_class(3, 4, 2), torch.ones(5, 3)
    with pytest.raises(OptionError, match="needs edge_index"):
        model(x)
    for outside in (5, -1):
        with pytest.raises(DataError, match="x has 5 rows"):
            model(x, torch.tensor([[0], [outside]]))


@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("model_class", [MLP, GCN])
def test_layers_in_parts_are_the_same(model_class, num_layers):
    """Three parts of hidden layers and two of the last one, the last of each narrower than the others."""
    model = randomise(model_class(6, 2 * PART_WIDTH + 3, PART_WIDTH + 2, num_layers=num_layers))
    x, edges = noise(9, 6), random_edges(9, 14)
    whole = model(x, edges)
    model.recompute = True
    assert_same(model(x, edges), whole, [x, *model.parameters()])


def test_layers_in_parts_keep_nothing_as_wide_as_the_layer():
    model, x = MLP(6, 64, 2), torch.rand(1000, 6)
    widest = {}
    for model.recompute in (False, True):
        kept = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor, kept=kept: kept.append(tensor.shape), id):
            model(x)
        widest[model.recompute] = max((shape[1] for shape in kept if shape[0] == 1000), default=0)
    assert widest[False] == 64
    assert widest[True] <= PART_WIDTH


def test_dropout_in_parts_is_drawn_once():
    """What is computed again for the gradient is dropped as it was: the loss falls along its own gradient."""
    model = randomise(MLP(6, 40, 2, dropout=0.5, input_dropout=0.0)).train()
    model.recompute = True
    x = noise(50, 6).detach()
    torch.manual_seed(0)
    gradient = torch.autograd.grad(model(x).square().sum(), model.layers[0].bias)[0]
    step = 1e-6 * gradient
    losses = []
    for direction in (1, -1):
        with torch.no_grad():
            model.layers[0].bias += direction * step
            torch.manual_seed(0)
            losses.append(model(x).square().sum())
            model.layers[0].bias -= direction * step
    torch.testing.assert_close(losses[0] - losses[1], 2e-6 * gradient.square().sum(), rtol=1e-4, atol=0)
