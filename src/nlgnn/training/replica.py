"""Run: the outcome of training one model. Job: a run that is to be trained. Replica: the run in progress."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import groupby
from statistics import median
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nlgnn.graph.splits import Split
from nlgnn.nn.base import Model, as_model
from nlgnn.nn.kernels.dropout import Draws
from nlgnn.nn.layers import class_weights
from nlgnn.shallow.base import ShallowModel, balanced_weights
from nlgnn.training.recipe import Course, Recipe

OUT_OF_TIME = "there was no time for it"  # of a run that may still be trained
# Options in which models that are trained at once may differ: their rates, and nothing of their form.
RATES = {"dropout", "input_dropout", "conv_dropout"}
MOST_SHOWN = 3  # values of a setting that runs chose


@dataclass
class Run:
    """One model trained on one split.

    Attributes:
        index: The number of the run within its training.
        seed: The seed of its random numbers.
        protocol: The name of the split protocol.
        split: The number of the split within the protocol.
        epochs: The number of epochs that were trained; 0 for a model without gradient training, which has no curves.
        chosen_epoch: The epoch whose weights are kept, chosen by validation; 0 where there are no epochs.
        seconds: The training time; models that were trained at once share the time equally.
        val: Every metric on the validation nodes at the chosen epoch, in percent.
        test: Every metric on the test nodes at the chosen epoch, in percent.
        failure: The reason why the run has no figures, such as a loss that became infinite; None if it succeeded.
        choices: The settings that the model chose by validation, by name; for models without gradient training.
        curves: One value per epoch, by name.
        state: The weights of the chosen epoch.
        validation: The class probabilities of the validation nodes at the chosen epoch, `[k, c]`, from which ensembles
            are chosen.

    Example:
        >>> from nlgnn import Recipe, configure, fit, load_graph
        >>> graph = load_graph("mushroom-body")
        >>> factory, recipe = configure("gcn", graph, epochs=5)
        >>> run = fit(factory, graph, "random-60", recipe)[0]
        >>> (run.epochs, sorted(run.test)[0])
        (5, 'accuracy')
    """

    index: int
    seed: int
    protocol: str
    split: int
    epochs: int = 0
    chosen_epoch: int = 0
    seconds: float = 0.0
    val: dict[str, float] = field(default_factory=dict)
    test: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    choices: dict[str, str | float] = field(default_factory=dict)
    curves: dict[str, list[float]] = field(default_factory=dict, repr=False)
    state: dict[str, Tensor] = field(default_factory=dict, repr=False)
    validation: Tensor | None = field(default=None, repr=False)

    @property
    def is_postponed(self) -> bool:
        """Return whether the run was not trained because there was no time for it."""
        return self.failure == OUT_OF_TIME

    @property
    def ms_per_epoch(self) -> float:
        """Return the milliseconds per epoch, training step and evaluation together."""
        return 1000 * self.seconds / max(1, self.epochs)

    def summary(self) -> dict[str, Any]:
        """Return everything except the arrays, for JSON."""
        return {name: value for name, value in asdict(self).items() if name not in ("curves", "state", "validation")}


def choice_words(runs: Sequence[Run]) -> dict[str, str]:
    """Return what runs chose by validation, by the name of the setting: the most frequent values, or their range.

    Example:
        >>> runs = [Run(i, i, "random-60", i, choices={"rounds": rounds}) for i, rounds in enumerate([9, 9, 5])]
        >>> choice_words(runs)
        {'rounds': '9 (2 of 3 runs), 5 (1 of 3 runs)'}
    """
    words = {}
    for name in dict.fromkeys(name for run in runs for name in run.choices):
        values = [run.choices[name] for run in runs if name in run.choices]
        counts = Counter(values).most_common()
        numbers = [value for value in values if not isinstance(value, str)]
        if len(counts) == 1:
            words[name] = _shown(values[0])
        elif len(counts) > MOST_SHOWN and len(numbers) == len(values):
            words[name] = f"{min(numbers):g} to {max(numbers):g}, median {median(numbers):g}"
        else:
            shown = [f"{_shown(value)} ({count} of {len(values)} runs)" for value, count in counts[:MOST_SHOWN]]
            words[name] = ", ".join([*shown, *(["others"] if len(counts) > MOST_SHOWN else [])])
    return words


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:g}"


@dataclass
class Checkpoint:
    """The state of an unfinished run at the end of an epoch."""

    index: int
    seconds: float
    curves: dict[str, list[float]]
    model: dict[str, Tensor]
    best: dict[str, Tensor]
    optimizer: dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Job:
    """A run to fill in, the factory of its model with an example, the recipe and the split."""

    run: Run
    factory: Callable[[], Any]
    example: Any  # a `Model` or a `ShallowModel`
    recipe: Recipe
    split: Split
    setting: int = 0  # its place in the list of settings

    @property
    def train(self) -> NDArray[np.int64]:
        """Return the nodes to learn from."""
        return np.flatnonzero(self.split.train)

    def class_weights(self, y: NDArray[np.int64], num_classes: int) -> NDArray[np.float32] | None:
        """Return the weight of each class in the loss, from the labels of training nodes; None if all are 1."""
        if self.recipe.class_weight == "none":
            return None
        return balanced_weights(y[self.train], num_classes)

    @property
    def shape(self) -> Hashable:
        """Return the properties that jobs of one stack share: form of the model, inputs and sizes of the split."""
        by_itself = isinstance(self.example, ShallowModel)
        sizes = None if by_itself else (int(self.split.train.sum()), int(self.split.val.sum()))
        return shape_of_setting(self.factory, self.recipe), sizes


def shape_of_setting(factory: Callable[[], Any], recipe: Recipe) -> Hashable:
    """Return the properties that two settings must share for their models to be trained at once on one split."""
    form: Hashable = id(factory)
    if isinstance(factory, partial):
        arguments = {name: value for name, value in factory.keywords.items() if name not in RATES}
        form = (factory.func, factory.args, json.dumps(arguments, sort_keys=True, default=id))
    execution = recipe.device, recipe.threads, recipe.replicas, recipe.memory
    return form, recipe.features, recipe.metric, recipe.class_weight, recipe.pretrain_epochs, execution


def by_shape(jobs: Sequence[Job]) -> list[list[Job]]:
    """Return groups of jobs that can be trained at once, in the order of their first jobs."""
    shapes = list(dict.fromkeys(job.shape for job in jobs))
    in_order = sorted(jobs, key=lambda job: shapes.index(job.shape))
    return [list(group) for _, group in groupby(in_order, key=lambda job: job.shape)]


class Adam:
    """Adam of one model, with the weight decay and learning rate of its parameter groups.

    It computes what `torch.optim.Adam` with coupled L2 computes, by the kernel that its fused form calls. Models that
    are trained at once have one optimiser each: on stacks of models, separate operations took ten times as long.
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
    class_weights: Tensor | None = None  # in the loss
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
        """Let the model initialise itself from data, with the class weights of the loss."""
        with class_weights(self.class_weights, required=False):
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
        self.model.unwrapped.load_state_dict(saved.model)
        self.adam.load(saved.optimizer)
        self.curves, self.seconds = saved.curves, saved.seconds
        for loss, metric in zip(self.curves["val_loss"], self.curves["val_metric"], strict=True):
            self.course.note(loss, metric)
        self.adam.lr = self.course.lr
        self.best_state = {name: value.to(self.train.device) for name, value in saved.best.items()}
