"""What is random: what it does to one model, and that each replica draws what it would draw alone."""

import pytest
import torch
from torch import nn
from torch.func import vmap

from each_of import each_of
from nlgnn.nn.kernels.dropout import (
    Columns,
    Draws,
    Dropout,
    RandomNormals,
    RandomSubset,
    Stream,
    connect,
    draw_masks,
    draw_rows,
    rows_in_block,
)
from nn_samples import assert_same, noise, seeded_draws, seeded_streams, under_vmap, with_seeds


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_rate_and_expectation(rate):
    torch.manual_seed(0)
    dropped = Dropout(rate)(torch.full((200, 200), 3.0))
    assert dropped.unique().tolist() == pytest.approx([0, 3 / (1 - rate)], rel=1e-4)  # 16 bits
    assert (dropped == 0).double().mean().item() == pytest.approx(rate, abs=0.01)  # four standard errors
    assert dropped.mean().item() == pytest.approx(3, rel=0.04)


@each_of("size", range(10))
def test_any_number_of_entries(size):
    """Also where they do not fill the last of the words that are drawn."""
    for shape in ((size,), (3, size), (size, 1)):
        mask = Dropout(0.5).mask(torch.ones(shape))
        assert mask.shape == shape
        assert set(mask.flatten().tolist()) <= {0.0, 2.0}


def test_entries_do_not_know_of_each_other():
    torch.manual_seed(0)
    kept = Dropout(0.5).mask(torch.ones(5000, 8)).t()
    assert (torch.corrcoef(kept) - torch.eye(8)).abs().max() < 0.06  # four standard errors


@pytest.mark.parametrize("rate", [1e-9, 1 - 1e-9])
def test_rates_that_are_nearly_none_or_all(rate):
    x = noise(50, 4)
    assert_same(Dropout(rate)(x), x * (rate < 0.5), [x])


def test_what_is_not_random():
    x = noise(5, 4)
    assert Dropout(0.5).eval()(x) is x
    assert Dropout(0.0)(x) is x
    assert_same(Dropout(1.0)(x), 0 * x, [x])


def test_the_gradient_has_the_mask_of_the_values():
    x = noise(50, 4)
    dropped = Dropout(0.5)(x)
    (gradient,) = torch.autograd.grad(dropped.sum(), x)
    assert gradient.equal(torch.where(dropped == 0, 0.0, 2.0))
    torch.testing.assert_close(dropped, gradient * x)


def test_each_call_draws_anew_and_seeds_repeat():
    dropout, x = Dropout(0.5), torch.ones(100)
    torch.manual_seed(3)
    first, second = dropout(x), dropout(x)
    assert not first.equal(second)
    torch.manual_seed(3)
    assert first.equal(dropout(x))


RATES = [0.5, 0.0, 0.2, 1.0]


class Twice(nn.Module):
    """Two dropouts with something between them."""

    def __init__(self, rate):
        super().__init__()
        self.first, self.second = Dropout(rate), Dropout(rate)

    def forward(self, x):
        return self.second(self.first(x).sin())


@pytest.mark.parametrize("where", [0, 1, 2, None])
def test_a_replica_draws_what_it_would_draw_alone(where):
    """None: the input is shared, and still the masks differ."""
    x = noise(30, 4) if where is None else noise(len(RATES), 30, 4)
    models = [Twice(rate) for rate in RATES]
    loop = with_seeds(models, lambda replica, model: model(x if where is None else x[replica]))
    together = under_vmap(Twice(max(RATES)), {}, x if where is None else x.movedim(0, where), where, RATES)
    assert_same(together, loop, [x])
    assert not together[0].equal(together[2])


def test_a_replica_draws_the_same_whoever_is_beside_it():
    x = noise(30, 4).detach()
    alone, among = (under_vmap(Dropout(0.5), {}, x, None, rates) for rates in ([0.5], [0.5, 0.5, 0.8]))
    assert alone[0].equal(among[0])
    assert not among[0].equal(among[1])


def test_in_evaluation_replicas_drop_nothing_and_draw_nothing():
    dropout, x = Dropout(0.5).eval(), noise(2, 30).detach()
    state = torch.get_rng_state()
    assert under_vmap(dropout, {}, x, 0, [0.5, 0.5]).equal(x)
    assert torch.get_rng_state().equal(state)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_masks_are_of_the_type_of_what_they_drop(dtype):
    dropout = Dropout(0.5)
    assert dropout.mask(torch.ones(3, dtype=dtype)).dtype == dtype
    dropout.streams, dropout.replica = seeded_streams([0.5, 0.2]), torch.arange(2)
    masks = dropout.mask(torch.ones(3, dtype=dtype))
    assert (masks.dtype, masks.shape) == (dtype, (2, 3))


def test_a_subset_is_of_different_numbers_and_all_are_as_likely():
    torch.manual_seed(0)
    subset, like = RandomSubset(3), torch.ones(1)
    draws = torch.stack([subset(8, like) for _ in range(2000)])
    assert draws.shape == (2000, 3)
    assert all(len(set(draw)) == 3 for draw in draws.tolist())
    counts = draws.flatten().bincount(minlength=8)
    assert len(counts) == 8
    assert (counts - 750).abs().max() < 87  # four standard errors


