"""One run: what is kept of it, what a model may say about its training, and what counts as a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nlgnn.errors import NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split, random_split
from nlgnn.models.build import configure
from nlgnn.nn import CPGCN, NLMLP
from nlgnn.nn.base import Model
from nlgnn.training.fit import fit
from nlgnn.training.metrics import measure_all
from nlgnn.training.recipe import Recipe
from training_samples import Linear, assert_same_runs, easy_graph, recipe, splits_of


def quiet_fit(factory: str | Callable[[], nn.Module], graph: Graph, runs: int = 1, **options: Any) -> list[Any]:
    return fit(factory, graph, splits_of(graph, runs), recipe(**options), progress=False)


class Recorder(Linear):
    """Keeps the weights that each training step left, copied by way of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[float]] = []

    def train(self, mode: bool = True) -> Recorder:
        if not mode:
            self.seen.append(self.map.weight.flatten().tolist())
        return super().train(mode)


@pytest.mark.parametrize("selection", ["first-best", "last-best", "lowest-loss"])
def test_the_kept_state_is_a_copy_of_the_chosen_epoch(selection: str) -> None:
    models: list[Recorder] = []

    def factory() -> Recorder:
        models.append(Recorder())
        return models[-1]

    # Overlapping classes and a high rate: the best epoch is not the last one.
    graph = easy_graph(40)
    noisy = Graph(np.random.default_rng(0).random((40, 4)), graph.edge_index, graph.y)
    run = quiet_fit(factory, noisy, epochs=20, lr=0.5, selection=selection)[0]
    metric, loss = run.curves["val_metric"], run.curves["val_loss"]
    expected = {
        "first-best": metric.index(max(metric)),
        "last-best": 19 - metric[::-1].index(max(metric)),
        "lowest-loss": loss.index(min(loss)),
    }
    assert run.chosen_epoch == expected[selection] + 1
    assert run.state["map.weight"].flatten().tolist() == models[-1].seen[run.chosen_epoch - 1]
    assert run.chosen_epoch < run.epochs == 20
    assert run.val["accuracy"] == metric[run.chosen_epoch - 1]


def test_figures_are_those_of_the_kept_state() -> None:
    graph = easy_graph(40)
    for run, split in zip(quiet_fit("nlgcn", graph, runs=2, epochs=8), splits_of(graph, 2), strict=True):
        model = configure("nlgcn", graph)[0]()
        model.load_state_dict(run.state)
        scaled = graph.x / np.linalg.norm(graph.x, axis=1, keepdims=True)  # as the robust preset has it
        both_ways = torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
        logits = model.eval()(torch.from_numpy(scaled), both_ways.unique(dim=1)).detach()
        for part, figures in (("val", run.val), ("test", run.test)):
            nodes = torch.from_numpy(getattr(split, part))
            assert figures == pytest.approx(measure_all(logits[nodes], torch.from_numpy(graph.y)[nodes]), rel=1e-6)


def literally_trained(graph: Graph, split: Split, epochs: int, groups: list[dict[str, Any]], model: Linear) -> None:
    """Adam by hand, as the recipe says."""
    optimizer = torch.optim.Adam(groups, lr=0.05)
    x = torch.from_numpy(graph.scale_features("unit-sum").x)
    nodes, y = torch.from_numpy(split.train), torch.from_numpy(graph.y)
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(model.map(x[nodes]), y[nodes]).backward()
        optimizer.step()


class DecaysWeightsOnly(Linear, Model):
    stackable = False

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": [self.map.weight]}, {"params": [self.map.bias], "weight_decay": 0.0}]


@pytest.mark.parametrize("model_class", [Linear, DecaysWeightsOnly])
def test_decay_as_the_model_says(model_class: type[Linear]) -> None:
    graph = easy_graph()
    run = quiet_fit(model_class, graph, weight_decay=0.3, selection="last-best", epochs=4)[0]
    torch.manual_seed(0)
    model = model_class()
    decayed = [model.map.weight] if model_class is DecaysWeightsOnly else list(model.parameters())
    free = [parameter for parameter in model.parameters() if not any(parameter is one for one in decayed)]
    groups = [{"params": decayed, "weight_decay": 0.3}] + ([{"params": free}] if free else [])
    literally_trained(graph, splits_of(graph)[0], run.chosen_epoch, groups, model)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(run.state[name], value, rtol=1e-5, atol=1e-6)


