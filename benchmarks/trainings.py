"""Whole trainings on one thread: ten splits compared with ten trainings of the peer, and a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, cycle, islice, product
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.peers import Inputs, NotEqualError, Variant, check_equal, edge_inputs, variants
from benchmarks.plain_nlgcn import PlainNLGCN
from benchmarks.steps import LR, THREADS, WEIGHT_DECAY, Effort, Problem, peer_step
from benchmarks.timing import compare, sampled, side_by_side, stopwatch, threads_in_use
from nlgnn.graph.splits import Split, make_splits
from nlgnn.nn import NLGCN, NLMLP
from nlgnn.nn.inputs import move
from nlgnn.training.fit import fit, fit_settings
from nlgnn.training.preflight import Setting
from nlgnn.training.recipe import Recipe

GRID = {"dropout": (0.0, 0.5, 0.8), "weight_decay": (0.0, 5e-4, 5e-5, 5e-6), "lr": (0.001, 0.01, 0.05)}
CHECKED_EPOCHS, CHECKED_SPLITS = 3, 2
# Validation losses are compared in float64. Nodes of one score may stand in any order, which shows in the sixth digit.
LOSS_TOLERANCE = 1e-4


def measure_ten_splits(name: str, effort: Effort, dropout: float = 0.0) -> dict[str, Any]:
    problem = Problem.named(name)
    splits = make_splits(problem.graph, "random-60", effort.splits)
    recipe = _recipe(effort.epochs)
    factory = partial(NLGCN, *problem.widths, dropout=dropout)
    total = effort.epochs * len(splits)
    with threads_in_use(THREADS):
        check_training(problem, splits[:CHECKED_SPLITS])
        sides = {"ours": stopwatch(lambda: fit(factory, problem.graph, splits, recipe, progress=False))}
        for form in variants(effort.compiled):
            check_equal(factory(), PlainNLGCN(*problem.widths), problem.graph, problem.train, form.inputs)
            make_peer = partial(_ready_peer, form, problem, dropout)
            epochs = peer_epochs(make_peer, problem, splits, effort.epochs, form.inputs(problem.graph))
            next(epochs)  # warm-up; ours was warmed up by the check
            sides[form.label] = sampled(partial(next, epochs), total, effort.peer_seconds)
        times = side_by_side(sides, effort.whole_rounds, warm_up=0)
        return compare(
            times,
            f"{len(splits)} splits, {effort.epochs} epochs with an evaluation each, dropout {dropout:g}; ours: fit, "
            f"whole; PyG: {effort.peer_seconds:g} s of epochs a round, scaled up to all {total:,}",
        )


def _ready_peer(form: Variant, problem: Problem, dropout: float) -> nn.Module:
    return form.ready(PlainNLGCN(*problem.widths, dropout=dropout))


def peer_epochs(
    make_peer: Callable[[], nn.Module],
    problem: Problem,
    splits: Sequence[Split],
    epochs: int,
    inputs: Inputs | None = None,
) -> Iterator[float]:
    """Train again and again without end, and give the validation loss of each epoch."""
    inputs = edge_inputs(problem.graph) if inputs is None else inputs
    for split in cycle(splits):
        train, val = (torch.from_numpy(part.nonzero()[0]) for part in (split.train, split.val))
        val_y = problem.y[val]
        model = make_peer()
        inputs = move(inputs, next(model.parameters()).dtype)
        step = peer_step(model, inputs, problem.y, train)
        for _ in range(epochs):
            step()
            model.eval()
            with torch.no_grad():
                logits = model(*inputs)[val]
                loss = F.cross_entropy(logits, val_y).item()
                (logits.argmax(1) == val_y).float().mean().item()  # what an epoch is chosen by
            yield loss


def check_training(problem: Problem, splits: Sequence[Split]) -> None:
    """Raise unless `fit` and the peer's loop give the same validation losses from the same weights."""

    def ours() -> nn.Module:
        return NLGCN(*problem.widths).double()

    recipe = _recipe(CHECKED_EPOCHS)
    for index, run in enumerate(fit(ours, problem.graph, splits, recipe, progress=False)):
        peer = PlainNLGCN(*problem.widths).double()
        torch.manual_seed(recipe.seed + index)
        peer.load_state_dict(peer.translate(ours().state_dict()))
        losses = peer_epochs(lambda peer=peer: peer, problem, [splits[index]], recipe.epochs)  # type: ignore[misc]
        check_losses(run.curves["val_loss"], list(islice(losses, recipe.epochs)))


def check_losses(ours: list[float], theirs: list[float]) -> None:
    for epoch, (our_loss, their_loss) in enumerate(zip(ours, theirs, strict=True), start=1):
        if not abs(our_loss - their_loss) <= LOSS_TOLERANCE * their_loss:
            raise NotEqualError(
                f"the two sides do not train the same: validation losses {our_loss} and {their_loss} in epoch {epoch}.",
                "Nothing was timed. Find the side that is wrong.",
            )


def measure_search(name: str, effort: Effort) -> dict[str, Any]:
    """Time all settings at once, and evenly spaced samples of them one after another."""
    problem = Problem.named(name)
    splits = make_splits(problem.graph, "random-60", effort.splits)
    settings = search_settings(problem, effort.epochs)
    rounds = count()

    def one_after_another() -> None:
        for factory, recipe in settings[next(rounds) % effort.sampled :: effort.sampled]:
            fit(factory, problem.graph, splits, alone(recipe), progress=False)

    with threads_in_use(THREADS):
        check_search(problem, splits[:CHECKED_SPLITS])
        sample = stopwatch(one_after_another)
        sides = {
            "ours": stopwatch(lambda: fit_settings(settings, problem.graph, splits, progress=False)),
            "one by one": lambda: sample() * effort.sampled,
        }
        times = side_by_side(sides, effort.whole_rounds, warm_up=0)
        return compare(
            times,
            f"{len(settings)} settings ({', '.join(GRID)}) × {len(splits)} splits, {effort.epochs} epochs with an "
            f"evaluation each; one by one: {len(settings) // effort.sampled} evenly spaced settings a round, "
            "other ones each round, scaled up to all",
        )


def search_settings(problem: Problem, epochs: int) -> list[Setting]:
    return [
        (partial(NLMLP, *problem.widths, kernel_size=5, dropout=dropout), _recipe(epochs, lr, weight_decay))
        for dropout, weight_decay, lr in product(*GRID.values())
    ]


def check_search(problem: Problem, splits: Sequence[Split]) -> None:
    """Raise unless settings without dropout give the same losses together and alone."""

    def factory() -> nn.Module:  # one for all: settings of one shape are trained together
        return NLMLP(*problem.widths).double()

    settings: list[Setting] = [(factory, _recipe(CHECKED_EPOCHS, lr)) for lr in GRID["lr"]]
    at_once = fit_settings(settings, problem.graph, splits, progress=False)
    for runs, (_, recipe) in zip(at_once, settings, strict=True):
        for run, single in zip(runs, fit(factory, problem.graph, splits, alone(recipe), progress=False), strict=True):
            check_losses(run.curves["val_loss"], single.curves["val_loss"])


def alone(recipe: Recipe) -> Recipe:
    """Return the recipe that trains one split after another."""
    return recipe.model_copy(update={"replicas": 1})


def _recipe(epochs: int, lr: float = LR, weight_decay: float = WEIGHT_DECAY) -> Recipe:
    # Features are scaled before, once.
    options = {"lr": lr, "weight_decay": weight_decay, "threads": THREADS, "device": "cpu"}
    return Recipe(features="none", epochs=epochs, stopping="never", **options)
