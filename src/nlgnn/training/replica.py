"""Replica: one run in progress, alone or beside others. All that must survive an interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from nlgnn.training.adam import Adam
from nlgnn.training.execution import random_state
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Checkpoint, Run, load_weights
from nlgnn.training.stopping import is_better, should_stop


@dataclass
class Replica:
    """A model, its optimiser, its random numbers, and what happened so far."""

    run: Run
    recipe: Recipe
    model: nn.Module
    train: Tensor
    val: Tensor
    test: Tensor
    adam: Adam
    random_state: Tensor
    curves: dict[str, list[float]] = field(default_factory=lambda: {"train_loss": [], "val_loss": [], "val_metric": []})
    best_epoch: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0

    @classmethod
    def new(
        cls,
        run: Run,
        recipe: Recipe,
        factory: Callable[[], nn.Module],
        nodes: tuple[Tensor, Tensor, Tensor],
    ) -> Replica:
        """With weights, and all that follows, drawn from the run's own seed."""
        train, val, test = nodes
        torch.manual_seed(run.seed)
        model = factory().to(train.device)
        return cls(run, recipe, model, train, val, test, Adam(model, recipe), random_state(train.device))

    @property
    def epoch(self) -> int:
        return len(self.curves["val_loss"])

    @property
    def is_over(self) -> bool:
        if self.run.failure is not None or self.epoch >= self.recipe.epochs:
            return True
        return self.epoch > 0 and should_stop(self.recipe, self.curves["val_loss"], self.best_epoch)

    def record(self, train_loss: float, val_loss: float, val_metric: float) -> None:
        """Note an epoch, and copy the weights where it is the best so far."""
        for name, value in zip(self.curves, (train_loss, val_loss, val_metric), strict=True):
            self.curves[name].append(value)
        best = self.best_epoch - 1
        if self.best_epoch == 0 or is_better(
            self.recipe, val_metric, val_loss, self.curves["val_metric"][best], self.curves["val_loss"][best]
        ):
            self.best_epoch = self.epoch
            self.best_state = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(
            index=self.run.index,
            best_epoch=self.best_epoch,
            seconds=self.seconds,
            curves=self.curves,
            model=self.model.state_dict(),
            best=self.best_state,
            optimizer=self.adam.state(),
            random_state=self.random_state,
        )

    def restore(self, saved: Checkpoint) -> None:
        load_weights(self.model, saved.model, "the checkpoint")
        self.adam.load(saved.optimizer)
        self.best_epoch, self.curves, self.seconds = saved.best_epoch, saved.curves, saved.seconds
        self.best_state = {name: value.to(self.train.device) for name, value in saved.best.items()}
        self.random_state = saved.random_state
