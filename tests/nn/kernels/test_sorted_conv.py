"""The fast path of the non-local step equals sorting, permuting, calling the modules one by one and permuting back."""

import contextlib

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import nn
from torch.func import functional_call, stack_module_state

from nlgnn.nn.kernels import sorted_conv
from nlgnn.nn.kernels.sorted_conv import convolve, convolve_along_order, is_plain, rounded, stable_order
from nn_samples import NonLocalStep, assert_same, gradients, noise, randomise, seeds, under_vmap, with_seeds

# Few different ones, so that there are ties, and all kinds of them.
SPECIAL = [0.0, -0.0, 1.0, -1.0, -1.0000001, 1e-45, -1e-45, -3e-45, 1e-39, 5e35, -5e35, 1.2e-38]
floats = st.floats(-(2.0**119), 2.0**119, width=32) | st.sampled_from(np.array(SPECIAL, np.float32).tolist())
lines = arrays.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=40)
tables = arrays.array_shapes(min_dims=2, max_dims=2, max_side=12)


@given(arrays.arrays(np.float32, lines | tables, elements=floats), st.booleans())
@example(np.array(SPECIAL * 3, np.float32), True)
@example(np.array(SPECIAL * 3, np.float32).reshape(3, -1), True)
def test_the_order_is_that_of_a_stable_sort_of_rounded_keys(keys, packed):
    keys = torch.from_numpy(keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_conv, "FEW_KEYS", 0 if packed else 10**9)
        assert stable_order(keys).equal(rounded(keys).argsort(stable=True))


@given(arrays.arrays(np.float64, lines | tables, elements=st.sampled_from([-1.0, -0.0, 0.0, 5e-324, 1 + 1e-9, 1.0])))
def test_the_order_of_float64_is_that_of_float32(keys):
    keys = torch.from_numpy(keys)
    assert stable_order(keys).equal(keys.float().argsort(stable=True))


def test_the_order_of_keys_that_lie_apart_in_memory():
    keys = torch.randn(50, 3)
    assert stable_order(keys[:, 1]).equal(rounded(keys[:, 1]).argsort(stable=True))
    assert stable_order(keys.t()).equal(rounded(keys.t()).argsort(stable=True))


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_rounding_clears_low_bits_and_goes_to_the_nearest(key):
    one = rounded(torch.tensor([key]))
    if abs(key) > 1e-30:
        assert int(one.view(torch.int32)) % 2**sorted_conv.CLEARED_BITS == 0
        assert abs(float(one) - key) <= abs(key) * 2.0 ** (sorted_conv.CLEARED_BITS - 24)


def test_keys_that_differ_in_their_last_bits_tie_and_go_by_number():
    keys = torch.tensor([1.0, 0.5]).repeat(300)
    noisy = keys + 1e-7 * torch.rand(600)
    expected = [*range(1, 600, 2), *range(0, 600, 2)]
    assert stable_order(noisy).tolist() == expected
    assert stable_order(keys.double() + 1e-12 * torch.rand(600).double()).tolist() == expected


