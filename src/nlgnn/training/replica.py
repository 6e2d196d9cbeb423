"""Job: one run that is to be trained. Replica: the run in progress, with all that has to survive an interruption."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.graph.splits import Split
from nlgnn.nn.base import Model, as_model
from nlgnn.nn.kernels.dropout import Draws
from nlgnn.training.optimiser import Adam
from nlgnn.training.recipe import Recipe
from nlgnn.training.run_folder import Checkpoint, Run
from nlgnn.training.weights import load_weights

# Options in which models that are trained at once may differ: their rates, and nothing of their form.
RATES = {"dropout", "input_dropout", "conv_dropout"}
MOST_COPIES = 400  # classes more than a hundred times smaller than the largest do not count more than this
COPIES = 4  # of a node of the largest class, where classes count alike: weights are right to an eighth at worst
PLATEAU = 1e-4  # a loss that is not lower by this share is not progress, as in torch's ReduceLROnPlateau


@dataclass(frozen=True, eq=False)
class Job:
    """A run to fill in, the factory of its model with an example, the recipe and the split."""

    run: Run
    factory: Callable[[], Any]
    example: Any  # a `Model` or a `ShallowModel`
    recipe: Recipe
    split: Split
    train: NDArray[np.int64]  # nodes to learn from
    setting: int = 0  # its place in the list of settings

    @property
    def shape(self) -> Hashable:
        """Return the properties that jobs of one stack share: form of the model, inputs and sizes of the split."""
        sizes = len(self.train), int(self.split.val.sum())
        return shape_of_setting(self.factory, self.recipe), sizes


def training_nodes(split: Split, y: NDArray[np.int64], class_weight: str) -> NDArray[np.int64]:
    """Return the training nodes; with balanced class weights, nodes of small classes occur several times.

    The loss is a mean over them, so that a node that occurs twice counts twice. Nodes of the largest class occur
    `COPIES` times, before the fraction is reduced.
    """
    nodes = np.flatnonzero(split.train)
    if class_weight == "none":
        return nodes
    sizes = np.bincount(y[nodes])
    copies = np.minimum(np.rint(COPIES * sizes.max() / np.maximum(sizes, 1)), MOST_COPIES).astype(np.int64)
    copies //= np.gcd.reduce(copies[sizes > 0])
    return np.repeat(nodes, copies[y[nodes]])


def shape_of_setting(factory: Callable[[], Any], recipe: Recipe) -> Hashable:
    """Return the properties that two settings must share for their models to be trained at once on one split."""
    form: Hashable = id(factory)
    if isinstance(factory, partial):
        arguments = {name: value for name, value in factory.keywords.items() if name not in RATES}
        form = (factory.func, factory.args, json.dumps(arguments, sort_keys=True, default=id))
    execution = recipe.device, recipe.threads, recipe.replicas, recipe.memory
    return form, recipe.features, recipe.metric, recipe.pretrain_epochs, execution


def by_shape(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return groups of jobs that can be trained at once, in the order of their first jobs."""
    shapes = list(dict.fromkeys(job.shape for job in jobs))
    in_order = sorted(jobs, key=lambda job: shapes.index(job.shape))
    return [list(group) for _, group in groupby(in_order, key=lambda job: job.shape)]


