from __future__ import annotations

import torch
from torch import Tensor, nn

from each_of import each_of
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.ranks import Halo, Ranks, active_ranks, first_row, gathered, ranges_of_work, sharing
from nlgnn.nn.kernels.sorted_blocks import Route, convolve_over_ranks
from nlgnn.nn.kernels.sorted_conv import RowConv, convolve_along_order, stable_order
from nn_samples import noise
from rank_processes import on_ranks

STARTS = {2: [[0, 5, 11], [0, 11, 11]], 3: [[0, 2, 7, 11], [0, 0, 11, 11]]}


def test_ranges_of_equal_work() -> None:
    assert ranges_of_work([0, 0, 0, 0, 0], 2) == [0, 2, 4]
    assert ranges_of_work([0, 100, 100, 100], 2) == [0, 1, 3]  # the first node has all edges
    assert ranges_of_work([0, 1], 3) == [0, 1, 1, 1]  # more ranks than nodes
    assert ranges_of_work(list(range(0, 1001, 10)), 4) == [0, 25, 50, 75, 100]


def halo_in(starts: list[int], needed: list[list[int]]) -> tuple[Tensor, Tensor]:
    ranks = Ranks(starts)
    rows = torch.arange(2.0 * ranks.first, 2.0 * ranks.stop).view(-1, 2).requires_grad_()
    extended = Halo(ranks, torch.tensor(needed[ranks.rank], dtype=torch.long)).extend(rows)
    weights = torch.arange(1.0, 1 + len(extended)).unsqueeze(1) * 10**ranks.rank
    (gradient,) = torch.autograd.grad((extended * weights).sum(), [rows])
    return extended.detach(), gradient


def test_halo() -> None:
    """Each row goes where it is needed, and its gradient is the sum of those of all copies."""
    needed = [[3, 4], [0], [0, 1, 3]]
    parts = on_ranks(3, halo_in, [0, 2, 4, 5], needed)
    for rank, own in enumerate([[0, 1], [2, 3], [4]]):
        assert (parts[rank][0][:, 0] / 2).tolist() == [*own, *needed[rank]]
    # By hand: node 0 has weight 1 in rank 0, 30 in rank 1 and 200 in rank 2.
    gradients = torch.cat([gradient for _, gradient in parts])[:, 0]
    assert gradients.tolist() == [1 + 30 + 200, 2 + 300, 10, 20 + 3 + 400, 100 + 4]


def total_in() -> tuple[float, float, list[int], bool]:
    ranks = Ranks([0, 1, 3])
    own = torch.tensor(float(ranks.rank + 1), requires_grad=True)
    total = ranks.total(own)
    (gradient,) = torch.autograd.grad((ranks.rank + 5) * total**2, [own])
    with sharing(ranks):
        rows = gathered(torch.arange(ranks.first, ranks.stop))
        with sharing(None):
            hidden = active_ranks() is None and first_row() == 0
        hidden &= first_row() == ranks.first
    return total.item(), gradient.item(), rows.tolist(), hidden


def test_sums_and_rows_of_all_ranks() -> None:
    # The losses of both ranks, 5 t² and 6 t², depend on the total t = 3.
    assert on_ranks(2, total_in) == [(3.0, 66.0, [0, 1, 2], True)] * 2


KEYS = {
    "distinct": [0.5, -1.0, 3.0, 2.0, -7.0, 0.25, 9.0, 1e-30, -1e-30, 8.0, 4.0],
    "tied": [1.0, 0.0, -0.0, 1.0, 1.0, 0.0, -2.0, 1.0, 0.0, 1.0, 1.0],
    "equal": [3.0] * 11,
    "extreme": [1e35, -1e35, 1e30, -1e30, 0.0, 1e35, 1e-40, -1e-40, 1.0, 1.0, 0.0],
}


def blocks_in(every_starts: list[list[int]], every_keys: list[Tensor]) -> list[Tensor]:
    found = []
    for starts in every_starts:
        for keys in every_keys:
            ranks = Ranks(starts)
            route = Route(ranks, keys[ranks.first : ranks.stop])
            nodes = torch.arange(ranks.first, ranks.stop)
            found.append(route.to_order(nodes))
            assert torch.equal(route.to_nodes(found[-1]), nodes)
    return found


@each_of("size", [2, 3])
def test_blocks_of_the_global_order(size: int) -> None:
    every = [torch.tensor(keys, dtype=dtype) for keys in KEYS.values() for dtype in (torch.float32, torch.float64)]
    parts = on_ranks(size, blocks_in, STARTS[size], every)
    for blocks, keys in zip(zip(*parts, strict=True), every * len(STARTS[size]), strict=True):
        assert torch.cat(blocks).tolist() == stable_order(keys).tolist()
        assert max(map(len, blocks)) - min(map(len, blocks)) <= 1


def convs(kernel: int, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(kernel)
    return nn.Sequential(RowConv(3, 3, kernel), nn.ReLU(), Dropout(dropout), RowConv(3, 3, kernel)).double()


CONVOLUTIONS = [(1, "distinct"), (3, "tied"), (9, "equal")]  # margins of 4 are longer than some blocks


def convolved_in(every_starts: list[list[int]], rows: Tensor, factors: Tensor) -> list[tuple[Tensor, list[Tensor]]]:
    return [
        convolution(Ranks(starts), rows, factors, torch.tensor(KEYS[name], dtype=torch.float64), kernel)
        for starts in every_starts
        for kernel, name in CONVOLUTIONS
    ]


def convolution(ranks: Ranks, rows: Tensor, factors: Tensor, keys: Tensor, kernel: int) -> tuple[Tensor, list[Tensor]]:
    module = convs(kernel)
    own = slice(ranks.first, ranks.stop)
    leaves = [rows[own].detach().requires_grad_(), factors[own].detach().requires_grad_()]
    result = convolve_over_ranks(ranks, *leaves, keys[own], module)
    gradients = torch.autograd.grad((result * rows[own].detach().cos()).sum(), [*leaves, *module.parameters()])
    summed = [ranks.add(gradient.clone()) for gradient in gradients[2:]]
    return result.detach(), [*gradients[:2], *summed]


@each_of("size", [2, 3])
def test_convolution_over_ranks(size: int) -> None:
    rows, factors = noise(11, 3), noise(11, seed=1)
    parts = on_ranks(size, convolved_in, STARTS[size], rows.detach(), factors.detach())
    for number, of_ranks in enumerate(zip(*parts, strict=True)):
        kernel, name = CONVOLUTIONS[number % len(CONVOLUTIONS)]
        module = convs(kernel)
        whole = convolve_along_order(rows, factors, torch.tensor(KEYS[name], dtype=torch.float64), module)
        wanted = torch.autograd.grad((whole * rows.detach().cos()).sum(), [rows, factors, *module.parameters()])
        torch.testing.assert_close(torch.cat([part for part, _ in of_ranks]), whole.detach())
        for leaf in (0, 1):
            torch.testing.assert_close(torch.cat([given[leaf] for _, given in of_ranks]), wanted[leaf])
        for _, given in of_ranks:
            torch.testing.assert_close(given[2:], list(wanted[2:]))
