"""Adam, as `torch.optim.Adam` with coupled L2, by the kernel that its fused form calls.

Models that are trained at once have one optimiser each. The kernel reads and writes every number once; on stacks of
models, separate operations took ten times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nlgnn.nn.base import as_model
from nlgnn.training.recipe import Recipe


class Adam:
    """Adam of one model, with the weight decay and learning rate of its parameter groups.

    Learning rates of single groups rise and fall with that of the others.

    Args:
        model: The model, whose `parameter_groups` are trained.
        recipe: The learning rate and weight decay of groups that set none.
    """

    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        self.lr = recipe.lr
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        positions = {id(parameter): position for position, parameter in enumerate(self.parameters)}
        self.groups: dict[tuple[float, float], list[int]] = {}  # by decay, and the factor of the learning rate
        for group in as_model(model).parameter_groups():
            setting = group.get("weight_decay", recipe.weight_decay), group.get("lr", recipe.lr) / recipe.lr
            trained = [positions[id(one)] for one in group["params"] if id(one) in positions]
            self.groups[setting] = self.groups.get(setting, []) + trained
        self.means = [torch.zeros_like(parameter, requires_grad=False) for parameter in self.parameters]
        self.squares = [torch.zeros_like(mean) for mean in self.means]
        self.steps = torch.zeros((), device=self.means[0].device) if self.means else torch.zeros(())

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Take one step. A parameter that the loss does not depend on stays as it is."""
        self.steps += 1
        pairs = zip(self.parameters, gradients, strict=True)
        in_memory = {
            position: _laid_out_as(parameter, gradient)
            for position, (parameter, gradient) in enumerate(pairs)
            if gradient is not None
        }
        for (decay, factor), positions in self.groups.items():
            used = [position for position in positions if position in in_memory]
            if not used:
                continue
            torch._fused_adam_(
                [self.parameters[position].data for position in used],
                [in_memory[position] for position in used],
                [self.means[position] for position in used],
                [self.squares[position] for position in used],
                [],
                [self.steps] * len(used),
                lr=self.lr * factor,
                beta1=0.9,
                beta2=0.999,
                weight_decay=decay,
                eps=1e-8,
                amsgrad=False,
                maximize=False,
            )

    def state(self) -> dict[str, Tensor]:
        moments = {f"{position}.mean": mean for position, mean in enumerate(self.means)}
        moments |= {f"{position}.square": square for position, square in enumerate(self.squares)}
        return {"steps": self.steps, **moments}

    def load(self, state: Mapping[str, Tensor]) -> None:
        for name, value in self.state().items():
            value.copy_(state[name])


def _laid_out_as(parameter: Tensor, gradient: Tensor) -> Tensor:
    """Return a gradient in the layout of its parameter: the kernel ignores strides."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)
