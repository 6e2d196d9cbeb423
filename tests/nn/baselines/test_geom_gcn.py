import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch_geometric.nn import GCNConv

from nlgnn.datasets import load_graph
from nlgnn.datasets.formats.geom_gcn import Relations
from nlgnn.datasets.load import load_relations
from nlgnn.errors import DataError
from nlgnn.graph.graph import Graph
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines import geom_gcn as latent_space
from nlgnn.nn.baselines.geom_gcn import GeomGCN, divided_pairs, isomap_relations, operators
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator
from nn_samples import assert_replicas_draw_as_alone, assert_same, noise, random_operator, randomise, seeds

NEIGHBOURHOODS = ["both", "graph", "latent"]


def random_relations(num_nodes, lines, seed=0):
    """Of each kind each ordered pair at most once, loops among them; many pairs are of both kinds."""
    rng = np.random.default_rng(seed)
    pairs = [np.unique(rng.integers(num_nodes, size=(lines, 2)), axis=0) for _ in range(2)]
    latent = np.repeat([False, True], [len(kind) for kind in pairs])
    order = rng.permutation(len(latent))
    first, second = np.concatenate(pairs)[order].T
    return Relations(first, second, latent[order], rng.integers(4, size=len(latent)))


def divisions_of(relations, num_nodes, neighbourhood="both"):
    """The division of each pair (receiver, sender): lines one after another, those of the latent space last."""
    division = {}
    for space in (False, True):
        for first, second, latent, quadrant in zip(*map(np.ndarray.tolist, relations), strict=True):
            if latent == space and first != second:
                receiver, sender = second, first
                if neighbourhood == "both":
                    division[receiver, sender] = quadrant + 4 * latent
                elif neighbourhood == ("latent" if latent else "graph"):
                    division[receiver, sender] = quadrant
    return division | {(node, node): 8 if neighbourhood == "both" else 4 for node in range(num_nodes)}


def literal_matrices(division, num_nodes, number):
    """N_q of every division."""
    degree = [sum(receiver == node for receiver, _ in division) for node in range(num_nodes)]
    matrices = torch.zeros(number, num_nodes, num_nodes, dtype=torch.float64)
    for (receiver, sender), q in division.items():
        matrices[q, receiver, sender] = (degree[receiver] * degree[sender]) ** -0.5
    return matrices


def literal(model, matrices, x, input_mask=1.0, mask=1.0):
    """Division after division, dense."""
    weights = model.weight.split(model.hidden_channels, dim=1)
    output_weights = model.output_weight.split(model.out_channels, dim=1)
    hidden = torch.cat([n @ (x * input_mask) @ w for n, w in zip(matrices, weights, strict=True)], dim=1).relu()
    results = [n @ (hidden * mask) @ v for n, v in zip(matrices, output_weights, strict=True)]
    return sum(results) / len(results)


def operators_of(model, relations, num_nodes):
    pairs = divided_pairs(relations, num_nodes, model.neighbourhood)
    return operators(pairs, num_nodes, model.divisions, torch.float64)


