"""The non-local step alone: properties 2 and 4 to 8 of the method, its options, and several graphs at once."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import reference
from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.nn import NonLocal, RandomOrder, ScoreOrder, SortedConv
from nn_samples import NonLocalStep, assert_same, noise, randomise, seeds

kernel_sizes = st.sampled_from([1, 3, 5, 7])


def convs_of(aggregation):
    return [module for module in aggregation.convs if isinstance(module, nn.Conv1d)]


def by_reference(aggregation, z):
    c, b = aggregation.score.weight[0], aggregation.score.bias
    a = reference.scores(z, c) if b is None else reference.scores(z, c, b)
    factors = reference.standardised(a) if aggregation.order.standardise else a
    if not aggregation.order.multiply:
        factors = torch.ones_like(factors)
    pi = reference.order(a) if type(aggregation.order) is ScoreOrder else aggregation.sort_order(z)[1].tolist()
    return reference.aggregate(z, factors, pi, [(conv.weight, conv.bias) for conv in convs_of(aggregation)])


@given(st.integers(1, 9), kernel_sizes, st.integers(1, 3), st.booleans(), st.booleans(), seeds)
def test_equals_the_reference(num_nodes, kernel_size, num_convs, score_bias, standardise, seed):
    aggregation = randomise(
        NonLocalStep(
            3, kernel_size=kernel_size, num_convs=num_convs, score_bias=score_bias, standardise_score=standardise
        ),
        seed,
    )
    z = noise(num_nodes, 3, seed=seed)
    if standardise and num_nodes == 1:  # its one score is its mean, and the root has no gradient there
        torch.testing.assert_close(aggregation(z), by_reference(aggregation, z))
    else:
        assert_same(aggregation(z), by_reference(aggregation, z), [z, *aggregation.parameters()], tolerance=1e-8)


@given(st.integers(1, 9), seeds)
def test_identity_convolutions_give_score_times_embedding_in_node_order(num_nodes, seed):
    """Property 2: what is sorted comes back to its place."""
    aggregation, z = randomise(NonLocalStep(3)), noise(num_nodes, 3, seed=seed)
    aggregation.convs[1] = nn.Identity()  # in place of the ReLU
    for conv in convs_of(aggregation):
        conv.bias.data.zero_()
        conv.weight.data.zero_()
        conv.weight.data[:, :, 2] = torch.eye(3)
    torch.testing.assert_close(aggregation(z), z @ aggregation.score.weight.t() * z)


def test_kernel_1_mixes_nothing():
    """Property 3, of the aggregation."""
    assert positions_reached(NonLocalStep(3, kernel_size=1), 12) == {0}


@pytest.mark.parametrize("kernel_size", [3, 5, 7])
@pytest.mark.parametrize("num_convs", [1, 2])
def test_a_node_reaches_as_far_as_the_convolutions_do(kernel_size, num_convs):
    """Property 4: half a kernel a convolution, so k - 1 positions to each side for two of them."""
    reach = num_convs * (kernel_size - 1) // 2
    reached = positions_reached(NonLocalStep(3, kernel_size=kernel_size, num_convs=num_convs), 30)
    assert reached == set(range(-reach, reach + 1))


def positions_reached(aggregation, num_nodes):
    """At which distances in the order some node changes when another is moved so that its score stays the same."""
    aggregation, z, reached = randomise(aggregation), noise(num_nodes, 3).detach(), set()
    aggregation.score.weight.data = torch.tensor([[1.0, 0.0, 0.0]]).double()
    before, position = aggregation(z), z[:, 0].argsort().argsort()
    for u in range(num_nodes):
        moved = z.clone()
        moved[u, 1:] += 1  # what the score does not look at
        changed = (aggregation(moved) != before).any(1)
        reached |= set((position[changed] - position[u]).tolist())
    return reached


@given(st.integers(1, 12), st.sampled_from([3, 5]), seeds)
def test_sign_symmetry(num_nodes, kernel_size, seed):
    """Property 5: the opposite score reads the sequence backwards, with the opposite factor."""
    aggregation, z = randomise(NonLocalStep(3, kernel_size=kernel_size)), noise(num_nodes, 3, seed=seed)
    before = aggregation(z)
    first, second = convs_of(aggregation)
    aggregation.score.weight.data *= -1
    first.weight.data = -first.weight.data.flip(2)
    second.weight.data = second.weight.data.flip(2)
    torch.testing.assert_close(aggregation(z), before)


@pytest.mark.parametrize("multiply_score", [True, False])
def test_the_score_learns_through_the_product_alone(multiply_score):
    """Property 6: without the product (equation 5) the score gets no gradient."""
    aggregation = randomise(NonLocalStep(3, multiply_score=multiply_score))
    aggregation(noise(9, 3)).square().sum().backward()
    gradient = aggregation.score.weight.grad
    assert gradient.abs().min() > 0 if multiply_score else gradient is None


def test_without_the_product_it_is_equation_5():
    aggregation, z = randomise(NonLocalStep(3, multiply_score=False)), noise(9, 3)
    assert_same(aggregation(z), by_reference(aggregation, z), [z, *aggregation.convs.parameters()])


@pytest.mark.parametrize("num_nodes", [1, 2, 4])
def test_fewer_nodes_than_the_kernel_is_wide(num_nodes):
    """Property 7."""
    assert NonLocalStep(3, kernel_size=7)(torch.randn(num_nodes, 3)).shape == (num_nodes, 3)


def test_zero_embeddings_differ_at_the_ends_only():
    """Property 8: of a sequence of zeros only the padding is seen."""
    aggregation = randomise(NonLocalStep(3, kernel_size=5))
    nn.init.ones_(convs_of(aggregation)[0].bias)  # else ReLU may leave nothing that the ends could lack
    mixed = aggregation(torch.zeros(12, 3).double())
    torch.testing.assert_close(mixed[4:-4], mixed[4:5].expand(4, -1))
    assert not torch.allclose(mixed[0], mixed[4])
    assert not torch.allclose(mixed[-1], mixed[4])


def test_ties_are_broken_by_node_number():
    aggregation = NonLocalStep(1)
    z = torch.randint(3, (1000, 1), generator=torch.Generator().manual_seed(0)).float()  # many ties
    aggregation.score.weight.data.fill_(1.0)
    scores, order = aggregation.sort_order(z)
    assert order.tolist() == sorted(range(1000), key=lambda v: (scores[v].item(), v))


@pytest.mark.parametrize("standardise", [False, True])
def test_graphs_in_a_batch_stay_apart(standardise):
    aggregation = randomise(NonLocalStep(3, standardise_score=standardise))
    z, batch = noise(9, 3), torch.tensor([3, 0, 0, 1, 0, 3, 1, 0, 3])  # unsorted, and graph 2 has no nodes
    alone = torch.zeros_like(z)
    for graph in (0, 1, 3):
        nodes = (batch == graph).nonzero()[:, 0]
        alone = alone.index_put((nodes,), aggregation(z[nodes]))
    assert_same(aggregation(z, batch), alone, [z, *aggregation.parameters()])
    assert not torch.allclose(aggregation(z, batch), aggregation(z))


def test_random_order_is_one_order_and_ignores_the_scores():
    aggregation = randomise(NonLocalStep(3, order="random"))
    z = noise(20, 3)
    order = aggregation.sort_order(z)[1]
    torch.manual_seed(5)
    assert torch.equal(aggregation.sort_order(noise(20, 3, seed=1))[1], order)
    assert sorted(order.tolist()) == list(range(20))
    assert order.tolist() not in ([*range(20)], reference.order(reference.scores(z, aggregation.score.weight[0])))
    assert_same(aggregation(z), by_reference(aggregation, z), [z, *aggregation.parameters()])


@pytest.mark.parametrize("order", ["score", "random"])
def test_replicas_under_vmap_equal_each_alone(order):
    replicas = [randomise(NonLocalStep(3, order=order, standardise_score=True), seed) for seed in range(3)]
    parameters, _ = torch.func.stack_module_state(replicas)
    z = noise(3, 8, 3)

    def forward(parameters, z):
        return torch.func.functional_call(replicas[0], parameters, (z,))

    together = torch.func.vmap(forward, randomness="different")(parameters, z)
    assert_same(together, torch.stack([one(part) for one, part in zip(replicas, z, strict=True)]), [z])


def test_score_and_convolutions_are_replaceable_and_left_as_they_are():
    score, convs = nn.Sequential(nn.Linear(3, 1), nn.Tanh()), nn.Conv1d(3, 3, 3, padding=1)
    before = [parameter.clone() for parameter in (*score.parameters(), *convs.parameters())]
    aggregation = NonLocalStep(3, score=score, convs=convs)
    after = list(aggregation.parameters())
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    randomise(aggregation)
    z = noise(6, 3)
    a = score(z)[:, 0]
    expected = reference.aggregate(z, a, reference.order(a), [(convs.weight, convs.bias)])
    assert_same(aggregation(z), expected, [z, *aggregation.parameters()])


def test_parameters_are_drawn_anew_in_replaced_modules_too():
    aggregation = NonLocalStep(3, score=nn.Sequential(nn.Linear(3, 1), nn.Tanh()), convs=nn.Conv1d(3, 3, 1))
    before = [parameter.clone() for parameter in aggregation.parameters()]
    aggregation.reset_parameters()
    assert not any(torch.equal(one, other) for one, other in zip(before, aggregation.parameters(), strict=True))


def test_a_score_may_be_a_vector():
    class Norm(nn.Module):
        def forward(self, z):
            return z.norm(dim=1)

    aggregation, z = NonLocalStep(3, score=Norm(), convs=nn.Identity()).double(), noise(6, 3)
    torch.testing.assert_close(aggregation(z), z.norm(dim=1, keepdim=True) * z)


def test_equal_scores_standardised_have_finite_gradients():
    aggregation = NonLocalStep(3, standardise_score=True)
    z = torch.ones(5, 3, requires_grad=True)
    aggregation(z).sum().backward()
    assert z.grad.isfinite().all()
    assert aggregation.score.weight.grad.isfinite().all()


def test_zero_init_gives_zeros_and_still_learns():
    aggregation = NonLocalStep(3, zero_init=True)
    for _ in range(2):
        mixed = aggregation(torch.randn(6, 3))
        assert not mixed.any()
        mixed.sum().backward()
        assert convs_of(aggregation)[1].weight.grad.any()
        assert convs_of(aggregation)[0].weight.any()
        aggregation.reset_parameters()


@pytest.mark.usefixtures("as_users_run_it")
@each_of(
    ("options", "message"),
    [
        ({"kernel_size": 4}, "kernel_size=4: a window needs a middle, so give an odd number"),
        ({"kernel_size": 0}, "kernel_size=0"),
        ({"kernel_size": -3}, "kernel_size=-3"),
        ({"channels": 0}, "channels=0"),
        ({"num_convs": 0}, "num_convs=0"),
        ({"dropout": 1.0}, "dropout=1.0"),
        ({"zero_init": True, "convs": nn.Identity()}, "convs has no Conv1d"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        SortedConv(**{"channels": 3, **options})


@pytest.mark.usefixtures("as_users_run_it")
def test_an_unknown_order_is_refused():
    with pytest.raises(OptionError, match="order='sideways'"):
        NonLocal(nn.Linear(3, 3), 3, 2, order="sideways")


def test_a_foreign_part_cannot_be_stacked():
    assert ScoreOrder(3).stackable
    assert RandomOrder(3).stackable
    assert not ScoreOrder(3, score=nn.Linear(3, 1)).stackable
    assert SortedConv(3).stackable
    assert not SortedConv(3, convs=nn.Conv1d(3, 3, 1)).stackable
