import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call, grad, stack_module_state, vmap
from torch_geometric.nn import FAConv
from torch_geometric.utils import remove_self_loops, to_undirected

from nlgnn.datasets.load import load_graph
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.fagcn import FAGCN
from nlgnn.nn.inputs import move
from nlgnn.nn.kernels.dropout import Dropout
from nn_samples import (
    assert_replicas_draw_as_alone,
    assert_same,
    noise,
    random_operator,
    randomise,
    seeds,
)
from nn_samples import (
    random_edges as directed_edges,
)

NO_EDGES = torch.zeros(2, 0, dtype=torch.long)
multigraphs = given(st.integers(1, 8), st.integers(0, 20), st.integers(1, 3), seeds)


def random_edges(num_nodes, num_edges, seed=0):
    """Both directions of random edges: the model takes edges as given."""
    edges = directed_edges(num_nodes, num_edges, seed)
    return torch.cat([edges, edges.flip(0)], dim=1)


def literal_operator(edges, num_nodes):
    """Symmetric, 0/1, no self loops, divided by the roots of both degrees."""
    adjacency = torch.zeros(num_nodes, num_nodes).double()
    for u, v in edges.t().tolist():
        if u != v:
            adjacency[u, v] = adjacency[v, u] = 1
    degrees = adjacency.sum(1).clamp(min=1)
    return adjacency / (degrees[:, None] * degrees).sqrt()


def literal(model, x, edges, input_mask=1, mask=1, gate_masks=None):
    """The equations, with a matrix of gates a layer and masks of what dropout keeps."""
    norm = literal_operator(edges, len(x))
    first = mask * ((input_mask * x) @ model.embedding.weight + model.embedding.bias).relu()
    h = first
    for layer, propagation in enumerate(model.propagations):
        rows = []
        for i in range(len(x)):
            row = model.eps * first[i]
            for j in norm[i].nonzero()[:, 0]:
                score = propagation.weight[0] @ torch.cat([h[i], h[j]])
                score = score + propagation.bias[0]
                kept = 1 if gate_masks is None else gate_masks[layer][i, j]
                row = row + kept * score.tanh() * norm[i, j] * h[j]
            rows.append(row)
        h = torch.stack(rows)
    return h @ model.classifier.weight + model.classifier.bias


