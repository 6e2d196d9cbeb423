import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import functional_call, grad, stack_module_state, vmap
from torch_geometric.nn import ChebConv

from nlgnn.datasets.load import load_graph
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import random_split
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.cpgcn import CPGCN, estimate_compatibility, scaled_laplacian
from nlgnn.nn.inputs import move, undirected_edges
from nlgnn.nn.kernels.sparse import Operator
from nn_samples import assert_same, noise, random_operator, randomise, seeds

PRIORS = ["mlp", "cheby"]
graphs = given(st.integers(1, 9), st.integers(0, 30), st.sampled_from(PRIORS), st.integers(1, 3), seeds)


def random_graph(num_nodes=9, num_edges=20, num_classes=3, seed=0):
    """Directed, with loops and repetitions; the last of several nodes is isolated."""
    rng = np.random.default_rng(seed)
    edges = rng.integers(max(1, num_nodes - 1), size=(2, num_edges))
    y = rng.permutation(np.arange(num_nodes) % num_classes)
    return Graph(rng.standard_normal((num_nodes, 5)), edges, y, class_names=[str(c) for c in range(num_classes)])


def operators(graph):
    """Adjacency and scaled Laplacian in float64."""
    adjacency = graph.undirected_adjacency
    raw = Operator.from_scipy(adjacency, symmetric=True).to(torch.float64)
    return raw, scaled_laplacian(adjacency, torch.float64)


