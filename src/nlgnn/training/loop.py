"""The training loop: one step and one evaluation per epoch, for all replicas at once, until each of them stops.

Models of one shape are stacked: the plain module is called under `torch.func.vmap` with all of their parameters. A
replica gives what it would give alone, with its own learning rate, decay, dropout rate and random numbers. One model
alone takes the plain path.
"""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.modules.dropout import _DropoutNd

from nlgnn.nn.base import Model, logits_of, storing_statistics
from nlgnn.nn.kernels.dropout import Draws, Dropout, connect
from nlgnn.nn.kernels.ranks import active_ranks, gathered
from nlgnn.nn.layers import class_weights
from nlgnn.training.metrics import measure_all, validate
from nlgnn.training.rank_figures import validate_over_ranks
from nlgnn.training.replica import Replica

# A stack is built again once this share of it has stopped: until then, stopped replicas are still computed.
STOPPED_SHARE = 0.25

Outcome = tuple[Tensor, Tensor]  # logits [replicas, n, c], training losses [replicas]


def train_replicas(
    waiting: Iterable[Callable[[], Replica]],
    at_once: int,
    inputs: tuple[Any, ...],
    y: Tensor,
    after_epoch: Callable[[Sequence[Replica]], None],
    after_run: Callable[[Replica], None],
) -> None:
    """Train replicas of one shape.

    Args:
        waiting: Makes the replicas, each when there is room for it.
        at_once: The largest number of replicas in training. As some stop, waiting ones take their places.
        inputs: The arguments of the model.
        y: The labels of all nodes.
        after_epoch: Called after every epoch with the replicas in training.
        after_run: Called with every replica that has stopped.
    """
    for active, stack in _stacks(waiting, at_once, inputs, y, after_run):
        replicas = stack.replicas
        one_answer = type(replicas[0].model).candidates is Model.candidates
        deterministic = one_answer and all(replica.model.deterministic for replica in replicas)
        val = torch.stack([replica.val for replica in replicas])
        unfinished = [True] * len(replicas)
        outcome = None
        in_phase = True  # all in a stack have one loss
        while in_phase and sum(unfinished) > (1 - STOPPED_SHARE) * len(replicas):
            started = time.perf_counter()
            _, losses = stack.forward() if outcome is None else outcome
            losses = stack.step(losses, unfinished)
            # Where nothing is random, the forward that evaluates this epoch is the one that the next step needs.
            outcome = stack.forward() if deterministic else None
            logits = stack.evaluate() if outcome is None else outcome[0].detach()
            figures = zip(losses.tolist(), *_validated(replicas, logits, y, val), strict=True)
            share = (time.perf_counter() - started) / sum(unfinished)
            for number, (replica, of_epoch) in enumerate(zip(replicas, figures, strict=True)):
                if unfinished[number]:
                    _record(replica, *of_epoch)
                    replica.seconds += share
            after_epoch(active)
            for number, replica in enumerate(replicas):
                if unfinished[number] and replica.is_over:
                    unfinished[number] = False
                    after_run(replica)
                in_phase &= replica.is_over or replica.is_pretraining == stack.pretraining


def _stacks(
    waiting: Iterable[Callable[[], Replica]],
    at_once: int,
    inputs: tuple[Any, ...],
    y: Tensor,
    after_run: Callable[[Replica], None],
) -> Iterator[tuple[list[Replica], Alone | Stack]]:
    """Yield all replicas in training and the stack of those to train next, until none is left."""
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
            stack = (Alone if at_once == 1 else Stack)(group, inputs, y)
            yield active, stack
            for replica in group:
                if stack.pretraining and not replica.is_pretraining and not replica.is_over:
                    replica.end_pretraining(inputs, y)
        active = [replica for replica in active if not replica.is_over]


