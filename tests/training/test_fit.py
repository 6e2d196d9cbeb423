"""fit: it learns, chooses by validation, keeps what it chose, and survives runs that fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

from each_of import each_of
from nlgnn.errors import DataError, NlgnnError, OptionError
from nlgnn.graph.convert import to_pyg
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.models.build import configure
from nlgnn.nn import GCN, NonLocal
from nlgnn.nn.base import Model
from nlgnn.training import preflight
from nlgnn.training.fit import fit, predict
from nlgnn.training.recipe import METRICS, Recipe
from training_samples import Linear, assert_same_runs, easy_graph, recipe, splits_of


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


def test_what_a_recipe_does_not_say_stays_as_the_system_has_it() -> None:
    graph = easy_graph()
    short = fit("mlp", graph, splits_of(graph), Recipe(epochs=2), progress=False)[0]
    own = configure("mlp", graph, epochs=2)
    assert own[1].features == "unit-l2"  # of the preset, not the recipe's own default
    assert_same_runs([short], fit(*own[:1], graph, splits_of(graph), own[1], progress=False))


def test_the_splits_that_go_with_a_graph() -> None:
    graph = easy_graph()
    graph = replace(graph, splits={"column": splits_of(graph)})
    assert len(fit("mlp", graph, recipe=recipe(), progress=False)) == 1


def test_a_model_in_place_of_what_makes_one() -> None:
    with pytest.raises(OptionError, match="not a model"):
        fit(Linear(), easy_graph())


def test_predict_is_prepared_as_in_training() -> None:
    graph = easy_graph()
    factory, own = configure("nlgcn", graph, epochs=4)
    split = splits_of(graph)[0]
    runs = fit(factory, graph, [split], own, progress=False)
    probabilities = predict(factory, graph, runs, own)
    assert probabilities.shape == (1, graph.num_nodes, graph.num_classes)
    right = (probabilities[0].argmax(1).numpy() == graph.y)[split.test]
    assert 100 * right.mean() == pytest.approx(runs[0].test["accuracy"])


def test_ten_random_splits_are_the_default() -> None:
    runs = fit(Linear, easy_graph(), recipe=recipe(epochs=1), progress=False)
    assert [(run.index, run.protocol, run.split) for run in runs] == [(i, "random-60", i) for i in range(10)]


def test_the_seed_of_every_run_is_recorded_and_is_its_own() -> None:
    graph = easy_graph()
    runs = quiet_fit(Linear, graph, runs=3, seed=7)
    assert [run.seed for run in runs] == [7, 8, 9]
    alone = fit(Linear, graph, splits_of(graph, 3)[2:], recipe(seed=9), progress=False)[0]
    assert alone.curves == runs[2].curves


def test_any_pyg_model() -> None:
    graph = easy_graph(40)
    run = quiet_fit(lambda: pyg.GCN(4, 8, 2, out_channels=2), graph, epochs=30)[0]
    assert run.curves["train_loss"][-1] < run.curves["train_loss"][0]
    assert set(run.test) == set(METRICS)


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
                with pytest.raises(OptionError, match="on purpose"):
                    quiet_fit(Looks, easy_graph(), threads=threads)
            else:
                quiet_fit(Looks, easy_graph(), threads=threads, epochs=2)
            assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {during}


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


@each_of(
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
    assert set(run.val) == set(METRICS)


def test_no_splits() -> None:
    with pytest.raises(NlgnnError, match="no splits"):
        fit(Linear, easy_graph(), [], recipe(), progress=False)


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(OptionError, match=r"device 'quantum' is neither"):
        quiet_fit(Linear, easy_graph(), device="quantum")
    with pytest.raises(OptionError, match=r"device 'meta' is neither a CPU nor a CUDA GPU"):
        quiet_fit(Linear, easy_graph(), device="meta")


def test_modules_from_elsewhere_that_training_stumbles_over() -> None:
    class OwnLoss(Linear):
        def __init__(self) -> None:
            super().__init__()
            self.loss = nn.CrossEntropyLoss()

    with pytest.raises(OptionError, match=r"OwnLoss\.loss cannot be called as loss"):
        quiet_fit(OwnLoss, easy_graph())
    with pytest.raises(OptionError, match="GCN takes its widths"):
        quiet_fit(lambda: pyg.GCN(-1, 8, 2, out_channels=2), easy_graph())


def test_a_graph_may_be_used_again() -> None:
    """Nothing of a training stays in the graph."""
    graph = easy_graph()
    x, fingerprint = graph.x.copy(), graph.fingerprint
    quiet_fit(lambda: GCN(4, 3, 2), graph)
    assert np.array_equal(graph.x, x)
    assert Graph(graph.x, graph.edge_index, graph.y, class_names=graph.class_names).fingerprint == fingerprint


def test_cross_entropy_reads_the_mask_only() -> None:
    logits, y = torch.randn(4, 2), torch.tensor([0, 1, -1, 1])
    loss = Model().loss((logits, None), y, torch.tensor([1, 3]))
    assert loss.item() == pytest.approx(F.cross_entropy(logits[[1, 3]], y[[1, 3]]).item())


def test_models_that_share_weights_are_refused() -> None:
    """What was learned on one split would be known on the next, where its nodes are tested."""
    graph, shared = easy_graph(), Linear()
    for factory in (lambda: shared, lambda: NonLocal(shared, 2, 2), partial(NonLocal, shared, 2, 2)):
        with pytest.raises(OptionError, match="shares weights"):
            quiet_fit(factory, graph, runs=2)
    assert len(quiet_fit(lambda: shared, graph)) == 1  # on one split nothing is carried on
    frozen = Linear().requires_grad_(False)
    assert len(quiet_fit(lambda: NonLocal(frozen, 2, 2), graph, runs=2)) == 2


def test_a_module_may_learn_something_before_training() -> None:
    """The call that looks at what it gives comes after that, too, and after it with training labels alone."""
    graph = easy_graph()
    (split,) = splits_of(graph)

    class Centred(Linear, Model):
        stackable = False
        mean: Tensor | None = None

        def start(self, inputs: tuple[Tensor, ...], known: Tensor) -> None:
            assert np.array_equal(known >= 0, split.train)
            self.mean = inputs[0][known >= 0].mean(0)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            return super().forward(x - self.mean, edge_index)

    assert len(fit(Centred, graph, split, recipe(), progress=False)) == 1


def giving(**attributes: Any) -> Linear:
    """A module with a mistake."""
    model = Linear()
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


class Watched(Linear):
    seen: ClassVar[list[bool]] = []

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        self.seen.append(self.training)
        return super().forward(x, edge_index)


@pytest.mark.parametrize("sure", [True, False])
def test_where_memory_may_be_short_nothing_is_called_before_it_is_estimated(
    sure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "surely_fits", lambda graph: sure)
    Watched.seen.clear()
    quiet_fit(Watched, easy_graph())
    assert Watched.seen[0] is not sure  # evaluated first, or trained first


def test_room_is_measured_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    fit_module = import_module("nlgnn.training.fit")  # whose name the function has, too
    measured, count = [], fit_module.models_at_once
    watch = lambda model, *given: measured.append(model.training) or count(model, *given)  # noqa: E731
    monkeypatch.setattr(fit_module, "models_at_once", watch)
    quiet_fit(Linear, easy_graph(), runs=2)
    assert measured == [True]


@each_of(
    ("factory", "message"),
    [
        (
            lambda: pyg.GCN(5, 8, 2, out_channels=2),
            r"GCN cannot be called .* \[30, 4\], \[2, \d+\]: .*\nIts forward takes x of 4",
        ),
        (lambda: pyg.GCN(4, 8, 2, out_channels=3), r"GCN gives \[30, 3\]; graph 'easy' needs logits \[30, 2\]"),
        (lambda: pyg.GCN(4, 8, 2, out_channels=1), r"GCN gives \[30, 1\]"),
        (lambda: nn.Linear(4, 2), "Linear cannot be called"),
        (lambda: NonLocal(nn.Linear(4, 2), 2, 2), "NonLocal cannot be called"),
        (lambda: GCN(5, 8, 2), r"GCN cannot be called .*cannot be multiplied"),
        (partial(GCN, in_channels=4, hidden_channels=8, out_channels=3), r"GCN gives \[30, 3\]"),
        (NonLocal, "cannot be called without arguments"),
        (lambda: "gcn", "a str is not a module"),
        (lambda: giving(prepare=lambda graph: torch.ones(30, 4)), "Linear cannot be called"),
        (lambda: giving(prepare=lambda graph: (torch.ones(30, 4), 3)), "Linear cannot be called.*'int' object"),
        (lambda: giving(forward=lambda x, edge_index: {"logits": x}), "Linear cannot be called.*KeyError"),
        (
            lambda: giving(loss=lambda output, y: output.sum()),
            r"Linear.loss cannot be called .* loss\(output, y, nodes\)",
        ),
    ],
)
def test_modules_that_do_not_fit_the_graph(factory: Any, message: str, as_users_run_it: None) -> None:
    with pytest.raises(OptionError, match=message):
        quiet_fit(factory, easy_graph())


def test_mistaken_arguments(as_users_run_it: None) -> None:
    graph = easy_graph()
    assert len(fit("mlp", graph, splits_of(graph)[0], recipe(), progress=False)) == 1  # one split as it is
    with pytest.raises(OptionError, match="a Data is not a Graph"):
        fit("mlp", to_pyg(graph))  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="recipe is a dict"):
        fit("mlp", graph, recipe={"epochs": 3})  # type: ignore[arg-type]


def test_a_plain_tuple_is_prepared_too() -> None:
    class Prepared(Linear):
        def prepare(self, graph: Graph) -> tuple[Tensor, Tensor]:
            return torch.tensor(graph.dense_features()), torch.tensor(graph.edge_index)

    graph = easy_graph()
    assert_same_runs(quiet_fit(Prepared, graph), quiet_fit(Linear, graph))
