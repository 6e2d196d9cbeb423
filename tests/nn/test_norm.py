import pytest
import torch
from torch.func import functional_call, vmap

import reference
from nlgnn.nn import GCN, MLP, NonLocal
from nlgnn.nn.base import storing_statistics
from nlgnn.nn.layers import divided_by_length
from nlgnn.nn.norm import BatchNorm
from nlgnn.training.loop import can_be_stacked
from nn_samples import assert_same, noise, random_edges, randomise


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_training_equals_the_equation_and_torch(rows):
    norm, h = randomise(BatchNorm(3)), noise(rows, 3)
    assert_same(norm(h), reference.batch_norm(h, norm.weight, norm.bias), [h, norm.weight, norm.bias])
    if rows > 1:  # torch refuses one row
        theirs = torch.nn.functional.batch_norm(h, None, None, norm.weight, norm.bias, training=True)
        assert_same(norm(h), theirs, [h, norm.weight, norm.bias])


def test_a_mean_far_from_zero_does_not_lose_the_variance():
    """In float32, a mean of squares minus a squared mean would leave nothing of a variance of 1."""
    h = torch.randn(1000, 2) + 1e4
    norm = BatchNorm(2)
    torch.testing.assert_close(norm(h).double().std(0, correction=0), torch.ones(2).double(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("shared", [False, True])
def test_replicas_equal_each_alone(shared):
    norms, h = [randomise(BatchNorm(3), seed) for seed in range(4)], noise(5, 3) if shared else noise(4, 5, 3)
    state = {
        name: torch.stack([norm.get_parameter(name).detach() for norm in norms]).requires_grad_(
            name in ("weight", "bias")
        )
        for name, _ in norms[0].named_parameters()
    }
    together = vmap(lambda own, rows: functional_call(norms[0], own, (rows,)), in_dims=(0, None if shared else 0))(
        state, h
    )
    alone = torch.stack(
        [
            functional_call(norms[0], {name: value[r] for name, value in state.items()}, (h if shared else h[r],))
            for r in range(4)
        ]
    )
    assert_same(together, alone, [h, state["weight"], state["bias"]])


def test_evaluation_uses_the_rows_at_hand_until_statistics_are_stored():
    norm, h, other = randomise(BatchNorm(3)), noise(9, 3).detach(), noise(4, 3, seed=1).detach()
    in_training = norm(h)
    norm.eval()
    assert norm(h).equal(in_training)
    with torch.no_grad(), storing_statistics(norm):
        assert norm(h).equal(in_training)
    assert norm(h).equal(in_training)
    both = norm(torch.cat([h, other]))
    assert both[:9].equal(in_training)  # other rows do not change them
    assert not norm.train()(torch.cat([h, other]))[:9].equal(in_training)


def test_stored_statistics_are_part_of_the_state():
    model, x = randomise(MLP(3, 4, 2, num_layers=3, norm="batch")).eval(), noise(9, 3).detach()
    with torch.no_grad(), storing_statistics(model):
        expected = model(x)
    again = MLP(3, 4, 2, num_layers=3, norm="batch").double().eval()
    again.load_state_dict(model.state_dict())
    torch.testing.assert_close(again(x[:2]), expected[:2])
    again.reset_parameters()
    assert all(norm.stored == 0 for norm in again.modules() if isinstance(norm, BatchNorm))


def test_statistics_are_stored_inside_other_modules():
    model = NonLocal(GCN(3, 4, 2, norm="batch"), 2, 2).double().eval()
    with torch.no_grad(), storing_statistics(model):
        model(noise(9, 3), random_edges(9, 20))
    assert [int(norm.stored) for norm in model.modules() if isinstance(norm, BatchNorm)] == [1]


def test_models_with_it_can_be_replicas_and_are_deterministic():
    model = GCN(3, 4, 2, norm="batch")
    assert can_be_stacked(model)
    assert model.deterministic
    assert not list(model.buffers())


def test_a_bias_that_is_subtracted_again_is_not_trained():
    model, edges, x = randomise(GCN(3, 4, 2, num_layers=3, norm="batch")), random_edges(9, 20), noise(9, 3)
    before = model(x, edges)
    for layer in model.deep.layers:
        assert not layer.bias.requires_grad
        layer.bias.data += 5
    torch.testing.assert_close(model(x, edges), before)
    assert model.deep.last.bias.requires_grad


def test_rows_of_length_one_and_of_zeros():
    h = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    torch.testing.assert_close(divided_by_length(h), torch.tensor([[0.6, 0.8], [0.0, 0.0]]))
