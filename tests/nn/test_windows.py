"""Sums over windows of several orders, compared with a loop over pairs of nodes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nn_samples import assert_same, noise, seeds
from torch import Tensor
from torch.func import vmap

from nlgnn.nn import windows
from nlgnn.nn.windows import window_neighbours, window_sums


def literal_sums(e: Tensor, temperature: Tensor, messages: Tensor, keys: Tensor, radius: int) -> Tensor:
    places = [order.argsort(stable=True).argsort() for order in keys]
    rows = []
    for v in range(len(e)):
        row = torch.zeros_like(messages[0]) + 0 * e[v].sum() + 0 * temperature
        for u in range(len(e)):
            if u != v and any(abs(int(place[v] - place[u])) <= radius for place in places):
                row = row + torch.exp(-temperature * (e[v] - e[u]).square().sum()) * messages[u]
        rows.append(row)
    return torch.stack(rows)


def sample(nodes: int, orders: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    temperature = noise(1, seed=seed + 1).detach().abs()[0].requires_grad_()
    keys = noise(orders, nodes, seed=seed + 3).detach().round(decimals=0)  # ties, too
    return noise(nodes, 3, seed=seed), temperature, noise(nodes, 2, seed=seed + 2).detach(), keys


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 700, 2**18]), seeds)
def test_sums_are_those_of_a_loop_over_pairs(nodes, orders, radius, pairs_at_once, seed):
    e, temperature, messages, keys = sample(nodes, orders, seed % 2**20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "PAIRS_AT_ONCE", pairs_at_once)
        sums = window_sums(e, temperature, messages, keys, radius)
        assert_same(sums, literal_sums(e, temperature, messages, keys, radius), [e, temperature])


@pytest.mark.parametrize("shared", [False, True])
def test_replicas_give_what_each_gives_alone(shared):
    replicas = [sample(37, 3, seed) for seed in range(4)]
    e, temperature, messages, keys = (torch.stack(parts) for parts in zip(*replicas, strict=True))
    messages = messages[0] if shared else messages
    in_dims = (0, 0, None if shared else 0, 0)
    together = vmap(lambda *given: window_sums(*given, 4), in_dims)(e, temperature, messages, keys)
    each = [messages] * 4 if shared else list(messages)
    alone = torch.stack([window_sums(e[r], temperature[r], each[r], keys[r], 4) for r in range(4)])
    assert_same(together, alone, [e, temperature])


@pytest.mark.parametrize("radius", [1, 3, 30])
def test_neighbours_are_those_that_are_summed(radius):
    e, temperature, messages, keys = sample(25, 3, 5)
    near = window_neighbours(keys, torch.arange(25), radius)
    weights = torch.exp(-temperature * (e.unsqueeze(1) - e[near.nodes]).square().sum(2)) * near.counted
    expected = window_sums(e, temperature, messages, keys, radius)
    torch.testing.assert_close((weights.unsqueeze(2) * messages[near.nodes]).sum(1), expected)
    for v in range(25):
        counted = near.nodes[v][near.counted[v]].tolist()
        assert len(set(counted)) == len(counted)
        assert v not in counted
