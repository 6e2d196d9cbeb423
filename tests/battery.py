"""What every registered system must do, in the manner of scikit-learn's estimator checks.

A check is a function `check_…(case)`. A system that is registered later is checked without a change here. Where a check
needs a model with weights, one without gradient training is fitted.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor, nn

from battery_graphs import random_graph, split_of, with_labels
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import Split
from nlgnn.models.build import configure, resolve
from nlgnn.models.options import model_options, recipe_options
from nlgnn.models.registry import PRESETS, SYSTEMS
from nlgnn.nn.base import logits_of, prepare
from nlgnn.nn.inputs import TAKES_WHAT_IT_PREPARES, Inputs, move, prepare_plain, undirected_edges
from nlgnn.shallow import ShallowModel
from nlgnn.training.fit import fit
from nlgnn.training.loop import evaluate
from nlgnn.training.metrics import log_probabilities, measure_all
from nlgnn.training.preflight import ignores_weights
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Run
from nlgnn.training.run_folder import RunFolder
from nlgnn.training.train import Plan, train

# Small, where a system has these options.
SMALL = {"hidden": 6, "heads": 2, "rounds": 5, "trees": 5, "min_leaf": 2}

LEARNED_ORDERS: list[tuple[str, dict[str, Any]]] = [
    ("nlmlp", {"order": "learned"}),
    ("vote-gcn", {"space_input": "adjacency"}),
    ("nlmlp", {"order": "learned", "space_input": "adjacency"}),
]


@dataclass(frozen=True)
class Case:
    """A system, a preset and, of a system with several forms, one of them."""

    system: str
    preset: str
    form: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return "-".join([self.system, self.preset, *(f"{name}={value}" for name, value in self.form)])

    def options(self, **wanted: Any) -> dict[str, Any]:
        """Those of the wanted options that the system or a recipe has, and small widths."""
        known = model_options(SYSTEMS[self.system]).keys() | recipe_options(SYSTEMS[self.system])
        phases = {"pretrain_epochs": 3} if "pretrain_epochs" in SYSTEMS[self.system].program else {}
        return {name: value for name, value in (SMALL | phases | dict(self.form) | wanted).items() if name in known}

    def configure(self, graph: Graph, **wanted: Any) -> tuple[Callable[[], Any], Recipe]:
        return configure(self.system, graph, preset=self.preset, **self.options(**wanted))

    def model(self, graph: Graph, seed: int = 0, **wanted: Any) -> Any:
        """In float64, every parameter drawn: one that starts at zero would hide what comes before it."""
        model = self.configure(graph, **wanted)[0]()
        if isinstance(model, ShallowModel):
            return model.fit(graph, split_of(graph), seed=seed)
        model.double()
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            if parameter.is_floating_point():
                parameter.data = torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
        model.start(prepare(model, graph), torch.from_numpy(graph.y))
        return model

    def fit(self, graph: Graph, split: Split, **wanted: Any) -> Run:
        factory, recipe = self.configure(graph, **({"epochs": 6, "seed": 3} | wanted))
        return fit(factory, graph, [split], recipe, progress=False)[0]


def cases() -> list[Case]:
    """Every system with every preset; presets that make the same model of a system are one."""
    distinct: dict[str, Case] = {}
    for system in SYSTEMS:
        if SYSTEMS[system].kind == "shallow":
            continue
        for preset in PRESETS:
            arguments = resolve(system, "", preset, {})[0]
            distinct.setdefault(f"{system} {arguments}", Case(system, preset))
    forms = [
        Case(system.name, "paper", tuple(variant.items()))
        for system in SYSTEMS.values()
        for variant in system.variants
        if "space" not in variant  # of published files
    ]
    learned_orders = [Case(system, "robust", tuple(form.items())) for system, form in LEARNED_ORDERS]
    return [*distinct.values(), *forms, *learned_orders]


# Together they cover every base behaviour: no edges, operators, attention, two operators, nodes known by number,
# scores, learned orders, votes and a local part from the registry.
REPRESENTATIVES = ("mlp", "gcn", "gat", "nlmlp", "nlgcn", "nlgat", "h2gcn", "linkx", "nl-sage", "vote-gcn")


def inputs_of(model: nn.Module, graph: Graph) -> tuple[Any, ...]:
    return prepare(model.double(), graph)


def logits(model: Any, graph: Graph) -> Tensor:
    if isinstance(model, ShallowModel):
        return log_probabilities(model.predict(graph))
    return evaluate(model, inputs_of(model, graph))


def logits_of_state(factory: Callable[[], Any], state: dict[str, Tensor], graph: Graph, recipe: Recipe) -> Tensor:
    """Of a trained model, with inputs as in training."""
    model, scaled = factory(), graph.scale_features(recipe.features)
    model.load_state_dict(state)
    if isinstance(model, ShallowModel):
        return log_probabilities(model.predict(scaled))
    return evaluate(model, prepare(model, scaled))


def gradients(model: Any, graph: Graph) -> dict[str, Tensor | None]:
    """Of the system's own loss over all nodes, in training mode."""
    if isinstance(model, ShallowModel):
        return {}
    torch.manual_seed(0)
    model.train()
    output = model.training_output(*inputs_of(model, graph))
    model.loss(output, torch.from_numpy(graph.y), torch.arange(graph.num_nodes)).backward()
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.requires_grad}


