import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import stack_module_state
from torch_geometric.nn import DirGNNConv, GCNConv

from nlgnn.datasets.load import load_graph
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn.baselines.dirgcn import DirGCN, out_neighbours
from nlgnn.nn.inputs import move
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
    """Edge after edge, without loops; a zero degree scales by 0."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=torch.float64)
    for source, target in edges.t().tolist():
        matrix[source, target] += source != target
    out, into = ([d**-0.5 if d > 0 else 0.0 for d in matrix.sum(axis).tolist()] for axis in (1, 0))
    return torch.tensor(out, dtype=torch.float64)[:, None] * matrix * torch.tensor(into, dtype=torch.float64)


def literal(model, x, edges, alpha, row_norm=False):
    operator = literal_operator(edges, len(x))

    def convolve(layer, h):
        result = layer.bias.expand(len(x), -1)
        if alpha > 0:
            result = result + alpha * operator @ h @ layer.weight_out
        if alpha < 1:
            result = result + (1 - alpha) * operator.t() @ h @ layer.weight_in
        return result

    h, hidden = x, []
    for layer in model.deep.layers:
        h = convolve(layer, h).relu()
        if row_norm:
            h = torch.stack([row / row.norm() if row.norm() > 0 else row for row in h])
        hidden.append(h)
    if model.deep.options.jumping == "last":
        return convolve(model.deep.last, h)
    seen = torch.cat(hidden, 1) if model.deep.options.jumping == "cat" else torch.stack(hidden, -1).max(-1).values
    return seen @ model.deep.last.weight + model.deep.last.bias


@given(
    st.integers(1, 9),
    st.integers(0, 30),
    st.integers(1, 4),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.sampled_from(["last", "cat", "max"]),
    st.booleans(),
    seeds,
)
def test_dirgcn_equals_a_literal_version(num_nodes, num_edges, num_layers, alpha, jumping, row_norm, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    options = {"num_layers": num_layers, "alpha": alpha, "row_norm": row_norm}
    model = randomise(DirGCN(5, 4, 2, jumping=jumping, **options), seed)
    sparse_x, x = random_operator(num_nodes, 5, 14, seed)
    x.requires_grad_()
    expected = literal(model, x, edges, alpha, row_norm)
    assert_same(model(x, edges), expected, [x, *model.parameters()])
    assert_same(model(sparse_x, edges), expected, list(model.parameters()))


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.5, 1.0])
def test_layers_agree_with_pyg(alpha):
    """PyG's GCN divides by in-degrees alone, so its weights of edges are given to it."""
    edges, x = random_edges(9, 25), noise(9, 3)
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)
    model = randomise(DirGCN(3, 4, 2, num_layers=1, alpha=alpha))
    operator = literal_operator(edges, 9)
    values = operator[edges[0], edges[1]]

    class Weighted(GCNConv):
        def forward(self, x, edge_index):
            return super().forward(x, edge_index, values)

    convolution = DirGNNConv(Weighted(3, 2, normalize=False, bias=False), alpha, root_weight=False).double()
    missing = torch.zeros(3, 2).double()
    for theirs, ours in [("conv_in", model.deep.last.weight_in), ("conv_out", model.deep.last.weight_out)]:
        getattr(convolution, theirs).lin.weight.data = (missing if ours is None else ours.detach()).t()
    torch.testing.assert_close(model(x, edges), convolution(x, edges) + model.deep.last.bias)


def test_the_operator_on_a_graph_worked_out_by_hand():
    # 0 -> 1, 0 -> 2, 2 -> 1, a loop that counts for nothing, and an isolated node
    edges = torch.tensor([[0, 0, 2, 1], [1, 2, 1, 1]])
    half = 0.5**0.5
    expected = torch.tensor([[0, 0.5, half, 0], [0, 0, 0, 0], [0, half, 0, 0], [0, 0, 0, 0]])
    operator = out_neighbours(edges, 4, torch.float32)
    torch.testing.assert_close(operator.matrix.to_dense(), expected)
    prepared = DirGCN(3, 4, 2).prepare(Graph(np.ones((4, 3)), edges.numpy(), [0, 1, 0, 1], directed=True))
    torch.testing.assert_close(prepared.edge_index.matrix.to_dense(), expected)


def test_alpha_one_looks_where_edges_point_to_and_alpha_zero_where_they_come_from():
    """On 0 -> 1, only the first, or only the last, node sees the other."""
    edges, x = torch.tensor([[0], [1]]), torch.tensor([[2.0], [3.0]])
    for alpha, expected in [(1.0, [[3.0], [0.0]]), (0.0, [[0.0], [2.0]]), (0.25, [[0.75], [1.5]])]:
        model = DirGCN(1, 1, 1, num_layers=1, alpha=alpha)
        for name, parameter in model.named_parameters():
            torch.nn.init.constant_(parameter, float("bias" not in name))
        torch.testing.assert_close(model(x, edges), torch.tensor(expected))


