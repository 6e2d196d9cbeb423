"""fit: train a model on every split, many at once; finished runs are kept, and Ctrl-C is answered."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from nlgnn.errors import NlgnnError, NlgnnWarning, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.models.build import default_protocol
from nlgnn.nn.base import Model
from nlgnn.nn.kernels.ranks import active_ranks, any_rank, own_rows
from nlgnn.shallow.base import EndOfRunsError, Factory, ShallowModel
from nlgnn.training.device import (
    Interrupt,
    allocation,
    choose_device,
    device_at_hand,
    limited_threads,
    model_like,
)
from nlgnn.training.inputs import prepare
from nlgnn.training.loop import Alone, evaluate, finish, train_replicas
from nlgnn.training.memory import MemoryPlan, memory_plan, models_at_once, set_recompute
from nlgnn.training.preflight import (
    Setting,
    check,
    check_apart,
    check_graph,
    check_options,
    check_output,
    class_name,
    description_of,
    example_of,
    identity,
    ignores_types,
    ignores_weights,
    setting_of,
)
from nlgnn.training.processes import is_first
from nlgnn.training.progress import TrainingProgress
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import OUT_OF_TIME, Job, Replica, Run, by_shape, shape_of_setting
from nlgnn.training.run_folder import RunFolder, check_weights, load_weights
from nlgnn.training.shallow_run import fit_shallow, predict_shallow, scaled
from nlgnn.training.threads import Pace, choose_threads

CHECKPOINT_SECONDS = 30.0

Watch = Callable[[Sequence[Replica]], None]


class EveryRunFailedError(NlgnnError):
    """No run of a training has figures."""


def fit(
    factory: str | Factory,
    graph: Graph,
    splits: str | Split | Sequence[Split] | None = None,
    recipe: Recipe | None = None,
    *,
    folder: RunFolder | None = None,
    progress: bool = True,
    watch: Watch | None = None,
    finished: Sequence[Run] = (),
) -> list[Run]:
    """Train a model on every split.

    Args:
        factory: Makes a new model; or the name of a model, which is trained with its settings for this graph.
        graph: The graph. All of its nodes take part in training, but labels of validation and test nodes do not. Edges
            of the test period (`Graph.later_edges`) take part in the test only.
        splits: One or several splits, or the name of a protocol; by default the protocol that belongs to the graph.
        recipe: The options of training. For a named model, options that are not set keep the model's own values. A
            model without gradient training takes few of them, and gets unscaled features unless they are set.
        folder: The folder that keeps finished runs, and from which an interrupted training continues.
        progress: If True, a progress bar is drawn on terminals after two seconds.
        watch: Called after every epoch with the replicas in training; after every run, with none, for a model without
            gradient training.
        finished: Runs of the same training that are finished. They are not trained again.

    Returns:
        One run per split. A run whose loss became infinite or undefined is marked as failed; the others continue.

    Raises:
        OptionError: If the model, the recipe and the graph do not fit together.
        EveryRunFailedError: If no run has figures.

    Example:
        >>> import nlgnn
        >>> runs = nlgnn.fit("mlp", nlgnn.planted_order_graph(60), "random-60", nlgnn.Recipe(epochs=2), progress=False)
        >>> len(runs)
        10
    """
    settings = [setting_of(factory, graph, recipe)]
    runs = fit_settings(settings, graph, splits, folder=folder, progress=progress, watch=watch, finished=finished)[0]
    if all(run.failure for run in runs):
        how = "Try a lower learning rate, or look at the features."
        raise EveryRunFailedError(f"every run failed; {runs[0].failure}.", how)
    return runs


def fit_settings(
    settings: Sequence[Setting],
    graph: Graph,
    splits: str | Split | Sequence[Split] | None = None,
    *,
    folder: RunFolder | None = None,
    progress: bool = True,
    watch: Watch | None = None,
    finished: Sequence[Run] = (),
) -> list[list[Run]]:
    """Train several settings on every split; those of one shape at once.

    Args:
        settings: Pairs of a factory and a recipe, as `configure` returns them. Settings that differ only in dropout and
            recipe have the same shape.
        graph: The graph, as for `fit`.
        splits: The splits, as for `fit`.
        folder: The folder of the runs, for a single setting.
        progress: If True, a progress bar is drawn on terminals after two seconds.
        watch: Called after every epoch with the replicas in training. If it sets `dropped` of a replica, the replica
            ends with the figures of its best epoch so far. `replica.setting` is a position in `settings`.
        finished: Finished runs, as for `fit`, for a single setting.

    Returns:
        The runs of each setting, as `fit` returns them, even if all of them failed.

    Raises:
        OptionError: If settings or splits do not fit the graph, as for `fit`.

    Example:
        >>> from nlgnn import configure, fit_settings, load_graph
        >>> graph = load_graph("mushroom-body")
        >>> settings = [configure("mlp", graph, epochs=5, lr=lr) for lr in (0.01, 0.1)]
        >>> [len(runs) for runs in fit_settings(settings, graph, "random-60")]
        [10, 10]
    """
    if not settings:
        raise OptionError("there are no settings to train.", "Give at least one pair of a factory and a Recipe.")
    check_graph(graph)
    splits = default_protocol(graph) if splits is None else splits
    splits = make_splits(graph, splits) if isinstance(splits, str) else splits
    splits = [splits] if isinstance(splits, Split) else list(splits)
    examples = []
    for factory, recipe in settings:
        check(graph, splits, recipe)
        examples.append(example_of(factory))
        check_options(factory, examples[-1], recipe)
        if folder:
            own = identity(graph, splits, recipe, factory, examples[-1])
            folder.claim(own, comparable=description_of(factory) is not None)
    again = [example_of(factory) for factory, _ in settings] if len(splits) > 1 else []
    check_apart([model for model in (*examples, *again) if isinstance(model, Model)])
    for name in sorted({class_name(model) for model in examples if ignores_weights(model, graph)}):
        what = f"{name} does not look at the weights of edges: all edges of graph {graph.name!r} count alike."
        warnings.warn(what, NlgnnWarning, stacklevel=3)
    for name in sorted({class_name(model) for model in examples if ignores_types(model, graph)}):
        what = f"{name} does not look at the types of edges: all edges of graph {graph.name!r} count alike."
        warnings.warn(what, NlgnnWarning, stacklevel=3)
    runs = [
        [Run(index, recipe.seed + index, split.protocol, split.index) for index, split in enumerate(splits)]
        for _, recipe in settings
    ]
    jobs = [
        Job(run, factory, example, recipe, split, number)
        for number, ((factory, recipe), example) in enumerate(zip(settings, examples, strict=True))
        for run, split in zip(runs[number], splits, strict=True)
    ]
    by_gradients = [job for job in jobs if isinstance(job.example, Model)]
    epochs = max((job.recipe.pretrain_epochs + job.recipe.epochs for job in by_gradients), default=1)
    with (
        # Training sets the random numbers that it draws from, on all devices.
        torch.random.fork_rng(devices=range(torch.cuda.device_count())),
        Interrupt() as interrupt,
        TrainingProgress(len(jobs), epochs, enabled=progress and is_first()) as bar,
    ):
        for job in {shape_of_setting(job.factory, job.recipe): job for job in by_gradients}.values():
            check_output(job, graph)
        for shape in by_shape(jobs):
            training = _Training(graph, folder, bar, interrupt, watch, finished)
            if isinstance(shape[0].example, ShallowModel):
                training.fit_one_by_one(shape)
                continue
            with training.prepared(shape) as (waiting, at_once):
                train_replicas(waiting, at_once, training.inputs, training.y, training.after_epoch, training.after_run)
        if folder:
            folder.remove_checkpoints()
        if interrupt.requested:  # in the last epoch of all: the caller may have more to do
            raise KeyboardInterrupt
    return runs


class _Training:
    """The training of jobs of one shape: its inputs, and what happens before, after each epoch and after each run."""

    inputs: tuple[Any, ...] = ()
    test_inputs: tuple[Any, ...] | None = None  # if the graph has later edges
    y: Tensor
    recompute: bool

    def __init__(
        self,
        graph: Graph,
        folder: RunFolder | None,
        bar: TrainingProgress,
        interrupt: Interrupt,
        watch: Watch | None = None,
        finished: Sequence[Run] = (),
    ) -> None:
        self.graph, self.folder, self.bar, self.interrupt, self.watch = graph, folder, bar, interrupt, watch
        self.interrupted = folder.checkpoints() if folder else {}
        self.finished = {run.index: run for run in finished if run.failure is None}
        self.saved_at = time.monotonic()
        self.pace = Pace(1)

    @contextmanager
    def prepared(self, jobs: Sequence[Job]) -> Iterator[tuple[list[Callable[[], Replica]], int]]:
        """Yield functions that make the replicas of unfinished jobs, and the number of them to train at once."""
        recipe, model = jobs[0].recipe, jobs[0].example
        device = choose_device(recipe.device)
        with limited_threads(recipe.threads, self.graph) as threads:
            self.y = torch.tensor(own_rows(self.graph.y), device=device)  # a copy: tables are read-only
            waiting: list[Callable[[], Replica]] = [
                partial(self._start, job) for job in jobs if not self._was_finished(job, model)
            ]
            if not waiting:
                yield [], 1
                return
            self.inputs = prepare(model, self.graph.past, recipe, device)
            if self.graph.past is not self.graph:
                self.test_inputs = prepare(model, self.graph, recipe, device)
            alone = active_ranks() is None
            plan = memory_plan(jobs[0], self.graph) if device.type == "cpu" and alone else MemoryPlan()
            self.recompute = plan.recompute
            # Counts finished jobs too, because the last digit of a figure depends on the number of models.
            most = len(jobs) if plan.at_once is None else min(len(jobs), plan.at_once)
            at_once = models_at_once(model, self.inputs, most, recipe.replicas) if alone else 1
            with allocation(frugal=self.recompute or recipe.memory is not None):
                if recipe.threads == "auto" and device.type == "cpu" and alone:
                    steps, before = recipe.epochs * len(jobs) // at_once, self.folder.execution if self.folder else []
                    choose_threads(self.graph, steps, partial(self._trial_step, jobs[0]), threads, before)
                self._note_execution(at_once)
                self.pace = Pace(torch.get_num_threads())
                yield waiting, at_once

    def _trial_step(self, job: Job) -> Callable[[], object]:
        trial = Alone([self._new(replace(job, run=replace(job.run)))], self.inputs, self.y)
        return lambda: trial.step(trial.forward()[1], [True])

    def fit_one_by_one(self, jobs: Sequence[Job]) -> None:
        """Train models without gradient training."""
        graph, last_metric = scaled(self.graph, jobs[0].recipe), None
        for job in jobs:
            if self._was_finished(job, job.example):
                continue
            self.bar.begin_run(last_metric)
            with limited_threads(jobs[0].recipe.threads, graph):
                self._note_execution(1)
            try:
                fit_shallow(job, job.factory(), graph)
                self._keep(job.run)
                last_metric = job.run.val.get(job.recipe.metric)
                if self.interrupt.requested:
                    raise KeyboardInterrupt
                if self.watch:
                    self.watch([])
            except EndOfRunsError:
                if not any(one.run.val for one in jobs):
                    raise
                for one in jobs:
                    if not one.run.val and not self._was_finished(one, one.example):
                        one.run.failure = one.run.failure or OUT_OF_TIME
                return

    def _note_execution(self, replicas: int) -> None:
        if self.folder:
            self.folder.note_execution(replicas, torch.get_num_threads())

    def _was_finished(self, job: Job, model: Model | ShallowModel) -> bool:
        """Read a finished run from the folder; return False if there is none."""
        run = self.folder.finished_run(job.run.index) if self.folder else self.finished.get(job.run.index)
        if run is None:
            return False
        if run.failure is None:
            own = model.unwrapped if isinstance(model, Model) else model
            check_weights(own, run.state, self.folder.path if self.folder else f"run {run.index}")
        vars(job.run).update(vars(run))
        self.bar.finish_run()
        return True

    def _new(self, job: Job) -> Replica:
        parts = (job.train, np.flatnonzero(job.split.val), np.flatnonzero(job.split.test & self.graph.labelled))
        numbers, ranks = [torch.from_numpy(part).to(self.y.device) for part in parts], active_ranks()
        train, val, test = numbers if ranks is None else map(ranks.own, numbers)
        replica = Replica.new(job.run, job.recipe, job.factory, (train, val, test))
        replica.setting = job.setting
        weights = job.class_weights(self.graph.y, self.graph.num_classes)
        replica.class_weights = None if weights is None else torch.from_numpy(weights).to(self.y.device)
        set_recompute(replica.model, self.recompute)
        replica.begin(self.inputs, self.y)
        return replica

    def _start(self, job: Job) -> Replica:
        replica = self._new(job)
        if saved := self.interrupted.pop(job.run.index, None):
            check_weights(replica.model.unwrapped, saved.model, "the checkpoint")
            replica.restore(saved)
            if replica.epoch == job.recipe.pretrain_epochs:  # checkpoints are of the end of an epoch
                replica.end_pretraining(self.inputs, self.y)
        return replica

    def after_epoch(self, replicas: Sequence[Replica]) -> None:
        running = [replica for replica in replicas if replica.run.epochs == 0 and replica.run.failure is None]
        if running:
            losses = [replica.curves["val_loss"][-1] for replica in running]
            best = [replica.curves["val_metric"][replica.course.best_epoch - 1] for replica in running]
            self.bar.update([replica.epoch for replica in running], fmean(losses), fmean(best))
        due = time.monotonic() - self.saved_at > CHECKPOINT_SECONDS
        self.interrupt.requested, due = any_rank(self.interrupt.requested, due)
        if self.folder and (due or self.interrupt.requested):
            still_waiting = self.interrupted.values()
            self.folder.save_checkpoints([*(replica.checkpoint() for replica in running), *still_waiting])
            self.saved_at = time.monotonic()
        if self.interrupt.requested:
            raise KeyboardInterrupt
        self.pace.note(any(replica.is_pretraining for replica in replicas))
        if self.watch:
            self.watch(replicas)

    def after_run(self, replica: Replica) -> None:
        finish(replica, self.inputs, self.y, self.test_inputs)
        self._keep(replica.run)

    def _keep(self, run: Run) -> None:
        if self.folder and not run.is_postponed:
            self.folder.save_run(run)
        self.bar.finish_run()


def predict(factory: Factory, graph: Graph, runs: Sequence[Run], recipe: Recipe) -> Float[Tensor, "runs n c"]:
    """Return class probabilities of all nodes by each successful run, with inputs prepared as in training.

    If the graph has later edges, training and validation nodes are predicted without them, as in training.

    Args:
        factory: A function that returns a new model, as for `fit`.
        graph: The graph.
        runs: Trained runs. Those that failed are left out.
        recipe: The recipe of the training.

    Returns:
        Probabilities of classes, `[runs, nodes, classes]`, not calibrated.

    Raises:
        DataError: If the graph does not fit the model, such as by its number of features.

    Example:
        >>> from nlgnn import configure, fit, load_graph, predict
        >>> graph = load_graph("mushroom-body")
        >>> factory, recipe = configure("gcn", graph, epochs=5)
        >>> runs = fit(factory, graph, "random-60", recipe)
        >>> predict(factory, graph, runs, recipe).shape
        torch.Size([10, 209, 4])
    """
    split = graph.time_split
    if graph.past is not graph and split is not None:
        known = torch.from_numpy(split.train | split.val)
        before, after = (predict(factory, one, runs, recipe) for one in (graph.past, replace(graph, later_edges=None)))
        return torch.where(known[:, None], before, after)
    device, model = device_at_hand(recipe.device), model_like(factory)
    probabilities = []
    if isinstance(model, ShallowModel):
        return predict_shallow(model, graph, runs, recipe)
    with limited_threads(recipe.threads, graph):
        inputs = prepare(model, graph, recipe, device)
        model = model.to(device)
        for run in runs:
            if run.failure is None:
                load_weights(model, run.state, f"run {run.index}")
                probabilities.append(evaluate(model, inputs).softmax(1).cpu())
    return torch.stack(probabilities)
