"""Adam equals torch's, step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from nlgnn.nn.base import Model
from nlgnn.training.replica import Adam
from training_samples import recipe

STEPS = 50


class Parameters(Model):
    """Some parameters, one of which no loss depends on."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        shapes = {"matrix": (3, 4), "wide": (2, 3, 5), "vector": (4,), "unused": (2,), "number": ()}
        for name, shape in shapes.items():
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            self.register_parameter(name, nn.Parameter(drawn))

    def loss_at(self, step: int) -> Tensor:
        """Another one at every step, whose gradients lie in memory in other orders than the parameters."""
        target = torch.randn(5, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
        mixed = torch.einsum("abc,cd->bad", self.wide, target).mean(1) + self.matrix * self.number
        return (mixed.t() @ target[:3] - self.vector).square().mean() + self.matrix.t().sum().cos()


class DecaysMatrices(Parameters):
    def parameter_groups(self) -> list[dict[str, Any]]:
        free = [self.number, self.vector, self.unused]
        return [{"params": [self.wide, self.matrix]}, {"params": free, "weight_decay": 0.0}]


def torch_adam(model: Parameters, weight_decay: float) -> torch.optim.Adam:
    if isinstance(model, DecaysMatrices):
        return torch.optim.Adam(model.parameter_groups(), lr=0.03, weight_decay=weight_decay)
    return torch.optim.Adam(model.parameters(), lr=0.03, weight_decay=weight_decay)


def step(model: Parameters, adam: Adam, number: int) -> None:
    adam.step(torch.autograd.grad(model.loss_at(number), adam.parameters, allow_unused=True))


def assert_same_parameters(one: nn.Module, other: nn.Module, tolerance: float = 1e-12) -> None:
    for name, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[name], rtol=0, atol=tolerance, msg=name)


@pytest.mark.parametrize("make", [Parameters, DecaysMatrices])
@pytest.mark.parametrize("weight_decay", [0.0, 0.3])
def test_equals_torchs(make: Callable[[], Parameters], weight_decay: float) -> None:
    ours, theirs = make(), make()
    adam, optimizer = Adam(ours, recipe(lr=0.03, weight_decay=weight_decay)), torch_adam(theirs, weight_decay)
    for number in range(STEPS):
        step(ours, adam, number)
        optimizer.zero_grad()
        theirs.loss_at(number).backward()
        optimizer.step()
        assert_same_parameters(ours, theirs)
    for name, start in make().named_parameters():
        moved = (ours.get_parameter(name) - start).abs().max().item()
        assert moved == 0 if name == "unused" else moved > 0.1  # no gradient, no decay


def test_gradients_in_any_layout() -> None:
    models = [nn.Linear(3, 4), nn.Linear(3, 4)]
    models[1].load_state_dict(models[0].state_dict())
    adams = [Adam(model, recipe()) for model in models]
    for number in range(5):
        generator = torch.Generator().manual_seed(number)
        gradient = torch.randn(3, 4, generator=generator).t()
        constant = torch.randn(1, generator=generator).expand(4)
        adams[0].step([gradient, constant])
        adams[1].step([gradient.contiguous(), constant.contiguous()])
    assert_same_parameters(*models, tolerance=0)


def test_the_gradients_stay_as_they_were() -> None:
    model = nn.Linear(3, 4)
    gradients = [torch.ones(4, 3), torch.ones(4)]
    Adam(model, recipe(weight_decay=0.5)).step(gradients)
    assert all((gradient == 1).all() for gradient in gradients)


def test_goes_on_from_a_saved_state() -> None:
    whole, parts = Parameters(), Parameters()
    adam = Adam(whole, recipe())
    for number in range(10):
        step(whole, adam, number)
        if number == 4:
            saved = {name: value.clone() for name, value in adam.state().items()}
            parts.load_state_dict(whole.state_dict())
    going_on = Adam(parts, recipe())
    going_on.load(saved)
    assert {name: value.tolist() for name, value in going_on.state().items()} == {
        name: value.tolist() for name, value in saved.items()
    }
    for number in range(5, 10):
        step(parts, going_on, number)
    assert_same_parameters(whole, parts, tolerance=0)
    assert int(going_on.state()["steps"]) == 10


def test_follows_a_parameter_to_other_memory() -> None:
    """As when it becomes a row of a stack."""
    still, moved = Parameters(), Parameters()
    adams = [Adam(still, recipe()), Adam(moved, recipe())]
    for number in range(6):
        step(still, adams[0], number)
        if number == 3:
            for parameter in moved.parameters():
                parameter.data = torch.stack([parameter.detach(), parameter.detach()])[1]
        step(moved, adams[1], number)
    assert_same_parameters(still, moved, tolerance=0)


def test_parameters_in_any_layout() -> None:
    models = [nn.Linear(3, 4), nn.Linear(3, 4)]
    turned = models[0].weight.detach().t().contiguous().t()
    models[0].weight, models[1].weight = nn.Parameter(turned), nn.Parameter(turned.contiguous())
    models[1].bias.data.copy_(models[0].bias.data)
    for model in models:
        adam = Adam(model, recipe())
        for number in range(3):
            adam.step([torch.randn(4, 3, generator=torch.Generator().manual_seed(number)), torch.ones(4)])
    assert_same_parameters(*models, tolerance=1e-6)


def test_a_group_without_gradients_stays_as_it_is() -> None:
    model = nn.Linear(3, 4)
    before = model.weight.detach().clone()
    Adam(model, recipe()).step([None, None])
    assert model.weight.equal(before)
