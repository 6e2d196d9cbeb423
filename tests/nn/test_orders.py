"""LearnedOrder, and the models that sort or vote by it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from order_samples import CLASSES, NODES, random_graph, some_known
from torch import Tensor
from torch.nn import functional as F

from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import GCN, MLP, NLMLP, LearnedOrder, Model, NeighbourVote, NonLocal, Operator
from nlgnn.nn.base import prepare
from nlgnn.nn.kernels.sorted_conv import stable_order
from nlgnn.nn.kernels.sparse import spmm
from nlgnn.nn.neighbour_vote import SHARES
from nlgnn.nn.versions import VoteVersion
from nlgnn.training.loop import evaluate
from nn_samples import assert_same, noise


def literal_votes(order: LearnedOrder, e: Tensor, local: Tensor, known: Tensor) -> Tensor:
    """Node by node, as the equations say."""
    keys, temperature = order.keys(e), order.log_temperature.exp()
    places = [stable_order(row).argsort() for row in keys]
    rows = []
    for v in range(len(e)):
        votes, weights = torch.zeros(CLASSES, dtype=e.dtype), torch.zeros((), dtype=e.dtype)
        for u in range(len(e)):
            near = any(abs(int(place[v] - place[u])) <= order.radius for place in places)
            if u != v and near and known[u] >= 0:
                weight = torch.exp(-temperature * (e[v] - e[u]).square().sum())
                label = F.one_hot(known[u], CLASSES).to(e.dtype)
                votes = votes + weight * (label - local[u].softmax(0))
                weights = weights + weight
        rows.append(order.log_strength.exp() * votes / (order.shrinkage + weights))
    return torch.stack(rows)


@pytest.mark.parametrize("random", [False, True])
def test_votes_are_those_of_the_equations(random):
    graph = random_graph()
    order = LearnedOrder(4, dim=3, projections=2, radius=4, random=random).double().eval()
    x, local = torch.from_numpy(graph.x).double(), noise(NODES, CLASSES).detach()
    order.choose_scale(x)
    e = order.positions(x)
    actual, expected = (one(e, local, some_known(graph)) for one in (order.votes, lambda *a: literal_votes(order, *a)))
    assert_same(actual, expected, [order.weight, order.log_temperature, order.log_strength])


def test_the_loss_is_that_of_the_equations():
    """Weak votes teach metric and temperature; how strong they are is learned apart from that."""
    graph, nodes = random_graph(), torch.arange(0, NODES, 2)
    order = LearnedOrder(4, dim=3, projections=2, radius=4).double().eval()  # the same orders always
    x, y, local = torch.from_numpy(graph.x).double(), torch.from_numpy(graph.y), noise(NODES, CLASSES).detach()
    order.choose_scale(x)
    order.log_strength.data.fill_(0.7)
    e, strength = order.positions(x), order.log_strength.exp()
    votes = literal_votes(order, e, local, some_known(graph))
    actual = order.loss(e, local, y, nodes)
    said = votes / strength.detach()
    weak, strong = local + 0.1 * said, local + strength * said.detach()
    expected = F.cross_entropy(weak[nodes], y[nodes]) + F.cross_entropy(strong[nodes], y[nodes])
    learned = [order.weight, order.log_temperature]
    assert_same(actual, expected, learned)
    gradient = torch.autograd.grad(order.loss(e, local, y, nodes), order.log_strength)
    alone = torch.autograd.grad(F.cross_entropy(strong[nodes], y[nodes]), order.log_strength)
    torch.testing.assert_close(gradient, alone)


def test_no_node_hears_of_its_own_label():
    """To the last digit: the node's own label is flipped, and its own vote stays; others' change."""
    graph = random_graph()
    order = LearnedOrder(4).double().eval()
    x, local, known = torch.from_numpy(graph.x).double(), noise(NODES, CLASSES).detach(), some_known(graph)
    order.choose_scale(x)
    before = order.votes(order.positions(x), local, known)
    for node in range(0, NODES, 2):
        flipped = known.clone()
        flipped[node] = (known[node] + 1) % CLASSES
        after = order.votes(order.positions(x), local, flipped)
        assert after[node].equal(before[node])
        assert not after.equal(before)


def test_unknown_labels_say_nothing():
    graph = random_graph()
    order = LearnedOrder(4).double().eval()
    x, local = torch.from_numpy(graph.x).double(), noise(NODES, CLASSES).detach()
    silent = order.votes(order.positions(x), local, torch.full((NODES,), -1))
    assert silent.equal(torch.zeros(NODES, CLASSES, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.half, torch.bfloat16])
@pytest.mark.parametrize("votes", [True, False])
def test_half_precision_learns_too(dtype, votes):
    graph = random_graph()
    x, y = torch.from_numpy(graph.x * 1e-2).to(dtype), torch.from_numpy(graph.y)
    model = model_of(random_graph(), votes=votes).to(dtype)
    model.start((x, None), y)
    space = model.space if votes else model.order
    assert space.scale.isfinite().all()
    model.loss(model.training_output(x, None), y, torch.arange(NODES)).backward()
    assert space.weight.grad.abs().max() > 0


def test_what_is_no_number_is_for_the_loss_to_tell():
    order = LearnedOrder(4)
    assert order.principal_keys(torch.full((5, 16), torch.nan)).isnan().all()


def test_directions_are_drawn_anew_in_training_and_fixed_in_evaluation():
    order = LearnedOrder(4)
    e = order.positions(torch.from_numpy(random_graph().x))
    assert not order.keys(e).equal(order.keys(e))
    order.eval()
    assert order.keys(e).equal(order.keys(e))


def test_the_principal_order_is_that_of_the_first_principal_component():
    order = LearnedOrder(4).double().eval()
    e = order.positions(torch.from_numpy(random_graph().x).double()).detach()
    first = torch.linalg.svd(e - e.mean(0)).Vh[0]
    keys = order.principal_keys(e)
    torch.testing.assert_close(keys.abs(), ((e - e.mean(0)) @ first).abs())


def model_of(graph: Graph, local_class: type[Model] = MLP, votes: bool = True, **options) -> NeighbourVote | NonLocal:
    torch.manual_seed(0)
    if votes:
        model = VoteVersion.around(local_class)(4, 6, CLASSES, num_nodes=NODES, **options).double()
    else:
        model = NLMLP(4, 6, CLASSES, order="learned", **options).double()
    model.start(prepare(model, graph), some_known(graph))
    return model


def test_with_a_share_of_nothing_the_model_is_its_local_part():
    graph = random_graph()
    model = model_of(graph)
    inputs = prepare(model, graph)
    model.choose(SHARES.index(0.0))
    assert evaluate(model, inputs).equal(evaluate(model.local, inputs))
    model.choose(SHARES.index(2.0))
    assert not evaluate(model, inputs).equal(evaluate(model.local, inputs))


def test_every_answer_is_what_the_model_says_with_it():
    graph = random_graph()
    model = model_of(graph).eval()
    inputs = prepare(model, graph)
    with torch.no_grad():
        answers = model.candidates(*inputs)
    assert len(answers) == len(SHARES)
    for number, answer in enumerate(answers):
        model.choose(number)
        torch.testing.assert_close(evaluate(model, inputs), answer)


def test_the_loss_sees_training_labels_only():
    graph = random_graph()
    model = model_of(graph, dropout=0.5)
    nodes = torch.arange(0, NODES, 2)
    losses = []
    for change in (0, 1):
        y = torch.from_numpy(graph.y.copy())
        y[1::2] = (y[1::2] + change) % CLASSES
        torch.manual_seed(3)
        losses.append(model.loss(model.training_output(*prepare(model, graph)), y, nodes))
    assert losses[0].equal(losses[1])


def test_the_local_part_learns_from_its_own_loss_alone():
    """Votes teach the metric; what they say of training nodes must not teach the local model."""
    graph = random_graph()
    model = model_of(graph)
    y, nodes = torch.from_numpy(graph.y), torch.arange(0, NODES, 2)
    inputs = prepare(model, graph)
    gradient = torch.autograd.grad(model.loss(model.training_output(*inputs), y, nodes), list(model.local.parameters()))
    alone = torch.autograd.grad(F.cross_entropy(model.local(*inputs)[nodes], y[nodes]), list(model.local.parameters()))
    for one, other in zip(gradient, alone, strict=True):
        torch.testing.assert_close(one, other)


def test_residuals_are_those_of_evaluation():
    graph = random_graph()
    model = model_of(graph, dropout=0.5)
    inputs = prepare(model, graph)
    assert model.training_output(*inputs).quiet.equal(evaluate(model.local, inputs))
    model.train()
    model.training_output(*inputs)
    assert all(module.training for module in model.modules())
    model.local.eval()  # frozen, it stays so
    model.training_output(*inputs)
    assert not any(module.training for module in model.local.modules())


def test_adjacency_rows_as_input_of_the_metric():
    graph = random_graph()
    model = model_of(graph, GCN, space_input="adjacency")
    inputs = prepare(model, graph)
    expected = torch.from_numpy(graph.undirected_adjacency.toarray()).double() @ (
        model.space.scale * model.space.weight
    )
    torch.testing.assert_close(model.positions(*inputs), expected - expected.mean(0))
    assert isinstance(inputs[2], Operator)


def test_convolution_along_the_learned_order():
    """Blockwise: the model's order is the principal one, and nodes nearer in it are mixed."""
    graph = random_graph()
    model = model_of(graph, votes=False).eval()
    inputs = prepare(model, graph)
    scores, order = model.sort_order(*inputs)
    assert scores[order].equal(scores.sort().values)
    z = model.local(*inputs)
    expected = torch.empty_like(z)
    expected[order] = model.mixer.convs(z[order])
    logits = model.head(torch.cat([z, expected], dim=1))
    torch.testing.assert_close(model(*inputs), logits)


