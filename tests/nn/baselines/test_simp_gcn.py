"""SimP-GCN beside a dense version, written one node and one pair at a time from its equations."""

import math

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.func import functional_call, grad, stack_module_state, vmap

from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.simp_gcn import SimPGCN, _Differences
from nlgnn.nn.layers import divided_by_degrees
from nlgnn.nn.local import GCN
from nn_samples import assert_replicas_draw_as_alone, assert_same, noise, randomise

LABELS = torch.tensor([0, 1, 2, 1, 0, 2, 1, 2, 0, 1])
TRAINED = torch.tensor([0, 2, 3, 7])


class TrainingOutput(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model.training_output(*inputs)


def graph_of(seed=0, words=False, as_stored=np.asarray):
    """Ten nodes: directed edges, some in both directions, loops, an isolated node; no ties among dense features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(10, 6))
    if words:
        x = np.where(x > 0.4, x, 0)
        x[4] = 0
    edges = np.concatenate([rng.integers(9, size=(2, 14)), [[0, 1, 3, 3], [1, 0, 3, 3]]], axis=1)
    return Graph(as_stored(x.astype(np.float32)), edges, LABELS.numpy())


def model_of(dropout=0.0, **options):
    return randomise(SimPGCN(6, 4, 3, num_similar=3, dropout=dropout, **options))


def loss_of(model, inputs):
    return model.loss(model.training_output(*inputs), LABELS, TRAINED)


def literal_adjacency(graph, directed):
    A = torch.eye(graph.num_nodes).double()
    for source, target in graph.edge_index.T:
        A[source, target] = 1
        if not directed:
            A[target, source] = 1
    return scaled_by_row_sums(A)


def literal_cosines(graph):
    x = torch.from_numpy(graph.dense_features()).double()
    return torch.nn.functional.cosine_similarity(x[:, None], x[None], dim=2)


def literal_feature_graph(graph, k):
    cosines, S = literal_cosines(graph).fill_diagonal_(0), torch.zeros(graph.num_nodes, graph.num_nodes).double()
    for node in range(graph.num_nodes):
        for other in cosines[node].topk(k).indices:
            S[node, other] = max(cosines[node, other], 0)
    return scaled_by_row_sums(S)


def scaled_by_row_sums(M):
    roots = M.sum(1).sqrt()
    return torch.where(M > 0, M / (roots[:, None] * roots[None]), 0)


def literal_pairs(graph):
    cosines, pairs = literal_cosines(graph), set()
    for node in range(graph.num_nodes):
        others = [other for other in cosines[node].argsort().tolist() if other != node]
        pairs |= {(min(node, other), max(node, other)) for other in others[:5] + others[-5:]}
    return {pair: cosines[pair] for pair in pairs}


def literal_layer(layer, H, A, A_f, gamma, activation):
    *W, w_s, w_k = layer.weight.t()
    W, (b_s, b_k) = torch.stack(W).t(), layer.gate_bias
    rows = []
    for node in range(len(H)):
        s, k = torch.sigmoid(H[node] @ w_s + b_s), H[node] @ w_k + b_k
        mixed = [A[node] @ H @ W, A_f[node] @ H @ W, H[node] @ W]
        mixed = [activation(part + layer.bias) for part in mixed]
        rows.append(s * mixed[0] + (1 - s) * mixed[1] + gamma * k * mixed[2])
    return torch.stack(rows)


def literal_loss(model, graph, gamma, weight, directed):
    """Logits, and cross entropy plus the error of the similarities."""
    A, A_f = literal_adjacency(graph, directed), literal_feature_graph(graph, 3)
    x = torch.from_numpy(graph.dense_features()).double()
    hidden = literal_layer(model.first, x, A, A_f, gamma, torch.relu)
    logits = literal_layer(model.second, hidden, A, A_f, gamma, lambda h: h)
    loss = -torch.stack([logits[node].log_softmax(0)[LABELS[node]] for node in TRAINED]).mean()
    return logits, loss + weight * literal_pair_error(model, hidden, literal_pairs(graph)) if weight else loss


def literal_pair_error(model, hidden, pairs):
    w, b = model.similarity.weight[0], model.similarity.bias[0]
    return torch.stack([(((hidden[i] - hidden[j]).abs() @ w + b) - S) ** 2 for (i, j), S in pairs.items()]).mean()


@pytest.mark.parametrize(
    ("seed", "directed", "weight"), [(0, False, 0.7), (1, True, 0.7), (2, False, 0.0), (2, True, 0.0)]
)
def test_logits_loss_and_gradients_equal_the_equations(seed, directed, weight):
    graph = graph_of(seed)
    model = model_of(gamma=0.3, similarity_loss=weight, directed=directed)
    inputs = prepare(model, graph)
    logits, loss = literal_loss(model, graph, 0.3, weight, directed)
    parameters = list(model.parameters())
    assert_same(loss_of(model, inputs), loss, parameters)
    assert_same(model.eval()(*inputs), logits, [*model.first.parameters(), *model.second.parameters()])


@pytest.mark.parametrize("words", [False, True])
def test_sparse_features_equal_dense_ones(words):
    model = model_of()
    dense, csr = (prepare(model, graph_of(words=words, as_stored=stored)) for stored in (np.asarray, sparse.csr_array))
    assert_same(loss_of(model, csr), loss_of(model, dense), list(model.parameters()))


def gcn_with(layers):
    gcn = GCN(6, 4, 3).double()
    for ours, theirs in zip(layers, gcn.layers, strict=True):
        theirs.weight.data, theirs.bias.data = ours.weight[:, :-2].detach(), ours.bias.detach()
    return gcn


@pytest.mark.parametrize("chosen", ["the given graph", "the feature graph"])
def test_a_gate_that_is_open_or_closed_leaves_a_gcn(chosen):
    graph, model = graph_of(), model_of(gamma=0.0)
    for layer in (model.first, model.second):
        layer.weight.data[:, -2] = 0
        layer.gate_bias.data[0] = 1000 if chosen == "the given graph" else -1000
    inputs, gcn = prepare(model, graph), gcn_with([model.first, model.second])
    operator = gcn.prepare(graph).edge_index if chosen == "the given graph" else inputs.feature_graph
    torch.testing.assert_close(model.eval()(*inputs), gcn(inputs.x, operator), rtol=0, atol=1e-9)


def test_directed_nodes_gather_from_the_targets_of_their_edges():
    """0 → 1 twice, 0 → 2, and a loop at 2, which is not counted beside the one that every node has."""
    graph = Graph(np.eye(3), np.array([[0, 0, 0, 2], [1, 1, 2, 2]]), np.zeros(3, int))
    expected = torch.tensor([[1 / 3, 3**-0.5, 3**-0.5], [0, 1, 0], [0, 0, 1]]).double()
    for directed in (True, False):
        operator = prepare(SimPGCN(3, 4, 2, directed=directed).double(), graph).adjacency
        matrix = operator.matrix.to_dense()
        assert matrix.equal(matrix.t()) == operator.symmetric == (not directed)
        torch.testing.assert_close(operator.transpose.matrix.to_dense(), matrix.t())
        if directed:
            torch.testing.assert_close(matrix, expected)


@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_features_stay_as_they_are(as_stored):
    graph = graph_of(words=True, as_stored=as_stored)
    before = graph.dense_features().copy()
    inputs = SimPGCN(6, 4, 3).prepare(graph)
    assert np.array_equal(graph.dense_features(), before)
    assert np.array_equal(inputs.x if as_stored is np.asarray else inputs.x.matrix.to_dense(), before)


def test_nothing_is_remembered_by_the_name_of_a_graph():
    model = model_of()
    graphs = [prepare(model, graph_of(seed)).feature_graph for seed in (0, 1)]
    assert not graphs[0].columns.equal(graphs[1].columns)


def test_similarities_are_told_from_hidden_units_after_dropout():
    model, graph = model_of(dropout=0.5), graph_of()
    inputs = prepare(model, graph)
    torch.manual_seed(0)
    actual = model.training_output(*inputs).pair_error
    torch.manual_seed(0)
    undropped = model.first(*inputs[:3], torch.relu)
    hidden = model.dropout(undropped)
    pairs = {(int(i), int(j)): S for i, j, S in zip(*inputs.pairs, inputs.similarities, strict=True)}
    torch.testing.assert_close(actual, literal_pair_error(model, hidden, pairs))
    assert not torch.isclose(actual, literal_pair_error(model, undropped, pairs))


def test_of_many_pairs_some_are_drawn_for_every_step():
    model = model_of()
    inputs = prepare(model, graph_of())
    num_pairs, whole = len(inputs.similarities), model.training_output(*inputs).pair_error
    assert model.training_output(*inputs).pair_error.equal(whole)  # few: always all of them
    model.sample.size = 7
    outputs = [model.training_output(*inputs) for _ in range(200)]
    errors = torch.stack([output.pair_error for output in outputs])
    assert len(errors.unique()) > 150
    assert all(output.logits.equal(outputs[0].logits) for output in outputs)
    spread = errors.std() / len(errors) ** 0.5
    torch.testing.assert_close(errors.mean(), whole, rtol=0, atol=4 * spread.item())
    model.sample.size = num_pairs - 1
    torch.manual_seed(0)
    drawn = model.sample(num_pairs, whole)
    torch.manual_seed(0)
    few = model.training_output(*inputs[:3], inputs.pairs[:, drawn], inputs.similarities[drawn]).pair_error
    torch.manual_seed(0)
    torch.testing.assert_close(model.training_output(*inputs).pair_error, few)


def test_as_many_pairs_a_step_as_the_authors_draw():
    assert SimPGCN(6, 4, 3).sample.size == 10_000


def test_evaluation_gives_logits_and_draws_nothing():
    model = model_of(dropout=0.5).eval()
    model.sample.size = 3
    inputs = prepare(model, graph_of())
    before = torch.get_rng_state()
    assert isinstance(model(*inputs), torch.Tensor)
    assert torch.get_rng_state().equal(before)


def test_a_step_that_draws_pairs_is_not_taken_for_an_evaluation():
    assert not SimPGCN(6, 4, 3).deterministic
    assert not SimPGCN(6, 4, 3, similarity_loss=0.0, dropout=0.5).deterministic
    assert SimPGCN(6, 4, 3, similarity_loss=0.0).deterministic


def test_without_a_similarity_loss_there_is_no_head_for_it():
    model = model_of(similarity_loss=0.0)
    assert isinstance(model.train()(*prepare(model, graph_of())), torch.Tensor)
    assert not hasattr(model, "similarity")


def test_the_head_is_trained_and_decayed_with_all_else():
    model = model_of()
    names = {name for name, _ in model.named_parameters()}
    assert {"similarity.weight", "similarity.bias"} < names
    assert [list(group) for group in model.parameter_groups()] == [["params"]]
    gradients = torch.autograd.grad(loss_of(model, prepare(model, graph_of())), list(model.parameters()))
    assert all(gradient.abs().max() > 0 for gradient in gradients)


@pytest.mark.parametrize("num_nodes", [1, 2])
def test_few_nodes_have_few_pairs(num_nodes):
    graph = Graph(np.ones((num_nodes, 6)), np.zeros((2, 0), int), np.zeros(num_nodes, int))
    model = model_of()
    output = model.training_output(*prepare(model, graph))
    assert (output.pair_error == 0) == (num_nodes == 1)
    assert output.logits.isfinite().all()


def test_where_parameters_start():
    torch.manual_seed(0)
    model = SimPGCN(1000, 50, 3, gate_bias=2.0)
    for layer, (rows, columns) in ((model.first, (1000, 50)), (model.second, (50, 3))):
        weight, gates = layer.weight.split([columns, 2], dim=1)
        bound = (6 / (rows + columns)) ** 0.5
        assert 0.9 * bound < weight.abs().max() <= bound
        assert 0.9 < gates.abs().max() <= 1
        assert gates.min() < -0.8
        assert (layer.bias == 0).all()
        assert layer.gate_bias.tolist() == [2, 0]


def stacked(number, **options):
    models = [randomise(SimPGCN(6, 4, 3, num_similar=3, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


def apart(stacked):
    return [dict(zip(stacked, values, strict=True)) for values in zip(*stacked.values(), strict=True)]


@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_replicas_equal_a_loop_over_models(as_stored):
    models, states = stacked(3)
    inputs = prepare(models[0], graph_of(words=True, as_stored=as_stored))

    def both(state):
        own = {f"model.{name}": value for name, value in state.items()}
        return functional_call(TrainingOutput(models[0]), own, inputs)

    def joined(output):
        return torch.cat([output.logits.flatten(), output.pair_error[None]])

    loop = torch.stack([joined(both(state)) for state in apart(states)])
    assert_same(vmap(lambda state: joined(both(state)))(states), loop, list(states.values()))

    def gradient(state):
        return grad(lambda own: joined(both(own)).sin().sum())(state)

    inside, alone = vmap(gradient)(states), [gradient(state) for state in apart(states)]
    for name, value in inside.items():
        torch.testing.assert_close(value, torch.stack([one[name] for one in alone]), rtol=0, atol=1e-9)


def test_replicas_drop_and_draw_what_they_would_alone():
    models, _ = stacked(3, dropout=0.5)
    inputs = prepare(models[0], graph_of())
    for model in models:
        model.sample.size = 7
    assert_replicas_draw_as_alone(models, lambda model: model.loss(model.training_output(*inputs), LABELS, TRAINED))


@pytest.mark.parametrize("own_pairs", [False, True])
def test_differences_and_their_gradients(own_pairs):
    """Also of a node with itself, of a pair twice, and of each replica's own pairs."""
    h = noise(2, 6, 4)
    pairs = torch.tensor([[[0, 1, 3, 1, 5], [2, 4, 3, 4, 0]], [[4, 4, 2, 2, 1], [0, 1, 5, 5, 1]]])
    pairs = pairs if own_pairs else pairs[0]
    expected = torch.stack([rows[i] - rows[j] for rows, (i, j) in zip(h, pairs.expand(2, 2, 5), strict=True)])
    call = vmap(lambda own, rows: _Differences.apply(own, 6, False, rows), in_dims=(0 if own_pairs else None, 0))
    assert_same(call(pairs, h), expected, [h])


def test_features_on_disk_are_refused(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 6), np.float32))
    graph = Graph(np.load(tmp_path / "x.npy", mmap_mode="r"), np.zeros((2, 0), int), np.zeros(3, int))
    with pytest.raises(DataError, match="needed in memory"):
        SimPGCN(6, 4, 3).prepare(graph)


def test_normalisation_takes_the_sums_of_rows_on_both_sides():
    matrix = np.array([[0, 1.0, 3.0], [0.5, 0, 0], [0, 0, 0]])
    operator = divided_by_degrees(sparse.csr_array(matrix), torch.float64, symmetric=False)
    actual = operator.matrix.to_dense().numpy()
    expected = np.zeros((3, 3))
    for i, j in np.ndindex(3, 3):
        sums = matrix[i].sum(), matrix[j].sum()
        expected[i, j] = matrix[i, j] / math.sqrt(sums[0] * sums[1]) if min(sums) > 0 else 0
    np.testing.assert_allclose(actual, expected)