class Objective(nn.Module):
    """A model and its training loss in one call, so that a loss may look at parameters too.

    Args:
        model: The model.
        pretraining: If True, the loss is that of pre-training.
        random_modules: The modules of a stacked model that draw random numbers of their replica.
    """

    def __init__(self, model: Model, pretraining: bool = False, random_modules: Sequence[Any] = ()) -> None:
        super().__init__()
        self.model, self.pretraining, self.random_modules = model, pretraining, list(random_modules)

    def forward(
        self,
        inputs: tuple[Any, ...],
        y: Tensor,
        nodes: Tensor,
        weights: Tensor | None = None,
        number: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return logits and training loss; `weights` are of classes, `number` is that of the replica in a stack."""
        for module in self.random_modules:
            module.replica = number
        if not self.training:  # for a model that leaves a choice to validation all candidates, [candidates, n, c]
            candidates = self.model.candidates(*inputs)
            return logits_of(self.model(*inputs)) if candidates is None else candidates, y.new_zeros(())
        output = self.model.training_output(*inputs)
        loss = self.model.pretrain_loss if self.pretraining else self.model.loss
        with class_weights(weights, required=not self.pretraining):
            return logits_of(output), loss(output, y, nodes)


def can_be_stacked(model: Model) -> bool:
    """Return whether a model is stackable, has no buffers, and draws random numbers in this package's way only."""
    return (
        model.stackable
        and not any(True for _ in model.buffers())
        and all(isinstance(module, Dropout) for module in model.modules() if isinstance(module, _DropoutNd))
    )


class Alone:
    """One model, called as it is."""

    def __init__(self, replicas: Sequence[Replica], inputs: tuple[Any, ...], y: Tensor) -> None:
        (self.replica,) = self.replicas = replicas
        self.inputs, self.y = inputs, y
        self.pretraining = self.replica.is_pretraining
        self.objective = Objective(self.replica.model, self.pretraining)
        self.draws = Draws(self.replica.run.seed, y.device)
        connect(self.replica.model, [self.replica.model], [self.draws])
        self.uses_torch_random = not can_be_stacked(self.replica.model)

    def forward(self) -> Outcome:
        self.draws.epoch = self.replica.epoch
        if self.uses_torch_random:
            self.replica.seed_torch()
        replica = self.replica
        logits, loss = self.objective.train()(self.inputs, self.y, replica.train, replica.class_weights)
        return logits.unsqueeze(0), loss.unsqueeze(0)

    def evaluate(self) -> Tensor:
        self.objective.eval()
        with torch.no_grad():
            logits: Tensor = self.objective(self.inputs, self.y, self.replica.train)[0]
        return logits.unsqueeze(0)

    def step(self, losses: Tensor, unfinished: Sequence[bool]) -> Tensor:
        """Take a step, and return the losses over the nodes of all ranks."""
        parameters = self.replica.adam.parameters
        gradients: Sequence[Tensor | None] = torch.autograd.grad(losses.sum(), parameters, allow_unused=True)
        if (ranks := active_ranks()) is not None:
            losses, gradients = ranks.add_loss_and_gradients(losses.detach(), gradients)
        self.replica.adam.step(gradients)
        return losses


class Stack:
    """Several models of one shape, as one.

    While they are in it, the parameters of the replicas' own modules are views of the stack.
    """

    def __init__(self, replicas: Sequence[Replica], inputs: tuple[Any, ...], y: Tensor) -> None:
        self.replicas = replicas
        self.pretraining = replicas[0].is_pretraining  # all are, or none
        self.parameters: dict[str, Tensor] = {}
        for name, _ in replicas[0].model.named_parameters():
            own = [replica.model.get_parameter(name) for replica in replicas]
            stacked = torch.stack([parameter.detach() for parameter in own])
            for parameter, view in zip(own, stacked, strict=True):
                parameter.data = view
            self.parameters[f"model.{name}"] = stacked.requires_grad_(own[0].requires_grad)
        self.draws = [Draws(replica.run.seed, y.device) for replica in replicas]
        model = copy.deepcopy(replicas[0].model)
        random_modules = connect(model, [replica.model for replica in replicas], self.draws)
        self.objective = Objective(model, self.pretraining, random_modules)
        train = torch.stack([replica.train for replica in replicas])
        weighted = [one.class_weights for one in replicas if one.class_weights is not None]  # all are, or none
        weights = torch.stack(weighted) if weighted else None
        self.arguments = inputs, y, train, weights, torch.arange(len(replicas), device=y.device)
        self._vectorised = vmap(
            partial(functional_call, self.objective),
            in_dims=(0, (None, None, 0, 0 if weighted else None, 0)),
            randomness="same",  # random draws are keyed
        )

    def forward(self) -> Outcome:
        self.objective.train()
        for draws, replica in zip(self.draws, self.replicas, strict=True):
            draws.epoch = replica.epoch
        outcome: Outcome = self._vectorised(self.parameters, self.arguments)
        return outcome

    def evaluate(self) -> Tensor:
        self.objective.eval()
        with torch.no_grad():
            logits: Tensor = self._vectorised(self.parameters, self.arguments)[0]
        return logits

    def step(self, losses: Tensor, unfinished: Sequence[bool]) -> Tensor:
        """Take a step with the unfinished replicas, and return the losses."""
        trained = [parameter for parameter in self.parameters.values() if parameter.requires_grad]
        gradients = torch.autograd.grad(losses.sum(), trained, allow_unused=True)
        rows = zip(*([None] * len(losses) if g is None else g.unbind() for g in gradients), strict=True)
        for replica, of_replica, goes_on in zip(self.replicas, rows, unfinished, strict=True):
            if goes_on:
                replica.adam.step(of_replica)
        return losses


def evaluate(model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """Return the logits of all nodes, without dropout."""
    model.eval()
    with torch.no_grad():
        return gathered(logits_of(model(*inputs)))


def _validated(replicas: Sequence[Replica], logits: Tensor, y: Tensor, val: Tensor) -> tuple[list[float], list[float]]:
    """Return validation loss and metric of every replica, and choose among the candidates of models that have some.

    The best candidate is chosen, by the loss where it alone selects epochs, else by the metric; ties go to the first.
    The loss returned is the lowest of all candidates, which does not jump when another is chosen.
    """
    metric = replicas[0].recipe.metric
    if (ranks := active_ranks()) is not None:
        return validate_over_ranks(ranks, metric, logits, y, val)
    if logits.ndim == 3:
        return validate(metric, logits, y, val)
    candidates = logits.shape[1]
    losses, metrics = validate(metric, logits.flatten(0, 1), y, val.repeat_interleave(candidates, 0))
    lowest, chosen = [], []
    for number, replica in enumerate(replicas):
        own = range(number * candidates, (number + 1) * candidates)
        of_least_loss, of_best_metric = min(own, key=losses.__getitem__), max(own, key=metrics.__getitem__)
        best = of_least_loss if replica.recipe.selection == "lowest-loss" else of_best_metric
        replica.model.choose(best - own.start)
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


def finish(replica: Replica, inputs: tuple[Any, ...], y: Tensor, test_inputs: tuple[Any, ...] | None = None) -> None:
    """Fill in the run: its curves, its weights, and the figures of its chosen epoch, test figures once.

    `test_inputs` are of the graph with the edges of the test period, if `inputs` are without them.
    """
    run = replica.run
    if run.failure is not None:
        return
    run.epochs, run.chosen_epoch, run.seconds = replica.epoch, replica.course.best_epoch, replica.seconds
    run.curves = replica.curves
    replica.model.eval()

    def logits_for(arguments: tuple[Any, ...]) -> Tensor:
        output = functional_call(replica.model.unwrapped, replica.best_state, tuple(arguments), tie_weights=False)
        return logits_of(output)

    with torch.no_grad():
        with storing_statistics(replica.model):  # in `best_state`, whose tensors the model has in this call
            logits = logits_for(inputs)
        tested = logits if test_inputs is None else logits_for(test_inputs)
    run.state = {name: value.cpu() for name, value in replica.best_state.items()}
    run.validation = gathered(logits[replica.val]).softmax(1).cpu()
    metric = replica.recipe.metric
    run.val = measure_all(gathered(logits[replica.val]), gathered(y[replica.val]), metric)
    run.test = measure_all(gathered(tested[replica.test]), gathered(y[replica.test]), metric)
