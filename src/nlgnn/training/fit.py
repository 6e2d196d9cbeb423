"""fit: trains one model a split, chooses an epoch of each by validation, and reads the test figures once."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.nn.inputs import Inputs, prepare_plain
from nlgnn.training.execution import (
    Interrupt,
    choose_device,
    limited_threads,
    model_like,
    random_state,
    set_random_state,
)
from nlgnn.training.metrics import check_metric, measure, measure_all
from nlgnn.training.progress import TrainingProgress
from nlgnn.training.recipe import Recipe, check_pretraining
from nlgnn.training.run import Checkpoint, Run, RunFolder, load_weights
from nlgnn.training.stopping import is_better, should_stop
from nlgnn.training.systems import configure

CHECKPOINT_SECONDS = 30.0


def fit(
    factory: str | Callable[[], nn.Module],
    graph: Graph,
    splits: str | Sequence[Split] = "random-60",
    recipe: Recipe | None = None,
    *,
    folder: RunFolder | None = None,
    progress: bool = True,
) -> list[Run]:
    """Train a model on every split.

    Args:
        factory: makes a fresh model, or the name of a system, which then comes with its settings for this graph.
        graph: all nodes, in training too: labels of validation and test nodes are never looked at there.
        splits: the splits, or the name of a protocol.
        recipe: how to train; by default the system's own, or `Recipe()`.
        folder: where runs are kept as they finish, and where an interrupted one goes on from.
        progress: whether a bar is drawn, on terminals, once training takes longer than two seconds.

    Returns:
        A run a split. A run whose loss became infinite or undefined is marked as failed; the others go on.
    """
    if isinstance(factory, str):
        factory, own_recipe = configure(factory, graph)
        recipe = recipe or own_recipe
    recipe = recipe or Recipe()
    splits = make_splits(graph, splits) if isinstance(splits, str) else list(splits)
    check(graph, splits, recipe)
    graph = graph.scale_features(recipe.features)
    device = choose_device(recipe.device)
    model = model_like(factory)
    check_pretraining(model, recipe)
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    inputs = prepare(model, graph).to(device=device, dtype=dtype)
    y = torch.tensor(graph.y, device=device)  # a copy: columns of tables are read-only
    done: list[Run] = []
    with (
        limited_threads(recipe.threads, graph),
        Interrupt() as interrupt,
        TrainingProgress(len(splits), recipe.epochs, enabled=progress) as bar,
    ):
        for index, split in enumerate(splits):
            run = folder.finished_run(index) if folder else None
            if run is None:
                parts = (split.train, split.val, split.test & graph.labelled)
                train, val, test = (torch.from_numpy(part.nonzero()[0]).to(device) for part in parts)
                task = Task(recipe, inputs, y, train, val, test)
                run = Run(index=index, seed=recipe.seed + index, protocol=split.protocol, split=split.index)
                saved = folder.checkpoint(index) if folder else None
                run = _train_split(run, task, factory, saved, _Watch(index, folder, bar, interrupt))
                if folder:
                    folder.save_run(run)
            bar.finish_run()
            done.append(run)
    if all(run.failure for run in done):
        raise NlgnnError(f"every run failed; {done[0].failure}.", "Try a lower learning rate, or look at the features.")
    return done


class _Watch:
    """What happens after each epoch: the bar moves, the state is saved now and then, Ctrl-C is answered."""

    def __init__(self, index: int, folder: RunFolder | None, bar: TrainingProgress, interrupt: Interrupt) -> None:
        self.index, self.folder, self.bar, self.interrupt = index, folder, bar, interrupt
        self.saved_at = time.monotonic()

    def __call__(self, training: Training) -> None:
        curves = training.curves
        self.bar.update(training.epoch, curves["val_loss"][-1], curves["val_metric"][training.best_epoch - 1])
        due = time.monotonic() - self.saved_at > CHECKPOINT_SECONDS
        if self.folder and (due or self.interrupt.requested):
            self.folder.save_checkpoint(training.checkpoint(self.index))
            self.saved_at = time.monotonic()
        if self.interrupt.requested:
            raise KeyboardInterrupt


def prepare(model: nn.Module, graph: Graph) -> Inputs:
    """What the model's forward takes; models that do not say get dense features and `edge_index`."""
    prepared: Inputs = getattr(model, "prepare", prepare_plain)(graph)
    return prepared


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


def _train_split(
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
    run.curves, run.state = training.curves, training.best_state
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


def cross_entropy(output: Any, y: Tensor, mask: Tensor) -> Tensor:
    return F.cross_entropy(logits_of(output)[mask], y[mask])


def logits_of(output: Any) -> Tensor:
    """A model may return its logits, or a tuple that begins with them."""
    logits: Tensor = output if isinstance(output, Tensor) else output[0]
    return logits


def check(graph: Graph, splits: Sequence[Split], recipe: Recipe) -> None:
    """Raise whatever would make training fail, before it begins."""
    choose_device(recipe.device)
    check_metric(recipe.metric, graph.num_classes)
    if not splits:
        raise OptionError("there are no splits to train on.", "Give at least one, or the name of a protocol.")
    for split in splits:
        where = f"graph {graph.name!r}, split {split.index} of {split.protocol!r}"
        split.check_length(graph.num_nodes, where)
        for part, mask in (("training", split.train), ("validation", split.val)):
            if not mask.any():
                raise DataError(f"{where}: there are no {part} nodes.", "Label more nodes, or use another split.")
            unlabelled = (mask & ~graph.labelled).nonzero()[0]
            if len(unlabelled):
                raise DataError(
                    f"{where}: {part} node {unlabelled[0]} has no label ({len(unlabelled)} such nodes).",
                    "Leave nodes without a label out of training and validation.",
                )
