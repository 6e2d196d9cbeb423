"""The split of logits: that it adds up, and that each part is what the equations give, position by position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from each_of import each_of
from nlgnn.analysis import Explanations, contributions, explain_nodes, sorted_sequence
from nlgnn.datasets import load_graph
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.graph.splits import make_splits
from nlgnn.models.build import configure
from nlgnn.nn import NLGCN, NLMLP, NonLocal
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sorted_conv import RowConv
from nlgnn.nn.local import MLP
from nlgnn.nn.mixing import GlobalAttention, SortedConv
from nlgnn.nn.orders import ScoreOrder
from nlgnn.training.fit import fit

Array = NDArray[np.float64]


def random_graph(num_nodes: int, classes: int = 3, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=num_nodes)
    names = [f"class {number}" for number in range(classes)]
    x, edges = rng.normal(size=(num_nodes, 4)), rng.integers(num_nodes, size=(2, 2 * num_nodes))
    return Graph(x, edges, labels, class_names=names)


def convolved_by(convs: nn.Module) -> Callable[[int, int, int], NonLocal]:
    """Return what builds a model with other convolutions."""
    return lambda inputs, hidden, classes: NonLocal(
        MLP(inputs, hidden, classes), classes, classes, mixer=SortedConv(classes, convs=convs)
    )


def random_model(seed: int = 0, classes: int = 3, form: Callable[..., NonLocal] = NLMLP, **options: Any) -> NonLocal:
    """In float64, with all parameters drawn: biases of zero could be forgotten unseen."""
    generator = torch.Generator().manual_seed(seed)
    model = form(4, 6, classes, **options).double()
    for parameter in model.parameters():
        parameter.data = 0.7 * torch.randn(parameter.shape, dtype=torch.float64, generator=generator)
    return model.eval()


def own_logits(model: NonLocal, graph: Graph) -> Array:
    x, *others = model.prepare(graph)
    with torch.no_grad():
        logits: Tensor = model(x.to(next(model.parameters()).dtype), *others)
    return logits.numpy()


def embedding(model: NonLocal, graph: Graph) -> Tensor:
    x, *others = model.prepare(graph)
    with torch.no_grad():
        z: Tensor = model.local(x.double(), *others)
    return z


def summed(split: Explanations) -> Array:
    return np.asarray(split.own + split.contributions.sum(1) + split.bias)


def convolved(rows: Array, conv: RowConv) -> Array:
    """Without its bias, as the sum is written down."""
    weight = conv.weight.detach().numpy()  # [out, in, kernel]
    result = np.zeros((len(rows), len(weight)))
    for position in range(len(rows)):
        for place in range(weight.shape[2]):
            other = position + place - weight.shape[2] // 2
            if 0 <= other < len(rows):
                result[position] += weight[:, :, place] @ rows[other]
    return result


def literal_split(model: NonLocal, graph: Graph) -> tuple[Array, Array]:
    """What position q gives to the logits at position p, `[p, q, c]`, and what biases give, `[p, c]`.

    With the gates of the whole, all rows but one are set to zero.
    """
    z, by = embedding(model, graph), model.order
    assert isinstance(by, ScoreOrder)
    with torch.no_grad():
        scores, order = by.score(z).squeeze(1), by(z).order()
    factors = (scores - scores.mean()) / (scores.std(correction=0) + 1e-6) if by.standardise else scores
    rows = (z if not by.multiply else factors[:, None] * z)[order].numpy()
    convs = [module for module in model.mixer.modules() if isinstance(module, RowConv)]
    biases = [conv.bias.detach().numpy() for conv in convs]  # type: ignore[union-attr]
    gates, through = [], rows
    for conv, bias in zip(convs, biases, strict=True):
        through = convolved(through, conv) + bias
        gates.append(through > 0)
        through = through * gates[-1]
    gates[-1] = np.ones_like(gates[-1])  # no ReLU after the last

    def linear(rows: Array, with_biases: bool) -> Array:
        for conv, bias, gate in zip(convs, biases, gates, strict=True):
            rows = (convolved(rows, conv) + with_biases * bias) * gate
        weight = model.head.weight.detach().numpy()
        return np.asarray(rows @ weight[:, weight.shape[1] - rows.shape[1] :].T)

    alone = [linear(rows * (np.arange(len(rows)) == q)[:, None], False) for q in range(len(rows))]
    head_bias = 0 if model.head.bias is None else model.head.bias.detach().numpy()
    return np.stack(alone, axis=1), linear(np.zeros_like(rows), True) + head_bias


@given(
    num_nodes=st.integers(1, 14),
    kernel_size=st.sampled_from([1, 3, 5]),
    num_convs=st.integers(1, 3),
    head=st.sampled_from(["concat", "residual"]),
    order=st.sampled_from(["score", "random"]),
    factors=st.sampled_from([{}, {"multiply_score": False}, {"standardise_score": True}, {"score_bias": True}]),
    classes=st.integers(1, 4),
    seed=st.integers(0, 1000),
)
def test_split_is_what_the_equations_give(
    num_nodes: int,
    kernel_size: int,
    num_convs: int,
    head: Literal["concat", "residual"],
    order: str,
    factors: dict[str, bool],
    classes: int,
    seed: int,
) -> None:
    graph = random_graph(num_nodes, classes, seed)
    shape = {"embedding_channels": 2} if head == "concat" else {}
    options = {"kernel_size": kernel_size, "num_convs": num_convs, "head": head, "order": order}
    model = random_model(seed, classes, **options, **factors, **shape)
    split = explain_nodes(model, graph, np.arange(num_nodes))
    logits = own_logits(model, graph)
    np.testing.assert_allclose(split.logits, logits, rtol=0, atol=1e-12)
    np.testing.assert_allclose(summed(split), logits, rtol=0, atol=1e-9)

    expected, biases = literal_split(model, graph)
    reach = num_convs * (kernel_size // 2)
    sequence = sorted_sequence(model, graph)
    np.testing.assert_array_equal(sequence.nodes[split.position], np.arange(num_nodes))
    np.testing.assert_allclose(split.score, sequence.scores[split.position])
    assert split.window_nodes.shape == (num_nodes, 2 * reach + 1)
    for node, position in enumerate(split.position):
        for number, offset in enumerate(range(-reach, reach + 1)):
            other = position + offset
            inside = 0 <= other < num_nodes
            assert split.window_nodes[node, number] == (sequence.nodes[other] if inside else -1)
            given_by_it = expected[position, other] if inside else np.zeros(classes)
            np.testing.assert_allclose(split.contributions[node, number], given_by_it, rtol=0, atol=1e-9)
        np.testing.assert_allclose(split.bias[node], biases[position], rtol=0, atol=1e-9)


@pytest.mark.parametrize("head", ["concat", "residual"])
def test_silenced_is_the_model_with_nothing_from_its_convolutions(head: str) -> None:
    graph, model = random_graph(12), random_model(head=head)
    split = explain_nodes(model, graph, np.arange(12))
    model.mixer.register_forward_hook(lambda module, inputs, mixed: torch.zeros_like(mixed))
    np.testing.assert_allclose(split.silenced, own_logits(model, graph), rtol=0, atol=1e-12)
    bias = 0 if model.head.bias is None else model.head.bias.detach().numpy()
    np.testing.assert_allclose(split.own + bias, split.silenced, rtol=0, atol=1e-12)


def test_convolutions_of_several_kernels_and_widths() -> None:
    graph = random_graph(20)
    convs = nn.Sequential(RowConv(3, 5, 3), nn.ReLU(), Dropout(0.5), RowConv(5, 3, 7))
    model = random_model(form=convolved_by(convs))
    split = explain_nodes(model, graph, [4, 19])
    assert split.window_nodes.shape == (2, 9)
    np.testing.assert_allclose(summed(split), own_logits(model, graph)[[4, 19]], rtol=0, atol=1e-9)


@pytest.mark.parametrize("limits", [(3, 2**22), (4096, 1)])
def test_parts_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch, limits: tuple[int, int]) -> None:
    graph, model = random_graph(20), random_model()
    nodes = [5, 2, 5, 19, 0, 7, 11]  # in any order, also twice
    whole = explain_nodes(model, graph, np.arange(20))
    at_once: list[int] = []
    split = contributions.SortedPass._split
    monkeypatch.setattr(contributions, "MOST_NODES", limits[0])
    monkeypatch.setattr(contributions, "MOST_NUMBERS", limits[1])
    monkeypatch.setattr(
        contributions.SortedPass,
        "_split",
        lambda self, positions: (at_once.append(len(positions)), split(self, positions))[1],
    )
    some = explain_nodes(model, graph, nodes)
    assert at_once == ([3, 3, 1] if limits[0] == 3 else [1] * 7)
    for of_some, of_all in zip(some, whole, strict=True):
        np.testing.assert_allclose(of_some, of_all[nodes], rtol=0, atol=1e-12)


def test_no_node() -> None:
    split = explain_nodes(random_model(), random_graph(8), [])
    assert [len(part) for part in split] == [0] * len(split)
    assert split.contributions.shape == (0, 9, 3)


def test_the_local_part_is_computed_once_without_dropout_and_the_model_is_left_as_it_was() -> None:
    graph, model = random_graph(10), random_model(form=NLGCN, dropout=0.5)
    calls: list[int] = []
    model.local.register_forward_hook(lambda *_: calls.append(1))
    for mode in (True, False):
        model.train(mode)
        first, second = (explain_nodes(model, graph, [3, 4]) for _ in range(2))
        np.testing.assert_array_equal(first.contributions, second.contributions)
        assert model.training is mode
        assert model.local.training is mode
    assert len(calls) == 4
    assert len(model.local._forward_hooks) == 1
    assert all(parameter.grad is None for parameter in model.parameters())


def test_trained_model_of_a_real_graph(data_root: object) -> None:
    graph = load_graph("texas")
    factory, recipe = configure("nlmlp", graph, epochs=60)
    (run,) = fit(factory, graph, make_splits(graph, "random-60", 1), recipe, progress=False)
    model, scaled = factory(), graph.scale_features(recipe.features)
    model.load_state_dict(run.state)
    split = explain_nodes(model, scaled, np.arange(graph.num_nodes))
    assert split.logits.dtype == np.float32
    assert abs(split.contributions).max() > 0.01
    np.testing.assert_allclose(summed(split), own_logits(model.eval(), scaled), rtol=1e-6, atol=1e-5)  # type: ignore[arg-type]
    with pytest.raises(AssertionError):  # features that are scaled otherwise are other features
        np.testing.assert_allclose(explain_nodes(model, graph, [0]).logits, split.logits[:1], atol=1e-5)


@each_of(
    ("model", "what"),
    [
        (MLP(4, 6, 3), "MLP sorts nothing"),
        (NonLocal(MLP(4, 6, 3), 3, 3, mixer=GlobalAttention()), "attends to all nodes"),
        (convolved_by(nn.Conv1d(3, 3, 5, padding=2))(4, 6, 3), "the user's own modules"),
        (
            convolved_by(nn.Sequential(RowConv(3, 3, 3), nn.Tanh(), RowConv(3, 3, 3)))(4, 6, 3),
            "the user's own modules",
        ),
    ],
    ids=["local", "attention", "foreign convolution", "another function between"],
)
def test_models_that_cannot_be_split(model: nn.Module, what: str) -> None:
    with pytest.raises(OptionError, match=what):
        explain_nodes(model, random_graph(8), [0])


@pytest.mark.parametrize(("nodes", "what"), [([2, 8], "no node 8"), ([-1], "no node -1"), (np.ones(8) > 0, "bool")])
def test_wrong_nodes(as_users_run_it: None, nodes: Any, what: str) -> None:
    with pytest.raises(DataError, match=what):
        explain_nodes(random_model(), random_graph(8), nodes)
