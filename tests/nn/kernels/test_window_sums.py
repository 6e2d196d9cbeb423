"""Sums over windows of several orders, compared with a loop over pairs of nodes."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.func import vmap

from nlgnn.nn.kernels import window_sums as windows
from nlgnn.nn.kernels.sorted_conv import stable_order
from nlgnn.nn.kernels.window_sums import window_neighbours, window_sums
from nn_samples import assert_same, noise, seeds


def literal_sums(e: Tensor, messages: Tensor, keys: Tensor, radius: int) -> Tensor:
    places = [stable_order(order).argsort() for order in keys]
    rows = []
    for v in range(len(e)):
        row = torch.zeros_like(messages[0]) + 0 * e[v].sum()
        for u in range(len(e)):
            if u != v and any(abs(int(place[v] - place[u])) <= radius for place in places):
                row = row + torch.exp(-(e[v] - e[u]).square().sum()) * messages[u]
        rows.append(row)
    return torch.stack(rows)


def sample(nodes: int, orders: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    keys = noise(orders, nodes, seed=seed + 3).detach().round(decimals=0)  # ties, too
    return noise(nodes, 3, seed=seed), noise(nodes, 2, seed=seed + 2).detach(), keys


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 700, 2**18]), seeds)
def test_sums_are_those_of_a_loop_over_pairs(nodes, orders, radius, pairs_at_once, seed):
    e, messages, keys = sample(nodes, orders, seed % 2**20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "PAIRS_AT_ONCE", pairs_at_once)
        sums = window_sums(e, messages, keys, radius)
        assert_same(sums, literal_sums(e, messages, keys, radius), [e])


@pytest.mark.parametrize(("shared", "pairs_at_once"), [(False, 2**18), (True, 2**18), (False, 1), (False, 64)])
def test_replicas_give_what_each_gives_alone(shared, pairs_at_once, monkeypatch):
    monkeypatch.setattr(windows, "PAIRS_AT_ONCE", pairs_at_once)
    replicas = [sample(37, 3, seed) for seed in range(4)]
    e, messages, keys = (torch.stack(parts) for parts in zip(*replicas, strict=True))
    messages = messages[0] if shared else messages
    in_dims = (0, None if shared else 0, 0)
    together = vmap(lambda *given: window_sums(*given, 4), in_dims)(e, messages, keys)
    each = [messages] * 4 if shared else list(messages)
    alone = torch.stack([window_sums(e[r], each[r], keys[r], 4) for r in range(4)])
    assert_same(together, alone, [e])


@pytest.mark.parametrize(("nodes", "radius"), [(25, 1), (25, 3), (25, 30), (40_000, 8)])  # many: places are wider
def test_neighbours_are_those_that_are_summed(nodes, radius):
    e, messages, keys = sample(nodes, 3, 5)
    some = torch.arange(25) * nodes // 25
    near = window_neighbours(keys, some, radius)
    weights = torch.exp(-(e[some].unsqueeze(1) - e[near.nodes]).square().sum(2)) * near.counted
    expected = window_sums(e, messages, keys, radius)[some]
    torch.testing.assert_close((weights.unsqueeze(2) * messages[near.nodes]).sum(1), expected)
    for v, row, counts in zip(some.tolist(), near.nodes, near.counted, strict=True):
        counted = row[counts].tolist()
        assert len(set(counted)) == len(counted)
        assert v not in counted


def test_no_digits_are_lost_far_from_zero_whatever_a_script_allows():
    """Where products of few digits, or differences of large sums, would lose them."""
    e, messages, keys = (part.detach().float() for part in sample(60, 2, 7))
    e = (e + 300).requires_grad_()
    exact = e.detach().double().requires_grad_()
    expected = window_sums(exact, messages.double(), keys, 4)
    (slope,) = torch.autograd.grad(expected.sum(), exact)
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu"):
            sums = window_sums(e, messages, keys, 4)
            (own,) = torch.autograd.grad(sums.sum(), e)
    finally:
        torch.set_float32_matmul_precision("highest")
    torch.testing.assert_close(sums, expected.float(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(own, slope.float(), rtol=1e-5, atol=1e-6)


def test_half_precision_is_summed_in_single():
    e, messages, keys = (part.detach() for part in sample(30, 2, 7))
    halved = window_sums(e.bfloat16(), messages.bfloat16(), keys, 4)
    assert halved.dtype == torch.float32
    torch.testing.assert_close(halved, window_sums(e.bfloat16().float(), messages.bfloat16().float(), keys, 4))
