"""How far nodes hear at first: the scale of a metric, whatever the units, form and precision of its input."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from order_samples import CLASSES, NODES, random_graph, some_known
from scipy import sparse
from torch import Tensor

from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.nn import LearnedOrder, Operator, inputs, learned_order
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nn_samples import noise


@pytest.mark.parametrize("wanted", [2.0, 4.0, 10.0])
def test_the_scale_gives_the_wanted_perplexity(wanted):
    order = LearnedOrder(4, perplexity=wanted).double().eval()
    x = torch.from_numpy(random_graph().x).double() * torch.tensor([1.0, 100.0, 1e-3, 1.0])
    order.choose_scale(x)
    with torch.no_grad():
        distances, near = order.distances(order.positions(x), torch.arange(NODES))
        chances = (-distances).masked_fill(~near.counted, -torch.inf).softmax(1)
    assert torch.special.entr(chances).sum(1).exp().median().item() == pytest.approx(wanted, rel=0.01)


@pytest.mark.parametrize(("columns", "quiet"), [(2, False), (300, True)])
def test_in_wide_inputs_votes_are_quiet_at_first(columns, quiet):
    torch.manual_seed(0)
    order, x = LearnedOrder(columns).eval(), torch.randn(600, columns)
    order.choose_scale(x)
    with torch.no_grad():
        weights = order.neighbour_sums(order.positions(x), torch.ones(600, 1))
    assert bool(weights.median() < order.shrinkage) is quiet


def test_columns_count_alike_at_first_whatever_their_units():
    order = LearnedOrder(4).double()
    x = torch.from_numpy(random_graph().x).double()
    units = torch.tensor([1.0, 100.0, 1e-3, 1.0])
    order.choose_scale(x)
    expected = order.positions(x)
    order.choose_scale(x * units)
    torch.testing.assert_close(order.positions(x * units), expected)


def votes_in(dtype: torch.dtype, x: np.ndarray) -> Tensor:
    """With the scale of float64."""
    graph, wide = random_graph(), torch.from_numpy(x).double()
    torch.manual_seed(0)
    order = LearnedOrder(x.shape[1]).double().eval()
    order.choose_scale(wide)
    local = noise(NODES, CLASSES).detach().to(dtype)
    return order.to(dtype).votes(order.positions(wide.to(dtype)), local, some_known(graph)).double()


def test_rounding_does_not_drown_what_is_far_from_zero():
    x = random_graph().x.astype(np.float64)
    x[:, 1] = 2000 + 3 * x[:, 1]  # such as a year
    torch.testing.assert_close(votes_in(torch.float32, x), votes_in(torch.float64, x), rtol=0, atol=2e-3)


def test_a_constant_column_changes_nothing():
    x = random_graph().x.astype(np.float64)
    order = LearnedOrder(5).double()
    order.choose_scale(torch.from_numpy(np.hstack([x, np.full((NODES, 1), 0.1)])))
    assert order.scale[4] == 0
    assert (order.scale[:4] > 0).all()


@pytest.mark.parametrize("kinds", [2, 7])
def test_nodes_that_are_alike_do_not_blow_the_scale_up(kinds):
    """Such as on minesweeper, whose nodes have a category each: near ones are at distance 0, whatever the scale."""
    x = np.eye(kinds)[np.arange(NODES) % kinds]
    order = LearnedOrder(kinds).double().eval()
    order.choose_scale(torch.from_numpy(x))
    assert order.positions(torch.from_numpy(x)).abs().max() < 100
    assert order.scale.min() > 0


@pytest.mark.parametrize("bounded", [True, False])
def test_tight_clusters_do_not_push_nodes_beyond_single_precision(bounded, monkeypatch):
    if not bounded:
        monkeypatch.setattr(learned_order, "FARTHEST", 1e30)
    torch.manual_seed(0)
    x = torch.randn(10, 4).double().repeat(20, 1) + 2e-4 * torch.randn(200, 4).double()
    order = LearnedOrder(4).double().eval()
    order.choose_scale(x)
    farthest = order.positions(x).square().sum(1).max().item()
    assert farthest == pytest.approx(1e8) if bounded else farthest > 1.5e8


@pytest.mark.parametrize("to_sparse", [Tensor.to_sparse, Tensor.to_sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_sparse_tensors_keep_their_units(to_sparse):
    graph = random_graph()
    x = to_sparse(torch.from_numpy(np.where(graph.x > 0.5, graph.x, 0)))
    order = LearnedOrder(4)
    order.choose_scale(x)
    assert order.scale.unique().numel() == 1
    assert order.positions(x).shape == (NODES, 16)


def test_features_on_disk_are_standardised_alike(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "ROWS_AT_ONCE", 7)  # several parts, of unequal length
    x = random_graph().x * np.array([1, 100, 1e-3, 1], np.float32)
    np.save(tmp_path / "x.npy", x)
    on_disk = StreamedFeatures(FeaturesOnDisk.from_memmap(np.load(tmp_path / "x.npy", mmap_mode="r"), "x"))
    scales = []
    for features in (torch.from_numpy(x), on_disk):
        torch.manual_seed(0)
        order = LearnedOrder(4)
        order.choose_scale(features)
        scales.append(order.scale.detach())
    torch.testing.assert_close(*scales, rtol=1e-4, atol=0)
    scale = scales[0].numpy().ravel()
    np.testing.assert_allclose(scale * x.std(0), scale[0] * x.std(0)[0], rtol=1e-4)


def test_sparse_features_keep_their_units():
    graph = random_graph()
    x = np.where(graph.x > 0.5, graph.x, 0)
    order = LearnedOrder(4).double()
    order.choose_scale(Operator.from_scipy(sparse.csr_array(x)).to(dtype=torch.float64))
    assert order.scale.unique().numel() == 1


@pytest.mark.parametrize("tightness", [1e-2, 1e-3, 1e-4])
def test_what_is_heard_survives_rounding_where_nodes_are_in_tight_clusters(tightness: float) -> None:
    """In single precision, beside a sum over one node's neighbours."""
    torch.manual_seed(0)
    x = torch.randn(60, 4).repeat(20, 1) + tightness * torch.randn(1200, 4)
    order = LearnedOrder(4)
    order.choose_scale(x)
    order.eval()
    with torch.no_grad():
        e = order.positions(x)
        heard = order.neighbour_sums(e, torch.ones(1200, 1)).squeeze(1)
    expected = torch.stack([order.neighbours_of(e, node)[1].sum() for node in range(0, 1200, 10)])
    torch.testing.assert_close(heard[::10], expected, rtol=1e-4, atol=1e-5)
