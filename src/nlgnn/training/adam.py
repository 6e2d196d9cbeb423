"""Adam of one model, as `torch.optim.Adam` with coupled L2, by the kernel that its fused form calls.

Models that are trained at once have one each, with a learning rate and a decay of its own. The kernel reads and writes
every number once; on stacks of models, operations one after another took ten times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from nlgnn.training.recipe import Recipe


class Adam:
    def __init__(self, model: nn.Module, recipe: Recipe) -> None:
        """Decays what the model says: everything, unless it has `decay_groups`. Parameters may have learning rates of
        their own (`learning_rates`), which rise and fall with that of the others."""
        self.lr = recipe.lr
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        decayed = model.decay_groups()[0] if hasattr(model, "decay_groups") else self.parameters  # type: ignore[operator]
        numbers = {id(parameter) for parameter in decayed}
        own_rates = model.learning_rates() if hasattr(model, "learning_rates") else {}  # type: ignore[operator]
        self.groups: dict[tuple[float, float], list[int]] = {}  # by decay, and what the learning rate is multiplied by
        for position, parameter in enumerate(self.parameters):
            decay = recipe.weight_decay if id(parameter) in numbers else 0.0
            factor = own_rates.get(parameter, recipe.lr) / recipe.lr
            self.groups.setdefault((decay, factor), []).append(position)
        self.means = [torch.zeros_like(parameter, requires_grad=False) for parameter in self.parameters]
        self.squares = [torch.zeros_like(mean) for mean in self.means]
        self.steps = torch.zeros((), device=self.means[0].device) if self.means else torch.zeros(())

    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """One step. A parameter that the loss does not depend on stays as it is."""
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
    """The kernel goes through memory, whatever the strides are."""
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)