def identifies_nodes(model: Any) -> bool:
    if isinstance(model, ShallowModel):
        return model.identifies_nodes
    return any(getattr(module, "identifies_nodes", False) for module in model.modules())


def assert_close(actual: Tensor, expected: Tensor) -> None:
    tolerance = 1e-9 if actual.dtype == torch.float64 else 1e-5  # some shallow models compute in float32
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def assert_usable(case: Case, graph: Graph) -> None:
    """Finite logits of the right shape, the same ones every time, and finite gradients."""
    model = case.model(graph)
    first, second = logits(model, graph), logits(model, graph)
    assert first.shape == (graph.num_nodes, graph.num_classes)
    assert first.isfinite().all()
    assert first.equal(second)
    for name, gradient in gradients(model, graph).items():
        assert gradient is None or gradient.isfinite().all(), name


def assert_same_training(one: Run, other: Run) -> None:
    """All that is chosen and learned is equal, bit for bit."""
    assert (one.epochs, one.chosen_epoch, one.failure) == (other.epochs, other.chosen_epoch, other.failure)
    assert one.curves == other.curves
    assert one.val == other.val
    assert one.state.keys() == other.state.keys()
    for name, value in one.state.items():
        assert value.equal(other.state[name]), name


def check_shape(case: Case) -> None:
    assert_usable(case, random_graph())


def check_permutation_equivariance(case: Case) -> None:
    graph = random_graph()
    if identifies_nodes(case.model(graph)):
        pytest.skip(f"{case.system} knows nodes by their number")
    order = np.random.default_rng(1).permutation(graph.num_nodes)
    new_number = np.argsort(order)
    moved = Graph(graph.x[order], new_number[graph.edge_index], graph.y[order], class_names=graph.class_names)
    model = case.model(graph)
    expected = logits(model, graph)
    assert expected.std(0).min() > 1e-3  # otherwise any order would do
    assert_close(logits(model, moved), expected[torch.from_numpy(order)])


def check_ties(case: Case) -> None:
    graph = random_graph()
    twins = np.repeat(graph.x[::2], 2, axis=0)
    for x in (twins, np.zeros_like(graph.x)):
        assert_usable(case, Graph(x, graph.edge_index, graph.y))


def check_isolated_nodes(case: Case) -> None:
    graph = random_graph(edges=4)
    assert (graph.undirected_adjacency.sum(1) == 0).sum() >= 10
    assert_usable(case, graph)


def check_no_edges(case: Case) -> None:
    graph = random_graph(edges=0)
    assert_usable(case, graph)
    assert case.fit(graph, split_of(graph)).failure is None


