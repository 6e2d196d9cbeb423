"""fit: trains one model a split, keeping what is finished and answering Ctrl-C."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, make_splits
from nlgnn.nn.inputs import Inputs, prepare_plain
from nlgnn.training.execution import Interrupt, choose_device, limited_threads, model_like
from nlgnn.training.loop import Task, Training, evaluate, train_split
from nlgnn.training.metrics import check_metric
from nlgnn.training.progress import TrainingProgress
from nlgnn.training.recipe import Recipe, check_pretraining
from nlgnn.training.run import Run, RunFolder, check_weights, load_weights
from nlgnn.training.systems import configure, default_protocol

CHECKPOINT_SECONDS = 30.0


def fit(
    factory: str | Callable[[], nn.Module],
    graph: Graph,
    splits: str | Sequence[Split] | None = None,
    recipe: Recipe | None = None,
    *,
    folder: RunFolder | None = None,
    progress: bool = True,
) -> list[Run]:
    """Train a model on every split.

    Args:
        factory: makes a fresh model, or the name of a system, which then comes with its settings for this graph.
        graph: all nodes, in training too: labels of validation and test nodes are never looked at there.
        splits: the splits, or the name of a protocol; by default the protocol that goes with the graph.
        recipe: how to train. Of a named system, what it does not say stays as the system has it.
        folder: where runs are kept as they finish, and where an interrupted one goes on from.
        progress: whether a bar is drawn, on terminals, once training takes longer than two seconds.

    Returns:
        A run a split. A run whose loss became infinite or undefined is marked as failed; the others go on.
    """
    if isinstance(factory, str):
        given = {} if recipe is None else {name: getattr(recipe, name) for name in recipe.model_fields_set}
        factory, recipe = configure(factory, graph, **given)
    if isinstance(factory, nn.Module):
        raise OptionError("fit needs what makes a model, not a model.", "Give a function: lambda: MyModel(...).")
    recipe = recipe or Recipe()
    splits = default_protocol(graph) if splits is None else splits
    splits = make_splits(graph, splits) if isinstance(splits, str) else list(splits)
    check(graph, splits, recipe)
    graph = graph.scale_features(recipe.features)
    device = choose_device(recipe.device)
    model = model_like(factory)
    check_pretraining(model, recipe)
    if folder:
        folder.claim(identity(graph, splits, recipe, model))
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
            run = None
            if folder and (run := folder.finished_run(index)) and run.failure is None:
                check_weights(model, run.state, folder.path)
            if run is None:
                parts = (split.train, split.val, split.test & graph.labelled)
                train, val, test = (torch.from_numpy(part.nonzero()[0]).to(device) for part in parts)
                task = Task(recipe, inputs, y, train, val, test)
                run = Run(index=index, seed=recipe.seed + index, protocol=split.protocol, split=split.index)
                saved = folder.checkpoint(index) if folder else None
                run = train_split(run, task, factory, saved, _Watch(index, folder, bar, interrupt))
                if folder:
                    folder.save_run(run)
            bar.finish_run()
            done.append(run)
        if interrupt.requested:  # in the last epoch of all: the caller may have more to do
            raise KeyboardInterrupt
    if all(run.failure for run in done):
        raise NlgnnError(f"every run failed; {done[0].failure}.", "Try a lower learning rate, or look at the features.")
    return done


def identity(graph: Graph, splits: Sequence[Split], recipe: Recipe, model: nn.Module) -> str:
    """A hash of all that decides the figures: runs with another one are not of the same training."""
    shapes = [(name, tuple(value.shape)) for name, value in model.state_dict().items()]
    settings = recipe.model_dump(exclude={"threads", "device"})
    digest = hashlib.sha256(repr((graph.fingerprint, settings, type(model).__name__, shapes)).encode())
    for split in splits:
        digest.update(np.packbits([split.train, split.val, split.test]).tobytes())
    return digest.hexdigest()[:16]


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


def predict(
    factory: Callable[[], nn.Module], graph: Graph, runs: Sequence[Run], recipe: Recipe
) -> Float[Tensor, "runs n c"]:
    """Class probabilities of all nodes, by each run that did not fail, prepared as in training."""
    device, model = choose_device(recipe.device), model_like(factory)
    inputs = prepare(model, graph.scale_features(recipe.features)).to(device)
    model = model.to(device)
    probabilities = []
    for run in runs:
        if run.failure is None:
            load_weights(model, run.state, f"run {run.index}")
            probabilities.append(evaluate(model, inputs).softmax(1).cpu())
    return torch.stack(probabilities)


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
