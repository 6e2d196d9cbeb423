"""Models trained at once are what each would be alone: every system, every setting, whatever is in the stack."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn
from torch.nn import functional as F

from each_of import each_of
from nlgnn.datasets import load_graph
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.models.build import configure
from nlgnn.models.options import model_options
from nlgnn.models.registry import SYSTEMS
from nlgnn.nn import MLP, NLGCN, NLMLP
from nlgnn.nn.kernels.dropout import Draws, connect
from nlgnn.nn.layers import class_weights
from nlgnn.nn.versions import VoteVersion
from nlgnn.shallow.base import balanced_weights
from nlgnn.training.fit import fit, fit_settings
from nlgnn.training.inputs import prepare
from nlgnn.training.loop import Objective, finish, train_replicas
from nlgnn.training.preflight import Setting
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Replica, Run
from training_samples import (
    Linear,
    assert_close_runs,
    assert_same_runs,
    doubled,
    easy_graph,
    recipe,
    splits_of,
    watch_stacks,
)


def hard_graph(num_nodes: int = 40, num_classes: int = 3) -> Graph:
    """Features say little, so that runs stop at different epochs."""
    graph = easy_graph(num_nodes, num_classes)
    x = graph.x + 3 * np.random.default_rng(1).random(graph.x.shape)
    return Graph(x, graph.edge_index, graph.y, name="hard", class_names=graph.class_names)


def with_sparse_features(graph: Graph) -> Graph:
    x = sparse.csr_array(np.where(graph.x > 0.5, graph.x, 0))
    return Graph(x, graph.edge_index, graph.y, name=graph.name, class_names=graph.class_names)


pytestmark = pytest.mark.usefixtures("as_users_run_it")  # types are checked elsewhere; here they take half of the time

GRAPH = hard_graph()
SPLITS = splits_of(GRAPH, 2)
SMALL = {"hidden": 6, "heads": 2}
BY_GRADIENTS = [name for name, system in SYSTEMS.items() if system.kind != "shallow"]


def setting(system: str, graph: Graph, preset: str | None = None, **options: Any) -> Setting:
    """A small float64 form of a system."""
    known = model_options(SYSTEMS[system]).keys() | Recipe.model_fields.keys()
    phases = {"pretrain_epochs": 3} if "pretrain_epochs" in SYSTEMS[system].program else {}
    wanted = SMALL | phases | {"epochs": 5, "lr": 0.05, "stopping": "never", "device": "cpu"} | options
    factory, of_system = configure(system, graph, preset, **{k: v for k, v in wanted.items() if k in known})
    return doubled(factory.func, **factory.keywords), of_system


def nlmlp(hidden: int = 5, **options: Any) -> Any:
    return doubled(NLMLP, 4, hidden, 3, **options)


def with_replicas(one: Setting, replicas: int) -> Setting:
    return one[0], one[1].model_copy(update={"replicas": replicas})


def fit_alone(one: Setting, graph: Graph = GRAPH, splits: Any = SPLITS) -> list[Run]:
    factory, of_setting = with_replicas(one, 1)
    return fit(factory, graph, splits, of_setting, progress=False)


def fit_together(settings: list[Setting], replicas: int, splits: Any = SPLITS, graph: Graph = GRAPH) -> list[list[Run]]:
    return fit_settings([with_replicas(one, replicas) for one in settings], graph, splits, progress=False)


def assert_replicas_equal_models_alone(
    one: Setting, graph: Graph, splits: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = watch_stacks(monkeypatch)
    alone = fit_alone(one, graph, splits)
    assert sizes == []
    factory, of_setting = with_replicas(one, 4)
    assert_close_runs(fit(factory, graph, splits, of_setting, progress=False), alone)
    phases = 2 if of_setting.pretrain_epochs else 1
    assert sizes == [len(splits)] * phases
    assert all(run.epochs == of_setting.pretrain_epochs + 5 for run in alone)
    assert alone[0].curves["val_loss"][-1] != alone[0].curves["val_loss"][0]


# Three ways for some systems, one of the first two for each of the others.
REPRESENTATIVE = ("mlp", "nlgcn", "nlgat", "vote-gcn", "h2gcn", "linkx")
WAYS = [("paper", "sparse", 0.5), ("robust", "dense", 0.5), ("paper", "dense", 0.0)]
CASES = [
    (system, *way)
    for number, system in enumerate(BY_GRADIENTS)
    for way in (WAYS if system in REPRESENTATIVE else [WAYS[number % 2]])
]


@pytest.mark.parametrize(("system", "preset", "features", "dropout"), CASES)
def test_every_system(system: str, preset: str, features: str, dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = GRAPH if features == "dense" else with_sparse_features(GRAPH)
    rates = {"dropout": dropout, "input_dropout": dropout}
    assert_replicas_equal_models_alone(setting(system, graph, preset, **rates), graph, SPLITS, monkeypatch)


@each_of("system", BY_GRADIENTS)
def test_no_two_draws_of_a_step_have_one_key(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    factory, _ = setting(system, GRAPH, dropout=0.5, input_dropout=0.5, conv_dropout=0.5, num_layers=3)
    model, places = factory(), list[tuple[int, ...]]()
    draws = Draws(0, torch.device("cpu"))
    seeded = draws.generator
    monkeypatch.setattr(draws, "generator", lambda *place: (places.append(place), seeded(*place))[1])
    connect(model, [model], [draws])
    inputs, y = prepare(model, GRAPH), torch.tensor(GRAPH.y)
    model.start(inputs, y)
    Objective(model)(inputs, y, torch.arange(10))
    assert places
    assert len(set(places)) == len(places)


@pytest.mark.parametrize("system", REPRESENTATIVE)
def test_systems_on_a_real_graph(system: str, data_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = load_graph("texas")
    one = setting(system, graph, dropout=0.5)
    assert_replicas_equal_models_alone(one, graph, splits_of(graph, 2), monkeypatch)


class ItsOwnWay(MLP):
    """With a loss that looks at a parameter, another before training, decay of one parameter, and a tuple returned."""

    def forward(self, *inputs: Any) -> Any:
        return super().forward(*inputs), "more"

    def loss(self, output: Any, y: Tensor, nodes: Tensor) -> Tensor:
        return F.cross_entropy(output[0][nodes], y[nodes]) + self.layers[0].bias.square().sum()

    def pretrain_loss(self, output: Any, y: Tensor, nodes: Tensor) -> Tensor:
        return (output[0] - 1).square().mean()

    def parameter_groups(self) -> list[dict[str, Any]]:
        decayed = self.layers[1].weight
        others = [parameter for parameter in self.parameters() if parameter is not decayed]
        return [{"params": [decayed]}, {"params": others, "weight_decay": 0.0}]


class Pretrained(ItsOwnWay):
    pretrains = True


@pytest.mark.parametrize(
    "one",
    [
        (doubled(Pretrained, 4, 5, 3, dropout=0.5), recipe(weight_decay=0.3, pretrain_epochs=3)),
        (doubled(ItsOwnWay, 4, 5, 3), recipe()),
        (nlmlp(multiply_score=False), recipe()),  # the score has no gradient
        (nlmlp(order="random", num_convs=3, dropout=0.5), recipe()),
        (nlmlp(embedding_channels=20), recipe(metric="macro-f1")),
    ],
)
def test_whatever_a_model_says_of_itself(one: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_replicas_equal_models_alone(one, GRAPH, SPLITS, monkeypatch)


SETTINGS: list[Setting] = [
    (nlmlp(), recipe(lr=0.05)),
    (nlmlp(dropout=0.5, conv_dropout=0.2), recipe(lr=0.01, weight_decay=0.1, selection="lowest-loss", epochs=7)),
    (nlmlp(dropout=0.3), recipe(lr=0.1, epochs=30, stopping="patience", patience=2, seed=7, selection="last-best")),
    (nlmlp(8, dropout=0.5), recipe()),  # of another shape
    (nlmlp(input_dropout=0.6), recipe(lr=0.2, epochs=12, stopping="window", window=3, weight_decay=0.0)),
    (doubled(NLGCN, 4, 5, 3, kernel_size=3), recipe(features="unit-l2")),  # of a third one
    (nlmlp(), recipe(metric="macro-f1")),
]


@pytest.fixture(scope="module")
def alone() -> list[list[Run]]:
    """Each setting by itself, one split after another."""
    return [fit_alone(one) for one in SETTINGS]


@pytest.mark.parametrize("replicas", [3, 100])
def test_settings_at_once(replicas: int, alone: list[list[Run]], monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = watch_stacks(monkeypatch)
    for runs, expected in zip(fit_together(SETTINGS, replicas), alone, strict=True):
        assert_close_runs(runs, expected)
    assert max(sizes) == min(replicas, 8)  # four settings of one shape, two splits each


def test_the_settings_of_this_test_stop_at_different_epochs(alone: list[list[Run]]) -> None:
    """Else it would not be seen whether one that stops changes another."""
    assert len({run.epochs for run in alone[2]}) > 1
    assert all(run.epochs < 30 for run in alone[2])
    assert len({run.epochs for runs in alone for run in runs}) > 3


def test_those_that_wait_take_the_places_of_those_that_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [(doubled(MLP, 4, 5, 3, dropout=0.5), recipe(epochs=epochs)) for epochs in (2, 5)]
    splits = splits_of(GRAPH, 5)
    expected = [fit_alone(one, splits=splits) for one in settings]
    sizes = watch_stacks(monkeypatch)
    for runs, wanted in zip(fit_together(settings, 3, splits), expected, strict=True):
        assert_close_runs(runs, wanted)
        assert [run.index for run in runs] == [0, 1, 2, 3, 4]
    # Short ones, three at once; the last two of them with a long one, which two more join, and so on.
    assert sizes == [3, 3, 3, 3, 2, 1]


def test_what_has_stopped_is_dropped_once_it_is_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = watch_stacks(monkeypatch)
    settings = [(doubled(MLP, 4, 5, 3), recipe(epochs=epochs)) for epochs in range(2, 10)]
    assert [runs[0].epochs for runs in fit_together(settings, 8, SPLITS[:1])] == list(range(2, 10))
    assert sizes == [8, 6, 4, 3, 2, 1]


def test_one_at_a_time_is_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = watch_stacks(monkeypatch)
    fit_together(SETTINGS[:2], 1)
    fit(Linear, easy_graph(), splits_of(easy_graph(), 3), recipe(replicas=3), progress=False)  # does not say it can
    assert sizes == []


def trained_together(recipes: list[Recipe]) -> list[Run]:
    """A run a recipe, all on the first split."""
    factory, runs = nlmlp(dropout=0.3), [Run(index, index, "random-60", 0) for index in range(len(recipes))]
    nodes = tuple(torch.from_numpy(getattr(SPLITS[0], part).nonzero()[0]) for part in ("train", "val", "test"))
    inputs, y = prepare(factory().double(), GRAPH), torch.from_numpy(GRAPH.y)
    train_replicas(
        [
            lambda run=run, own=own: Replica.new(run, own, factory, nodes)
            for run, own in zip(runs, recipes, strict=True)
        ],
        len(recipes),
        inputs,
        y,
        lambda *_: None,
        lambda replica: finish(replica, inputs, y),
    )
    return runs


def test_class_weights_of_replicas_are_those_of_each_alone() -> None:
    """The shares of classes differ between the training nodes of the splits."""
    graph = hard_graph(num_classes=2)
    graph = replace(graph, y=np.random.default_rng(0).integers(0, 4, 40) // 3)
    splits = [Split(**{p: np.roll(getattr(SPLITS[0], p), turn) for p in ("train", "val", "test")}) for turn in range(3)]
    assert len({graph.y[split.train].sum() for split in splits}) > 1
    for order in ("score", "learned"):
        factory = doubled(NLMLP, 4, 3, 2, order=order)
        for_run = partial(fit, factory, graph, splits, progress=False)
        together, alone = (for_run(recipe(replicas=many, class_weight="balanced", epochs=5)) for many in (3, 1))
        assert_close_runs(together, alone)
        assert together[0].curves["train_loss"] != for_run(recipe(epochs=5))[0].curves["train_loss"]


def test_the_start_of_a_model_sees_class_weights() -> None:
    """Weights of descriptions are fitted with them. The only node of the last class is a test node."""
    y = np.array([0] * 24 + [1] * 15 + [2])
    graph, train = replace(hard_graph(), y=y), [*range(20), *range(24, 28)]
    split = Split.from_indices(40, train, [*range(20, 24), *range(28, 32)], range(32, 40))
    factory = doubled(VoteVersion.around(MLP), 4, 3, 3, space_input="structure", num_nodes=40)
    recipes = [recipe(epochs=1, lr=1e-12, class_weight=weight) for weight in ("balanced", "none")]
    weighted, plain = (fit(factory, graph, split, one, progress=False)[0].state["space.log_weights"] for one in recipes)
    torch.manual_seed(0)
    model = factory()
    with class_weights(torch.from_numpy(balanced_weights(y[train], 3))):
        model.start(prepare(model, graph, recipes[0]), torch.from_numpy(np.where(split.train, y, -1)))
    torch.testing.assert_close(weighted, model.space.log_weights.detach(), rtol=0, atol=1e-9)
    assert (weighted - plain).abs().max() > 0.01


def test_a_loss_without_class_weights_is_refused() -> None:
    with pytest.raises(OptionError, match="takes no class weights"):
        fit(doubled(ItsOwnWay, 4, 3, 3), GRAPH, SPLITS[:1], recipe(class_weight="balanced"), progress=False)


@pytest.mark.parametrize("bad", [0, 3])
def test_a_replica_that_explodes_fails_alone(bad: int) -> None:
    recipes = [recipe(epochs=4)] * 5
    healthy = trained_together(recipes)
    recipes[bad] = recipe(epochs=4, lr=1e300)
    runs = trained_together(recipes)
    failed = runs.pop(bad)
    assert "nan in validation, epoch 1" in str(failed.failure)
    assert (failed.epochs, failed.state, failed.val, failed.test) == (0, {}, {}, {})
    assert_close_runs(runs, healthy[:bad] + healthy[bad + 1 :])


class Fragile(MLP):
    """In the run of seed 1 without sense from the start."""

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        if torch.initial_seed() == 1:
            nn.init.constant_(self.layers[0].bias, torch.nan)


@pytest.mark.parametrize(("metric", "replicas"), [("accuracy", 5), ("macro-f1", 1), ("roc-auc", 5), ("roc-auc", 1)])
def test_a_failed_run_is_reported_whatever_the_metric(metric: str, replicas: int) -> None:
    graph = easy_graph()
    splits, of_runs = splits_of(graph, 5), recipe(metric=metric, replicas=replicas)
    runs = fit(doubled(Fragile, 4, 3, 2), graph, splits, of_runs, progress=False)
    assert [bool(run.failure) for run in runs] == [False, True, False, False, False]
    assert "run 1: the loss became nan in training" in str(runs[1].failure)
    healthy = fit(doubled(MLP, 4, 3, 2), graph, splits, of_runs, progress=False)
    assert_close_runs(runs[:1] + runs[2:], healthy[:1] + healthy[2:])


def test_labels_of_test_nodes_change_test_figures_only() -> None:
    y = GRAPH.y.copy()
    y[SPLITS[0].test] = (y[SPLITS[0].test] + 1) % 3
    changed = Graph(GRAPH.x, GRAPH.edge_index, y, class_names=GRAPH.class_names)
    splits = [SPLITS[0]] * 2
    before, after = (
        [run for runs in fit_together(SETTINGS[:3], 4, splits, graph) for run in runs] for graph in (GRAPH, changed)
    )
    assert any(run.test != other.test for run, other in zip(before, after, strict=True))
    for run in before + after:
        run.test = {}
    assert_same_runs(before, after)


def test_a_module_of_somebody_elses_among_the_convolutions() -> None:
    def factory() -> nn.Module:
        model = NLMLP(4, 5, 3)
        model.mixer.convs[1] = nn.ELU()
        return model

    runs = {
        replicas: fit(factory, GRAPH, SPLITS, recipe(replicas=replicas), progress=False)
        for replicas in (1, len(SPLITS))
    }
    for run, other in zip(*runs.values(), strict=True):
        assert run.curves["val_loss"] == pytest.approx(other.curves["val_loss"], rel=1e-4)


def test_no_settings() -> None:
    with pytest.raises(OptionError, match="no settings"):
        fit_settings([], GRAPH, SPLITS)


@pytest.mark.parametrize("replicas", [1, 2])
def test_frozen_parameters_stay_as_they_are(replicas: int) -> None:
    def factory() -> nn.Module:
        model = NLMLP(4, 5, 3)
        model.local.requires_grad_(False)
        return model

    runs = fit(factory, GRAPH, SPLITS[:2], recipe(epochs=3, replicas=replicas, selection="last-best"), progress=False)
    for run in runs:
        torch.manual_seed(run.seed)
        before = factory().state_dict()
        changed = {name.split(".")[0] for name, value in run.state.items() if not value.equal(before[name])}
        assert "local" not in changed
        assert "head" in changed