def check_fewer_nodes_than_the_kernel(case: Case) -> None:
    for num_nodes in (1, 2, 3):
        graph = random_graph(num_nodes, num_classes=2, edges=3)
        assert_usable(case, Graph(graph.x, graph.edge_index, graph.y, class_names=("a", "b")))


def check_one_class(case: Case) -> None:
    graph = random_graph(num_classes=1)
    run = case.fit(graph, split_of(graph))
    assert run.failure is None
    assert run.val["accuracy"] == run.test["accuracy"] == 100
    if run.epochs:
        assert run.chosen_epoch == (run.epochs if case.configure(graph)[1].selection.startswith("last") else 1)


def check_training_lowers_the_loss(case: Case) -> None:
    graph = random_graph(num_nodes=40)
    wanted = {"epochs": 40, "lr": 0.05, "dropout": 0.0, "stopping": "never", "hidden": 16}
    run = case.fit(graph, split_of(graph), **wanted)
    losses = run.curves["train_loss"][-40:]  # of the last phase
    assert losses[-1] < 0.8 * losses[0]


def check_seeds(case: Case) -> None:
    graph = random_graph()
    first, again, other = (case.fit(graph, split_of(graph), seed=seed) for seed in (3, 3, 4))
    assert_same_training(first, again)
    assert first.test == again.test
    if first.curves:
        assert first.curves["train_loss"] != other.curves["train_loss"]


