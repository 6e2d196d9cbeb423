"""Recipe: the options of training, declared once. Course: when they stop a training, and which epoch they keep.

Flags and TOML keys are generated from the fields of `Recipe`.
"""

from __future__ import annotations

import re
from collections import deque
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from nlgnn.errors import OptionError, nearest
from nlgnn.limits import parse_size

Stopping = Literal["window", "patience", "patience-either", "never"]
Selection = Literal["first-best", "last-best", "lowest-loss", "last-both"]
Metric = Literal["accuracy", "balanced-accuracy", "macro-f1", "f1", "roc-auc", "average-precision", "log-loss"]
METRICS: tuple[Metric, ...] = get_args(Metric)
AT_K = re.compile(r"(precision|recall|lift)-at-([1-9]\d*|0?\.\d+)")
MOST_EPOCHS = 1_000_000_000
# Options that decide where and how to compute. They change the time that training takes, not its results.
EXECUTION = {"threads", "replicas", "memory", "device"}
PLATEAU = 1e-4  # a loss that is not lower by this share is not progress, as in torch's ReduceLROnPlateau


def metric_heading(metric: str) -> str:
    """Return the name of a metric with its unit, for tables and axes.

    Example:
        >>> metric_heading("accuracy"), metric_heading("log-loss"), metric_heading("lift-at-100")
        ('accuracy %', 'log-loss × −100', 'lift-at-100 × 100')
    """
    if metric.startswith("lift"):
        return f"{metric} × 100"
    return f"{metric} × −100" if metric == "log-loss" else f"{metric} %"


def metric_text(metric: str, value: float, digits: int = 1) -> str:
    """Return the value of a metric for a sentence.

    Example:
        >>> metric_text("accuracy", 81.25), metric_text("log-loss", -53.2), metric_text("lift-at-100", 640.0)
        ('81.2 %', '0.532', '6.4')
    """
    if metric.startswith("lift"):
        return f"{value / 100:.{digits}f}"
    return f"{max(0.0, -value / 100):.3f}" if metric == "log-loss" else f"{value:.{digits}f} %"


def _checked_metric(name: str) -> str:
    if name not in METRICS and not AT_K.fullmatch(name):
        raise ValueError(f"should be {', '.join(METRICS)}, or precision-at-K, recall-at-K or lift-at-K")
    return name


def _checked_size(text: str) -> str:
    parse_size(text)
    return text


class Recipe(BaseModel):
    """The options of training: full-batch Adam, evaluation after every epoch, one epoch chosen by validation.

    Each field is also a command-line flag and a key of a TOML file.

    Raises:
        OptionError: If an option does not exist or cannot take its value.

    Example:
        >>> Recipe(epochs=100, lr=0.05).lr
        0.05
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    features: Literal["none", "unit-sum", "unit-l2"] = Field(
        "unit-sum",
        description="Scaling of feature rows. unit-sum divides a row by the sum of its absolute values, unit-l2 by its "
        "length. All features of a user's table are divided by one number instead.",
    )
    epochs: int = Field(
        1000,
        ge=1,
        le=MOST_EPOCHS,
        description="Largest number of training epochs. Those of pre-training are not counted.",
    )
    lr: float = Field(0.01, gt=0, allow_inf_nan=False, description="Learning rate of Adam.")
    weight_decay: float = Field(
        5e-4, ge=0, allow_inf_nan=False, description="L2 penalty, coupled as in Adam (not AdamW)."
    )
    lr_factor: float = Field(1.0, gt=0, le=1, description="Factor for lr when the loss stops falling.")
    lr_patience: int = Field(50, ge=1, le=MOST_EPOCHS, description="Epochs without a lower loss before lr falls.")
    pretrain_epochs: int = Field(
        0, ge=0, le=MOST_EPOCHS, description="Epochs of pre-training, for a model that has it."
    )
    stopping: Stopping = Field(
        "patience",
        description="When to stop early. window: past half of the epochs, once the validation loss exceeds its mean "
        "over the previous `window` epochs. patience: after `patience` epochs without a better epoch. "
        "patience-either: after `patience` epochs without an epoch whose validation metric or loss is as good as the "
        "best so far. never: train all epochs.",
    )
    window: int = Field(100, ge=1, le=MOST_EPOCHS, description="Epochs that stopping=window averages over.")
    patience: int = Field(200, ge=1, le=MOST_EPOCHS, description="Epochs without improvement before the end.")
    selection: Selection = Field(
        "first-best",
        description="Epoch that is kept. It is the first or last one with the best validation metric, the one with the "
        "lowest validation loss, or the last one whose validation metric and loss both were the best so far.",
    )
    metric: Annotated[str, AfterValidator(_checked_metric)] = Field(
        "accuracy",
        description="Validation metric, such as accuracy, f1 or roc-auc. "
        f"All: {', '.join(METRICS)}, and precision-at-K, recall-at-K and lift-at-K, where K is a number of nodes with "
        "the highest scores, such as 100, or a share, such as 0.05. The positive class of f1, roc-auc, "
        "average-precision and metrics at K is the second one. Log-loss is negated, so that larger is better.",
    )
    class_weight: Literal["none", "balanced"] = Field(
        "none", description="Class weights in the loss. balanced: all classes count the same."
    )
    seed: int = Field(0, ge=0, lt=2**32, description="Seed of the random numbers; run r uses seed + r.")
    threads: Annotated[int, Field(ge=1, le=4096)] | Literal["auto"] = Field(
        "auto", description="CPU threads; auto: one, or all if that is faster."
    )
    replicas: Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"] = Field(
        "auto", description="Models trained at once; auto: the fastest number."
    )
    memory: Annotated[str, AfterValidator(_checked_size)] | None = Field(
        None,
        description="Memory that training on a CPU may use, such as 8GiB. By default it is most of the free memory. If "
        "it is short, models compute in parts, and again in the backward pass.",
    )
    device: str = Field("auto", description="Device: cpu, cuda, cuda:1, or auto (a GPU if there is one).")

    if not TYPE_CHECKING:  # type checkers see the typed fields instead, so that they report a misspelt option

        def __init__(self, **options: Any) -> None:
            try:
                super().__init__(**options)
            except ValidationError as error:
                first = error.errors()[0]
                name = str(first["loc"][0])
                message = first["msg"].removeprefix("Value error, ")
                raise OptionError(
                    f"{name}={first['input']!r}: {message[0].lower()}{message[1:]}.", help_of(name)
                ) from None


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


def check_pretraining(name: str, pretrains: bool, recipe: Recipe) -> None:
    """Raise an `OptionError` if a recipe and a model disagree about pre-training."""
    if recipe.pretrain_epochs and not pretrains:
        raise OptionError(f"{name} has no pre-training.", "Leave pretrain_epochs at 0.")
    if not recipe.pretrain_epochs and pretrains:
        raise OptionError(
            f"{name} needs pre-training, but pretrain_epochs is 0.",
            "Set pretrain_epochs to a positive number.",
        )


def help_of(field: str) -> str:
    """Return the help text of a field, or the nearest known name."""
    known = Recipe.model_fields.get(field)
    return f"{field}: {known.description}" if known else nearest(field, list(Recipe.model_fields))
