"""fit: it learns, chooses by validation, keeps what it chose, and survives runs that fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as pyg
from training_samples import Linear, assert_same_runs, easy_graph, recipe, splits_of

from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.nn import GCN, NLMLP
from nlgnn.training.fit import fit
from nlgnn.training.loop import cross_entropy
from nlgnn.training.metrics import measure_all
from nlgnn.training.recipe import Recipe
from nlgnn.training.systems import configure


def quiet_fit(factory: str | Callable[[], nn.Module], graph: Graph, runs: int = 1, **options: Any) -> list[Any]:
    return fit(factory, graph, splits_of(graph, runs), recipe(**options), progress=False)


def test_an_easy_graph_is_learned() -> None:
    run = quiet_fit("nlmlp", easy_graph(60, 3), epochs=80, lr=0.05)[0]
    assert run.test["accuracy"] > 90
    assert min(run.curves["val_loss"]) < 0.6 * run.curves["val_loss"][0]


def test_a_name_comes_with_its_own_recipe() -> None:
    graph = easy_graph()
    factory, own = configure("mlp", graph, epochs=2)
    assert own.epochs == 2
    run = fit("mlp", graph, splits_of(graph), Recipe(epochs=3, stopping="never"), progress=False)[0]
    assert run.epochs == 3  # a recipe that is given wins
    assert run.state.keys() == factory().state_dict().keys()


def test_ten_random_splits_are_the_default() -> None:
    runs = fit(Linear, easy_graph(), recipe=recipe(epochs=1), progress=False)
    assert [(run.index, run.protocol, run.split) for run in runs] == [(i, "random-60", i) for i in range(10)]


def test_the_seed_of_every_run_is_recorded_and_is_its_own() -> None:
    graph = easy_graph()
    runs = quiet_fit(Linear, graph, runs=3, seed=7)
    assert [run.seed for run in runs] == [7, 8, 9]
    alone = fit(Linear, graph, splits_of(graph, 3)[2:], recipe(seed=9), progress=False)[0]
    assert alone.curves == runs[2].curves


class Recorder(Linear):
    """Keeps the weights that each training step left, copied by way of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[float]] = []

    def eval(self) -> Recorder:
        self.seen.append(self.map.weight.flatten().tolist())
        return super().eval()


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
        scaled = graph.x / graph.x.sum(1, keepdims=True)
        both_ways = torch.from_numpy(np.concatenate([graph.edge_index, graph.edge_index[::-1]], axis=1))
        logits = model.eval()(torch.from_numpy(scaled), both_ways.unique(dim=1)).detach()
        for part, figures in (("val", run.val), ("test", run.test)):
            nodes = torch.from_numpy(getattr(split, part))
            assert figures == measure_all(logits[nodes], torch.from_numpy(graph.y)[nodes])


def literally_trained(graph: Graph, split: Split, epochs: int, groups: list[dict[str, Any]], model: Linear) -> None:
    """Adam by hand, as the recipe says."""
    optimizer = torch.optim.Adam(groups, lr=0.05)
    x = torch.from_numpy(graph.scale_features("unit-sum").x)
    nodes, y = torch.from_numpy(split.train), torch.from_numpy(graph.y)
    for _ in range(epochs):
        optimizer.zero_grad()
        F.cross_entropy(model.map(x[nodes]), y[nodes]).backward()
        optimizer.step()


