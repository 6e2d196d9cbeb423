"""The sorted sequence of a model, against what its modules give by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nlgnn.analysis import kernel_sizes, sorted_sequence
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import NLGCN, NLMLP, NonLocal
from nlgnn.nn.local import MLP
from nlgnn.nn.mixing import GlobalAttention

NODES = 20


@pytest.fixture
def graph() -> Graph:
    rng = np.random.default_rng(0)
    return Graph(rng.random((NODES, 6)), rng.integers(NODES, size=(2, 40)), rng.integers(-1, 3, size=NODES))


@pytest.fixture(params=[NLMLP, NLGCN])
def model(request: pytest.FixtureRequest) -> NonLocal:
    torch.manual_seed(0)
    made: NonLocal = request.param(6, 8, 3, dropout=0.5)
    return made


def test_sequence_is_the_order_of_the_scores(model: NonLocal, graph: Graph) -> None:
    nodes, scores, labels = sorted_sequence(model, graph)
    assert sorted(nodes) == list(range(NODES))
    assert (np.diff(scores) >= 0).all()
    assert scores[0] < scores[-1]
    np.testing.assert_array_equal(labels, graph.y[nodes])
    assert -1 in labels  # nodes of unknown label keep their place
    model.eval()
    by_hand = model.order.score(model.local(*model.prepare(graph))).squeeze(1).detach().numpy()
    np.testing.assert_allclose(scores, by_hand[nodes], rtol=1e-6)


def test_random_order_is_not_that_of_the_scores(graph: Graph) -> None:
    model = NLMLP(6, 8, 3, order="random").eval()
    nodes = sorted_sequence(model, graph).nodes
    assert sorted(nodes) == list(range(NODES))
    scores = model.order.score(model.local(*model.prepare(graph))).squeeze(1).detach().numpy()
    assert (np.diff(scores[nodes]) < 0).any()


def test_dropout_plays_no_part_and_the_mode_is_restored(model: NonLocal, graph: Graph) -> None:
    for mode in (True, False):
        model.train(mode)
        first, second = (sorted_sequence(model, graph) for _ in range(2))
        np.testing.assert_array_equal(first.scores, second.scores)
        assert model.training is mode
        assert model.local.training is mode
    assert all(parameter.grad is None for parameter in model.parameters())


def test_double_precision(model: NonLocal, graph: Graph) -> None:
    assert sorted_sequence(model.double(), graph).scores.dtype == np.float64


def test_kernel_sizes() -> None:
    assert kernel_sizes(NLMLP(6, 8, 3, kernel_size=7, num_convs=3)) == [7, 7, 7]
    assert kernel_sizes(NLMLP(6, 8, 3, kernel_size=1, num_convs=1)) == [1]


def test_attention_sorts_nothing(graph: Graph) -> None:
    model = NonLocal(MLP(6, 8, 3), 3, 3, mixer=GlobalAttention())
    for question in (lambda: sorted_sequence(model, graph), lambda: kernel_sizes(model)):
        with pytest.raises(OptionError, match="sorts nothing"):
            question()
