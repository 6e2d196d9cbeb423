"""Two dimensions of an embedding: which embedding, which axes, which nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor, nn

from each_of import each_of
from nlgnn.analysis.projection import Projection, project
from nlgnn.graph.graph import Graph
from nlgnn.nn import NLGCN, NLMLP, NonLocal
from nlgnn.nn.local import GCN, MLP
from nlgnn.nn.mixing import GlobalAttention, Mixer, SortedConv

NODES = 20


class Given(nn.Module):
    """Gives the features that it is given, times a weight of 1."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return x * self.weight


def graph_of(x: object) -> Graph:
    return Graph(x, np.zeros((2, 0), int), np.zeros(len(np.asarray(x)), int))


@pytest.fixture
def graph() -> Graph:
    rng = np.random.default_rng(0)
    return Graph(rng.random((NODES, 6)), rng.integers(NODES, size=(2, 40)), rng.integers(-1, 3, size=NODES))


def by_hand(embedding: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvectors of the covariance, turned so that the largest weight of each is positive."""
    centred = embedding - embedding.mean(0)
    values, vectors = np.linalg.eigh(centred.T @ centred)
    axes = vectors[:, ::-1][:, :2].T
    axes = [axis * np.sign(axis[np.abs(axis).argmax()]) for axis in axes]
    return centred @ np.array(axes).T, values[::-1][:2] / values.sum()


def assert_projects(projection: Projection, embedding: Tensor) -> None:
    points, explained = by_hand(embedding.detach().double().numpy())
    np.testing.assert_allclose(projection.points, points, atol=1e-5 * np.abs(points).max())
    np.testing.assert_allclose(projection.explained, explained, atol=1e-6)


@pytest.mark.parametrize(
    ("local", "head", "mixer"),
    [(MLP, "concat", SortedConv(3)), (GCN, "residual", SortedConv(3)), (GCN, "concat", GlobalAttention())],
)
def test_non_local_models_show_both_embeddings(local: Any, head: Any, mixer: Mixer, graph: Graph) -> None:
    torch.manual_seed(0)
    model = NonLocal(local(6, 8, 3, dropout=0.5), 3, 3, head=head, mixer=mixer, local_loss=0.3).eval()
    z = model.local(*model.prepare(graph))
    both = torch.cat([z, mixer(z, model.order(z))], dim=1)
    if head == "concat":  # what the classifier sees
        torch.testing.assert_close(model.head(both), model(*model.prepare(graph)))
    model.train()
    projection = project(model, graph)
    assert_projects(projection, both)
    assert projection.nodes.tolist() == list(range(NODES))
    assert "before and after the non-local step" in projection.of_what


@pytest.mark.parametrize("model_class", [MLP, GCN])
def test_other_models_show_their_logits(model_class: type[nn.Module], graph: Graph) -> None:
    torch.manual_seed(0)
    model = model_class(6, 8, 3, dropout=0.5).eval()
    logits = model(*model.prepare(graph))
    projection = project(model.train(), graph)
    assert_projects(projection, logits)
    assert "logits" in projection.of_what


def test_a_model_that_returns_more_than_logits(graph: Graph) -> None:
    class Pair(Given):
        def forward(self, x: Tensor, edge_index: Tensor) -> tuple[Tensor, str]:  # type: ignore[override]
            return super().forward(x, edge_index), "more"

    assert_projects(project(Pair(), graph), torch.from_numpy(graph.x))


def test_the_mode_is_restored_and_nothing_learns(graph: Graph) -> None:
    model = NLGCN(6, 8, 3, dropout=0.5)
    for mode in (True, False):
        model.train(mode)
        first, second = project(model, graph), project(model, graph)
        np.testing.assert_array_equal(first.points, second.points)
        assert model.training is mode
        assert model.local.training is mode
    assert all(parameter.grad is None for parameter in model.parameters())


def test_double_precision(graph: Graph) -> None:
    assert project(NLMLP(6, 8, 3).double(), graph).points.dtype == np.float32


def test_a_sample_is_the_same_every_time_and_alone_decides_the_axes(graph: Graph) -> None:
    first, second = (project(Given(), graph, limit=7) for _ in range(2))
    assert first.points.shape == (7, 2)
    assert sorted(set(first.nodes.tolist())) == first.nodes.tolist()
    assert first.nodes.tolist() != list(range(7))
    np.testing.assert_array_equal(first.nodes, second.nodes)
    assert_projects(first, torch.from_numpy(graph.x[first.nodes]))
    assert len(project(Given(), graph, limit=NODES).nodes) == NODES


@each_of(
    "x", [[[1.0, 2.0, 3.0]], np.full((5, 4), 0.1), np.zeros((4, 1)), [[7.0]]], ids=["node", "constant", "zero", "one"]
)
def test_what_does_not_differ_is_one_point(x: object) -> None:
    projection = project(Given(), graph_of(x))
    assert projection.points.tolist() == [[0, 0]] * len(np.asarray(x))
    assert projection.explained.tolist() == [0, 0]


def test_one_column_is_one_axis() -> None:
    projection = project(Given(), graph_of([[3.0], [-1.0], [1.0]]))
    np.testing.assert_allclose(projection.points, [[2, 0], [-2, 0], [0, 0]], atol=1e-6)
    assert projection.explained.tolist() == [1, 0]


def test_rows_that_hardly_differ_still_do() -> None:
    """A tenth of a millionth apart, far from zero, and so many that scikit-learn would not centre them first."""
    x = np.full((100, 3), 1000, np.float32)
    x[0, 0] = np.nextafter(np.float32(1000), np.float32(2000))
    projection = project(Given(), graph_of(x))
    assert projection.explained == pytest.approx([1, 0])
    assert projection.points[0, 0] > 0 > projection.points[1, 0]


@given(
    st.integers(1, 6).flatmap(
        lambda width: st.lists(
            st.lists(st.floats(-1e6, 1e6, width=32), min_size=width, max_size=width), min_size=1, max_size=8
        )
    )
)
def test_whatever_the_rows_the_points_are_numbers(rows: list[list[float]]) -> None:
    projection = project(Given(), graph_of(rows))
    assert projection.points.shape == (len(rows), 2)
    assert np.isfinite(projection.points).all()
    first, second = projection.explained
    assert 0 <= second <= first <= 1 + 1e-9
    if len(rows[0]) <= 2:  # then nothing is left out
        assert first + second == pytest.approx(1 if len(set(map(tuple, rows))) > 1 else 0)