@pytest.mark.usefixtures("as_users_run_it")
@each_of("model_class", [NLMLP, VoteVersion.around(MLP)])
@each_of(
    ("options", "message"),
    [
        ({"space_dim": 0}, "space_dim=0"),
        ({"space_radius": 0}, "space_radius=0"),
        ({"space_projections": 65}, "space_projections=65"),
        ({"space_perplexity": 1.0}, "space_perplexity=1.0"),
        ({"space_perplexity": 64.0}, "64 neighbours"),
        ({"space_shrinkage": 0.0}, "space_shrinkage=0.0"),
        ({"space_input": "adjacenci"}, "space_input='adjacenci'"),
        ({"space_lr": 0.0}, "space_lr=0.0"),
        ({"space_dims": 3}, "Did you mean 'space_dim'"),
        ({"order": "metric"}, "order='metric'"),
    ],
)
def test_impossible_options_are_refused(model_class, options, message):
    with pytest.raises(OptionError, match=message):
        model_class(4, 6, CLASSES, num_nodes=NODES, **{"order": "learned", **options})


@pytest.mark.usefixtures("as_users_run_it")
def test_a_learned_order_reads_the_embedding_as_logits():
    with pytest.raises(OptionError, match="as logits"):
        NLMLP(4, 6, CLASSES, order="learned", embedding_channels=7)