class Course:
    """The course of one training, from its validation figures: the kept epoch, the learning rate and the end."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.lr = recipe, recipe.lr
        self.epoch = self.best_epoch = 0
        self._kept_metric = self._highest_metric = float("-inf")
        self._kept_loss = self._lowest_loss = self._plateau_loss = float("inf")
        self._last_good_epoch = self._lr_epoch = 0
        self._losses: deque[float] = deque(maxlen=recipe.window + 1)

    def note(self, loss: float, metric: float) -> bool:
        """Note the figures of an epoch, and return True if it is the best one so far."""
        self.epoch += 1
        kept = self.epoch == 1 or self._is_better(loss, metric)
        if kept:
            self.best_epoch, self._kept_loss, self._kept_metric = self.epoch, loss, metric
        if loss <= self._lowest_loss or metric >= self._highest_metric:
            self._last_good_epoch = self.epoch
        self._lowest_loss = min(loss, self._lowest_loss)
        self._highest_metric = max(metric, self._highest_metric)
        self._losses.append(loss)
        self._adapt_lr(loss)
        if self.epoch == self.recipe.pretrain_epochs:  # the loss and the optimiser change here
            self.lr, self._plateau_loss, self._lr_epoch = self.recipe.lr, float("inf"), self.epoch
            self._losses.clear()
        return kept

    def _is_better(self, loss: float, metric: float) -> bool:
        match self.recipe.selection:
            case "first-best":
                return metric > self._kept_metric
            case "last-best":
                return metric >= self._kept_metric
            case "lowest-loss":
                return loss < self._kept_loss
            case "last-both":
                return metric >= self._highest_metric and loss <= self._lowest_loss

    def _adapt_lr(self, loss: float) -> None:
        if loss < self._plateau_loss * (1 - PLATEAU):
            self._plateau_loss, self._lr_epoch = loss, self.epoch
        elif self.epoch - self._lr_epoch > self.recipe.lr_patience:
            self.lr, self._lr_epoch = self.lr * self.recipe.lr_factor, self.epoch

    def _epochs_since(self, epoch: int) -> int:
        """Return the number of epochs since an epoch, or since the end of pre-training if that is later."""
        return self.epoch - max(epoch, self.recipe.pretrain_epochs)

    @property
    def is_pretraining(self) -> bool:
        return self.epoch < self.recipe.pretrain_epochs

    @property
    def is_over(self) -> bool:
        recipe, epoch = self.recipe, self.epoch - self.recipe.pretrain_epochs
        if epoch <= 0:
            return False
        if epoch >= recipe.epochs:
            return True
        match recipe.stopping:
            case "window":
                *previous, last = self._losses
                return epoch > recipe.epochs / 2 and bool(previous) and last > fmean(previous)
            case "patience":
                return self._epochs_since(self.best_epoch) >= recipe.patience
            case "patience-either":
                return self._epochs_since(self._last_good_epoch) >= recipe.patience
            case "never":
                return False


@dataclass
class Replica:
    """A model in training, its optimiser, and its history."""

    run: Run
    recipe: Recipe
    model: Model
    train: Tensor
    val: Tensor
    test: Tensor
    adam: Adam
    course: Course
    curves: dict[str, list[float]] = field(default_factory=lambda: {"train_loss": [], "val_loss": [], "val_metric": []})
    best_state: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    setting: int = 0  # which of several settings it belongs to
    dropped: bool = False  # set by a watcher of the training, to end it

    @classmethod
    def new(
        cls,
        run: Run,
        recipe: Recipe,
        factory: Callable[[], nn.Module],
        nodes: tuple[Tensor, Tensor, Tensor],
    ) -> Replica:
        """Make a replica whose weights, and all that follows, are drawn from the seed of its run."""
        train, val, test = nodes
        torch.manual_seed(run.seed)
        model = as_model(factory()).to(train.device)
        return cls(run, recipe, model, train, val, test, Adam(model, recipe), Course(recipe))

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
        """Note an epoch, and copy the weights if it is the best so far."""
        for name, value in zip(self.curves, (train_loss, val_loss, val_metric), strict=True):
            self.curves[name].append(value)
        if self.course.note(val_loss, val_metric):
            self.best_state = {
                name: value.detach().clone() for name, value in self.model.unwrapped.state_dict().items()
            }
        self.adam.lr = self.course.lr

    def seed_torch(self) -> None:
        """Key torch's own random numbers, which modules from elsewhere draw, by seed and epoch."""
        draws = Draws(self.run.seed, torch.device("cpu"), self.epoch)
        torch.manual_seed(draws.generator().initial_seed())

    def begin(self, inputs: tuple[Any, ...], y: Tensor) -> None:
        """Let the model initialise itself from data."""
        self.model.start(inputs, self._known(y))

    def _known(self, y: Tensor) -> Tensor:
        """Return the labels of training nodes, and -1 for all others."""
        known = torch.full_like(y, -1)
        known[self.train] = y[self.train]
        return known

    def end_pretraining(self, inputs: tuple[Any, ...], y: Tensor) -> None:
        """Restore the best weights so far, let the model use its training labels, and start a new optimiser."""
        self.model.unwrapped.load_state_dict(self.best_state)
        self.model.eval()
        self.seed_torch()
        with torch.no_grad():
            self.model.end_pretraining(inputs, self._known(y), self.train)
        self.adam = Adam(self.model, self.recipe)
        self.adam.lr = self.course.lr

    def checkpoint(self) -> Checkpoint:
        """Return the state at the end of an epoch."""
        return Checkpoint(
            index=self.run.index,
            seconds=self.seconds,
            curves=self.curves,
            model=self.model.unwrapped.state_dict(),
            best=self.best_state,
            optimizer=self.adam.state(),
        )

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint."""
        load_weights(self.model.unwrapped, saved.model, "the checkpoint")
        self.adam.load(saved.optimizer)
        self.curves, self.seconds = saved.curves, saved.seconds
        for loss, metric in zip(self.curves["val_loss"], self.curves["val_metric"], strict=True):
            self.course.note(loss, metric)
        self.adam.lr = self.course.lr
        self.best_state = {name: value.to(self.train.device) for name, value in saved.best.items()}