@pytest.mark.parametrize(("alpha", "left_out"), [(0.0, "weight_out"), (1.0, "weight_in"), (0.5, None)])
def test_a_weight_that_counts_for_nothing_is_left_out(alpha, left_out):
    names = {name.rpartition(".")[2] for name, _ in DirGCN(3, 4, 2, alpha=alpha).named_parameters()}
    assert names == {"weight_out", "weight_in", "bias"} - {left_out}


def test_turning_all_edges_round_swaps_the_weights():
    edges, x = random_edges(7, 15), noise(7, 3)
    model, swapped = randomise(DirGCN(3, 4, 2, alpha=0.3)), DirGCN(3, 4, 2, alpha=0.7).double()
    other = {"weight_in": "weight_out", "weight_out": "weight_in", "bias": "bias"}
    state = {name.rpartition("."): value for name, value in model.state_dict().items()}
    swapped.load_state_dict({f"{where}.{other[name]}": value for (where, _, name), value in state.items()})
    torch.testing.assert_close(swapped(x, edges.flip(0)), model(x, edges))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_inputs_equal_edge_index(directed, as_stored):
    x = np.random.default_rng(0).normal(size=(5, 3)) * [[1, 0, 1]]
    given_edges = np.array([[0, 1, 1, 1, 2, 2], [1, 0, 2, 2, 2, 3]])  # a repetition, a loop, an isolated node
    graph = Graph(as_stored(x), given_edges, np.array([0, 1, 0, 1, 0]), directed=directed)
    seen = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 3]] if directed else [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    model = randomise(DirGCN(3, 4, 2, alpha=0.3))
    prepared = move(model.prepare(graph), torch.float64)
    assert (prepared.edge_index.transpose is prepared.edge_index) == (not directed)
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    assert_same(model(*prepared), model(dense, seen), list(model.parameters()))


def test_rows_of_zeros_keep_finite_gradients_when_divided_by_their_length():
    """The last node is isolated, and its bias does not get through ReLU."""
    model, x = randomise(DirGCN(3, 4, 2, num_layers=3, row_norm=True, jumping="max")), noise(6, 3)
    for layer in model.deep.layers:
        torch.nn.init.constant_(layer.bias, -0.5)
    result = model(x, random_edges(6, 9))
    gradients = torch.autograd.grad(result.sum(), list(model.parameters()))
    assert all(gradient.isfinite().all() and gradient.abs().max() < 1e3 for gradient in gradients)


def replicas(number, **options):
    models = [randomise(DirGCN(3, 4, 2, num_layers=3, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


@pytest.mark.parametrize("jumping", ["last", "cat", "max"])
@pytest.mark.parametrize(("alpha", "as_operator"), [(0.3, False), (1.0, True)])
def test_replicas_equal_a_loop_over_models(jumping, alpha, as_operator):
    models, stacked = replicas(3, jumping=jumping, alpha=alpha, row_norm=alpha == 1)
    operator, dense = random_operator(7, 3, 12)
    x, edges = operator if as_operator else dense, out_neighbours(random_edges(7, 12), 7, torch.float64)
    assert_stack_equals_a_loop(models, stacked, (x, edges))


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5, input_dropout=0.5)
    x, edges = noise(7, 3).detach(), out_neighbours(random_edges(7, 12), 7, torch.float64)
    assert_replicas_draw_as_alone(models, lambda model: model(x, edges))


@pytest.mark.parametrize("options", [{"dropout": 0.5}, {"input_dropout": 0.5}])
def test_dropout_acts_in_training_only(options):
    model, x, edges = randomise(DirGCN(3, 64, 2, **options)), noise(5, 3), random_edges(5, 9)
    assert not model.deterministic
    assert not torch.equal(model(x, edges), model(x, edges))
    model.eval()
    assert torch.equal(model(x, edges), model(x, edges))
    assert DirGCN(3, 4, 2).deterministic


def test_edges_must_be_given_and_be_between_nodes():
    with pytest.raises(OptionError, match="needs edge_index"):
        DirGCN(3, 4, 2)(torch.ones(5, 3))
    with pytest.raises(DataError, match="x has 5 rows"):
        DirGCN(3, 4, 2)(torch.ones(5, 3), torch.tensor([[0], [5]]))


@pytest.mark.usefixtures("data_root")
def test_most_nodes_of_chameleon_have_no_in_neighbours():
    """So that the direction decides: 1413 of 2277 pages are linked from nowhere, and only two link to no other page."""
    graph = load_graph("chameleon")
    model = DirGCN(graph.num_features, 4, graph.num_classes)
    operator = model.prepare(graph).edge_index
    assert (operator.transpose.pointers.diff() == 0).sum() == 1413
    assert (operator.pointers.diff() == 0).sum() == 2