class DecaysWeightsOnly(Linear):
    def decay_groups(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        return [self.map.weight], [self.map.bias]


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


class Pretrained(Linear):
    """Pre-training takes the bias to 3; training leaves the difference of the classes to the data."""

    def __init__(self) -> None:
        super().__init__()
        self.phases: list[str] = []

    def pretrain_loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        self.phases.append("pretrain")
        return (self.map.bias - 3).square().sum()

    def loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
        self.phases.append("train")
        return F.cross_entropy(output[mask], y[mask])


def test_phases() -> None:
    models: list[Pretrained] = []

    def factory() -> Pretrained:
        models.append(Pretrained())
        return models[-1]

    run = quiet_fit(factory, easy_graph(), epochs=2, pretrain_epochs=60, lr=0.2, weight_decay=0)[0]
    assert models[-1].phases == ["pretrain"] * 60 + ["train"] * 2
    assert run.epochs == len(run.curves["train_loss"]) == 2  # pre-training is no epoch of the run
    assert run.state["map.bias"].mean() > 2.5


def test_pretraining_needs_a_loss_for_it() -> None:
    with pytest.raises(OptionError, match="Linear has no pre-training"):
        quiet_fit(Linear, easy_graph(), pretrain_epochs=1)


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
    """Makes the models of the runs, one after another; the first one only shows its types to `fit`."""

    def __init__(self, *epochs: int | None) -> None:
        self.epochs = iter((None, *epochs))

    def __call__(self) -> nn.Module:
        return Explodes(next(self.epochs))


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
    class Bad(Linear):
        def pretrain_loss(self, output: Tensor, y: Tensor, mask: Tensor) -> Tensor:
            return output.sum() * torch.nan

    with pytest.raises(NlgnnError, match="pre-training loss became nan in epoch 1"):
        quiet_fit(Bad, easy_graph(), pretrain_epochs=2)


def test_any_pyg_model() -> None:
    graph = easy_graph(40)
    run = quiet_fit(lambda: pyg.GCN(4, 8, 2, out_channels=2), graph, epochs=30)[0]
    assert run.curves["train_loss"][-1] < run.curves["train_loss"][0]
    assert set(run.test) == {"accuracy", "macro-f1", "roc-auc"}


def test_a_model_may_return_more_than_logits() -> None:
    class Pair(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, str]:
            return super().forward(x, edge_index), "more"

    graph = easy_graph()
    assert_same_runs(quiet_fit(Pair, graph), quiet_fit(Linear, graph))


def test_random_numbers_of_the_caller_stay_as_they_were() -> None:
    graph = easy_graph()
    torch.manual_seed(11)
    before = torch.get_rng_state()
    quiet_fit("nlgcn", graph, runs=2)
    quiet_fit(Linear, graph)
    configure("nlgat", graph)
    assert torch.get_rng_state().equal(before)


def test_random_numbers_of_the_caller_do_not_matter() -> None:
    graph = easy_graph()
    runs = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        runs.append(fit("nlmlp", graph, splits_of(graph), recipe(), progress=False))
    assert_same_runs(*runs)


@pytest.mark.parametrize(("threads", "during"), [(2, 2), ("auto", 1)])
def test_threads_are_restored(threads: Any, during: int) -> None:
    class Looks(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            seen.append(torch.get_num_threads())
            if fails:
                raise ValueError("on purpose")
            return super().forward(x, edge_index)

    seen: list[int] = []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        for fails in (False, True):
            if fails:
                with pytest.raises(ValueError, match="on purpose"):
                    quiet_fit(Looks, easy_graph(), threads=threads)
            else:
                quiet_fit(Looks, easy_graph(), threads=threads, epochs=2)
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {during}


class Counted(NLMLP):
    forwards = 0

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
    # The first step, one an epoch, one for the figures; against two an epoch and one.
    assert (Counted.forwards, NotSaid.forwards) == (8, 13)


def test_dropout_takes_two_forwards() -> None:
    Counted.forwards = 0
    quiet_fit(lambda: Counted(4, 6, 2, dropout=0.5), easy_graph(), epochs=6)
    assert Counted.forwards == 13


def test_features_are_scaled_as_the_recipe_says() -> None:
    class Sums(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            seen.append((x.sum(1).mean().item(), x.norm(dim=1).mean().item()))
            return super().forward(x, edge_index)

    found = {}
    for scaling in ("none", "unit-sum", "unit-l2"):
        seen: list[tuple[float, float]] = []
        quiet_fit(Sums, easy_graph(), features=scaling, epochs=1)
        found[scaling] = seen[0]
    assert found["unit-sum"][0] == pytest.approx(1, abs=1e-6)
    assert found["unit-l2"][1] == pytest.approx(1, abs=1e-6)
    assert found["none"][0] > 2


@pytest.mark.parametrize(("stopping", "expected"), [("never", 20), ("patience", 4)])
def test_training_stops_when_the_rule_says(stopping: str, expected: int) -> None:
    class Constant(Linear):
        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x, edge_index) * 0

    run = quiet_fit(Constant, easy_graph(), epochs=20, stopping=stopping, patience=3)[0]
    assert (run.epochs, run.chosen_epoch) == (expected, 1)


def test_the_window_rule_stops_a_real_training() -> None:
    graph = easy_graph(40)
    noisy = Graph(np.random.default_rng(0).random((40, 4)), graph.edge_index, graph.y)
    run = quiet_fit("mlp", noisy, epochs=200, stopping="window", window=10, lr=0.05)[0]
    losses = run.curves["val_loss"]
    assert 100 < run.epochs < 200
    assert losses[-1] > np.mean(losses[-11:-1])
    assert all(losses[e] <= np.mean(losses[e - 10 : e]) for e in range(100, run.epochs - 1))


def test_the_metric_is_what_selection_compares() -> None:
    graph = easy_graph(40)
    run = quiet_fit("mlp", graph, metric="roc-auc")[0]
    assert run.val["roc-auc"] == max(run.curves["val_metric"])
    with pytest.raises(OptionError, match="roc-auc needs two classes"):
        quiet_fit("mlp", easy_graph(num_classes=3), metric="roc-auc")


def test_read_only_arrays_are_taken() -> None:
    graph = easy_graph()
    y = graph.y.copy()
    y.setflags(write=False)  # as columns of a table come
    torch.set_warn_always(True)  # otherwise once a process
    try:
        assert_same_runs(quiet_fit(Linear, Graph(graph.x, graph.edge_index, y)), quiet_fit(Linear, graph))
    finally:
        torch.set_warn_always(False)


def masks(**parts: list[int]) -> Split:
    return Split.from_indices(30, *(parts.get(part, []) for part in ("train", "val", "test")))


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (masks(train=[0, 1], test=[2]), r"'easy', split 0 of 'column': there are no validation nodes"),
        (masks(val=[0, 1], test=[2]), "there are no training nodes"),
        (masks(train=[0, 4, 5], val=[1]), r"training node 4 has no label \(2 such nodes\)"),
        (masks(train=[0], val=[1, 5]), r"validation node 5 has no label \(1 such nodes\)"),
        (Split([1, 0], [0, 1], [0, 0]), "the split has 2 entries, the graph 30 nodes"),
    ],
)
def test_a_split_that_cannot_be_used(split: Split, message: str) -> None:
    graph = easy_graph()
    y = graph.y.copy()
    y[[4, 5]] = -1
    blank = Graph(graph.x, graph.edge_index, y, name="easy", class_names=graph.class_names)
    with pytest.raises(DataError, match=message):
        fit(Linear, blank, [split], recipe(), progress=False)


