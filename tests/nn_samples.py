"""Small random matrices and graphs for the tests of this folder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import Module

from nlgnn.nn.kernels.dropout import Draws, RandomModule, Stream, connect
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.nn.mixing import SortedConv
from nlgnn.nn.orders import RandomOrder, ScoreOrder

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
    """In float64, all parameters drawn, biases too: what is zero could be forgotten unseen. Labels stay as they are."""
    for number, parameter in enumerate(model.double().parameters()):
        if parameter.is_floating_point():
            parameter.data = noise(*parameter.shape, seed=seed + number).detach()
    return model


def seeded_draws(replicas: int) -> list[Draws]:
    """Return random numbers for several replicas: replica r has seed r."""
    return [Draws(seed, torch.device("cpu")) for seed in range(replicas)]


def seeded_streams(rates: list[float]) -> list[Stream]:
    """Return streams of several replicas: replica r has seed r."""
    return [Stream(rate, draws) for rate, draws in zip(rates, seeded_draws(len(rates)), strict=True)]


def with_seeds(models: list[Module], call: Callable[[int, Module], Tensor]) -> Tensor:
    """Call one replica after another, replica r with the random numbers of seed r."""
    for model, draws in zip(models, seeded_draws(len(models)), strict=True):
        connect(model, [model], [draws])
    return torch.stack([call(replica, model) for replica, model in enumerate(models)])


def assert_replicas_draw_as_alone(models: list[Module], call: Callable[[Module], Tensor]) -> None:
    """Check that models of one shape, as one module under vmap, draw what each draws alone, also for gradients."""
    shared, draws = copy.deepcopy(models[0]), seeded_draws(len(models))
    random = connect(shared, models, draws)
    alone = with_seeds(models, lambda replica, model: call(model))
    trained = [name for name, parameter in shared.named_parameters() if parameter.requires_grad]
    stacked = stack_module_state(models)[0].items()
    state = {name: value.detach().requires_grad_(name in trained) for name, value in stacked}

    def one(number: Tensor, own: dict[str, Tensor]) -> Tensor:
        for module in random:
            module.replica = number
        return functional_call(_Called(shared, call), {f"model.{name}": value for name, value in own.items()}, ())

    together = vmap(one, randomness="same")(torch.arange(len(models)), state)
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-9)
    if len({module.number for module in random if module.is_random}) > 0:
        assert not together[0].equal(together[1])
    ours = torch.autograd.grad(together.sin().sum(), [state[name] for name in trained], allow_unused=True)
    for gradient, name in zip(ours, trained, strict=True):
        expected = torch.autograd.grad(
            alone.sin().sum(), [model.get_parameter(name) for model in models], allow_unused=True, retain_graph=True
        )
        if gradient is not None:
            torch.testing.assert_close(gradient, torch.stack(expected), rtol=0, atol=1e-9)


class _Called(Module):
    def __init__(self, model: Module, call: Callable[[Module], Tensor]) -> None:
        super().__init__()
        self.model, self.call = model, call

    def forward(self) -> Tensor:
        return self.call(self.model)


def under_vmap(
    model: Module, state: dict[str, Tensor], x: Tensor, where: int | None = 0, rates: list[float] | None = None
) -> Tensor:
    """One module for all replicas, with a stacked state; their axis in `x` is `where`, None if they share it."""
    random = [module for module in model.modules() if isinstance(module, RandomModule)]
    if rates is not None:
        for number, module in enumerate(random):
            module.number, module.streams = number, seeded_streams(rates)

    def one(own: dict[str, Tensor], number: Tensor, x: Tensor) -> Tensor:
        for module in random:
            module.replica = number
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


class NonLocalStep(nn.Module):
    """An order by score or at random, and the convolutions along it: the non-local step without a local model."""

    def __init__(
        self,
        channels,
        *,
        order="score",
        score_bias=False,
        multiply_score=True,
        standardise_score=False,
        score=None,
        **of_mixer,
    ):
        super().__init__()
        kind = ScoreOrder if order == "score" else RandomOrder
        self.order = kind(
            channels, bias=score_bias, multiply=multiply_score, standardise=standardise_score, score=score
        )
        self.mixer = SortedConv(channels, **of_mixer)

    @property
    def score(self):
        return self.order.score

    @property
    def convs(self):
        return self.mixer.convs

    def reset_parameters(self):
        self.order.reset_parameters()
        self.mixer.reset_parameters()

    def sort_order(self, z):
        ranking = self.order(z)
        return ranking.keys, ranking.order()

    def forward(self, z, batch=None):
        return self.mixer(z, self.order(z, (), batch), batch)
