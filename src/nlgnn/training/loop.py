"""The training loop: a step and an evaluation an epoch, for all replicas at once, until the stopping rule of each."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call

from nlgnn.training.metrics import measure_all, validate
from nlgnn.training.replica import Replica
from nlgnn.training.replicas import Alone, Stack, logits_of

# A stack is built anew once this share of it has stopped: what has stopped is computed in vain until then.
STOPPED_SHARE = 0.25


def train_replicas(
    waiting: Iterable[Callable[[], Replica]],
    at_once: int,
    inputs: tuple[Any, ...],
    y: Tensor,
    after_epoch: Callable[[Sequence[Replica], Alone | Stack], None],
    after_run: Callable[[Replica], None],
) -> None:
    """Train replicas of one shape, so many at once; as some stop, those that wait take their places."""
    queue, active = deque(waiting), list[Replica]()
    while queue or active:
        while queue and len(active) < at_once:
            replica = queue.popleft()()
            if replica.is_over:  # failed before its first epoch, or interrupted after its last
                after_run(replica)
            else:
                active.append(replica)
        if active:
            # Those that are still pre-training go first: all in a stack have one loss.
            group = [replica for replica in active if replica.is_pretraining] or active
            with (Alone if at_once == 1 else Stack)(group, inputs, y) as together:
                _train_until_some_stop(group, together, y, partial(after_epoch, active), after_run)
            for replica in group:
                if together.pretraining and not replica.is_pretraining and not replica.is_over:
                    replica.end_pretraining(inputs, y)
        active = [replica for replica in active if not replica.is_over]


def _train_until_some_stop(
    replicas: Sequence[Replica],
    together: Alone | Stack,
    y: Tensor,
    after_epoch: Callable[[Alone | Stack], None],
    after_run: Callable[[Replica], None],
) -> None:
    deterministic = all(bool(getattr(replica.model, "deterministic", False)) for replica in replicas)
    val = torch.stack([replica.val for replica in replicas])
    unfinished = [True] * len(replicas)
    outcome = None
    in_phase = True  # one that has left it must draw no more random numbers
    while in_phase and sum(unfinished) > (1 - STOPPED_SHARE) * len(replicas):
        started = time.perf_counter()
        _, losses = together.forward() if outcome is None else outcome
        together.step(losses, unfinished)
        # Where nothing is random, the forward that evaluates this epoch is the one that the next step needs.
        outcome = together.forward() if deterministic else None
        logits = together.evaluate() if outcome is None else outcome[0].detach()
        figures = zip(losses.tolist(), *_validated(replicas, logits, y, val), strict=True)
        share = (time.perf_counter() - started) / sum(unfinished)
        for number, (replica, of_epoch) in enumerate(zip(replicas, figures, strict=True)):
            if unfinished[number]:
                _record(replica, *of_epoch)
                replica.seconds += share
        after_epoch(together)
        for number, replica in enumerate(replicas):
            if unfinished[number] and replica.is_over:
                unfinished[number] = False
                after_run(replica)
            in_phase &= replica.is_over or replica.is_pretraining == together.pretraining


def _validated(replicas: Sequence[Replica], logits: Tensor, y: Tensor, val: Tensor) -> tuple[list[float], list[float]]:
    """Loss and metric of every replica. Where models could say several things, the best is chosen, by the loss where it
    alone selects epochs, else by the metric, of equals the first; the loss is the lowest of them, which does not jump
    when another is chosen."""
    metric = replicas[0].recipe.metric
    if logits.ndim == 3:
        return validate(metric, logits, y, val)
    answers = logits.shape[1]
    losses, metrics = validate(metric, logits.flatten(0, 1), y, val.repeat_interleave(answers, 0))
    lowest, chosen = [], []
    for number, replica in enumerate(replicas):
        own = range(number * answers, (number + 1) * answers)
        of_least_loss, of_best_metric = min(own, key=losses.__getitem__), max(own, key=metrics.__getitem__)
        best = of_least_loss if replica.recipe.selection == "lowest-loss" else of_best_metric
        replica.model.choose_answer(best - own.start)  # type: ignore[operator]
        lowest.append(losses[of_least_loss])
        chosen.append(metrics[best])
    return lowest, chosen


def _record(replica: Replica, train_loss: float, val_loss: float, val_metric: float) -> None:
    if math.isfinite(train_loss) and math.isfinite(val_loss):
        replica.record(train_loss, val_loss, val_metric)
    else:
        replica.run.failure = (
            f"run {replica.run.index}: the loss became {train_loss} in training and {val_loss} in validation, "
            f"epoch {replica.epoch + 1}"
        )


def finish(replica: Replica, inputs: tuple[Any, ...], y: Tensor) -> None:
    """Fill in the run: its curves, its weights, and the figures of its chosen epoch, test figures once."""
    run = replica.run
    if run.failure is not None:
        return
    run.epochs, run.chosen_epoch, run.seconds = replica.epoch, replica.course.best_epoch, replica.seconds
    run.curves, run.state = replica.curves, {name: value.cpu() for name, value in replica.best_state.items()}
    replica.model.eval()
    with torch.no_grad():
        logits = logits_of(functional_call(replica.model, replica.best_state, tuple(inputs), tie_weights=False))
    run.val = measure_all(logits[replica.val], y[replica.val])
    run.test = measure_all(logits[replica.test], y[replica.test])