def known(graph):
    """Labels of the first half, which is in training; -1 for all others."""
    nodes = torch.arange((graph.num_nodes + 1) // 2)
    return torch.full((graph.num_nodes,), -1).index_copy(0, nodes, torch.from_numpy(graph.y)[nodes]), nodes


def literal_prior(model, x, graph):
    kernels = [list(layer.kernels) for layer in model.layers]
    if len(kernels[0]) == 1:
        return (x @ kernels[0][0]).relu() @ kernels[1][0]
    n = graph.num_nodes
    a = torch.from_numpy(graph.undirected_adjacency.toarray()).double()
    laplacian = torch.zeros(n, n).double()
    for u, v in a.nonzero().tolist():
        laplacian[u, v] = -1 / (a[u].sum() * a[v].sum()).sqrt()
    identity = torch.eye(n).double()
    polynomials = [identity, laplacian, 2 * laplacian @ laplacian - identity]

    def cheb(h, kernels):
        return sum(polynomial @ h @ kernel for polynomial, kernel in zip(polynomials, kernels, strict=True))

    return cheb(cheb(x, kernels[0]).relu(), kernels[1])


def literal_logits(model, prior, graph):
    """Node after node, neighbour after neighbour."""
    classes = prior.shape[1]
    a = graph.undirected_adjacency.toarray()
    e = prior.softmax(1) - 1 / classes
    b = e
    for _ in range(model.hops):
        rows = []
        for v in range(graph.num_nodes):
            received = sum((b[u] for u in a[v].nonzero()[0]), start=torch.zeros(classes).double())
            rows.append(e[v] + received @ model.compatibility)
        b = torch.stack(rows)
    return b + 1 / classes


@graphs
def test_it_equals_a_literal_version(num_nodes, num_edges, prior, hops, seed):
    graph, x = random_graph(num_nodes, num_edges, seed=seed), noise(num_nodes, 5, seed=seed)
    model = randomise(CPGCN(5, 4, 3, prior=prior, hops=hops), seed=seed)
    output, expected = model.training_output(x, *operators(graph)), literal_prior(model, x, graph)
    kernels = list(model.layers.parameters())
    assert_same(output.prior, expected, [x, *kernels])
    # Beliefs grow with every hop, and rounding errors with them.
    logits = literal_logits(model, expected, graph)
    size = float(logits.detach().abs().max().clamp(min=1)) ** 2
    assert_same(output.logits, logits, [x, *model.parameters()], tolerance=1e-10 * size)


@pytest.mark.parametrize("prior", PRIORS)
def test_sparse_features_equal_dense_ones(prior):
    x, dense = random_operator(9, 5, 14)
    model, edges = randomise(CPGCN(5, 4, 3, prior=prior, hops=2)), operators(random_graph())
    assert_same(
        model.training_output(x, *edges).logits, model.training_output(dense, *edges).logits, list(model.parameters())
    )


@given(st.integers(1, 9), st.integers(0, 30), seeds)
def test_the_chebyshev_prior_agrees_with_pyg(num_nodes, num_edges, seed):
    graph, x = random_graph(num_nodes, num_edges, seed=seed), noise(num_nodes, 5, seed=seed)
    model = randomise(CPGCN(5, 4, 3, prior="cheby"), seed=seed)

    def theirs(layer, x):
        wide, narrow = layer.kernels[0].shape
        convolution = ChebConv(wide, narrow, K=3, normalization="sym", bias=False).double()
        parameters = {f"lins.{term}.weight": kernel.t() for term, kernel in enumerate(layer.kernels)}
        return functional_call(convolution, parameters, (x, undirected_edges(graph)))

    expected = theirs(model.layers[1], theirs(model.layers[0], x).relu())
    assert_same(model.training_output(x, *operators(graph)).prior, expected, [x, *model.layers.parameters()])


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_inputs(prior, as_stored):
    graph = random_graph()
    stored = Graph(as_stored(graph.x), graph.edge_index, graph.y)
    model = randomise(CPGCN(5, 4, 3, prior=prior))
    prepared = prepare(model, stored)
    x = torch.from_numpy(graph.x).double()
    assert set(prepared.adjacency.values.tolist()) == {1.0}
    assert (prepared.laplacian is None) == (prior == "mlp")
    assert_same(
        model.training_output(*prepared).logits,
        model.training_output(x, *operators(graph)).logits,
        list(model.parameters()),
    )
    single = move(model.prepare(stored), torch.float32)
    assert torch.equal(single.adjacency.matrix.to_dense(), prepared.adjacency.matrix.to_dense().float())


@pytest.mark.parametrize(("cotrain", "sparse_features"), [("paper", False), ("released", True)])
@pytest.mark.parametrize("prior", PRIORS)
def test_replicas_equal_a_loop_over_models(prior, cotrain, sparse_features):
    graph = random_graph()
    models = [randomise(CPGCN(5, 4, 3, prior=prior, hops=2, cotrain=cotrain), seed=100 * number) for number in range(3)]
    stacked, y, nodes = stack_module_state(models)[0], torch.from_numpy(graph.y), torch.arange(6)
    x = random_operator(9, 5, 14)[not sparse_features]
    inputs = (x, *operators(graph))

    class Whole(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = models[0]

        def forward(self):
            output = self.model.training_output(*inputs)
            losses = [self.model.loss(output, y, nodes), self.model.pretrain_loss(output, y, nodes)]
            return output.logits, torch.stack(losses)

    def one(state):
        return functional_call(Whole(), {f"model.{name}": value for name, value in state.items()}, ())

    apart = [dict(zip(stacked, values, strict=True)) for values in zip(*stacked.values(), strict=True)]
    for together, alone in zip(vmap(one)(stacked), zip(*map(one, apart), strict=True), strict=True):
        assert_same(together, torch.stack(alone), list(stacked.values()), tolerance=1e-7)

    def gradient(state):
        return grad(lambda own: one(own)[1].sum())(state)

    inside, loop = vmap(gradient)(stacked), [gradient(state) for state in apart]
    for name, value in inside.items():
        torch.testing.assert_close(value, torch.stack([one[name] for one in loop]), rtol=0, atol=1e-8)


def test_the_adjacency_is_not_normalised():
    """A hub of which all neighbours are sure of a class hears as many of them as there are."""
    leaves = 50
    star = Graph(np.zeros((leaves + 1, 1)), np.array([[0] * leaves, range(1, leaves + 1)]), np.zeros(leaves + 1, int))
    model = randomise(CPGCN(1, 1, 2))
    model.layers[0].kernels[0].data = torch.tensor([[1.0]]).double()
    model.layers[1].kernels[0].data = torch.tensor([[1.0, -1.0]]).double()
    model.compatibility.data = torch.tensor([[0.5, -0.5], [-0.5, 0.5]]).double()
    x = torch.full((leaves + 1, 1), 100.0).double()  # the beliefs of all are 1 and 0
    logits = model.training_output(x, *operators(star)).logits
    torch.testing.assert_close(logits[0], torch.tensor([1 + leaves / 2, -leaves / 2]).double())
    torch.testing.assert_close(logits[1], torch.tensor([1.5, -0.5]).double())


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("hops", [1, 2])
def test_without_compatibility_the_prior_decides(prior, hops):
    graph = random_graph(40, 90)
    model = CPGCN(5, 4, 3, prior=prior, hops=hops)  # as it starts
    inputs = prepare(model, graph)
    output = model.training_output(*inputs)
    assert output.logits.argmax(1).equal(output.prior.argmax(1))
    torch.testing.assert_close(output.logits, output.prior.softmax(1))


@pytest.mark.parametrize("prior", PRIORS)
def test_compatibility_starts_at_zero_also_anew(prior):
    model = CPGCN(5, 4, 3, prior=prior)
    before = [kernel.clone() for kernel in model.layers.parameters()]
    model.compatibility.data.fill_(1.0)
    model.reset_parameters()
    assert model.compatibility.abs().max() == 0
    for old, new in zip(before, model.layers.parameters(), strict=True):
        assert not torch.equal(old, new)
        assert new.abs().max() <= (6 / sum(new.shape)) ** 0.5  # Glorot, each kernel by itself


def sum_of_rows(compatibility):
    return sum(abs(sum(row)) for row in compatibility.tolist())


@pytest.mark.parametrize("weight", [0.0, 1.0, 2.5])
def test_losses(weight):
    """Beliefs go into the cross entropy as they are: there is one softmax, its own."""
    graph = random_graph()
    y, nodes = known(graph)
    inputs = (noise(9, 5).detach(), *operators(graph))
    paper, released = (randomise(CPGCN(5, 4, 3, cotrain=form, cotrain_weight=weight)) for form in ("paper", "released"))
    output = paper.training_output(*inputs)

    def cross_entropy(logits):
        return -sum(logits[v, y[v]] - logits[v].exp().sum().log() for v in nodes) / len(nodes)

    final, prior, imbalance = (
        cross_entropy(output.logits),
        cross_entropy(output.prior),
        sum_of_rows(paper.compatibility),
    )
    torch.testing.assert_close(paper.pretrain_loss(output, y, nodes), prior)
    torch.testing.assert_close(paper.loss(output, y, nodes), final + weight * prior + imbalance)
    torch.testing.assert_close(released.loss(output, y, nodes), final + (1 + weight) * imbalance)
    # In evaluation there are logits only.
    logits = paper.eval()(*inputs)
    assert logits.equal(output.logits)
    for loss in (paper.loss, paper.pretrain_loss):
        torch.testing.assert_close(loss(logits, y, nodes), final)


@pytest.mark.parametrize("cotrain", ["paper", "released"])
@pytest.mark.parametrize("prior", PRIORS)
def test_pretraining_leaves_compatibility_alone_and_training_moves_all(prior, cotrain):
    graph = random_graph()
    model = randomise(CPGCN(5, 4, 3, prior=prior, cotrain=cotrain))
    output = model.training_output(noise(9, 5).detach(), *operators(graph))
    for loss, moves_compatibility in [(model.pretrain_loss, False), (model.loss, True)]:
        total = loss(output, *known(graph))
        *kernels, compatibility = torch.autograd.grad(
            total, [*model.layers.parameters(), model.compatibility], retain_graph=True, allow_unused=True
        )
        assert all(gradient.abs().max() > 1e-9 for gradient in kernels)
        assert (compatibility is not None) == moves_compatibility


def test_only_kernels_are_decayed():
    for prior, kernels in [("mlp", 2), ("cheby", 6)]:
        model = CPGCN(5, 4, 3, prior=prior)
        decayed, spared = model.parameter_groups()
        assert len(decayed["params"]) == kernels
        assert "weight_decay" not in decayed
        assert [id(parameter) for parameter in spared["params"]] == [id(model.compatibility)]
        assert spared["weight_decay"] == 0
        assert len(list(model.parameters())) == kernels + 1


def pretrained(prior="mlp", dropout=0.0, seed=0):
    """After pre-training, as the trainer leaves it; compatibility is not yet set."""
    model = randomise(CPGCN(5, 4, 3, prior=prior, dropout=dropout), seed=seed).eval()
    model.compatibility.data.zero_()
    return model


@pytest.mark.parametrize("prior", PRIORS)
def test_after_pretraining_compatibility_is_estimated(prior):
    graph, model = random_graph(30, 60), pretrained(prior, dropout=0.5)
    inputs, (y, nodes) = prepare(model, graph), known(graph)
    kernels, place = [kernel.clone() for kernel in model.layers.parameters()], model.compatibility.data_ptr()
    with torch.no_grad():
        model.end_pretraining(inputs, y, nodes)
        beliefs = literal_prior(model, inputs.x, graph).softmax(1)
    expected = estimate_compatibility(beliefs, inputs.adjacency, y, nodes)
    torch.testing.assert_close(model.compatibility.detach(), expected, rtol=0, atol=1e-9)
    assert expected.abs().max() > 0.01
    assert sum_of_rows(model.compatibility) < 1e-6
    # Into the same memory, which others look at too; and nothing else.
    assert model.compatibility.data_ptr() == place
    assert all(map(torch.equal, kernels, model.layers.parameters()))


def test_labels_outside_of_training_do_not_change_compatibility():
    graph, models = random_graph(30, 60), [pretrained(), pretrained()]
    inputs, (y, nodes) = prepare(models[0], graph), known(graph)
    other = (torch.from_numpy(graph.y) + 1) % 3
    with torch.no_grad():
        models[0].end_pretraining(inputs, y, nodes)
        models[1].end_pretraining(inputs, other.index_copy(0, nodes, y[nodes]), nodes)
    assert models[0].compatibility.equal(models[1].compatibility)


@pytest.mark.parametrize(("num_edges", "num_classes"), [(0, 3), (20, 1)])
def test_without_edges_or_choice_compatibility_stays_zero(num_edges, num_classes):
    graph = random_graph(9, num_edges, num_classes)
    model = CPGCN(5, 4, num_classes).eval()
    with torch.no_grad():
        model.end_pretraining(prepare(model, graph), *known(graph))
    assert model.compatibility.abs().max() < 1e-7


@pytest.mark.parametrize("prior", PRIORS)
def test_dropout_of_hidden_units_in_training_only(prior):
    model = CPGCN(1, 64, 2, prior=prior, dropout=0.5)
    for kernels in (layer.kernels for layer in model.layers):
        for term, kernel in enumerate(kernels):
            kernel.data.fill_(float(term == 0))
    x, edges = torch.ones(200, 1), prepare(model, random_graph(200, 100))[1:]
    sums = model.training_output(x, *edges).prior[:, 0].detach()
    assert {float(value) % 2 for value in sums} == {0.0}  # whole units, each of them doubled
    assert 10 < len(set(sums.tolist())) < 65
    assert abs(float(sums.mean()) - 64) < 3
    assert not model.deterministic
    assert torch.equal(model.eval().prior(x, edges[1]), torch.full((200, 2), 64.0))
    assert CPGCN(1, 4, 2, prior=prior).deterministic


@pytest.mark.usefixtures("data_root")
@pytest.mark.parametrize("prior", PRIORS)
def test_hubs_of_squirrel_do_not_overflow(prior):
    """A node of 1903 neighbours, two hops, float32: beliefs grow large, and stay numbers."""
    graph = load_graph("squirrel").scale_features("unit-sum")
    torch.manual_seed(0)
    model = CPGCN(graph.x.shape[1], 16, graph.num_classes, prior=prior, hops=2)
    inputs = prepare(model, graph)
    assert int(inputs.adjacency.pointers.diff().max()) == 1903
    split, y = random_split(graph.y, "random-60", 0), torch.from_numpy(graph.y)
    nodes = torch.from_numpy(split.train.nonzero()[0])
    for loss_of in (model.pretrain_loss, model.loss):
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        losses = []
        for _ in range(10):
            optimiser.zero_grad()
            loss = loss_of(model.training_output(*inputs), y, nodes)
            loss.backward()
            optimiser.step()
            losses.append(float(loss.detach()))
        assert np.isfinite(losses).all()
        assert all(parameter.isfinite().all() for parameter in model.parameters())
        with torch.no_grad():
            model.end_pretraining(inputs, y, nodes)
