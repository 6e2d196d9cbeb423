"""Structure as the input of a learned space: descriptions side by side, their sketch, their weights."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from order_samples import CLASSES, NODES, random_graph, some_known
from scipy import sparse
from torch import Tensor

import reference
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import GCN, LearnedOrder, blocks
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines.bank import FeatureBank
from nlgnn.nn.blocks import Blocks, block_widths, count_sketch, structure_blocks
from nlgnn.nn.learned_order import signed_keys
from nlgnn.nn.versions import VoteVersion
from nn_samples import assert_same, noise

NAMES = ("features", "links", "out-links", "in-links", "means", "out-means", "in-means", "two-hop-means", "degrees")


def directed_graph(seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = rng.integers(NODES, size=(2, 150))
    y = rng.integers(CLASSES, size=NODES)
    return Graph(rng.standard_normal((NODES, 4)), edges, y, directed=True)


def literal_blocks(graph: Graph, names: tuple[str, ...]) -> list[Tensor]:
    edges = list(zip(*graph.edge_index.tolist(), strict=True))
    x = torch.from_numpy(graph.dense_features()).double()
    return [reference.description(x, edges, graph.directed, name) for name in names]


def dense(blocks: Blocks) -> Tensor:
    return blocks.to(torch.float64) @ torch.eye(blocks.shape[1], dtype=torch.float64)


def space_of(graph: Graph, descriptions: str = "all", **options) -> LearnedOrder:
    torch.manual_seed(0)
    chosen = {"dim": 3, "projections": 2, "radius": 4, **options}
    return LearnedOrder(4, num_nodes=graph.num_nodes, input="structure", descriptions=descriptions, **chosen).double()


def inputs_of(space: LearnedOrder, graph: Graph) -> tuple[Blocks]:
    return (space.prepare(graph, ())[0].to(torch.float64),)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("directed", [True, False])
def test_each_block_equals_its_definition(name, directed):
    graph = directed_graph() if directed else random_graph()
    blocks = structure_blocks(graph, name, block_widths(name, 4, NODES), NODES)
    (expected,) = literal_blocks(graph, (name,))
    torch.testing.assert_close(dense(blocks), expected, rtol=1e-5, atol=1e-6)


def test_all_is_every_description_that_the_graph_has():
    for graph in (directed_graph(), random_graph()):
        blocks = structure_blocks(graph, "all", block_widths("all", 4, NODES), NODES)
        names = [table is not None for table in blocks.tables]
        assert names == [True, True, *[graph.directed] * 2, True, *[graph.directed] * 2, True]
        assert dense(blocks).shape == blocks.shape == (NODES, 4 + 3 * NODES + 3 * 4 + 2)


def test_positions_and_gradients_are_those_of_the_definition():
    graph = directed_graph()
    space = space_of(graph, "features+out-links+means")
    (blocks,) = inputs_of(space, graph)
    space.log_weights.data.copy_(torch.tensor([0.3, -0.2, 0.1]))

    def literal() -> Tensor:
        tables = literal_blocks(graph, ("features", "out-links", "means"))
        parts = space.weight.split(list(space.widths))
        e = sum(w.exp() * table @ part for w, table, part in zip(space.log_weights, tables, parts, strict=True))
        return e - e.mean(0)

    actual, expected = space.positions(blocks), literal()
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)
    factor = noise(NODES, 3).detach()
    learned = [space.weight, space.log_weights]
    for one, other in zip(
        torch.autograd.grad((actual * factor).sum(), learned),
        torch.autograd.grad((expected * factor).sum(), learned),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_a_sketch_is_linear_and_always_the_same():
    rng = np.random.default_rng(0)
    one, other = (sparse.random_array((20, 300), density=0.1, rng=rng, format="csr") for _ in range(2))
    together = count_sketch(sparse.csr_array(2 * one + other), 50).toarray()
    np.testing.assert_allclose(together, 2 * count_sketch(one, 50).toarray() + count_sketch(other, 50).toarray())
    np.testing.assert_array_equal(count_sketch(one, 50).toarray(), count_sketch(one, 50).toarray())
    assert count_sketch(one, 300) is one


def test_a_sketch_keeps_products_of_rows():
    rng = np.random.default_rng(0)
    rows = sparse.random_array((30, 20_000), density=0.02, rng=rng, format="csr")
    sketch = count_sketch(rows, 4096)
    exact, near = (rows @ rows.T).toarray(), (sketch @ sketch.T).toarray()
    assert np.abs(near - exact).max() < 0.15 * exact.max()
    assert np.abs((near - exact).mean()) < 0.01 * exact.max()


def test_large_graphs_are_sketched(monkeypatch):
    monkeypatch.setattr(blocks, "MOST_COLUMNS", 16)
    graph = directed_graph()
    space = space_of(graph)
    assert space.weight.shape == (4 + 3 * 16 + 3 * 4 + 2, 3)
    space.start(inputs_of(space, graph), some_known(graph))
    assert space.positions(inputs_of(space, graph)[0]).isfinite().all()


@pytest.mark.parametrize("columns", [16, 4096])
def test_a_new_node_is_where_a_node_with_the_same_links_is(columns, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_COLUMNS", columns)
    graph = directed_graph()
    space = space_of(graph, "out-links+out-means")
    own = graph.edge_index[:, graph.edge_index[0] == 7]
    copied = np.stack([np.full(own.shape[1], NODES), own[1]])
    larger = Graph(
        np.vstack([graph.x, graph.x[:1]]),
        np.hstack([graph.edge_index, copied]),
        np.append(graph.y, 0),
        directed=True,
    )
    e = space.positions(inputs_of(space, larger)[0])
    torch.testing.assert_close(e[NODES], e[7])


@pytest.mark.parametrize("columns", [16, 4096])
def test_training_nodes_vote_on_new_nodes(columns, monkeypatch):
    """A new node with the links of an old one gets the votes of the old one, plus its own if it is a training node."""
    monkeypatch.setattr(blocks, "MOST_COLUMNS", columns)
    graph = directed_graph()
    options = {"space_input": "structure", "space_descriptions": "out-links", "num_nodes": NODES, "space_radius": 60}
    model = VoteVersion.around(FeatureBank)(4, 6, CLASSES, operators="out-links", **options).double().eval()
    known = some_known(graph)
    model.start(prepare(model, graph), known)
    for node in (6, 7):
        own = graph.edge_index[:, graph.edge_index[0] == node]
        copied = np.stack([np.full(own.shape[1], NODES), own[1]])
        edges = np.hstack([graph.edge_index, copied])
        larger = Graph(np.vstack([graph.x, graph.x[node : node + 1]]), edges, np.append(graph.y, 0), directed=True)
        inputs = prepare(model, larger)
        local, votes = model.local_and_votes(*inputs)
        torch.testing.assert_close(local[NODES], local[node])
        space, e = model.space, model.positions(*inputs)
        weights = (-space.log_temperature.exp() * (e[NODES] - e[:NODES]).square().sum(1)).exp() * (known >= 0)
        messages = space.messages(local, model.known_of(NODES + 1))[:NODES, :-1]
        expected = space.log_strength.exp() * weights @ messages / (space.shrinkage + weights.sum())
        torch.testing.assert_close(votes[NODES], expected)
    with pytest.raises(DataError, match="learned from"):
        model.known_of(NODES - 1)


def test_it_knows_nodes_by_number_only_if_links_are_used():
    graph = directed_graph()
    assert space_of(graph).identifies_nodes
    assert not LearnedOrder(4, input="structure", descriptions="features+out-means+degrees").identifies_nodes
    with pytest.raises(OptionError, match="number of nodes"):
        LearnedOrder(4, input="structure")
    with pytest.raises(OptionError, match="'outlinks' is not a description"):
        LearnedOrder(4, input="structure", descriptions="outlinks")


def test_votes_of_labels_equal_their_definition_and_leave_the_own_label_out():
    graph = directed_graph()
    space = space_of(graph, votes="labels", signs=2).eval()
    (blocks,) = inputs_of(space, graph)
    known, local = some_known(graph), noise(NODES, CLASSES).detach()
    space.choose_scale(blocks)
    e = space.positions(blocks)
    places = [row.float().argsort(stable=True).argsort() for row in space.keys(e)]
    expected = []
    for v in range(NODES):
        votes, weights = torch.zeros(CLASSES, dtype=e.dtype), space.shrinkage
        for u in range(NODES):
            if u != v and known[u] >= 0 and any(abs(int(place[v] - place[u])) <= space.radius for place in places):
                weight = (-(e[v] - e[u]).square().sum()).exp()
                votes = votes + weight * (torch.eye(CLASSES, dtype=e.dtype)[known[u]] - 1 / CLASSES)
                weights = weights + weight
        expected.append(votes / weights)
    actual = space.votes(e, local, known)
    assert_same(actual, torch.stack(expected), [space.weight, space.log_weights])
    for node in range(0, NODES, 2):
        flipped = known.clone()
        flipped[node] = (known[node] + 1) % CLASSES
        after = space.votes(e, local, flipped)
        assert after[node].equal(actual[node])
        assert not after.equal(actual)


def test_signs_come_before_the_last_projection():
    projected = noise(2, 4, 50).detach()
    keys = signed_keys(projected)
    for row, key in zip(projected.numpy(), keys, strict=True):
        expected = np.lexsort([row[3], row[2] > 0, row[1] > 0, row[0] > 0])
        np.testing.assert_array_equal(key.argsort(stable=True), expected)


def test_a_description_without_information_loses_its_weight():
    """Labels follow from features; links are random."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=300)
    x = np.eye(4)[2 * y + rng.integers(2, size=300)]
    graph = Graph(x, rng.integers(300, size=(2, 3000)), y)
    space = LearnedOrder(4, num_nodes=300, input="structure", descriptions="features+links").eval()
    known = torch.from_numpy(np.where(np.arange(300) % 2, y, -1))
    space.start(space.prepare(graph, ()), known)
    of_features, of_links = space.log_weights.tolist()
    assert of_features > of_links + 0.5
    assert space.log_temperature == 0


