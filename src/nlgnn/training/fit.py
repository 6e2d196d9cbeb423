"""fit: trains one model a split, many at once, keeping what is finished and answering Ctrl-C."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.errors import NlgnnError, NlgnnWarning, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.nn.inputs import ignores_weights, prepare
from nlgnn.training.checks import check, check_apart, check_graph, check_output, example_of
from nlgnn.training.execution import (
    Interrupt,
    allocation,
    choose_device,
    device_at_hand,
    limited_threads,
    model_like,
)
from nlgnn.training.jobs import Job, by_shape, models_at_once, shape_of_setting, training_nodes
from nlgnn.training.loop import finish, train_replicas
from nlgnn.training.memory import MemoryPlan, check_trial, memory_plan, set_recompute
from nlgnn.training.progress import TrainingProgress
from nlgnn.training.recipe import EXECUTION, Recipe, check_pretraining
from nlgnn.training.replica import Replica
from nlgnn.training.replicas import Alone, Stack, evaluate
from nlgnn.training.run import Run, RunFolder, check_weights, load_weights
from nlgnn.training.systems import configure, default_protocol

CHECKPOINT_SECONDS = 30.0


Setting = tuple[Callable[[], nn.Module], Recipe]
Watch = Callable[[Sequence[Replica]], None]


class EveryRunFailedError(NlgnnError):
    """No run of a training has figures."""


def fit(
    factory: str | Callable[[], nn.Module],
    graph: Graph,
    splits: str | Split | Sequence[Split] | None = None,
    recipe: Recipe | None = None,
    *,
    folder: RunFolder | None = None,
    progress: bool = True,
    watch: Watch | None = None,
) -> list[Run]:
    """Train a model on every split.

    Args:
        factory: makes a fresh model, or the name of a system, which then comes with its settings for this graph.
        graph: all nodes, in training too: labels of validation and test nodes are never looked at there.
        splits: a split or several, or the name of a protocol; by default the protocol that goes with the graph.
        recipe: how to train. Of a named system, what it does not say stays as the system has it.
        folder: where runs are kept as they finish, and where an interrupted one goes on from.
        progress: whether a bar is drawn, on terminals, once training takes longer than two seconds.
        watch: called after every epoch with the replicas that are in training.

    Returns:
        A run a split. A run whose loss became infinite or undefined is marked as failed; the others go on.
    """
    runs = _fit([setting_of(factory, graph, recipe)], graph, splits, folder, progress, watch)[0]
    if all(run.failure for run in runs):
        how = "Try a lower learning rate, or look at the features."
        raise EveryRunFailedError(f"every run failed; {runs[0].failure}.", how)
    return runs


def setting_of(model: str | Callable[[], nn.Module], graph: Graph, recipe: Recipe | None) -> Setting:
    """What makes a model, and how to train it. Of a named system, what the recipe does not say stays as it has it."""
    check_graph(graph)
    if recipe is not None and not isinstance(recipe, Recipe):
        raise OptionError(f"recipe is a {type(recipe).__name__}.", "Give a Recipe: Recipe(epochs=100, lr=0.01).")
    if isinstance(model, nn.Module):
        raise OptionError("training needs what makes a model, not a model.", "Give a function: lambda: MyModel(...).")
    if isinstance(model, str):
        given = {} if recipe is None else {name: getattr(recipe, name) for name in recipe.model_fields_set}
        return configure(model, graph, **given)
    return model, recipe or Recipe()


def fit_settings(
    settings: Sequence[Setting],
    graph: Graph,
    splits: str | Split | Sequence[Split] | None = None,
    *,
    progress: bool = True,
    watch: Watch | None = None,
) -> list[list[Run]]:
    """Train several settings on every split; those of one shape at once.

    Args:
        settings: what makes a model, and how to train it: what `configure` returns. They are of one shape where they
            differ in dropout and recipe only.
        graph: as for `fit`.
        splits: as for `fit`.
        progress: as for `fit`.
        watch: called after every epoch with the replicas that are in training; those that it sets `dropped` of end
            there, with the figures of their best epoch so far. `replica.setting` is a place in `settings`.

    Returns:
        For each setting what `fit` would return; also where all of its runs failed.
    """
    if not settings:
        raise OptionError("there are no settings to train.", "Give at least one pair of a factory and a Recipe.")
    return _fit(settings, graph, splits, None, progress, watch)


def _fit(
    settings: Sequence[Setting],
    graph: Graph,
    splits: str | Split | Sequence[Split] | None,
    folder: RunFolder | None,
    progress: bool,
    watch: Watch | None = None,
) -> list[list[Run]]:
    check_graph(graph)
    splits = default_protocol(graph) if splits is None else splits
    splits = make_splits(graph, splits) if isinstance(splits, str) else splits
    splits = [splits] if isinstance(splits, Split) else list(splits)
    examples = []
    for factory, recipe in settings:
        check(graph, splits, recipe)
        examples.append(example_of(factory, runs=len(splits)))
        check_pretraining(examples[-1], recipe)
        check_trial(factory, examples[-1], recipe)
        if folder:
            folder.claim(identity(graph, splits, recipe, factory, examples[-1]))
    check_apart(examples)
    for name in sorted({type(model).__name__ for model in examples if ignores_weights(model, graph)}):
        what = f"{name} does not look at the weights of edges: all edges of graph {graph.name!r} count alike."
        warnings.warn(what, NlgnnWarning, stacklevel=3)
    runs = [
        [Run(index, recipe.seed + index, split.protocol, split.index) for index, split in enumerate(splits)]
        for _, recipe in settings
    ]
    jobs = [
        Job(run, factory, example, recipe, split, training_nodes(split, graph.y, recipe.class_weight), number)
        for number, ((factory, recipe), example) in enumerate(zip(settings, examples, strict=True))
        for run, split in zip(runs[number], splits, strict=True)
    ]
    epochs = max(recipe.pretrain_epochs + recipe.epochs for _, recipe in settings)
    with (
        # Training sets the random numbers that it draws from, on all devices.
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
        Interrupt() as interrupt,
        TrainingProgress(len(jobs), epochs, enabled=progress) as bar,
    ):
        for job in {shape_of_setting(job.factory, job.recipe): job for job in jobs}.values():
            check_output(job, graph)
        for shape in by_shape(jobs):
            _Training(graph, folder, bar, interrupt, watch).train(shape)
        if folder:
            folder.remove_checkpoints()
        if interrupt.requested:  # in the last epoch of all: the caller may have more to do
            raise KeyboardInterrupt
    return runs


class _Training:
    """The jobs of one shape: from the graph to filled-in runs, with what happens after each epoch and each run."""

    inputs: tuple[Any, ...]
    y: Tensor
    recompute: bool

    def __init__(
        self,
        graph: Graph,
        folder: RunFolder | None,
        bar: TrainingProgress,
        interrupt: Interrupt,
        watch: Watch | None = None,
    ) -> None:
        self.graph, self.folder, self.bar, self.interrupt, self.watch = graph, folder, bar, interrupt, watch
        self.interrupted = folder.checkpoints() if folder else {}
        self.saved_at = time.monotonic()

    def train(self, jobs: Sequence[Job]) -> None:
        recipe, model = jobs[0].recipe, jobs[0].example
        device = choose_device(recipe.device)
        with limited_threads(recipe.threads, self.graph):
            self.y = torch.tensor(self.graph.y, device=device)  # a copy: columns of tables are read-only
            waiting = [partial(self._start, job) for job in jobs if not self._was_finished(job, model)]
            if not waiting:
                return
            self.inputs = prepare(model, self.graph.scale_features(recipe.features), device)
            plan = memory_plan(jobs[0], self.graph) if device.type == "cpu" else MemoryPlan()
            self.recompute = plan.recompute
            # Of all jobs, also of finished ones: whether a model is alone decides about the last digit of its figures.
            most = len(jobs) if plan.at_once is None else min(len(jobs), plan.at_once)
            at_once = models_at_once(model, self.inputs, most, recipe.replicas)
            with allocation(frugal=self.recompute or recipe.memory is not None):
                train_replicas(waiting, at_once, self.inputs, self.y, self._after_epoch, self._after_run)

    def _was_finished(self, job: Job, model: nn.Module) -> bool:
        """Whether the folder has it already; if so, take it from there."""
        run = self.folder.finished_run(job.run.index) if self.folder else None
        if run is None:
            return False
        if run.failure is None:
            check_weights(model, run.state, self.folder.path)  # type: ignore[union-attr]
        vars(job.run).update(vars(run))
        self.bar.finish_run()
        return True

    def _start(self, job: Job) -> Replica:
        parts = (job.train, np.flatnonzero(job.split.val), np.flatnonzero(job.split.test & self.graph.labelled))
        train, val, test = (torch.from_numpy(part).to(self.y.device) for part in parts)
        replica = Replica.new(job.run, job.recipe, job.factory, (train, val, test))
        replica.setting = job.setting
        set_recompute(replica.model, self.recompute)
        replica.begin(self.inputs, self.y)
        if saved := self.interrupted.pop(job.run.index, None):
            replica.restore(saved)
            if replica.epoch == job.recipe.pretrain_epochs:  # checkpoints are of the end of an epoch
                replica.end_pretraining(self.inputs, self.y)
        return replica

    def _after_epoch(self, replicas: Sequence[Replica], together: Alone | Stack) -> None:
        running = [replica for replica in replicas if replica.run.epochs == 0 and replica.run.failure is None]
        if running:
            losses = [replica.curves["val_loss"][-1] for replica in running]
            best = [replica.curves["val_metric"][replica.course.best_epoch - 1] for replica in running]
            self.bar.update([replica.epoch for replica in running], fmean(losses), fmean(best))
        due = time.monotonic() - self.saved_at > CHECKPOINT_SECONDS
        if self.folder and (due or self.interrupt.requested):
            together.save_random_states()
            still_waiting = self.interrupted.values()
            self.folder.save_checkpoints([*(replica.checkpoint() for replica in running), *still_waiting])
            self.saved_at = time.monotonic()
        if self.interrupt.requested:
            raise KeyboardInterrupt
        if self.watch:
            self.watch(replicas)

    def _after_run(self, replica: Replica) -> None:
        finish(replica, self.inputs, self.y)
        if self.folder:
            self.folder.save_run(replica.run)
        self.bar.finish_run()


def identity(
    graph: Graph, splits: Sequence[Split], recipe: Recipe, factory: Callable[[], nn.Module], model: nn.Module
) -> str:
    """A hash of all that decides the figures: runs with another one are not of the same training.

    Of the arguments of a model it knows those that `configure` gives; of other factories the shapes that come out.
    """
    shapes = [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
    settings = recipe.model_dump(exclude=EXECUTION)
    if recipe.class_weight == "none":  # older folders know nothing of it
        settings.pop("class_weight")
    keywords = factory.keywords if isinstance(factory, partial) else {}
    # Of what JSON cannot hold the name: its own text would have an address in it.
    arguments = json.dumps(
        keywords, sort_keys=True, default=lambda value: getattr(value, "__qualname__", repr(type(value)))
    )
    digest = hashlib.sha256(repr((graph.fingerprint, settings, type(model).__name__, arguments, shapes)).encode())
    digest.update(bits_of(splits))
    return digest.hexdigest()[:16]


def bits_of(splits: Sequence[Split]) -> bytes:
    """Which node is in which part."""
    return b"".join(np.packbits([split.train, split.val, split.test]).tobytes() for split in splits)


def predict(
    factory: Callable[[], nn.Module], graph: Graph, runs: Sequence[Run], recipe: Recipe
) -> Float[Tensor, "runs n c"]:
    """Class probabilities of all nodes, by each run that did not fail, prepared as in training."""
    device, model = device_at_hand(recipe.device), model_like(factory)
    probabilities = []
    with limited_threads(recipe.threads, graph):
        inputs = prepare(model, graph.scale_features(recipe.features), device)
        model = model.to(device)
        for run in runs:
            if run.failure is None:
                load_weights(model, run.state, f"run {run.index}")
                probabilities.append(evaluate(model, inputs).softmax(1).cpu())
    return torch.stack(probabilities)
