"""One step for many models: parameters stacked, the plain module called under `torch.func.vmap`.

A replica gives what it would give alone, with its own learning rate, decay, dropout rate and random numbers. One model
alone takes the plain path.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from nlgnn.nn.dense import cross_entropy
from nlgnn.nn.dropout import Dropout, RandomModule, Stream
from nlgnn.training.execution import generator_from, random_state, set_random_state
from nlgnn.training.replica import Replica

Outcome = tuple[Tensor, Tensor]  # logits [replicas, n, c], training losses [replicas]


class Objective(nn.Module):
    """A model and its training loss in one call, so that a loss may look at parameters too."""

    def __init__(self, model: nn.Module, pretraining: bool = False) -> None:
        super().__init__()
        self.model, self.loss_name = model, "pretrain_loss" if pretraining else "loss"

    def forward(self, inputs: tuple[Any, ...], y: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        if not self.training:
            return answers_of(self.model, inputs), y.new_zeros(())
        output = self.model(*inputs)
        loss = getattr(self.model, self.loss_name, cross_entropy_of)
        return logits_of(output), loss(output, y, nodes)


class Alone:
    """One model, called as it is."""

    def __init__(self, replicas: Sequence[Replica], inputs: tuple[Any, ...], y: Tensor) -> None:
        (self.replica,) = replicas
        self.inputs, self.y = inputs, y
        self.pretraining = self.replica.is_pretraining
        self.objective = Objective(self.replica.model, self.pretraining)

    def __enter__(self) -> Alone:
        set_random_state(self.replica.random_state, self.y.device)
        return self

    def __exit__(self, *_: object) -> None:
        self.save_random_states()

    def save_random_states(self) -> None:
        self.replica.random_state = random_state(self.y.device)

    def forward(self) -> Outcome:
        logits, loss = self.objective.train()(self.inputs, self.y, self.replica.train)
        return logits.unsqueeze(0), loss.unsqueeze(0)

    def evaluate(self) -> Tensor:
        self.replica.model.eval()
        with torch.no_grad():
            return answers_of(self.replica.model, self.inputs).unsqueeze(0)

    def step(self, losses: Tensor, unfinished: Sequence[bool]) -> None:
        parameters = self.replica.adam.parameters
        self.replica.adam.step(torch.autograd.grad(losses.sum(), parameters, allow_unused=True))


class Stack:
    """Several models of one shape, as one.

    While they are in it, the parameters of the replicas' own modules are views of the stack.
    """

    def __init__(self, replicas: Sequence[Replica], inputs: tuple[Any, ...], y: Tensor) -> None:
        self.replicas, self.inputs, self.y = replicas, inputs, y
        device = y.device
        self.pretraining = replicas[0].is_pretraining  # all are, or none
        self.objective = Objective(copy.deepcopy(replicas[0].model), self.pretraining)
        self.parameters: dict[str, Tensor] = {}
        for name, _ in replicas[0].model.named_parameters():
            own = [replica.model.get_parameter(name) for replica in replicas]
            stacked = torch.stack([parameter.detach() for parameter in own])
            for parameter, view in zip(own, stacked, strict=True):
                parameter.data = view
            self.parameters[f"model.{name}"] = stacked.requires_grad_(own[0].requires_grad)
        self.generators = [generator_from(replica.random_state, device) for replica in replicas]
        self.random_modules = self._connect_random_modules()
        self.numbers = torch.arange(len(replicas), device=device)
        self.train = torch.stack([replica.train for replica in replicas])
        self._vectorised = vmap(self._one, randomness="same")  # what is random here comes from the generators

    def _connect_random_modules(self) -> list[RandomModule]:
        """Let each of them in the shared module draw for all replicas."""
        connected = []
        for name, module in self.objective.model.named_modules():
            if isinstance(module, RandomModule):
                rates = [getattr(replica.model.get_submodule(name), "p", 0.0) for replica in self.replicas]
                if isinstance(module, Dropout):
                    module.p = max(rates)
                module.streams = [Stream(*pair) for pair in zip(rates, self.generators, strict=True)]
                connected.append(module)
        return connected

    def __enter__(self) -> Stack:
        return self

    def __exit__(self, *_: object) -> None:
        self.save_random_states()

    def save_random_states(self) -> None:
        for replica, generator in zip(self.replicas, self.generators, strict=True):
            replica.random_state = generator.get_state()

    def _one(self, parameters: dict[str, Tensor], number: Tensor, train: Tensor) -> tuple[Tensor, Tensor]:
        """What vmap sees: one replica."""
        for module in self.random_modules:
            module.replica = number
        outcome: tuple[Tensor, Tensor] = functional_call(self.objective, parameters, (self.inputs, self.y, train))
        return outcome

    def forward(self) -> Outcome:
        self.objective.train()
        outcome: Outcome = self._vectorised(self.parameters, self.numbers, self.train)
        return outcome

    def evaluate(self) -> Tensor:
        self.objective.eval()
        with torch.no_grad():
            return self._vectorised(self.parameters, self.numbers, self.train)[0]

    def step(self, losses: Tensor, unfinished: Sequence[bool]) -> None:
        trained = [parameter for parameter in self.parameters.values() if parameter.requires_grad]
        gradients = torch.autograd.grad(losses.sum(), trained, allow_unused=True)
        rows = zip(*([None] * len(losses) if g is None else g.unbind() for g in gradients), strict=True)
        for replica, of_replica, goes_on in zip(self.replicas, rows, unfinished, strict=True):
            if goes_on:
                replica.adam.step(of_replica)


def answers_of(model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """Logits, `[n, c]`; of a model that leaves a choice to validation all that it could say, `[answers, n, c]`."""
    answers = getattr(model, "answers", None)
    return logits_of(model(*inputs) if answers is None else answers(*inputs))


def evaluate(model: nn.Module, inputs: tuple[Any, ...]) -> Tensor:
    """Logits of all nodes, without dropout."""
    model.eval()
    with torch.no_grad():
        return logits_of(model(*inputs))


def logits_of(output: Any) -> Tensor:
    """A model may return its logits, or a tuple that begins with them."""
    logits: Tensor = output if isinstance(output, Tensor) else output[0]
    return logits


def cross_entropy_of(output: Any, y: Tensor, nodes: Tensor) -> Tensor:
    return cross_entropy(logits_of(output), y, nodes)