def sample(num_nodes=7, seed=0, **options):
    """A model, relations, features and the literal matrices."""
    model = randomise(GeomGCN(3, 4, 2, **options))
    relations = random_relations(num_nodes, 4 * num_nodes, seed)
    division = divisions_of(relations, num_nodes, model.neighbourhood)
    matrices = literal_matrices(division, num_nodes, model.divisions)
    return model, operators_of(model, relations, num_nodes), noise(num_nodes, 3, seed=seed), matrices


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
@given(st.integers(1, 9), st.integers(0, 60), seeds)
def test_equals_a_literal_version(neighbourhood, num_nodes, lines, seed):
    model = randomise(GeomGCN(3, 4, 2, neighbourhood=neighbourhood), seed)
    relations, x = random_relations(num_nodes, lines, seed), noise(num_nodes, 3, seed=seed)
    division = divisions_of(relations, num_nodes, neighbourhood)
    expected = literal(model, literal_matrices(division, num_nodes, model.divisions), x)
    assert_same(model(x, *operators_of(model, relations, num_nodes)), expected, [x, *model.parameters()])


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
def test_prepared_graphs_equal_a_literal_version(neighbourhood, as_stored):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(12, 3)) * rng.integers(2, size=(12, 3))
    graph = Graph(as_stored(x), rng.integers(11, size=(2, 20)), np.zeros(12, int))  # the last node is isolated
    model = randomise(GeomGCN(3, 4, 2, neighbourhood=neighbourhood))
    division = divisions_of(isomap_relations(graph), 12, neighbourhood)
    assert {*range(model.divisions)} - {*division.values()} == set()
    dense = torch.tensor(x, dtype=torch.float32).double()  # a Graph holds float32
    expected = literal(model, literal_matrices(division, 12, model.divisions), dense)
    prepared = prepare(model, graph)
    assert isinstance(prepared.x, Operator) == (as_stored is sparse.csr_array)
    assert_same(model(*prepared), expected, list(model.parameters()))


def test_sparse_features_equal_dense_ones():
    model, prepared, *_ = sample()
    x, dense = random_operator(7, 3, 10)
    assert_same(model(x, *prepared), model(dense, *prepared), list(model.parameters()))


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
@pytest.mark.parametrize(("is_sparse", "dropout"), [(False, 0.0), (True, 0.5)])
def test_replicas_equal_models_alone(neighbourhood, is_sparse, dropout):
    _, prepared, dense, _ = sample(neighbourhood=neighbourhood)
    options = {"neighbourhood": neighbourhood, "dropout": dropout}
    models = [randomise(GeomGCN(3, 4, 2, **options), seed=10 * replica) for replica in range(3)]
    x = random_operator(7, 3, 10)[0] if is_sparse else dense.detach()
    assert_replicas_draw_as_alone(models, lambda model: model(x, *prepared))


def test_each_layer_draws_one_mask_for_all_divisions():
    model, prepared, x, matrices = sample(dropout=0.5)
    torch.manual_seed(3)
    actual = model(x, *prepared)
    torch.manual_seed(3)
    masks = [Dropout(0.5).mask(torch.empty(7, width).double()) for width in (3, 9 * 4)]
    assert_same(actual, literal(model, matrices, x, *masks), [x, *model.parameters()])
    assert not model.deterministic
    assert_same(model.eval()(x, *prepared), literal(model, matrices, x), [x, *model.parameters()])
    assert GeomGCN(3, 4, 2).deterministic


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_divisions_add_up_to_the_normalised_union(neighbourhood):
    model, (within, mean), _, _ = sample(neighbourhood=neighbourhood)
    number = model.divisions
    division = divisions_of(random_relations(7, 28), 7, neighbourhood)
    union = torch.zeros(7, 7).double()
    union[tuple(torch.tensor([*division]).t())] = 1
    degree = union.sum(1)
    expected = union / (degree[:, None] * degree).sqrt()
    blocks = within.matrix.to_dense().reshape(7, number, 7, number)
    torch.testing.assert_close(torch.einsum("vquq->vu", blocks), expected)
    torch.testing.assert_close(number * mean.matrix.to_dense().reshape(7, 7, number).sum(2), expected)
    off_diagonal = ~torch.eye(number, dtype=torch.bool)
    assert blocks.permute(1, 3, 0, 2)[off_diagonal].eq(0).all()  # messages stay in their division
    assert len(within.columns) == len(mean.columns) == len(division)  # nothing is stored but pairs


def test_with_one_weight_for_all_the_divisions_of_the_first_layer_add_up_to_a_gcn():
    _, (within, _), x, _ = sample()
    senders, receivers = torch.tensor([(u, v) for v, u in divisions_of(random_relations(7, 28), 7) if u != v]).t()
    gcn = GCNConv(3, 4, bias=False).double()
    projected = (x @ gcn.lin.weight.t()).repeat(1, 9)
    ours = (within.matrix.to_dense() @ projected.reshape(-1, 4)).reshape(7, 9, 4).sum(1)
    torch.testing.assert_close(ours, gcn(x, torch.stack([senders, receivers])))


