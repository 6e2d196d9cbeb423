"""What validation decides: which epoch is kept, the learning rate, when training stops."""

from __future__ import annotations

from collections import deque
from statistics import fmean

from nlgnn.training.recipe import Recipe

PLATEAU = 1e-4  # a loss that is not lower by this share is no progress, as in torch's ReduceLROnPlateau


class Course:
    """How one training has gone so far. It is told of every epoch, and of nothing else."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe, self.lr = recipe, recipe.lr
        self.epoch = self.best_epoch = 0
        self._kept_metric = self._highest_metric = float("-inf")
        self._kept_loss = self._lowest_loss = self._plateau_loss = float("inf")
        self._last_good_epoch = self._lr_epoch = 0
        self._losses: deque[float] = deque(maxlen=recipe.window + 1)

    def note(self, loss: float, metric: float) -> bool:
        """Whether this epoch takes the place of the best one so far."""
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
        if self.epoch == self.recipe.pretrain_epochs:  # what follows is another loss, and another optimiser
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
        """Waiting begins anew after pre-training."""
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