@pytest.mark.parametrize("below", [0, 1, 2, 3])
def test_where_there_are_no_more_a_subset_is_all(below):
    state = torch.get_rng_state()
    assert RandomSubset(3)(below, torch.ones(1)).tolist() == list(range(below))
    assert torch.get_rng_state().equal(state)


def test_a_subset_is_drawn_anew_and_seeds_repeat():
    subset, like = RandomSubset(50), torch.ones(1)
    torch.manual_seed(3)
    first, second = subset(100, like), subset(100, like)
    assert first.sort()[0].tolist() != second.sort()[0].tolist()
    torch.manual_seed(3)
    assert first.equal(subset(100, like))
    assert subset.is_random


class DropsAndDraws(nn.Module):
    """Dropout and a subset, each with its own number among the random modules."""

    def __init__(self):
        super().__init__()
        self.first, self.subset, self.second = Dropout(0.5), RandomSubset(4), Dropout(0.5)

    def forward(self, x):
        dropped = self.first(x)
        return self.second(dropped.index_select(0, self.subset(len(x), x)).sin())


def drawn_under_vmap(model, x, where, replicas):
    random = connect(model, [model] * replicas, seeded_draws(replicas))

    def one(number, x):
        for module in random:
            module.replica = number
        return model(x)

    return vmap(one, in_dims=(0, where), randomness="same")(torch.arange(replicas), x)


@pytest.mark.parametrize("where", [0, 1, None])
def test_a_replica_draws_the_subset_that_it_would_draw_alone(where):
    """None: the input is shared, and still the subsets differ."""
    x = noise(10, 2) if where is None else noise(3, 10, 2)
    models = [DropsAndDraws() for _ in range(3)]
    loop = with_seeds(models, lambda replica, model: model(x if where is None else x[replica]))
    together = drawn_under_vmap(DropsAndDraws(), x if where is None else x.movedim(0, where), where, 3)
    assert_same(together, loop, [x])
    assert not together[0].equal(together[1])


def test_a_replica_draws_the_same_subset_whoever_is_beside_it():
    x = noise(20, 2).detach()
    alone, among = (drawn_under_vmap(DropsAndDraws(), x, None, replicas) for replicas in (1, 3))
    assert alone[0].equal(among[0])
    assert not among[1].equal(among[2])


CPU = torch.device("cpu")


def keyed(rate=0.5, seed=3, epoch=5):
    return [Stream(rate, Draws(seed, CPU, epoch))]


def test_a_draw_depends_on_its_key_alone():
    like = torch.ones(40, 8)
    first = draw_masks(keyed(), like, (1, 2))
    torch.manual_seed(9)
    assert draw_masks(keyed(), like, (1, 2)).equal(first)
    for others in [(keyed(seed=4), (1, 2)), (keyed(epoch=6), (1, 2)), (keyed(), (2, 2)), (keyed(), (1, 3))]:
        assert not draw_masks(others[0], like, others[1]).equal(first)


def test_seeds_of_neighbouring_keys_differ_in_their_low_bits():
    """torch's generator on CPUs takes the low 32 bits of a seed."""
    keys = [
        (seed, epoch, module, place, 0)
        for seed in range(5)
        for epoch in range(200)
        for module in range(4)
        for place in range(5)
    ]
    seeds = {Draws(seed, CPU, epoch).generator(*place).initial_seed() % 2**32 for seed, epoch, *place in keys}
    assert len(seeds) == len(keys)


@pytest.mark.parametrize("width", [1, 5, 48])
def test_rows_drawn_in_parts_are_the_rows_drawn_at_once(width, monkeypatch):
    monkeypatch.setattr("nlgnn.nn.kernels.dropout.BLOCK_ENTRIES", 64)
    x = torch.ones(200, width)
    whole = draw_masks(keyed(), x, (0,))
    assert rows_in_block(width) * width <= max(64, 4 * width)
    for first, last in [(0, 200), (0, 7), (3, 90), (128, 200), (199, 200)]:
        assert draw_rows(keyed(), x[first:last], (0,), first).equal(whole[:, first:last])


def test_blocks_of_rows_are_drawn_from_different_seeds(monkeypatch):
    monkeypatch.setattr("nlgnn.nn.kernels.dropout.BLOCK_ENTRIES", 64)
    first, second = draw_masks(keyed(), torch.ones(16, 8), (0,))[0].split(8)
    assert not first.equal(second)


@pytest.mark.parametrize("first", [0, 3, 5])
def test_columns_drawn_apart_are_those_of_the_whole_mask(first, monkeypatch):
    monkeypatch.setattr("nlgnn.nn.kernels.dropout.BLOCK_ENTRIES", 64)
    dropout, draws = Dropout(0.5), [Draws(1, CPU)]
    connect(dropout, [dropout], draws)
    whole = dropout.mask(torch.ones(50, 8), 4)
    assert dropout.mask(torch.ones(50, 3), 4, columns=Columns(first, 8)).equal(whole[:, first : first + 3])


def test_normals_are_keyed_in_training_and_fixed_in_evaluation():
    normals, like, draws = RandomNormals(3), torch.ones(1), Draws(1, CPU)
    connect(normals, [normals], [draws])
    first = normals(4, like)
    assert normals(4, like).equal(first)
    draws.epoch = 1
    assert not normals(4, like).equal(first)
    assert normals.eval()(4, like).equal(normals(4, like))
