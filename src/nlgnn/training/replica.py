"""Replica: one run in progress, alone or beside others. All that must survive an interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from nlgnn.training.adam import Adam
from nlgnn.training.execution import random_state
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Checkpoint, Run, load_weights
from nlgnn.training.stopping import Course


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
    course: Course
    curves: dict[str, list[float]] = field(default_factory=lambda: {"train_loss": [], "val_loss": [], "val_metric": []})
    best_state: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    setting: int = 0  # which of several settings it belongs to
    dropped: bool = False  # by whoever watches the training: it goes no further

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
        adam, state = Adam(model, recipe), random_state(train.device)
        return cls(run, recipe, model, train, val, test, adam, state, Course(recipe))

    @property
    def epoch(self) -> int:
        return self.course.epoch

    @property
    def is_pretraining(self) -> bool:
        return self.course.is_pretraining

    @property
    def is_over(self) -> bool:
        return self.dropped or self.run.failure is not None or self.course.is_over

    def record(self, train_loss: float, val_loss: float, val_metric: float) -> None:
        """Note an epoch, and copy the weights where it is the best so far."""
        for name, value in zip(self.curves, (train_loss, val_loss, val_metric), strict=True):
            self.curves[name].append(value)
        if self.course.note(val_loss, val_metric):
            self.best_state = {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        self.adam.lr = self.course.lr

    def begin(self, inputs: tuple[Any, ...], y: Tensor) -> None:
        """What the model wants to know before its first step."""
        if hasattr(self.model, "before_training"):
            self.model.before_training(inputs, self._known(y))  # type: ignore[operator]

    def _known(self, y: Tensor) -> Tensor:
        """The labels of training nodes; -1 elsewhere."""
        known = torch.full_like(y, -1)
        known[self.train] = y[self.train]
        return known

    def end_pretraining(self, inputs: tuple[Any, ...], y: Tensor) -> None:
        """Back to the best weights so far, what the model makes of its training labels, and a fresh optimiser."""
        self.model.load_state_dict(self.best_state)
        if hasattr(self.model, "after_pretraining"):
            self.model.eval()
            with torch.no_grad():
                self.model.after_pretraining(inputs, self._known(y), self.train)  # type: ignore[operator]
        self.adam = Adam(self.model, self.recipe)
        self.adam.lr = self.course.lr

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(
            index=self.run.index,
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
        self.curves, self.seconds = saved.curves, saved.seconds
        for loss, metric in zip(self.curves["val_loss"], self.curves["val_metric"], strict=True):
            self.course.note(loss, metric)
        self.adam.lr = self.course.lr
        self.best_state = {name: value.to(self.train.device) for name, value in saved.best.items()}
        self.random_state = saved.random_state
