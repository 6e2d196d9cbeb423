import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import stack_module_state

import reference
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.models.build import configure
from nlgnn.nn import inputs
from nlgnn.nn.base import prepare
from nlgnn.nn.baselines import bank
from nlgnn.nn.baselines.bank import FeatureBank, parse_operators
from nlgnn.nn.inputs import move
from nlgnn.nn.kernels.sparse import Operator
from nlgnn.training.recipe import Recipe
from nlgnn.training.replica import Adam
from nn_samples import (
    assert_replicas_draw_as_alone,
    assert_same,
    assert_stack_equals_a_loop,
    noise,
    random_edges,
    random_operator,
    randomise,
    seeds,
)

FSGNN = "root+loop+root2+loop2+root3+loop3"
choices = st.sampled_from(["out", "in+all2", "out+in+all+out2+in2+all2", FSGNN])


def literal(model, x, edges, **options):
    pairs = [tuple(pair) for pair in edges.t().tolist()]
    maps = [(one.weight, one.bias) for one in model.maps]
    last = (model.output.weight, model.output.bias)
    return reference.feature_bank(x, pairs, model.operators, maps, model.shares, last, **options)


def with_isolated_nodes(seed=0, directed=True):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(9, 5)) * (rng.random((9, 5)) < 0.4)
    return Graph(x, rng.integers(7, size=(2, 14)), np.arange(9) % 2, directed=directed)


