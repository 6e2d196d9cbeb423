"""Which jobs can be trained at once, and how many are."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from each_of import each_of
from nlgnn import Graph, configure, fit, make_splits, predict
from nlgnn.graph.splits import Split
from nlgnn.nn import MLP, NLMLP
from nlgnn.nn.base import as_model, prepare
from nlgnn.nn.inputs import Inputs, prepare_plain
from nlgnn.training import memory as memory_module
from nlgnn.training.memory import bytes_of_one, models_at_once
from nlgnn.training.replica import Job, Run, by_shape
from training_samples import Linear, easy_graph, recipe, splits_of

GRAPH = easy_graph()
INPUTS = prepare_plain(GRAPH)
SPLIT = splits_of(GRAPH)[0]


def nlmlp(**options: Any) -> partial[nn.Module]:
    return partial(NLMLP, in_channels=4, out_channels=2, **({"hidden_channels": 3, "dropout": 0.5} | options))


def job(factory: Callable[[], nn.Module] | None = None, split: Split = SPLIT, **options: Any) -> Job:
    factory = nlmlp() if factory is None else factory
    run = Run(0, 0, split.protocol, split.index)
    return Job(run, factory, as_model(factory()), recipe(**options), split)


@each_of(
    "other",
    [
        job(),
        job(nlmlp(dropout=0.2)),
        job(nlmlp(input_dropout=0.1, conv_dropout=0.7)),
        job(split=splits_of(GRAPH, 2)[1]),
        job(lr=0.3, weight_decay=0.0, epochs=9, stopping="window", window=3, patience=7, selection="last-best", seed=8),
    ],
)
def test_rates_and_recipe_may_differ(other: Job) -> None:
    first = job()
    assert by_shape([first, other]) == [[first, other]]


def fewer_nodes(part: str) -> Split:
    parts = {name: getattr(SPLIT, name).copy() for name in ("train", "val", "test")}
    parts[part][parts[part].argmax()] = False
    return Split(**parts)


@each_of(
    "other",
    [
        job(nlmlp(hidden_channels=4)),
        job(nlmlp(kernel_size=3)),
        job(nlmlp(order="random")),
        job(features="unit-l2"),
        job(metric="macro-f1"),
        job(replicas=3),
        job(split=fewer_nodes("train")),
        job(split=fewer_nodes("val")),
        job(lambda: NLMLP(4, 3, 2)),
        job(partial(Linear)),
        job(partial(NLMLP, 4, 3, 2)),
    ],
)
def test_nothing_else_may(other: Job) -> None:
    first = job()
    assert by_shape([first, other]) == [[first], [other]]


def test_test_nodes_are_not_looked_at() -> None:
    both = [job(), job(split=fewer_nodes("test"))]
    assert by_shape(both) == [both]


def test_what_a_function_makes_is_of_one_shape() -> None:
    def factory() -> nn.Module:
        return Linear()

    both = [job(factory), job(factory, lr=0.3)]
    assert by_shape(both) == [both]


def test_groups_and_jobs_stay_in_order() -> None:
    wide, narrow = nlmlp(hidden_channels=9), nlmlp()
    given = [job(wide), job(narrow), job(wide), job(features="none"), job(narrow), job(wide)]
    assert by_shape(given) == [[given[0], given[2], given[5]], [given[1], given[4]], [given[3]]]
    assert by_shape([]) == []


class Stackable(Linear):
    stackable = True


def with_buffer() -> nn.Module:
    model = Stackable()
    model.register_buffer("count", torch.zeros(()))  # the stack has no place for one a replica
    return model


@each_of(
    ("model", "jobs", "wanted", "expected"),
    [
        (Stackable(), 10, 4, 4),
        (Stackable(), 3, 4, 3),
        (Stackable(), 1, 4, 1),
        (Stackable(), 10, 1, 1),
        (Stackable(), 10, "auto", 10),  # of so small a model as many as there are
        (Linear(), 10, 4, 1),  # does not say that it can be
        (Linear(), 10, "auto", 1),
        (with_buffer(), 10, 4, 1),
    ],
)
def test_how_many_at_once(model: nn.Module, jobs: int, wanted: Any, expected: int) -> None:
    assert models_at_once(model, INPUTS, jobs, wanted) == expected


@pytest.mark.parametrize(("room", "expected"), [(0.5, 1), (1.0, 1), (3.9, 3), (50, 10)])
def test_as_many_as_there_is_room_for(room: float, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "STACK_BYTES", int(room * bytes_of_one(Stackable(), INPUTS)))
    assert models_at_once(Stackable(), INPUTS, 10, "auto") == expected


class TwoLayers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 2))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_bytes_of_one_model(dtype: torch.dtype) -> None:
    """Weights four times, and what goes into each layer once, although ReLU and the next layer both keep it."""
    inputs = Inputs(torch.ones(30, 4, dtype=dtype), None)
    numbers = {Linear: 4 * (4 * 2 + 2) + 30 * 4, TwoLayers: 4 * (4 * 7 + 7 + 7 * 2 + 2) + 30 * 4 + 30 * 7}
    for model, expected in numbers.items():
        found = bytes_of_one(model().to(dtype), inputs)
        assert 0 <= found - expected * dtype.itemsize < dtype.itemsize


def test_a_model_with_torchs_own_dropout_is_trained_alone() -> None:
    model = MLP(4, 5, 2)
    inputs = prepare(model, easy_graph())
    assert models_at_once(model, inputs, 3, 3) == 3
    model.dropout = nn.Dropout(0.5)
    assert models_at_once(model, inputs, 3, 3) == 1


def test_classes_that_count_alike() -> None:
    y = np.array([0] * 8 + [1] * 4 + [2] * 3 + [3])
    split = Split.from_indices(16, train=range(15), val=[15], test=[])
    plain, balanced = job(split=split), job(split=split, class_weight="balanced")
    assert plain.class_weights(y, 5) is None
    np.testing.assert_allclose(balanced.class_weights(y, 5), [5 / 8, 5 / 4, 5 / 3, 0, 0], rtol=1e-6)  # no test label
    assert balanced.shape != plain.shape  # all models of a stack have class weights, or none
    assert balanced.train.tolist() == list(range(15))  # each node once


def test_balanced_training_finds_the_rare_class() -> None:
    rng = np.random.default_rng(0)
    y = np.array([0] * 180 + [1] * 20)
    graph = Graph(x=rng.normal(size=(200, 1)) + y[:, None], edge_index=np.zeros((2, 0), int), y=y)
    splits = make_splits(graph, "random-60", 2)
    recalls = {}
    for weight in ("none", "balanced"):
        factory, how = configure(
            "mlp", graph, epochs=100, class_weight=weight, selection="lowest-loss", features="none"
        )
        guesses = predict(factory, graph, fit(factory, graph, splits, how, progress=False), how).mean(0).argmax(1)
        recalls[weight] = float((guesses.numpy() == 1)[y == 1].mean())
    assert recalls["balanced"] > recalls["none"] + 0.2
