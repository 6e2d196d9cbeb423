import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call, stack_module_state, vmap

from nlgnn import load_graph
from nlgnn.errors import OptionError
from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.graph.graph import Graph
from nlgnn.nn.baselines import h2gcn
from nlgnn.nn.baselines.h2gcn import H2GCN
from nlgnn.nn.inputs import move
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nlgnn.nn.local import MLP
from nn_samples import assert_replicas_draw_as_alone, assert_same, noise, randomise, seeds

WIDE = 5  # as many results as this, and hidden units are fewer


def graph_of(num_nodes, num_edges, seed=0):
    """Directed, with repetitions and loops; the last of many nodes is isolated."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(max(1, num_nodes - 1), size=(2, num_edges))
    return Graph(rng.standard_normal((num_nodes, 3)), edges, np.zeros(num_nodes, int))


def from_pairs(pairs, num_nodes):
    return Graph(np.ones((num_nodes, 3)), np.array(pairs).T, np.zeros(num_nodes, int))


def neighbourhoods(graph):
    """N1 and N2 of every node, one edge and one path after another."""
    nodes = range(graph.num_nodes)
    first = [set() for _ in nodes]
    for u, v in graph.edge_index.T.tolist():
        if u != v:
            first[u].add(v)
            first[v].add(u)
    second = [{w for u in first[v] for w in first[u]} - first[v] - {v} for v in nodes]
    return first, second


def dense_operators(graph):
    """sym(N1) and sym(N2), each with its own degrees."""
    operators = []
    for neighbours in neighbourhoods(graph):
        matrix = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
        for v, own in enumerate(neighbours):
            for u in own:
                matrix[v, u] = (len(own) * len(neighbours[u])) ** -0.5
        operators.append(matrix)
    return operators


def literal(model, x, operators, masks=1.0):
    """The equations, with all rounds side by side."""
    latest = x @ model.embedding
    if model.activation == "relu":
        latest = latest.relu()
    rounds = [latest]
    for _ in range(model.rounds):
        latest = torch.cat([operator @ latest for operator in operators], dim=1)
        rounds.append(latest)
    return (torch.cat(rounds, dim=1) * masks) @ model.classifier


def inputs(model, graph):
    return move(model.prepare(graph), dtype=torch.float64)


@given(
    st.integers(1, 12),
    st.integers(0, 25),
    st.integers(1, 3),
    st.sampled_from(["relu", "none"]),
    st.sampled_from([2, WIDE]),
    st.booleans(),
    seeds,
)
def test_model_and_its_gradients_equal_a_literal_version(nodes, edges, rounds, activation, out, as_csr, seed):
    graph = graph_of(nodes, edges, seed)
    model = randomise(H2GCN(3, 4, out, rounds=rounds, activation=activation), seed)
    x, *operators = inputs(model, graph)
    leaves = [] if as_csr else [x.requires_grad_()]
    expected = literal(model, x, dense_operators(graph))
    if as_csr:
        x = inputs(model, Graph(sparse.csr_array(graph.x), graph.edge_index, graph.y)).x
    assert_same(model(x, *operators), expected, [*model.parameters(), *leaves])


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_dropout_equals_a_literal_version_with_the_same_mask(rounds):
    graph = graph_of(9, 20)
    model = randomise(H2GCN(3, 4, 2, rounds=rounds, dropout=0.5))
    prepared = inputs(model, graph)
    torch.manual_seed(0)
    masks = model.dropout.mask(torch.empty(9, 4 * (2 ** (rounds + 1) - 1), dtype=torch.float64))
    assert set(masks.flatten().tolist()) == {0.0, 2.0}
    torch.manual_seed(0)
    expected = literal(model, prepared.x, dense_operators(graph), masks)
    assert_same(model(*prepared), expected, list(model.parameters()))


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_projecting_first_equals_propagating_first(rounds):
    """The two ways to compute it, each called by its name."""
    model, embedded = randomise(H2GCN(3, 4, 2, rounds=rounds)), noise(9, 4)
    _, *operators = inputs(model, graph_of(9, 20))
    narrow, wide = (way(embedded, *operators) for way in (model.project_then_propagate, model.propagate_then_project))
    assert_same(narrow, wide, [embedded, model.classifier])


@pytest.fixture
def widths(monkeypatch):
    """How many columns each product with an operator has."""
    seen = []

    def watched(operator, dense):
        seen.append(dense.shape[1])
        return spmm(operator, dense)

    spmm = h2gcn.spmm
    monkeypatch.setattr(h2gcn, "spmm", watched)
    return seen


@pytest.mark.parametrize(
    ("out", "dropout", "training", "expected"),
    [
        (2, 0.0, True, [4, 4, 2, 2]),  # two blocks of two classes each, then one
        (2, 0.5, False, [4, 4, 2, 2]),
        (2, 0.5, True, [8] * 6),  # dropout stands between: all hidden units are propagated
        (8, 0.0, True, [8] * 6),
        (9, 0.0, True, [8] * 6),  # projecting first would make it wider
    ],
)
def test_as_few_columns_as_possible_are_propagated(widths, out, dropout, training, expected):
    model = H2GCN(3, 8, out, dropout=dropout).train(training)
    model(*model.prepare(graph_of(9, 20)))
    assert widths == expected


def test_each_operator_is_applied_once_a_round(widths):
    model = H2GCN(3, 64, 2, rounds=3)
    model(*model.prepare(graph_of(9, 20)))
    assert widths == [8, 8, 4, 4, 2, 2]


@given(st.integers(1, 12), st.integers(0, 40), seeds)
def test_neighbours_two_hop_neighbours_and_the_node_itself_are_disjoint(nodes, edges, seed):
    graph = graph_of(nodes, edges, seed)
    _, *operators = inputs(H2GCN(3, 4, 2).double(), graph)
    one, two = (operator.matrix.to_dense() for operator in operators)
    assert ((one != 0).int() + (two != 0).int() + torch.eye(nodes, dtype=torch.int32)).max() == 1
    for actual, expected in zip((one, two), dense_operators(graph), strict=True):
        torch.testing.assert_close(actual, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    ("pairs", "num_nodes", "expected"),
    [
        ([(0, 1), (1, 2), (2, 0)], 3, [[], [], []]),  # a triangle: nobody is two steps away
        ([(0, 1), (0, 2), (0, 3)], 4, [[], [2, 3], [1, 3], [1, 2]]),  # a star: its leaves are, from each other
        ([(0, 1), (1, 2), (2, 3)], 4, [[2], [3], [0], [1]]),  # a path
        ([(1, 0), (1, 2), (1, 1)], 3, [[2], [], [0]]),  # edges count both ways, loops not at all
        # 0 and 1 are neighbours with two common neighbours: three paths of two steps or fewer, and still no two-hop.
        ([(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)], 4, [[], [], [3], [2]]),
    ],
)
def test_two_hop_neighbours_on_graphs_worked_out_by_hand(pairs, num_nodes, expected):
    _, _, two_hop = H2GCN(3, 4, 2).prepare(from_pairs(pairs, num_nodes))
    assert [row.nonzero().flatten().tolist() for row in two_hop.matrix.to_dense()] == expected


def test_more_paths_than_a_small_number_can_count():
    """Two leaves of 256 hubs: as many paths as make zero in eight bits."""
    pairs = [(leaf, hub) for leaf in (0, 1) for hub in range(2, 258)]
    two_hop = h2gcn.at_distance_two(from_pairs(pairs, 258).undirected_adjacency)
    assert two_hop[0, 1]
    assert two_hop[1, 0]
    assert two_hop.has_sorted_indices
    assert two_hop.dtype == bool


def test_operators_have_their_own_degrees_and_no_self_loops():
    # A star: the hub has degree 3, its leaves 1; of two-hop neighbours leaves have 2, the hub none.
    _, *operators = H2GCN(3, 4, 2).prepare(from_pairs([(0, 1), (0, 2), (0, 3)], 4))
    one, two = (operator.matrix.to_dense() for operator in operators)
    torch.testing.assert_close(one[0], torch.tensor([0, 1, 1, 1]) / 3**0.5)
    torch.testing.assert_close(two[1], torch.tensor([0, 0, 1, 1]) / 2)
    assert all(operator.symmetric for operator in operators)
    assert (one.equal(one.t()), two.equal(two.t())) == (True, True)


@pytest.mark.parametrize("rounds", [1, 2])
def test_without_weights_for_the_rounds_it_is_an_mlp(rounds):
    model, mlp = randomise(H2GCN(3, 4, 2, rounds=rounds)), MLP(3, 4, 2).double()
    model.classifier.data[4:] = 0
    for layer, weight in zip(mlp.layers, (model.embedding, model.classifier[:4]), strict=True):
        layer.weight.data = weight.detach()
        torch.nn.init.zeros_(layer.bias)
    prepared = inputs(model, graph_of(9, 20))
    torch.testing.assert_close(model(*prepared), mlp(prepared.x), rtol=0, atol=1e-12)


def test_two_kernels_are_all_its_parameters():
    """No biases, and nothing inside the rounds; drawn for the width that they have as one matrix each."""
    model = H2GCN(300, 64, 5, rounds=2)
    assert {name: tuple(value.shape) for name, value in model.named_parameters()} == {
        "embedding": (300, 64),
        "classifier": (448, 5),
    }
    for weight in model.parameters():
        bound = (6 / sum(weight.shape)) ** 0.5
        assert 0.98 * bound < weight.abs().max() <= bound
    before = [weight.clone() for weight in model.parameters()]
    model.reset_parameters()
    assert not any(map(torch.equal, before, model.parameters()))
    assert tuple(H2GCN(300, 64, 5, rounds=1).classifier.shape) == (192, 5)


def test_results_are_logits():
    """Twice the last weight, twice the result: neither probabilities nor their logarithms."""
    model = randomise(H2GCN(3, 4, 2))
    prepared = inputs(model, graph_of(9, 20))
    before = model(*prepared)
    model.classifier.data *= 2
    torch.testing.assert_close(model(*prepared), 2 * before)


def stacked(models):
    return {name: value.detach() for name, value in stack_module_state(models)[0].items()}


@pytest.mark.parametrize("out", [2, WIDE])
def test_replicas_equal_each_alone(out):
    models = [randomise(H2GCN(3, 4, out), seed) for seed in range(3)]
    prepared, state = inputs(models[0], graph_of(9, 20)), stacked(models)
    state = {name: value.requires_grad_() for name, value in state.items()}

    def result(own):
        return functional_call(models[0], own, tuple(prepared))

    alone = torch.stack([result({name: value[r] for name, value in state.items()}) for r in range(3)])
    assert_same(vmap(result)(state), alone, list(state.values()))


def test_replicas_drop_what_they_would_drop_alone():
    models = [randomise(H2GCN(3, 4, 2, dropout=0.5), seed) for seed in range(3)]
    prepared = inputs(models[0], graph_of(9, 20))
    assert_replicas_draw_as_alone(models, lambda model: model(*prepared))


def test_features_on_disk_equal_dense_ones(tmp_path):
    graph, model = graph_of(9, 20), randomise(H2GCN(3, 4, 2))
    np.save(tmp_path / "x.npy", graph.x)
    on_disk = StreamedFeatures(FeaturesOnDisk.from_memmap(np.load(tmp_path / "x.npy", mmap_mode="r"), "x"))
    x, *operators = inputs(model, graph)
    assert_same(model(on_disk, *operators), model(x, *operators), list(model.parameters()))


def test_deterministic_without_dropout_only():
    model, random = H2GCN(3, 4, 2), H2GCN(3, 64, 2, dropout=0.5)
    prepared = model.prepare(graph_of(9, 20))
    assert model.deterministic
    assert model(*prepared).equal(model.eval()(*prepared))
    assert not random.deterministic
    assert not random(*prepared).equal(random(*prepared))


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    "options", [{"rounds": 0}, {"dropout": 1.0}, {"activation": "elu"}, {"hidden_channels": 0}, {"out_channels": 0}]
)
def test_options_that_make_no_sense(options):
    with pytest.raises(OptionError):
        H2GCN(**({"in_channels": 3, "hidden_channels": 4, "out_channels": 2} | options))


@pytest.mark.parametrize(("name", "entries"), [("chameleon", 1_209_364), ("actor", 2_529_136), ("texas", None)])
def test_two_hop_neighbours_of_real_graphs(data_root, name, entries):
    """As many as were counted elsewhere; on a small graph, those that shortest paths find."""
    adjacency = load_graph(name).undirected_adjacency
    two_hop = h2gcn.at_distance_two(adjacency)
    if entries is not None:
        assert two_hop.nnz == entries
    else:
        hops = sparse.csgraph.shortest_path(adjacency, unweighted=True)
        np.testing.assert_array_equal(two_hop.toarray(), hops == 2)