def test_the_learning_rate_falls_on_plateaus() -> None:
    """As torch's ReduceLROnPlateau and Adam have it, step by step."""
    graph = easy_graph()
    split = splits_of(graph)[0]
    options = {"lr": 2.0, "lr_factor": 0.5, "lr_patience": 1, "weight_decay": 0, "epochs": 25}
    run = quiet_fit(Linear, graph, **options)[0]
    torch.manual_seed(0)
    model = Linear()
    optimizer = torch.optim.Adam(model.parameters(), lr=2.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    x, y = torch.from_numpy(graph.scale_features("unit-sum").x), torch.from_numpy(graph.y)
    for val_loss in run.curves["val_loss"]:
        optimizer.zero_grad()
        F.cross_entropy(model.map(x[split.train]), y[split.train]).backward()
        optimizer.step()
        expected = F.cross_entropy(model.map(x[split.val]), y[split.val]).item()
        assert val_loss == pytest.approx(expected, rel=1e-4, abs=1e-6)
        scheduler.step(expected)
    assert optimizer.param_groups[0]["lr"] < 0.5  # it has fallen, more than once


class Counting(Linear):
    """With a loss of its own, which takes the bias somewhere that cross entropy does not."""

    def loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        return F.cross_entropy(output[mask], y[mask]) + (self.map.bias - 3).square().sum()


def test_a_model_may_have_its_own_loss() -> None:
    options = {"epochs": 80, "lr": 0.2, "selection": "last-best", "weight_decay": 0}
    own, plain = (quiet_fit(model, easy_graph(), **options)[0] for model in (Counting, Linear))
    assert own.curves["train_loss"][0] > plain.curves["train_loss"][0] + 5
    assert own.state["map.bias"].mean() > 2.5
    # Validation is compared between models, so it is cross entropy always.
    assert own.curves["val_loss"][0] == pytest.approx(plain.curves["val_loss"][0], abs=0.3)


class Pretrained(Linear, Model):
    """Pre-training learns for a while, then takes a bias so far that all nodes seem to be of the first class."""

    stackable = False
    pretrains = True
    deterministic = False  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[str] = []
        self.known: list[Tensor] = []

    def pretrain_loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        self.phases.append("pretrain")
        learns = len(self.phases) <= 30
        return F.cross_entropy(output[mask], y[mask]) if learns else (self.map.bias[0] - 30).square()

    def loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        self.phases.append("train")
        return F.cross_entropy(output[mask], y[mask])

    def end_pretraining(self, inputs: tuple[Any, ...], y: Tensor, nodes: Tensor) -> None:
        assert not self.training
        self.phases.append("between")
        self.known += [y, nodes, self.map.bias.clone()]


def test_phases() -> None:
    models: list[Pretrained] = []

    def factory() -> Pretrained:
        models.append(Pretrained())
        return models[-1]

    graph = easy_graph()
    split = random_split(graph.y, "random-60", 0)
    options = {"pretrain_epochs": 60, "epochs": 40, "lr": 0.2, "weight_decay": 0, "stopping": "never"}
    recipe = Recipe(**options, selection="last-best")
    run = fit(factory, graph, [split], recipe, progress=False)[0]
    assert models[-1].phases == ["pretrain"] * 60 + ["between"] + ["train"] * 40
    assert run.epochs == len(run.curves["train_loss"]) == 100
    y, nodes, bias = models[-1].known
    assert y[nodes].equal(torch.from_numpy(graph.y[split.train]))
    assert (y >= 0).sum() == len(nodes) == split.train.sum()  # no other label is shown
    # Of the first phase the best weights are kept, not the last ones; the record goes on over both.
    accuracies = run.curves["val_metric"]
    assert accuracies[59] < max(accuracies[:60]) <= accuracies[run.chosen_epoch - 1] == max(accuracies)
    assert bias[0] < 4
    assert run.chosen_epoch > 30


def test_pretraining_needs_a_loss_for_it() -> None:
    with pytest.raises(OptionError, match="Linear has no pre-training"):
        quiet_fit(Linear, easy_graph(), pretrain_epochs=1)


def test_what_is_initialised_by_pretraining_needs_some() -> None:
    with pytest.raises(OptionError, match="CPGCN needs pre-training"):
        quiet_fit(lambda: CPGCN(4, 5, 2), easy_graph())


class Explodes(Linear):
    """Becomes undefined in an epoch, in the given runs only."""

    def __init__(self, epoch: int | None) -> None:
        super().__init__()
        self.epoch, self.steps = epoch, 0

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if self.training:
            self.steps += 1
            if self.steps == self.epoch:
                return super().forward(x, edge_index) * torch.nan
        return super().forward(x, edge_index)


class Factory:
    """Makes the models of the runs, which it knows by their seed, and others that are only looked at."""

    def __init__(self, *epochs: int | None) -> None:
        self.epochs = dict(enumerate(epochs))

    def __call__(self) -> nn.Module:
        return Explodes(self.epochs.get(torch.initial_seed()))


def test_a_run_that_fails_is_reported_and_the_others_go_on() -> None:
    graph = easy_graph()
    runs = quiet_fit(Factory(None, 3, None), graph, runs=3)
    assert [bool(run.failure) for run in runs] == [False, True, False]
    assert "run 1" in runs[1].failure
    assert "epoch 3" in runs[1].failure
    assert "nan" in runs[1].failure
    assert (runs[1].test, runs[1].val, runs[1].state) == ({}, {}, {})
    healthy = quiet_fit(Linear, graph, runs=3)
    assert_same_runs([runs[0], runs[2]], [healthy[0], healthy[2]])


def test_a_validation_loss_that_is_no_number_is_a_failure_too() -> None:
    class Overflows(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x, edge_index) * (1 if self.training else torch.inf)

    with pytest.raises(NlgnnError, match=r"run 0: .*validation, epoch 1"):
        quiet_fit(Overflows, easy_graph())


def test_all_runs_failed() -> None:
    with pytest.raises(NlgnnError, match=r"every run failed; run 0: .*epoch 2") as caught:
        quiet_fit(Factory(2, 3), easy_graph(), runs=2)
    assert "learning rate" in caught.value.how


def test_a_failing_pretraining_is_a_failed_run() -> None:
    class Bad(Linear, Model):
        pretrains = True
        deterministic = False  # type: ignore[assignment]

        def pretrain_loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
            return output.sum() * torch.nan

    with pytest.raises(NlgnnError, match=r"the loss became nan in training .* epoch 1"):
        quiet_fit(Bad, easy_graph(), pretrain_epochs=2)


class Counted(NLMLP):
    forwards = 0
    deterministic = True  # type: ignore[assignment]

    def forward(self, *inputs: Any) -> Any:
        type(self).forwards += 1
        return super().forward(*inputs)


class NotSaid(Counted):
    deterministic = False  # type: ignore[assignment]


@pytest.mark.parametrize("options", [{}, {"head": "residual", "local_loss": 0.5}])
def test_one_forward_for_training_and_evaluation_changes_nothing(options: dict[str, Any]) -> None:
    graph = easy_graph()
    runs = {}
    for model in (Counted, NotSaid):
        model.forwards = 0
        runs[model] = quiet_fit(lambda model=model: model(4, 6, 2, **options), graph, epochs=6)
    assert_same_runs(runs[Counted], runs[NotSaid])
    # One to see what it gives, the first step, one an epoch, one for the figures; against two an epoch and two.
    # Where the loss needs more than logits, training calls no forward.
    assert (Counted.forwards, NotSaid.forwards) == ((2, 8) if options else (9, 14))


def test_dropout_takes_two_forwards() -> None:
    NotSaid.forwards = 0
    quiet_fit(lambda: NotSaid(4, 6, 2, dropout=0.5), easy_graph(), epochs=6)
    assert NotSaid.forwards == 14

    class WithCandidates(Counted):
        forwards = 0

        def candidates(self, *inputs: Any) -> Any:
            return torch.stack([self(*inputs)] * 2)

    quiet_fit(lambda: WithCandidates(4, 6, 2), easy_graph(), epochs=6)
    assert WithCandidates.forwards >= 14  # candidates are asked for after every epoch