@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_each_pair_is_in_one_division_and_loops_in_the_last(neighbourhood):
    relations = random_relations(9, 60)
    assert (relations.first == relations.second).any()
    receiver, sender, division = divided_pairs(relations, 9, neighbourhood)
    pairs = [*zip(receiver.tolist(), sender.tolist(), strict=True)]
    assert len({*pairs}) == len(pairs)
    last = 8 if neighbourhood == "both" else 4
    np.testing.assert_array_equal(division == last, receiver == sender)
    assert {(node, node) for node in range(9)} <= {*pairs}
    assert dict(zip(pairs, division.tolist(), strict=True)) == divisions_of(relations, 9, neighbourhood)


def test_a_neighbour_in_both_spaces_is_a_latent_one():
    both = Relations(np.array([0, 0]), np.array([1, 1]), np.array([True, False]), np.array([2, 1]))
    for neighbourhood, division in (("both", 6), ("graph", 1), ("latent", 2)):
        found = divided_pairs(both, 2, neighbourhood)
        assert [part.tolist()[0] for part in found] == [1, 0, division]
        assert len(found.receiver) == 3


def test_latent_messages_go_one_way():
    """0 -> 1 in the graph and back; 2 is close to 3, but 3 is not to 2."""
    first, second = np.array([0, 1, 2]), np.array([1, 0, 3])
    lines = Relations(first, second, np.array([False, False, True]), np.array([0, 3, 1]))
    receiver, sender, division = divided_pairs(lines, 4, "both")
    latent = division == 5
    assert (receiver[latent], sender[latent]) == (3, 2)
    assert {*zip(receiver[division < 4], sender[division < 4], strict=True)} == {(0, 1), (1, 0)}


def test_renaming_quadrants_is_permuting_weights():
    model, prepared, x, _ = sample()
    names = np.array([2, 0, 3, 1])
    relations = random_relations(7, 28)
    renamed = operators_of(model, relations._replace(quadrant=names[relations.quadrant]), 7)
    place = torch.tensor([*names, *(4 + names), 8])
    other = GeomGCN(3, 4, 2).double()
    with torch.no_grad():
        other.weight.view(3, 9, 4)[:, place] = model.weight.view(3, 9, 4)
        from_and_to = other.output_weight.view(9, 4, 9, 2)
        from_and_to[place[:, None], :, place] = model.output_weight.view(9, 4, 9, 2).permute(0, 2, 1, 3)
    torch.testing.assert_close(other(x, *renamed), model(x, *prepared))
    assert not torch.allclose(model(x, *renamed), model(x, *prepared))


def test_the_degree_is_that_of_all_divisions_together():
    """Node 0 hears 1 in one division and 2 in another: three pairs with its loop."""
    lines = Relations(np.array([1, 2]), np.array([0, 0]), np.array([False, True]), np.array([0, 1]))
    within = operators(divided_pairs(lines, 3, "both"), 3, 9, torch.float64)[0].matrix.to_dense()
    assert within[0, 9].item() == pytest.approx(3**-0.5)
    assert within[5, 18 + 5].item() == pytest.approx(3**-0.5)
    assert [within[9 * node + 8, 9 * node + 8].item() for node in range(3)] == pytest.approx([1 / 3, 1, 1])


@pytest.mark.parametrize(("neighbourhood", "number"), [("both", 9), ("graph", 5), ("latent", 5)])
def test_empty_divisions_count_in_the_mean(neighbourhood, number):
    """Without edges the self loops are all there is, one division in nine, or in five."""
    graph = Graph(np.ones((3, 1)), np.empty((2, 0), int), np.zeros(3, int))
    model = randomise(GeomGCN(1, 1, 1, neighbourhood=neighbourhood))
    hidden = model.weight[0, -1].relu()
    expected = (hidden * model.output_weight[-1, -1] / number).expand(3, 1)
    torch.testing.assert_close(model(*prepare(model, graph)), expected)