@contextlib.contextmanager
def way(block_width):
    """torch's own convolution for all sizes, or (a number) blocks of rows for all sizes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_conv, "MANY_CHANNELS", 10**9)
        patch.setattr(sorted_conv, "FEW_ROWS", 10**9 if block_width is None else 0)
        patch.setattr(sorted_conv, "BLOCK_WIDTH", block_width)
        patch.setattr(sorted_conv, "BLOCKS", 1)
        yield


# Blocks of one row, of a few rows, of more rows than there are.
ways = st.sampled_from([None, 1, 6, 40])
kernel_sizes = st.sampled_from([1, 3, 5, 7])


def plainly(aggregation, z):
    """Sort, permute, the modules one by one, permute back."""
    ranking = aggregation.order(z)
    order = ranking.order()
    rows = ranking.scaled(z)[order]
    for module in aggregation.convs:
        rows = module(rows)
    return rows[order.argsort()]


def both_ways(aggregation, z):
    """Fast and plain, with the same dropout masks."""
    assert is_plain(aggregation.convs)
    results = []
    for call in (aggregation, lambda z: plainly(aggregation, z)):
        torch.manual_seed(5)
        results.append(call(z))
    return results


@given(ways, st.integers(1, 20), st.integers(1, 5), kernel_sizes, st.integers(1, 3), st.sampled_from([0.0, 0.4]), seeds)
@example(None, 1, 2, 7, 2, 0.0, 0)
@example(40, 1, 2, 7, 2, 0.4, 0)  # one node, a wide kernel
@example(6, 13, 2, 5, 3, 0.4, 0)  # the last block is not full
@example(1, 9, 3, 3, 2, 0.0, 0)
def test_equals_the_plain_way(block_width, num_nodes, channels, kernel_size, num_convs, dropout, seed):
    aggregation = randomise(NonLocalStep(channels, kernel_size=kernel_size, num_convs=num_convs, dropout=dropout), seed)
    z = noise(num_nodes, channels, seed=seed)
    with way(block_width):
        assert_same(*both_ways(aggregation, z), [z, *aggregation.parameters()])


def test_of_equal_scores_the_first_node_stays_first():
    aggregation = randomise(NonLocalStep(2))
    torch.nn.init.zeros_(aggregation.score.weight)
    z = noise(9, 2)
    with way(6):
        assert_same(*both_ways(aggregation, z), [z, *aggregation.parameters()])


def test_in_evaluation_nothing_is_dropped():
    aggregation, z = randomise(NonLocalStep(3, dropout=0.5)).eval(), noise(9, 3)
    torch.testing.assert_close(aggregation(z), plainly(aggregation, z), rtol=0, atol=1e-9)


def test_gradients_may_come_in_any_layout():
    """Such as that of a sum, whose numbers are all one number in memory."""
    aggregation, z = randomise(NonLocalStep(3, num_convs=3, dropout=0.4)), noise(20, 3)
    for block_width in (None, 6):
        with way(block_width):
            fast, plain = both_ways(aggregation, z)
            of_sums = [torch.autograd.grad(result.sum(), z)[0] for result in (fast, plain)]
            torch.testing.assert_close(*of_sums, rtol=0, atol=1e-9)


def test_embeddings_in_any_layout():
    aggregation, z = randomise(NonLocalStep(3)), noise(3, 20)
    with way(6):
        assert_same(*both_ways(aggregation, z.t()), [z])


@pytest.mark.parametrize(("num_nodes", "channels", "in_blocks"), [(9, 3, False), (10, 3, True), (10, 4, False)])
def test_few_rows_and_many_channels_are_left_to_torch(num_nodes, channels, in_blocks, monkeypatch):
    taken = []
    monkeypatch.setattr(sorted_conv, "FEW_ROWS", 10)
    monkeypatch.setattr(sorted_conv, "MANY_CHANNELS", 4)
    monkeypatch.setattr(
        sorted_conv, "_blocks", lambda *args, blocks=sorted_conv._blocks: taken.append(1) or blocks(*args)
    )
    aggregation, z = randomise(NonLocalStep(channels)), noise(num_nodes, channels)
    assert_same(*both_ways(aggregation, z), [z, *aggregation.parameters()])
    assert bool(taken) == in_blocks


@pytest.mark.parametrize("block_width", [None, 6])
def test_widths_of_a_convolution_may_differ(block_width):
    rows, weight, bias = noise(13, 2), noise(4, 2, 3), noise(4)
    expected = torch.nn.functional.conv1d(rows.t().unsqueeze(0), weight, bias, padding=1)[0].t()
    with way(block_width):
        torch.testing.assert_close(convolve(rows, weight, bias), expected)
        gradient = noise(13, 4, seed=1).detach()
        found = sorted_conv.convolve_backward(gradient, weight.detach(), rows.detach())
    for one, other in zip(found, torch.autograd.grad(expected, [rows, weight, bias], gradient), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("position", "module"),
    [(0, nn.Identity()), (1, nn.ELU()), (2, nn.Dropout(0.0)), (3, nn.Identity()), (4, nn.Tanh())],
)
def test_where_somebody_has_put_a_module_of_their_own_it_is_called(position, module):
    aggregation, z = randomise(NonLocalStep(3)), noise(9, 3)
    assert is_plain(aggregation.convs)
    layers = list(aggregation.convs)
    layers[position : position + 1] = [module]
    aggregation.mixer.convs = nn.Sequential(*layers)
    assert not is_plain(aggregation.convs)
    assert_same(aggregation(z), plainly(aggregation, z), [z, aggregation.score.weight])


def test_a_subclass_is_not_taken_for_what_it_comes_from():
    class Doubled(nn.ReLU):
        def forward(self, input):
            return 2 * super().forward(input)

    aggregation, z = randomise(NonLocalStep(3)), noise(9, 3)
    aggregation.convs[1] = Doubled()
    assert_same(aggregation(z), plainly(aggregation, z), [z, *aggregation.parameters()])


def replicas(rates, **options):
    """Models that differ in their parameters and dropout rates, and their stacked parameters."""
    models = [
        randomise(NonLocalStep(3, dropout=rate, **options), seed=100 * replica) for replica, rate in enumerate(rates)
    ]
    return models, stack_module_state(models)[0]


def row(state, replica):
    return {name: value[replica] for name, value in state.items()}


@given(
    st.integers(1, 9),
    kernel_sizes,
    st.integers(1, 3),
    st.sampled_from([0, 1, None]),
    st.booleans(),
    st.sampled_from(["score", "random"]),
    st.sampled_from([1, 6, 40]),
)
def test_replicas_equal_a_loop(num_nodes, kernel_size, num_convs, where, drops, order, block_width):
    """Each with its own embeddings, or all with the same; each with its own dropout masks and rate."""
    rates = [0.6, 0.0, 0.3] if drops else [0.0, 0.0, 0.0]
    models, state = replicas(rates, kernel_size=kernel_size, num_convs=num_convs, order=order, score_bias=True)
    z = noise(num_nodes, 3) if where is None else noise(3, num_nodes, 3)
    loop = with_seeds(
        models,
        lambda replica, model: functional_call(model, row(state, replica), (z if where is None else z[replica],)),
    )
    with way(block_width):
        together = under_vmap(models[0], state, z if where is None else z.movedim(0, where), where, rates)
    assert_same(together, loop, [z, *state.values()])


def test_replicas_in_float32_have_the_order_that_each_has_alone():
    models, state = replicas([0.0] * 4)
    state = {name: value.detach().float() for name, value in state.items()}
    z = noise(4, 50, 3).detach().float()
    z[:, 1::2] = z[:, ::2]  # ties
    loop = [functional_call(models[0], row(state, replica), (z[replica],)) for replica in range(4)]
    torch.testing.assert_close(under_vmap(models[0], state, z), torch.stack(loop), rtol=1e-4, atol=1e-4)


def test_the_order_of_keys_learns_nothing():
    """Keys decide where rows go; how much a key is moved changes nothing."""
    aggregation, rows, keys = randomise(NonLocalStep(3)), noise(9, 3), noise(9)
    mixed = convolve_along_order(rows, None, keys, aggregation.convs)
    assert torch.autograd.grad(mixed.sum(), keys, allow_unused=True, retain_graph=True) == (None,)
    assert gradients(mixed, [rows])[0].abs().min() > 0
