"""The peers compute what our models compute, and a peer that does not is found out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import Tensor

from benchmarks import peers
from benchmarks.deep import PlainDeepGCN
from benchmarks.peers import (
    PYG_COMPILED,
    Inputs,
    NotEqualError,
    PlainGAT,
    check_equal,
    csr_inputs,
    edge_inputs,
    normalised_inputs,
    sparse_inputs,
    variants,
)
from benchmarks.plain_nlgcn import PlainNLGCN
from each_of import each_of
from nlgnn.errors import NlgnnError
from nlgnn.graph.graph import Graph
from nlgnn.nn import GAT, GCN, NLGCN
from nlgnn.nn.inputs import move, prepare_plain

WIDTHS = (6, 7, 3)
TRAIN = torch.arange(20)


def sample_graph(copies: int = 0) -> Graph:
    """Random, with an isolated node; the last `copies` nodes are alike in features and neighbours."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 6)) * (rng.random((40, 6)) < 0.5)
    edges = rng.integers(1, 40 - copies, size=(2, 90))
    if copies:
        x[-copies:] = x[-1]
        edges = np.hstack([edges, [[5] * copies, range(40 - copies, 40)]])
    return Graph(sparse.csr_array(x), edges, rng.integers(3, size=40))


FORMS = [edge_inputs, csr_inputs, sparse_inputs]


@pytest.mark.parametrize("inputs", FORMS)
@pytest.mark.parametrize("copies", [0, 10])
def test_nlgcn(inputs: Callable[[Graph], Inputs], copies: int) -> None:
    check_equal(NLGCN(*WIDTHS), PlainNLGCN(*WIDTHS), sample_graph(copies), TRAIN, inputs)


def test_dropout_is_off_while_comparing() -> None:
    check_equal(NLGCN(*WIDTHS, dropout=0.5), PlainNLGCN(*WIDTHS, dropout=0.5), sample_graph(), TRAIN)


def test_deep_gcn() -> None:
    ours = GCN(*WIDTHS, num_layers=3, norm="batch", residual=True, dropout=0.5)
    check_equal(ours, PlainDeepGCN(*WIDTHS, num_layers=3, dropout=0.5), sample_graph(), TRAIN, normalised_inputs)


@pytest.mark.parametrize("inputs", FORMS)
def test_gat(inputs: Callable[[Graph], Inputs]) -> None:
    check_equal(GAT(*WIDTHS, heads=3), PlainGAT(*WIDTHS, heads=3), sample_graph(), TRAIN, inputs)


def test_csr_takes_messages_along_edges() -> None:
    """Row t of the matrix holds the sources of node t, also where edges have one direction."""
    graph = Graph(np.eye(3), np.array([[0, 0], [1, 2]]), np.array([0, 1, 0]))
    x, matrix = csr_inputs(graph)
    assert matrix.layout == torch.sparse_csr
    _, (sources, targets) = edge_inputs(graph)
    expected = torch.zeros(3, 3).index_put((targets, sources), torch.tensor(1.0))
    assert torch.equal(matrix.to_dense(), expected)
    assert x.shape == (3, 3)


def test_compiled_peer_needs_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    for compiler in (None, "/usr/bin/g++"):
        monkeypatch.setattr(peers.shutil, "which", lambda name, found=compiler: found)
        assert [form.label for form in variants() if form.compiled] == [PYG_COMPILED][: compiler is not None]
        assert not any(form.compiled for form in variants(compiled=False))


class TiesFromTheEnd(PlainNLGCN):
    """Of nodes of one score, the last comes first."""

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return super().forward(x.flip(0), len(x) - 1 - edges).flip(0)

    def decided(self, x: Tensor, edges: Tensor) -> Tensor:  # normalised edges are kept
        return super().decided(x.flip(0), len(x) - 1 - edges).flip(0)


def test_ties_may_be_broken_otherwise() -> None:
    check_equal(NLGCN(*WIDTHS), TiesFromTheEnd(*WIDTHS), sample_graph(copies=10), torch.arange(40))


class SlightlyOtherWeights(PlainNLGCN):
    @staticmethod
    def translate(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        theirs = PlainNLGCN.translate(ours)
        return theirs | {"along2.bias": theirs["along2.bias"] * 1.001}


class SlightlyOtherAttention(PlainGAT):
    @staticmethod
    def translate(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
        theirs = PlainGAT.translate(ours)
        return theirs | {"layer1.att_src": theirs["layer1.att_src"] * 1.001}


class NoGradientOfTheScore(PlainNLGCN):
    def embed(self, x: Tensor, edges: Tensor) -> Tensor:
        self.score.requires_grad_(False)
        return super().embed(x, edges)


class NotANumber(PlainNLGCN):
    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        return super().forward(x, edges) * torch.nan


@each_of(
    ("ours", "peer", "what"),
    [
        (NLGCN, SlightlyOtherWeights, "logits differ"),
        (partial(GAT, heads=3), partial(SlightlyOtherAttention, heads=3), "logits differ"),
        (NLGCN, NoGradientOfTheScore, r"gradient of score\.weight differ"),
        (NLGCN, NotANumber, "loss differ"),
        (partial(NLGCN, multiply_score=False), PlainNLGCN, "differ"),
    ],
)
def test_another_computation_is_found_out(ours: Any, peer: Any, what: str) -> None:
    torch.manual_seed(0)
    with pytest.raises(NotEqualError, match=what) as raised:
        check_equal(ours(*WIDTHS), peer(*WIDTHS), sample_graph(), TRAIN)
    assert raised.value.how


def test_nodes_that_see_a_tie() -> None:
    """Every node within four positions of a place where two nodes of one score could be exchanged."""
    torch.manual_seed(1)
    peer = PlainNLGCN(*WIDTHS).double()
    inputs = move(prepare_plain(sample_graph(copies=3)), torch.float64)
    scores = peer.score(peer.embed(*inputs)).squeeze(1).tolist()
    order = sorted(range(40), key=lambda node: scores[node])
    tied = [
        p for p in range(39) if scores[order[p + 1]] - scores[order[p]] < 1e-6 * max(map(abs, scores))
    ]  # positions p and p + 1
    expected = [not any(p - 4 <= t + 1 and t <= p + 4 for t in tied) for p in range(40)]
    assert len(tied) == 2
    assert 20 < sum(expected) < 35
    decided = peer.decided(*inputs).tolist()
    assert [decided[node] for node in order] == expected


def test_without_pyg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    for peer in (PlainNLGCN, PlainGAT):
        with pytest.raises(NlgnnError, match=r"pip install 'nlgnn\[pyg\]"):
            peer(*WIDTHS)