def check_run_folder(case: Case) -> None:
    graph = random_graph()
    options = case.options(epochs=4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        plan = Plan(graph.name, case.system, runs=1, preset=case.preset, options=options)
        trained = train(plan, graph, path, progress=False)
        kept = RunFolder.open(path).finished_run(0)
    assert kept is not None
    assert_same_training(kept, trained.runs[0])
    assert kept.summary() == trained.runs[0].summary()
    for state in (kept.state, trained.runs[0].state):
        again = logits_of_state(trained.factory, state, graph, trained.recipe)
        nodes = torch.from_numpy(split_of(graph).test.nonzero()[0])
        assert measure_all(again[nodes], torch.from_numpy(graph.y)[nodes]) == kept.test


def check_sparse_features(case: Case) -> None:
    graph = random_graph()
    x = np.where(graph.x > 0.5, graph.x, 0)
    x[3] = 0  # an empty row
    dense, csr = (Graph(form, graph.edge_index, graph.y) for form in (x, sparse.csr_array(x)))
    model = case.model(graph, dropout=0.0)
    assert_close(logits(model, csr), logits(model, dense))
    expected, actual = (gradients(copy.deepcopy(model), form) for form in (dense, csr))
    for name, gradient in expected.items():
        assert_close(actual[name], gradient)


def check_edge_index(case: Case) -> None:
    """A prepared operator is the same as PyG's own way of calling."""
    graph = random_graph()
    model = case.model(graph)
    plain = move(prepare_plain(graph), dtype=torch.float64)
    assert plain.edge_index.equal(undirected_edges(graph))
    if not isinstance(model.prepare(graph), Inputs):  # type: ignore[operator]
        try:
            evaluate(model, plain)
        except OptionError as error:
            if error.what != TAKES_WHAT_IT_PREPARES[0]:
                raise
            pytest.skip(f"{case.system} takes more than features and edges, and says so")
    assert_close(evaluate(model, plain), logits(model, graph))


def check_every_parameter_learns(case: Case) -> None:
    graph = random_graph()
    for name, gradient in gradients(case.model(graph), graph).items():
        assert gradient is not None, name
        assert gradient.abs().max() > 1e-9, name


def check_float64(case: Case) -> None:
    graph = random_graph()
    assert logits(case.model(graph), graph).dtype == torch.float64
    factory, recipe = case.configure(graph, epochs=3)
    run = fit(lambda: factory().double(), graph, [split_of(graph)], recipe, progress=False)[0]
    assert run.failure is None
    assert {value.dtype for value in run.state.values() if value.is_floating_point()} == {torch.float64}


def check_reset_parameters(case: Case) -> None:
    graph = random_graph()
    model = case.configure(graph)[0]()
    states = []
    for _ in range(2):
        for parameter in model.parameters():
            parameter.data.fill_(100.0)
        torch.manual_seed(5)
        model.reset_parameters()  # type: ignore[operator]
        states.append(copy.deepcopy(model.state_dict()))
        for name, parameter in model.named_parameters():
            assert parameter.abs().max() < 50, f"{name} was left as it was"
    for name, value in states[0].items():
        assert value.equal(states[1][name]), name


def check_evaluation_is_not_random(case: Case) -> None:
    graph = random_graph()
    model = case.model(graph, dropout=0.5)
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = logits(model, graph)
    assert torch.get_rng_state().equal(before)
    torch.manual_seed(1)
    assert logits(model, graph).equal(first)


def check_deterministic_is_true_of_it(case: Case) -> None:
    """Where a model says that training and evaluation are one computation, the trainer runs it once for both."""
    graph = random_graph()
    for rate in (0.0, 0.5):
        model = case.model(graph, dropout=rate, conv_dropout=rate)
        in_training = logits_of(model.train()(*inputs_of(model, graph)))
        if getattr(model, "deterministic", False):
            assert in_training.equal(logits(model, graph))
        elif rate:
            assert not in_training.equal(logits(model, graph))


def check_unknown_labels(case: Case) -> None:
    """Nodes of unknown label are embedded like others, but never trained on and never counted."""
    graph = random_graph()
    unknown = np.zeros(graph.num_nodes, bool)
    unknown[[1, 5, 9, 17]] = True
    blank = with_labels(graph, np.where(unknown, -1, graph.y))
    known = split_of(blank)
    assert not (unknown & (known.train | known.val | known.test)).any()
    asked = Split(known.train, known.val, known.test | unknown)
    without, with_all = case.fit(blank, asked), case.fit(graph, known)
    assert_same_training(without, with_all)
    assert without.test == with_all.test


def check_test_labels_do_not_matter(case: Case) -> None:
    """Selection never sees them: other test labels change the test figures, and nothing else."""
    graph = random_graph(num_nodes=40)
    split = split_of(graph)
    factory, recipe = case.configure(graph, epochs=12, lr=0.05, seed=3)
    changed = with_labels(graph, np.where(split.test, (graph.y + 1) % graph.num_classes, graph.y))
    runs = [fit(factory, one, [split], recipe, progress=False)[0] for one in (graph, changed)]
    assert_same_training(*runs)
    chosen = logits_of_state(factory, runs[0].state, graph, recipe)[torch.from_numpy(split.test)]
    for run, one in zip(runs, (graph, changed), strict=True):
        assert run.test == measure_all(chosen, torch.from_numpy(one.y[split.test]))


def check_weights_of_edges(case: Case) -> None:
    """They change what a model gives, unless it says that it does not look at them, or looks at no edges."""
    graph = random_graph()
    weights = np.random.default_rng(1).integers(1, 9, graph.edge_index.shape[1]) / 2
    weighted = replace(graph, edge_weight=weights)
    model = case.model(graph)
    looks_at_edges = not logits(model, random_graph(edges=0)).equal(logits(model, graph))
    changes = not torch.allclose(logits(model, weighted), logits(model, graph))
    assert changes == (looks_at_edges and not ignores_weights(model, weighted))


def check_containers(case: Case) -> None:
    """As part of a larger module: its parameters are found, its state goes out and in again."""
    graph = random_graph()
    model, other = case.model(graph, seed=0), case.model(graph, seed=1)
    assert not logits(model, graph).equal(logits(other, graph))
    whole, second = nn.ModuleDict({"classifier": model}), nn.ModuleDict({"classifier": other})
    assert len(list(whole.parameters())) == len(list(model.parameters())) > 0
    second.load_state_dict(whole.state_dict())
    assert logits(other, graph).equal(logits(model, graph))
    assert logits(copy.deepcopy(whole)["classifier"], graph).equal(logits(model, graph))


CHECKS = [check for name, check in list(globals().items()) if name.startswith("check_")]
STRUCTURAL = (check_shape, check_permutation_equivariance, check_run_folder, check_test_labels_do_not_matter)