def test_no_test_nodes_no_test_figures() -> None:
    run = fit(Linear, easy_graph(), [masks(train=[0, 1], val=[2, 3])], recipe(), progress=False)[0]
    assert run.test == {}
    assert set(run.val) == {"accuracy", "macro-f1", "roc-auc"}


def test_no_splits() -> None:
    with pytest.raises(NlgnnError, match="no splits"):
        fit(Linear, easy_graph(), [], recipe(), progress=False)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(OptionError, match=r"device 'quantum' cannot be used"):
        quiet_fit(Linear, easy_graph(), device="quantum")


def test_a_graph_may_be_used_again() -> None:
    """Nothing of a training stays in the graph."""
    graph = easy_graph()
    x, fingerprint = graph.x.copy(), graph.fingerprint
    quiet_fit(lambda: GCN(4, 3, 2), graph)
    assert np.array_equal(graph.x, x)
    assert Graph(graph.x, graph.edge_index, graph.y, class_names=graph.class_names).fingerprint == fingerprint


def test_cross_entropy_reads_the_mask_only() -> None:
    logits, y = torch.randn(4, 2), torch.tensor([0, 1, -1, 1])
    loss = cross_entropy((logits, None), y, torch.tensor([1, 3]))
    assert loss.item() == pytest.approx(F.cross_entropy(logits[[1, 3]], y[[1, 3]]).item())
