"""One run: a step and an evaluation an epoch, until the stopping rule; the best epoch is kept as a copied state."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.nn.inputs import Inputs
from nlgnn.training.execution import random_state, set_random_state
from nlgnn.training.metrics import measure, measure_all
from nlgnn.training.recipe import Recipe
from nlgnn.training.run import Checkpoint, Run, load_weights
from nlgnn.training.stopping import is_better, should_stop


@dataclass
class Training:
    """One run in progress: all that must survive an interruption."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    curves: dict[str, list[float]] = field(default_factory=lambda: {"train_loss": [], "val_loss": [], "val_metric": []})
    best_epoch: int = 0
    best_state: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def epoch(self) -> int:
        return len(self.curves["val_loss"])

    def is_over(self, recipe: Recipe) -> bool:
        return self.epoch > 0 and should_stop(recipe, self.curves["val_loss"], self.best_epoch)

    def record(self, recipe: Recipe, train_loss: float, val_loss: float, val_metric: float) -> None:
        """Note an epoch, and copy the weights where it is the best so far."""
        for name, value in zip(self.curves, (train_loss, val_loss, val_metric), strict=True):
            self.curves[name].append(value)
        best = self.best_epoch - 1
        if self.best_epoch == 0 or is_better(
            recipe, val_metric, val_loss, self.curves["val_metric"][best], self.curves["val_loss"][best]
        ):
            self.best_epoch = self.epoch
            self.best_state = {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def checkpoint(self, index: int) -> Checkpoint:
        return Checkpoint(
            index=index,
            best_epoch=self.best_epoch,
            seconds=self.seconds,
            curves=self.curves,
            model=self.model.state_dict(),
            best=self.best_state,
            optimizer={
                f"{position}.{name}": value
                for position, state in self.optimizer.state_dict()["state"].items()
                for name, value in state.items()
            },
            random_state=random_state(next(self.model.parameters()).device),
        )

    def restore(self, saved: Checkpoint) -> None:
        device = next(self.model.parameters()).device
        load_weights(self.model, saved.model, "the checkpoint")
        self.best_epoch, self.curves, self.seconds = saved.best_epoch, saved.curves, saved.seconds
        self.best_state = {name: value.to(device) for name, value in saved.best.items()}
        state: dict[int, dict[str, Tensor]] = {}
        for key, value in saved.optimizer.items():
            position, _, name = key.partition(".")
            state.setdefault(int(position), {})[name] = value
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": state})
        set_random_state(saved.random_state, device)


@dataclass(frozen=True)
class Task:
    """One split to train on: what goes into the model, and the numbers of the nodes of each part."""

    recipe: Recipe
    inputs: Inputs
    y: Tensor
    train: Tensor
    val: Tensor
    test: Tensor


def train_split(
    run: Run,
    task: Task,
    factory: Callable[[], nn.Module],
    saved: Checkpoint | None,
    after_epoch: Callable[[Training], None],
) -> Run:
    """Fill in a run: train a fresh model, or go on with a saved one, then measure its chosen epoch."""
    device = task.y.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(run.seed)
        model = factory().to(device)
        try:
            if saved is None and task.recipe.pretrain_epochs:
                _pretrain(model, task)
            training = Training(model, _optimizer(model, task.recipe))
            if saved is not None:
                training.restore(saved)
            _train(training, task, after_epoch)
        except FloatingPointError as error:
            run.failure = f"run {run.index}: {error}"
            return run
    run.epochs, run.chosen_epoch, run.seconds = training.epoch, training.best_epoch, training.seconds
    run.curves, run.state = training.curves, {name: value.cpu() for name, value in training.best_state.items()}
    model.load_state_dict(run.state)
    logits = evaluate(model, task.inputs)
    run.val = measure_all(logits[task.val], task.y[task.val])
    run.test = measure_all(logits[task.test], task.y[task.test])
    return run


def _train(training: Training, task: Task, after_epoch: Callable[[Training], None]) -> None:
    """One step and one evaluation an epoch, until the last epoch or the stopping rule."""
    model, optimizer, recipe, y = training.model, training.optimizer, task.recipe, task.y
    deterministic = bool(getattr(model, "deterministic", False))
    loss_of = getattr(model, "loss", cross_entropy)
    val_y = y[task.val]
    output = None
    while training.epoch < recipe.epochs and not training.is_over(recipe):
        started = time.perf_counter()
        model.train()
        output = model(*task.inputs) if output is None else output
        loss = loss_of(output, y, task.train)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if deterministic:  # this forward evaluates the epoch, and is the one that the next step needs
            output = model(*task.inputs)
            logits = logits_of(output).detach()
        else:
            output = None
            logits = evaluate(model, task.inputs)
        val_logits = logits[task.val]
        train_loss, val_loss = loss.item(), F.cross_entropy(val_logits, val_y).item()
        if not (math.isfinite(train_loss) and math.isfinite(val_loss)):
            raise FloatingPointError(
                f"the loss became {train_loss} in training and {val_loss} in validation, epoch {training.epoch + 1}"
            )
        training.record(recipe, train_loss, val_loss, measure(recipe.metric, val_logits, val_y))
        training.seconds += time.perf_counter() - started
        after_epoch(training)


def evaluate(model: nn.Module, inputs: Inputs) -> Tensor:
    """Logits of all nodes, without dropout."""
    model.eval()
    with torch.no_grad():
        return logits_of(model(*inputs))


def _pretrain(model: nn.Module, task: Task) -> None:
    """The first phase of systems that have one: their own loss, no evaluation, a fresh optimiser afterwards."""
    optimizer = _optimizer(model, task.recipe)
    model.train()
    for epoch in range(1, task.recipe.pretrain_epochs + 1):
        loss: Tensor = model.pretrain_loss(model(*task.inputs), task.y, task.train)  # type: ignore[operator]
        if not torch.isfinite(loss):
            raise FloatingPointError(f"the pre-training loss became {loss.item()} in epoch {epoch}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _optimizer(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Adam with coupled L2 on what the model says is decayed: everything, unless it has `decay_groups`."""
    if hasattr(model, "decay_groups"):
        decayed, free = (list(group) for group in model.decay_groups())  # type: ignore[operator]
    else:
        decayed, free = list(model.parameters()), []
    groups: list[dict[str, Any]] = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": free}]
    return torch.optim.Adam([group for group in groups if group["params"]], lr=recipe.lr, fused=True)


def cross_entropy(output: Any, y: Tensor, nodes: Tensor) -> Tensor:
    return F.cross_entropy(logits_of(output)[nodes], y[nodes])


def logits_of(output: Any) -> Tensor:
    """A model may return its logits, or a tuple that begins with them."""
    logits: Tensor = output if isinstance(output, Tensor) else output[0]
    return logits