def test_layers_are_wide_without_biases_and_hidden_units_never_negative():
    model, prepared, x, _ = sample()
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    assert shapes == {"weight": (3, 9 * 4), "output_weight": (9 * 4, 9 * 2)}
    model.weight.data.abs_().neg_()
    assert model(x.abs(), *prepared).eq(0).all()


def test_weights_are_drawn_for_each_division_by_itself():
    model = GeomGCN(50, 40, 6)
    for weight, fans in ((model.weight, 50 + 40), (model.output_weight, 9 * 40 + 6)):
        bound = (6 / fans) ** 0.5
        assert weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.03)
    before = [parameter.clone() for parameter in model.parameters()]
    model.reset_parameters()
    assert not any(torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True))


def test_numbering_of_nodes_does_not_matter():
    rng = np.random.default_rng(0)
    graph = Graph(rng.normal(size=(24, 3)), rng.integers(23, size=(2, 50)), np.zeros(24, int))
    order = rng.permutation(24)
    moved = Graph(graph.x[order], np.argsort(order)[graph.edge_index], graph.y)
    model = randomise(GeomGCN(3, 4, 2))
    torch.testing.assert_close(model(*prepare(model, moved)), model(*prepare(model, graph))[torch.from_numpy(order)])


@pytest.mark.parametrize("num_nodes", [1, 2, 3])
@pytest.mark.parametrize("neighbourhood", NEIGHBOURHOODS)
def test_very_small_graphs(num_nodes, neighbourhood):
    edges = np.array([[0, 0], [0, num_nodes - 1]])
    graph = Graph(np.zeros((num_nodes, 2)), edges, np.zeros(num_nodes, int))
    model = GeomGCN(2, 4, 2, neighbourhood=neighbourhood)
    result = model(*prepare(model, graph))
    assert result.shape == (num_nodes, 2)
    assert result.isfinite().all()


def test_without_a_latent_neighbourhood_none_is_computed(monkeypatch):
    monkeypatch.setattr(latent_space, "close_pairs", lambda *_: pytest.fail("not wanted"))
    graph = Graph(np.zeros((4, 2)), np.array([[0, 1, 2], [1, 2, 3]]), np.zeros(4, int))
    GeomGCN(2, 4, 2, neighbourhood="graph").prepare(graph)


def test_published_spaces_are_for_named_graphs():
    graph = Graph(np.zeros((4, 2)), np.array([[0, 1, 2], [1, 2, 3]]), np.zeros(4, int), name="mine")
    with pytest.raises(DataError, match="space=isomap"):
        GeomGCN(2, 4, 2, space="struc2vec").prepare(graph)


def latent_receivers(model, graph):
    within = model.prepare(graph).within_divisions
    division = within.rows % model.divisions
    return within.rows[(division >= 4) & (division < 8)].div(9, rounding_mode="floor").unique()


def test_in_the_poincare_files_only_hubs_receive(data_root):
    """Check that 64 actors receive from others in the latent space, as in the published files."""
    graph = load_graph("actor")
    assert len(latent_receivers(GeomGCN(graph.num_features, 1, 5, space="poincare"), graph)) == 64


@pytest.mark.parametrize("space", ["isomap-released", "poincare", "struc2vec"])
def test_published_relations_equal_a_literal_version(space, data_root):
    graph = load_graph("texas")
    division = divisions_of(load_relations(graph, space), graph.num_nodes)
    model = randomise(GeomGCN(graph.num_features, 4, 5, space=space))
    expected = literal(
        model, literal_matrices(division, graph.num_nodes, 9), torch.from_numpy(graph.x.toarray()).double()
    )
    torch.testing.assert_close(model(*prepare(model, graph)), expected)