@pytest.mark.parametrize(("votes", "times"), [("labels", 1), ("residuals", 2)])
def test_a_step_embeds_again_without_dropout_only_for_residuals(votes, times):
    graph = random_graph()
    model = model_of(graph, dropout=0.5).train()
    model.space.votes_labels = votes == "labels"
    seen = []
    model.local.register_forward_hook(lambda *_: seen.append(model.local.training))
    model.training_output(*prepare(model, graph))
    assert seen == [True, False][:times]


@pytest.mark.parametrize("votes", [True, False])
def test_a_frozen_space_is_not_trained(votes):
    graph = random_graph()
    model = model_of(graph, votes=votes, frozen=True)
    space = model.space if votes else model.order
    loss = model.loss(model.training_output(*prepare(model, graph)), torch.from_numpy(graph.y), torch.arange(NODES))
    loss.backward()
    assert space.weight.grad is None
    assert space.log_temperature.grad is not None


def test_a_space_has_its_own_learning_rate_and_no_decay():
    model = model_of(random_graph(), space_lr=0.3)
    of_space = next(group for group in model.parameter_groups() if group["params"] == [model.space.weight])
    assert (of_space["lr"], of_space["weight_decay"]) == (0.3, 0.0)
    decayed = [one for group in model.parameter_groups() if "weight_decay" not in group for one in group["params"]]
    assert {id(one) for one in decayed} == {id(one) for one in model.local.parameters()}


@pytest.mark.usefixtures("as_users_run_it")
def test_adjacency_rows_need_the_number_of_nodes():
    with pytest.raises(OptionError, match="needs the number of nodes"):
        NLMLP(4, 6, CLASSES, order="learned", space_input="adjacency")


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("known", [torch.ones(NODES, dtype=torch.bool), torch.tensor([2]), torch.zeros(NODES)])
def test_what_are_no_labels_is_refused(known):
    """Such as a mask, with which all nodes would vote."""
    graph = random_graph()
    model = model_of(graph)
    with pytest.raises(DataError, match="60 labels as whole numbers"):
        model.start(prepare(model, graph), known)


def test_adjacency_rows_have_the_weights_of_edges():
    graph = random_graph()
    weights = np.random.default_rng(1).random(graph.edge_index.shape[1]).astype(np.float32)
    weighted = Graph(graph.x, graph.edge_index, graph.y, edge_weight=weights)
    model = model_of(graph, space_input="adjacency")
    rows = model.prepare(weighted)[2]
    np.testing.assert_allclose(spmm(rows, torch.eye(NODES)).numpy(), weighted.undirected_weights.toarray())


def test_another_graph_is_refused():
    graph = random_graph()
    model = model_of(graph)
    with pytest.raises(DataError, match="learned from 60 nodes"):
        evaluate(model, (torch.randn(NODES + 1, 4).double(), None))


def test_the_order_of_random_votes_is_one_that_they_hear_along():
    graph = random_graph()
    model = VoteVersion.around(MLP)(4, 8, CLASSES, order="random", num_nodes=NODES).eval()
    inputs = prepare(model, graph)
    e = model.positions(*inputs)
    assert torch.equal(model.sort_order(*inputs)[1], stable_order(model.space.keys(e)[0]))
    other = random_graph(1)
    assert torch.equal(model.sort_order(*inputs)[1], model.sort_order(*prepare(model, other))[1])  # whatever x is