@given(st.integers(2, 9), st.integers(0, 30), choices, *[st.booleans()] * 4, seeds)
def test_the_bank_equals_a_literal_version(num_nodes, num_edges, operators, unit, norm, cat, scale, seed):
    edges = random_edges(num_nodes, num_edges, seed)
    options = {"unit_rows": unit, "row_norm": norm, "scale_shares": scale, "combine": "cat" if cat else "sum"}
    model = randomise(FeatureBank(5, 4, 3, operators=operators, **options), seed)
    of_literal = {"unit": unit, "norm": norm, "cat": cat, "factor": len(model.maps) if scale else 1}
    x = noise(num_nodes, 5, seed=seed)
    expected = literal(model, x, edges, **of_literal)
    assert_same(model(x, edges), expected, [x, *model.parameters()], tolerance=1e-8)
    sparse_x, x = random_operator(num_nodes, 5, 14, seed)
    assert_same(model(sparse_x, edges), literal(model, x, edges, **of_literal), list(model.parameters()))


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("as_stored", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("operators", ["out+in+all+out2+in2+all2", FSGNN])
@pytest.mark.parametrize("dense_share", [0.0, 0.5, 1.0])
def test_prepared_inputs_equal_edge_index(directed, as_stored, operators, dense_share, monkeypatch):
    monkeypatch.setattr(inputs, "DENSE_SHARE", dense_share)
    graph = with_isolated_nodes(directed=directed)
    edges = torch.from_numpy(graph.edge_index)
    edges = edges if directed else torch.cat([edges, edges.flip(0)], dim=1)
    stored = Graph(as_stored(graph.x), graph.edge_index, graph.y, directed=directed)
    model = randomise(FeatureBank(5, 4, 2, operators=operators))
    prepared = prepare(model, stored)
    if as_stored is sparse.csr_array and dense_share in (0.0, 1.0):
        assert {isinstance(table, Operator) for table in prepared[1:]} == {dense_share == 1.0}
    dense = torch.from_numpy(graph.x).double()
    assert_same(model(*prepared), model(dense, edges), list(model.parameters()))


def test_weights_of_edges_weigh_the_mean():
    graph = Graph(np.eye(3), [[0, 0], [1, 2]], [0, 1, 0], directed=True, edge_weight=[3.0, 1.0])
    _, out, incoming, both = FeatureBank(3, 2, 2, unit_rows=False).prepare(graph)
    torch.testing.assert_close(out[0], torch.tensor([0, 0.75, 0.25]))
    torch.testing.assert_close(incoming, torch.tensor([[0, 0, 0], [1, 0, 0], [1, 0, 0]]).float())
    torch.testing.assert_close(both, torch.tensor([[0, 0.75, 0.25], [1, 0, 0], [1, 0, 0]]))


def test_one_power_is_computed_once():
    multiplied = []
    tables = list(
        bank.powers(1, parse_operators("out2+out+out3"), lambda name, table: multiplied.append(name) or table * 2)
    )
    assert (tables, multiplied) == ([4, 2, 8], ["out"] * 3)


def test_unknown_operators_and_features_on_disk_are_refused(tmp_path):
    with pytest.raises(OptionError, match="'up' is not one of"):
        FeatureBank(3, 4, 2, operators="out+up")
    graph = with_isolated_nodes()
    np.save(tmp_path / "x.npy", graph.x)
    on_disk = Graph(np.load(tmp_path / "x.npy", mmap_mode="r"), graph.edge_index, graph.y)
    with pytest.raises(DataError, match="on disk"):
        FeatureBank(5, 4, 2).prepare(on_disk)
    with pytest.raises(OptionError, match="takes more than"):
        FeatureBank(5, 4, 2)(torch.ones(9, 5))


def test_fsgnn_has_its_own_decay_and_learning_rate_of_shares():
    graph = Graph(np.eye(4), [[0, 1], [1, 2]], [0, 1, 0, 1], name="squirrel")
    factory, recipe = configure("fsgnn", graph)
    model = factory()
    assert model.operators == parse_operators(FSGNN)
    groups = Adam(model, recipe).groups
    named = [name for name, _ in model.named_parameters()]
    found = {setting: {named[place].split(".")[0] for place in places} for setting, places in groups.items()}
    assert found == {(0.0, 1.0): {"maps"}, (0.1, 4.0): {"shares"}, (1e-3, 1.0): {"output"}}


def test_without_options_all_groups_have_the_decay_of_the_recipe():
    assert list(Adam(FeatureBank(3, 4, 2), Recipe(weight_decay=0.5)).groups) == [(0.5, 1.0)]


def replicas(number, **options):
    models = [randomise(FeatureBank(5, 4, 2, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


def test_members_are_trained_as_alone_and_averaged():
    graph, y, nodes = with_isolated_nodes(), torch.arange(9) % 2, torch.tensor([0, 1, 4])
    model = randomise(FeatureBank(5, 4, 2, members=3, share_decay=0.1))
    inputs = prepare(model, graph)
    model.loss(model.training_output(*inputs), y, nodes).backward()
    logits = []
    for member in (model, *model.others):
        alone = FeatureBank(5, 4, 2).double()
        alone.load_state_dict({name: value for name, value in member.state_dict().items() if "others" not in name})
        logits.append(alone(*inputs))
        alone.loss(logits[-1], y, nodes).backward()
        gradients = dict(member.named_parameters())
        for name, parameter in alone.named_parameters():
            torch.testing.assert_close(gradients[name].grad, parameter.grad)
    torch.testing.assert_close(model(*inputs), torch.stack(logits).mean(0))
    groups = model.parameter_groups()
    assert sum(len(group["params"]) for group in groups) == len(list(model.parameters()))
    assert groups[1]["weight_decay"] == 0.1
    assert len(groups[1]["params"]) == 3


@pytest.mark.parametrize("options", [{"combine": "cat"}, {"combine": "sum"}, {"members": 2}])
def test_replicas_equal_a_loop_over_models(options):
    graph = with_isolated_nodes()
    models, stacked = replicas(3, **options)
    for x in (graph.x, sparse.csr_array(graph.x)):
        inputs = move(models[0].prepare(Graph(x, graph.edge_index, graph.y, directed=True)), torch.float64)
        assert_stack_equals_a_loop(models, stacked, inputs)


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5)
    inputs = models[0].prepare(with_isolated_nodes())
    assert_replicas_draw_as_alone(models, lambda model: model(*inputs))
