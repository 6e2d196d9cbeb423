"""Small random matrices and graphs for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor
from torch.func import functional_call, vmap
from torch.nn import Module

from nlgnn.nn.dropout import Dropout, Stream
from nlgnn.nn.sparse import Operator

seeds = st.integers(0, 2**31 - 1)


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Normal float64 numbers that want a gradient."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


def random_operator(rows: int, columns: int, entries: int, seed: int = 0) -> tuple[Operator, Tensor]:
    """A matrix with repeated entries and empty rows, and the same one dense."""
    generator = torch.Generator().manual_seed(seed)
    row = torch.randint(max(1, rows - 1), (entries,), generator=generator)  # the last row stays empty
    column = torch.randint(max(1, columns), (entries,), generator=generator)
    if entries > 1:
        row[1], column[1] = row[0], column[0]  # repeated at least once
    values = noise(entries, seed=seed).detach()
    dense = torch.zeros(rows, columns, dtype=torch.float64).index_put((row, column), values, accumulate=True)
    return Operator.from_coo(row, column, values, (rows, columns)), dense


def random_edges(num_nodes: int, num_edges: int, seed: int = 0) -> Tensor:
    """A directed multigraph with loops, repetitions and, in its last node, an isolated one."""
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(max(1, num_nodes - 1), (2, num_edges), generator=generator)
    loops = torch.tensor([[0, 0], [0, 0]])
    return torch.cat([edges, edges[:, :2], loops], dim=1)


def gradients(output: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """Gradients of a random linear function of the output, the same one for all outputs of a shape."""
    weights = noise(*output.shape, seed=7).detach()
    return list(torch.autograd.grad((output * weights).sum(), inputs, retain_graph=True))


def assert_same(actual: Tensor, expected: Tensor, inputs: list[Tensor], tolerance: float = 1e-9) -> None:
    """Equal values, and equal gradients with respect to all inputs."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
    for one, other in zip(gradients(actual, inputs), gradients(expected, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=tolerance)


def randomise(model: Module, seed: int = 0) -> Module:
    """In float64, all parameters drawn, biases too: what is zero could be forgotten unseen."""
    for number, parameter in enumerate(model.double().parameters()):
        parameter.data = noise(*parameter.shape, seed=seed + number).detach()
    return model


def seeded_streams(rates: list[float]) -> list[Stream]:
    """Replica r draws from seed r."""
    return [Stream(rate, torch.Generator().manual_seed(seed)) for seed, rate in enumerate(rates)]


def with_seeds(call: Callable[[int], Tensor], replicas: int) -> Tensor:
    """One replica after another, replica r with torch's own random numbers from seed r."""
    results = []
    for replica in range(replicas):
        torch.manual_seed(replica)
        results.append(call(replica))
    return torch.stack(results)


def under_vmap(
    model: Module, state: dict[str, Tensor], x: Tensor, where: int | None = 0, rates: list[float] | None = None
) -> Tensor:
    """One module for all replicas, with a stacked state; their axis in `x` is `where`, None if they share it."""
    dropouts = [module for module in model.modules() if isinstance(module, Dropout)]
    streams = None if rates is None else seeded_streams(rates)  # one source a replica, for all of its dropouts
    for dropout in dropouts:
        dropout.streams = streams

    def one(own: dict[str, Tensor], number: Tensor, x: Tensor) -> Tensor:
        for dropout in dropouts:
            dropout.replica = number
        result: Tensor = functional_call(model, own, (x,))
        return result

    replicas = x.shape[where] if where is not None else len(next(iter(state.values())) if state else rates or [])
    return vmap(one, in_dims=(0, 0, where), randomness="same")(state, torch.arange(replicas), x)


def assert_stack_equals_a_loop(models: list[Module], stacked: dict[str, Tensor], inputs: tuple[Any, ...]) -> None:
    """Models of one shape, called as one under vmap, give what each gives, and the same gradients."""

    def result(state: dict[str, Tensor]) -> Tensor:
        called: Tensor = functional_call(models[0], state, inputs)
        return called

    apart = [dict(zip(stacked, values, strict=True)) for values in zip(*stacked.values(), strict=True)]
    loop = torch.stack([result(state) for state in apart])
    assert_same(vmap(result)(stacked), loop, list(stacked.values()))
