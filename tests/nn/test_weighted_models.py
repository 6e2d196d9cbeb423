"""Weights of edges: models whose operators are weighted adjacencies use them, the others give the same without."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch_geometric.nn import GCN2Conv, GCNConv

from each_of import each_of
from nlgnn.graph import Graph, to_pyg
from nlgnn.nn import (
    ACMGCN,
    CPGCN,
    FAGCN,
    GAT,
    GCN,
    GCNII,
    GPRGNN,
    H2GCN,
    LINKX,
    MLP,
    NLGAT,
    NLGCN,
    DirGCN,
    FeatureBank,
    GeomGCN,
    GraphSAGE,
    SimPGCN,
)
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.cpgcn import estimate_compatibility
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.training.preflight import ignores_weights
from nn_samples import assert_same, randomise


def weighted_graph(directed: bool = False) -> Graph:
    """Twelve nodes, the last one isolated; repetitions, both directions. Sums of weights are exact in float32."""
    rng = np.random.default_rng(0)
    edges = rng.integers(11, size=(2, 40))
    edges = edges[:, edges[0] != edges[1]]
    weight = rng.integers(1, 20, edges.shape[1]) / 4
    return Graph(rng.normal(size=(12, 3)), edges, np.arange(12) % 2, directed=directed, edge_weight=weight)


GRAPH = weighted_graph()
X = torch.tensor(GRAPH.x).double()
WEIGHTS = torch.tensor(GRAPH.undirected_weights.toarray()).double()


def degrees(matrix: Tensor) -> Tensor:
    """Sums of rows; 1 of an empty row, which has nothing to divide."""
    sums = matrix.sum(1)
    return torch.where(sums == 0, 1, sums)


def symmetric(matrix: Tensor) -> Tensor:
    roots = degrees(matrix).rsqrt()
    return roots[:, None] * matrix * roots


def result_of(model: nn.Module, graph: Graph = GRAPH) -> Tensor:
    result: Tensor = model(*prepare(model, graph))
    return result


def test_gcn_is_that_of_pyg() -> None:
    model, data = randomise(GCN(3, 4, 2)), to_pyg(GRAPH)
    x = X.clone()
    for layer, convolution in zip(model.layers, (GCNConv(3, 4), GCNConv(4, 2)), strict=True):
        x = x if layer is model.layers[0] else x.relu()
        parameters = {"lin.weight": layer.weight.t(), "bias": layer.bias}
        x = functional_call(convolution, parameters, (x, data.edge_index, data.edge_weight.double()))
    assert_same(result_of(model), x, list(model.parameters()))


def test_nlgcn_embeds_as_gcn_does() -> None:
    model = randomise(NLGCN(3, 4, 2))
    inputs = prepare(model, GRAPH)
    assert_same(model.local(*inputs), result_of(model.local), list(model.local.parameters()))
    other = prepare(model, replace(GRAPH, edge_weight=None))
    assert not torch.allclose(model(*inputs), model(*other))


def test_gcnii_is_that_of_pyg() -> None:
    model, data = randomise(GCNII(3, 4, 2, num_layers=2, alpha=0.25, theta=0.5)), to_pyg(GRAPH)
    first = h = (X @ model.first.weight + model.first.bias).relu()
    for number, weight in enumerate(model.weights[:, 0], start=1):
        convolution = GCN2Conv(4, alpha=0.25, theta=0.5, layer=number)
        h = functional_call(convolution, {"weight1": weight}, (h, first, data.edge_index, data.edge_weight.double()))
        h = h.relu()
    expected = h @ model.last.weight + model.last.bias
    assert_same(result_of(model), expected, list(model.parameters()))


def test_sage_takes_the_weighted_mean() -> None:
    model = randomise(GraphSAGE(3, 4, 2, num_layers=1))
    own, of_neighbours = (X @ model.layers[0].weight).chunk(2, dim=1)
    expected = own + WEIGHTS / degrees(WEIGHTS)[:, None] @ of_neighbours + model.layers[0].bias
    assert_same(result_of(model), expected, list(model.parameters()))


def test_fagcn_multiplies_its_gates() -> None:
    model = randomise(FAGCN(3, 4, 2, num_layers=1, eps=0.25))
    first = (X @ model.embedding.weight + model.embedding.bias).relu()
    gate = model.propagations[0]
    receiver, sender = (first @ gate.weight.view(2, -1).t()).t()
    gates = (receiver[:, None] + sender + gate.bias).tanh()
    h = (symmetric(WEIGHTS) * gates) @ first + 0.25 * first
    assert_same(result_of(model), h @ model.classifier.weight + model.classifier.bias, list(model.parameters()))


@pytest.mark.parametrize("directed", [False, True])
def test_dirgcn_in_either_direction(directed: bool) -> None:
    graph, model = weighted_graph(directed), randomise(DirGCN(3, 4, 2, num_layers=1, alpha=0.75))
    adjacency = torch.tensor((graph.directed_weights if directed else graph.undirected_weights).toarray()).double()
    scaled = adjacency / (degrees(adjacency)[:, None] * degrees(adjacency.t())).sqrt()
    layer = model.deep.last
    expected = 0.75 * scaled @ X @ layer.weight_out + 0.25 * scaled.t() @ X @ layer.weight_in + layer.bias
    assert_same(result_of(model, graph), expected, list(model.parameters()))


def test_linkx_reads_rows_of_weights() -> None:
    model = randomise(LINKX(3, 4, 2, num_nodes=12))
    inputs = prepare(model, GRAPH)
    expected = WEIGHTS @ model.edge_mlp.layers[0].weight + model.edge_mlp.layers[0].bias
    assert_same(model.edge_mlp(inputs[1]), expected, list(model.edge_mlp.parameters()))
    assert not torch.allclose(result_of(model), result_of(model, replace(GRAPH, edge_weight=None)))


@pytest.mark.parametrize("directed", [False, True])
def test_simp_gcn_weighs_neighbours_and_one_loop(directed: bool) -> None:
    model = randomise(SimPGCN(3, 4, 2, directed=directed))
    weights = GRAPH.directed_weights if directed else GRAPH.undirected_weights
    expected = symmetric(torch.tensor(weights.toarray()).double() + torch.eye(12))
    torch.testing.assert_close(prepare(model, GRAPH).adjacency.matrix.to_dense(), expected)


def test_cpgcn_spreads_beliefs_by_weight() -> None:
    model = randomise(CPGCN(3, 4, 2, prior="cheby"))
    inputs = prepare(model, GRAPH)
    torch.testing.assert_close(inputs.adjacency.matrix.to_dense(), WEIGHTS)
    torch.testing.assert_close(inputs.laplacian.matrix.to_dense(), -symmetric(WEIGHTS))


def test_compatibility_is_a_weighted_mean() -> None:
    beliefs = torch.rand(12, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    nodes, y = torch.tensor([0, 1, 4, 5]), torch.tensor(GRAPH.y)

    def estimate(weights: Tensor) -> Tensor:
        return estimate_compatibility(
            beliefs, Operator.from_coo(*weights.nonzero().t(), weights[weights > 0], (12, 12)), y, nodes
        )

    torch.testing.assert_close(estimate(WEIGHTS / 64), estimate(WEIGHTS))  # the mean knows no unit
    assert not torch.allclose(estimate((WEIGHTS > 0).double()), estimate(WEIGHTS))


USING = [GCN, NLGCN, GCNII, GraphSAGE, FAGCN, DirGCN, SimPGCN, CPGCN, partial(LINKX, num_nodes=12)]
USING += [ACMGCN, FeatureBank, GPRGNN]
IGNORING = [GAT, NLGAT, H2GCN, GeomGCN]


@pytest.mark.parametrize("make", [*USING, MLP, *IGNORING])
def test_weights_of_1_are_none(make: type[nn.Module]) -> None:
    once = np.unique(GRAPH.edge_index, axis=1)
    plain = replace(GRAPH, edge_index=once, edge_weight=None)
    model = randomise(make(3, 4, 2)).eval()
    assert result_of(model, plain).equal(result_of(model, replace(plain, edge_weight=np.ones(once.shape[1]))))


@pytest.mark.parametrize("make", IGNORING)
def test_models_that_ignore_weights_say_so(make: type[nn.Module]) -> None:
    plain, model = replace(GRAPH, edge_weight=None), randomise(make(3, 4, 2)).eval()
    assert ignores_weights(model, GRAPH)
    assert not ignores_weights(model, plain)
    assert result_of(model).equal(result_of(model, plain))


@each_of("make", [*USING, MLP])
def test_models_that_use_them_say_nothing(make: type[nn.Module]) -> None:
    assert not ignores_weights(make(3, 4, 2), GRAPH)


def test_of_foreign_modules_it_is_not_assumed() -> None:
    assert ignores_weights(nn.Linear(3, 2), GRAPH)


def test_features_on_disk_with_weights(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", GRAPH.x)
    on_disk = replace(GRAPH, x=np.load(tmp_path / "x.npy", mmap_mode="r"))
    model = randomise(NLGCN(3, 4, 2))
    assert_same(result_of(model, on_disk), result_of(model), list(model.parameters()))


def test_nodes_in_another_order() -> None:
    order = np.random.default_rng(1).permutation(12)
    moved = Graph(GRAPH.x[order], np.argsort(order)[GRAPH.edge_index], GRAPH.y[order], edge_weight=GRAPH.edge_weight)
    model = randomise(GCN(3, 4, 2))
    torch.testing.assert_close(result_of(model, moved), result_of(model)[order])