def test_the_start_sees_training_labels_only_and_needs_none():
    graph = directed_graph()
    space = space_of(graph)
    space.start(inputs_of(space, graph), torch.full((NODES,), -1))
    assert space.log_weights.equal(torch.zeros(8, dtype=torch.float64))


@pytest.mark.parametrize("votes", ["labels", "residuals"])
def test_the_loss_sees_training_labels_only(votes):
    graph = directed_graph()
    torch.manual_seed(0)
    options = {"space_input": "structure", "space_votes": votes, "num_nodes": NODES}
    model = VoteVersion.around(GCN)(4, 6, CLASSES, **options).double().eval()
    inputs, nodes = prepare(model, graph), torch.arange(0, NODES, 2)
    model.start(inputs, some_known(graph))
    losses = []
    for change in (0, 1):
        y = torch.from_numpy(graph.y.copy())
        y[1::2] = (y[1::2] + change) % CLASSES
        losses.append(model.loss(model.training_output(*inputs), y, nodes))
    assert losses[0].equal(losses[1])


def test_weights_of_descriptions_can_be_all_that_is_learned():
    """The positions are the same as with a learned map, and only weights of descriptions have a gradient."""
    graph = directed_graph()
    whole, weights = (space_of(graph, trained=trained) for trained in ("map", "weights"))
    (g,) = inputs_of(whole, graph)
    for space in (whole, weights):
        space.log_weights.data.copy_(noise(8))
    assert weights.weight.equal(whole.weight)
    torch.testing.assert_close(weights.positions(g), whole.positions(g))
    (gradient,) = torch.autograd.grad(weights.positions(g).square().sum(), [weights.log_weights])
    (expected,) = torch.autograd.grad(whole.positions(g).square().sum(), [whole.log_weights])
    torch.testing.assert_close(gradient, expected)
    assert not weights.weight.requires_grad
    with pytest.raises(OptionError, match="those of descriptions"):
        LearnedOrder(4, trained="weights")


def test_nothing_of_a_frozen_space_is_learned():
    graph = directed_graph()
    space = space_of(graph, frozen=True)
    space.start(inputs_of(space, graph), some_known(graph))
    assert space.log_weights.equal(torch.zeros(8, dtype=torch.float64))
    assert not space.weight.requires_grad
    assert not space.log_weights.requires_grad


def test_one_order_sorts_by_the_signs_of_principal_directions():
    graph = directed_graph()
    space = space_of(graph, signs=2)
    e = space.positions(inputs_of(space, graph)[0])
    directions = torch.linalg.eigh(e.mT @ e).eigenvectors.flip(1)
    signs = torch.stack([directions[directions[:, one].abs().argmax(), one].sign() for one in range(3)])
    first, second, third = (e @ (directions * signs)).mT.detach().numpy()
    expected = np.lexsort([third, second > 0, first > 0])
    np.testing.assert_array_equal(space.principal_keys(e).argsort(stable=True), expected)