def without_gate_bias(model):
    """PyTorch Geometric's gates have no bias."""
    for propagation in model.propagations:
        propagation.bias.data.zero_()
        propagation.bias.requires_grad_(False)
    return model


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@multigraphs
def test_it_equals_a_literal_version(num_nodes, num_edges, num_layers, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    model = randomise(FAGCN(5, 4, 3, num_layers=num_layers, eps=0.4), seed)
    if not literal_operator(edges, num_nodes).any():
        model.propagations.requires_grad_(False)  # the literal version does not ask for any gate
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    x = noise(num_nodes, 5, seed=seed)
    assert_same(model(x, edges), literal(model, x, edges), [x, *learned])
    stored, dense = random_operator(num_nodes, 5, 12, seed)
    assert_same(model(stored, edges), literal(model, dense, edges), learned)


def pyg(model, x, edges):
    """The layers in between by PyTorch Geometric, with our weights, so that gradients reach them."""
    first = (x @ model.embedding.weight + model.embedding.bias).relu()
    h = first
    for propagation in model.propagations:
        convolution = FAConv(h.shape[1], eps=model.eps, add_self_loops=False)
        receiver, sender = propagation.weight.chunk(2, dim=1)
        h = functional_call(convolution, {"att_l.weight": sender, "att_r.weight": receiver}, (h, first, edges))
    return h @ model.classifier.weight + model.classifier.bias


def undirected(edges, num_nodes):
    return to_undirected(remove_self_loops(edges)[0], num_nodes=num_nodes)


@given(st.integers(2, 9), st.integers(0, 30), seeds)
def test_it_agrees_with_pyg(num_nodes, num_edges, seed):
    edges, x = random_edges(num_nodes, num_edges, seed), noise(num_nodes, 3, seed=seed)
    model = without_gate_bias(randomise(FAGCN(3, 4, 2)))
    assert_same(model(x, edges), pyg(model, x, undirected(edges, num_nodes)), [x, *trained(model)])


@pytest.mark.usefixtures("data_root")
def test_it_agrees_with_pyg_on_chameleon():
    """Whose file is directed, with self loops, repetitions and nodes that nobody points at."""
    graph = load_graph("chameleon")
    model = without_gate_bias(FAGCN(graph.x.shape[1], 8, graph.num_classes).double())
    x, operator = prepare(model, graph)
    edges = undirected(torch.tensor(graph.edge_index), graph.num_nodes)
    assert len(operator.values) == edges.shape[1] == 62742
    expected = pyg(model, torch.tensor(graph.dense_features()).double(), edges)
    assert_same(model(x, operator), expected, trained(model))


class GivenMasks(Dropout):
    """Drops what it is told to, call after call."""

    def __init__(self, masks):
        super().__init__(0.5)
        self.masks = iter(masks)

    def mask(self, like, *place, columns=None, first=None):
        mask = next(self.masks)
        assert mask.shape == like.shape
        return mask


def test_dropout_of_inputs_first_embedding_and_gates():
    """The residual of all layers is the first embedding after dropout, drawn once; each layer draws its own gates."""
    edges, x = undirected(random_edges(7, 12), 7), noise(7, 3)
    model = randomise(FAGCN(3, 4, 2, num_layers=3, dropout=0.5))
    generator = torch.Generator().manual_seed(0)
    rows, columns = literal_operator(edges, 7).nonzero().t()
    shapes = [(7, 3), (7, 4), *[(len(rows),)] * 3]
    masks = [2.0 * torch.randint(2, shape, generator=generator).double() for shape in shapes]
    model.dropout = GivenMasks(masks)
    gate_masks = [torch.zeros(7, 7).double().index_put((rows, columns), mask) for mask in masks[2:]]
    expected = literal(model, x, edges, *masks[:2], gate_masks)
    assert_same(model(x, edges), expected, [x, *model.parameters()])
    assert next(model.dropout.masks, None) is None


def test_dropout_acts_in_training_only():
    model, x, edges = randomise(FAGCN(3, 64, 2, dropout=0.5)), noise(5, 3), random_edges(5, 9)
    assert not model.deterministic
    assert not torch.equal(model(x, edges), model(x, edges))
    torch.testing.assert_close(model.eval()(x, edges), literal(model, x, edges))
    assert FAGCN(3, 4, 2).deterministic


def without_last_step(model):
    """The classifier passes embeddings through."""
    model.classifier.weight.data = torch.eye(len(model.classifier.bias)).double()
    model.classifier.bias.data.zero_()
    return model


@pytest.mark.parametrize("num_layers", [1, 2, 5])
def test_an_isolated_node_is_a_share_of_its_first_embedding(num_layers):
    x = noise(6, 3)
    model = without_last_step(randomise(FAGCN(3, 4, 4, num_layers=num_layers, eps=0.2)))
    first = model.embedding(x).relu()
    result = model(x, random_edges(6, 9))  # the last node is isolated
    torch.testing.assert_close(result[-1], 0.2 * first[-1])
    assert not torch.isclose(result[:-1], 0.2 * first[:-1]).all()
    torch.testing.assert_close(model(x, NO_EDGES), 0.2 * first)


def test_closed_gates_make_it_an_mlp():
    model, x = randomise(FAGCN(3, 4, 2, eps=0.7)), noise(6, 3)
    for parameter in model.propagations.parameters():
        torch.nn.init.zeros_(parameter)
    expected = 0.7 * model.embedding(x).relu() @ model.classifier.weight + model.classifier.bias
    torch.testing.assert_close(model(x, random_edges(6, 9)), expected)


def test_negated_gates_turn_the_sign_of_what_one_layer_adds():
    model, x, edges = without_last_step(randomise(FAGCN(3, 4, 4, num_layers=1))), noise(6, 3), random_edges(6, 9)
    residual = model.eps * model.embedding(x).relu()
    added = model(x, edges) - residual
    for parameter in model.propagations.parameters():
        parameter.data.neg_()
    torch.testing.assert_close(model(x, edges), residual - added)
    assert added.abs().max() > 0.1


def test_open_gates_make_it_propagation_with_a_residual():
    model, x, edges = without_last_step(randomise(FAGCN(3, 4, 4, num_layers=3))), noise(6, 3), random_edges(6, 9)
    for propagation in model.propagations:
        torch.nn.init.zeros_(propagation.weight)
        torch.nn.init.constant_(propagation.bias, 100.0)
    expected = first = model.embedding(x).relu()
    for _ in range(3):
        expected = model.eps * first + literal_operator(edges, 6) @ expected
    torch.testing.assert_close(model(x, edges), expected)


def test_self_loops_and_repetitions_do_not_matter_but_directions_do():
    model, x = randomise(FAGCN(3, 4, 2)), noise(4, 3)
    one_way = torch.tensor([[0, 1, 1], [1, 2, 3]])
    both_ways = torch.cat([one_way, one_way.flip(0)], dim=1)
    with_loops = torch.cat([both_ways, both_ways[:, :2], torch.tensor([[0, 2], [0, 2]])], dim=1)
    torch.testing.assert_close(model(x, with_loops), model(x, both_ways))
    assert not torch.allclose(model(x, one_way), model(x, both_ways))


def test_operator_on_a_graph_worked_out_by_hand():
    # A path 0 - 1 - 2 given in one direction, a loop, an isolated node: degrees 1, 2, 1 and none.
    graph = Graph(np.ones((4, 1)), np.array([[0, 1, 2], [1, 2, 2]]), np.zeros(4, int))
    half = 0.5**0.5
    expected = [[0, half, 0, 0], [half, 0, half, 0], [0, half, 0, 0], [0, 0, 0, 0]]
    operator = FAGCN(1, 2, 1).prepare(graph).edge_index
    torch.testing.assert_close(operator.matrix.to_dense(), torch.tensor(expected))
    assert operator.symmetric


@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_inputs_equal_edge_index(as_stored):
    x = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    directed = np.array([[0, 1, 1, 2, 2], [1, 0, 2, 2, 3]])
    graph = Graph(as_stored(x), directed, np.array([0, 1, 0, 1, 0]))
    model = randomise(FAGCN(3, 4, 2))
    prepared = move(model.prepare(graph), torch.float64)
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    assert_same(
        model(*prepared),
        model(dense, torch.from_numpy(np.concatenate([directed, directed[::-1]], axis=1))),
        list(model.parameters()),
    )


def test_each_layer_has_its_own_gate():
    model, x, edges = randomise(FAGCN(3, 4, 2, num_layers=3)), noise(6, 3), random_edges(6, 9)
    weights = [propagation.weight for propagation in model.propagations]
    first, second, third = torch.autograd.grad(model(x, edges).sin().sum(), weights)
    for one, other in ((first, second), (first, third), (second, third)):
        assert not torch.isclose(one, other).any()
    assert len(list(model.parameters())) == 4 + 2 * 3


def test_how_parameters_are_drawn():
    model = FAGCN(400, 600, 50)
    for linear in (model.embedding, model.classifier):
        fan_in, fan_out = linear.weight.shape
        assert linear.weight.std().item() == pytest.approx(1.414 * (2 / (fan_in + fan_out)) ** 0.5, rel=0.05)
        assert linear.weight.abs().max() > 2.5 * linear.weight.std()  # normal, not uniform
        assert 0.8 * fan_in**-0.5 < linear.bias.abs().max() <= fan_in**-0.5
    before = [parameter.clone() for parameter in model.parameters()]
    model.reset_parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("stored", [False, True])
def test_replicas_equal_a_loop_over_models(stored):
    models = [randomise(FAGCN(5, 4, 2), seed=100 * replica) for replica in range(3)]
    stacked = stack_module_state(models)[0]
    as_stored, dense = random_operator(7, 5, 14)
    graph = Graph(np.zeros((7, 1)), random_edges(7, 12).numpy(), np.zeros(7, int))
    x, edges = as_stored if stored else dense, models[0].prepare(graph).edge_index

    def result(state):
        return functional_call(models[0], state, (x, edges))

    states = [dict(zip(stacked, values, strict=True)) for values in zip(*stacked.values(), strict=True)]
    loop = torch.stack([result(state) for state in states])
    assert_same(vmap(result)(stacked), loop, list(stacked.values()))

    def gradient(state):
        return grad(lambda own: result(own).sin().sum())(state)

    inside, alone = vmap(gradient)(stacked), [gradient(state) for state in states]
    for name, value in inside.items():
        torch.testing.assert_close(value, torch.stack([one[name] for one in alone]), rtol=0, atol=1e-9)


def test_replicas_drop_what_they_would_drop_alone():
    models = [randomise(FAGCN(3, 4, 2, dropout=rate), seed=100) for rate in (0.5, 0.2)]
    x, edges = noise(7, 3).detach(), random_edges(7, 12)
    assert_replicas_draw_as_alone(models, lambda model: model(x, edges))


@pytest.mark.parametrize("num_nodes", [1, 2, 3])
@pytest.mark.parametrize("size", [0.0, 1.0])
def test_tiny_graphs_and_features_of_zero(num_nodes, size):
    model, x = FAGCN(3, 4, 2, dropout=0.5), size * torch.rand(num_nodes, 3)
    for edges in (NO_EDGES, random_edges(num_nodes, 3)):
        model.zero_grad()
        result = model(x, edges)
        result.sum().backward()
        assert result.shape == (num_nodes, 2)
        assert result.isfinite().all()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_the_order_of_nodes_does_not_matter():
    model, x, edges = randomise(FAGCN(3, 4, 2)), noise(7, 3), random_edges(7, 12)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(model(x[order], order.argsort()[edges]), model(x, edges)[order])


def test_edges_must_be_given_and_be_between_nodes():
    model, x = FAGCN(3, 4, 2), torch.ones(5, 3)
    with pytest.raises(OptionError, match="needs edge_index"):
        model(x)
    with pytest.raises(DataError, match="x has 5 rows"):
        model(x, torch.tensor([[0], [5]]))
