"""Deep stacks against literal equations and the layers of PyTorch Geometric, in float64."""

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from scipy import sparse
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F
from torch_geometric.nn import BatchNorm as PygBatchNorm
from torch_geometric.nn import GATConv, GCNConv, JumpingKnowledge, SAGEConv
from torch_geometric.nn import LayerNorm as PygLayerNorm

import reference
from nlgnn.errors import OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import GAT, GCN, MLP, DirGCN, GraphSAGE, NeighbourVote, NonLocal
from nlgnn.nn.base import prepare
from nlgnn.nn.learned_order import LearnedOrder
from nlgnn.nn.versions import NLGCN
from nn_samples import (
    assert_replicas_draw_as_alone,
    assert_same,
    assert_stack_equals_a_loop,
    noise,
    random_edges,
    random_operator,
    randomise,
)

MODELS = {
    "mlp": MLP,
    "gcn": GCN,
    "gat": partial(GAT, heads=2),
    "sage": GraphSAGE,
    "dirgcn": partial(DirGCN, alpha=0.3),
}
OPTIONS = [
    {"norm": norm, "residual": residual, "jumping": jumping, "row_norm": row_norm}
    for norm, residual, jumping, row_norm in product(
        ("none", "batch", "layer"), (False, True), ("last", "max", "cat"), (False, True)
    )
    if norm != "none" or residual or jumping != "last" or row_norm
]


def convolution(name, layer, edges):
    """Return the literal convolution of a layer."""
    pairs = edges.t().tolist()
    if name == "mlp":
        return lambda h: h @ layer.weight + layer.bias
    if name == "gcn":
        return lambda h: reference.gcn(h, pairs, [(layer.weight, layer.bias)])
    if name == "sage":
        return lambda h: reference.sage_layer(h, pairs, *layer.weight.chunk(2, dim=1), layer.bias)
    if name == "dirgcn":
        return lambda h: reference.directed_layer(h, pairs, 0.3, layer.weight_out, layer.weight_in, layer.bias)
    parts = (
        layer.weight.chunk(layer.heads, 1),
        layer.attention_source,
        layer.attention_target,
        layer.bias.chunk(layer.heads),
    )
    return lambda h: torch.cat([reference.gat_head(h, pairs, head) for head in zip(*parts, strict=True)], dim=1)


def literal(name, model, x, edges, labels=None):
    stack = model.deep
    convs = [convolution(name, layer, edges) for layer in stack.layers]
    kind = reference.batch_norm if stack.options.norm == "batch" else reference.layer_norm
    norms = [partial(kind, gamma=norm.weight, beta=norm.bias) for norm in stack.norms]
    skips = []
    if stack.options.residual and name != "sage":
        skips = [(lambda h: h) if name == "mlp" else (lambda h, skip=skip: h @ skip.weight) for skip in stack.skips]
    h = x if stack.input is None else x @ stack.input.weight
    h = h if labels is None else h + labels @ stack.labels.weight
    layers = reference.deep_layers(h, convs, norms, skips, stack.options.row_norm)
    if not stack.options.has_output_map:
        return convolution(name, stack.last, edges)(layers[-1])
    return reference.jump(layers, stack.options.jumping) @ stack.last.weight + stack.last.bias


def trained(model):
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


@pytest.mark.parametrize("name", MODELS)
def test_stacks_and_their_gradients_equal_the_equations(name):
    for number, options in enumerate(OPTIONS):
        edges, x = random_edges(6, 12, number), noise(6, 3, seed=number)
        model = randomise(MODELS[name](3, 4, 2, num_layers=3, **options), number)
        assert_same(model(x, edges), literal(name, model, x, edges), [x, *trained(model)], tolerance=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_labels_are_added_to_the_input(name):
    edges, x, known = random_edges(6, 12), noise(6, 3), torch.tensor([1, -1, 0, 1, -1, 2])
    model = randomise(MODELS[name](3, 4, 3, num_layers=2, norm="batch", label_input=0.5, num_nodes=6))
    model.start((x, edges), known)
    everything = reference.shown_labels(known.tolist(), [True] * 6, 3)
    torch.testing.assert_close(model.eval()(x, edges), literal(name, model, x, edges, everything))
    result = model.train()(x, edges)
    shown = reference.shown_labels(known.tolist(), (model.targets(known) != known).tolist(), 3)
    assert_same(result, literal(name, model, x, edges, shown), [x, *trained(model)], tolerance=1e-8)


@pytest.mark.parametrize("norm", ["batch", "layer"])
@pytest.mark.parametrize("jumping", ["last", "max", "cat"])
def test_a_residual_gcn_of_pyg_layers(norm, jumping):
    edges, x = random_edges(9, 30), noise(9, 3)
    model = randomise(GCN(3, 4, 2, num_layers=3, norm=norm, residual=True, jumping=jumping))
    stack, h, layers = model.deep, x @ model.deep.input.weight, []
    for layer, skip, normalisation in zip(stack.layers, stack.skips, stack.norms, strict=True):
        convolve = functional_call(GCNConv(4, 4), {"lin.weight": layer.weight.t(), "bias": layer.bias}, (h, edges))
        theirs = PygBatchNorm(4).double() if norm == "batch" else PygLayerNorm(4, mode="node")
        prefix = "module." if norm == "batch" else ""
        affine = {f"{prefix}weight": normalisation.weight, f"{prefix}bias": normalisation.bias}
        h = functional_call(theirs, affine, (convolve + h @ skip.weight,)).relu()
        layers.append(h)
    seen = h if jumping == "last" else JumpingKnowledge(jumping)(layers)
    assert_same(model(x, edges), seen @ stack.last.weight + stack.last.bias, [x, *trained(model)])


def test_a_deep_sage_of_pyg_layers():
    edges, x = random_edges(9, 30), noise(9, 3)
    model = randomise(GraphSAGE(3, 4, 2, num_layers=4, norm="batch", residual=True, row_norm=True))
    h = x @ model.deep.input.weight
    for layer, norm in zip(model.deep.layers, model.deep.norms, strict=True):
        root, neighbour = layer.weight.t().chunk(2)
        state = {"lin_r.weight": root, "lin_l.weight": neighbour, "lin_l.bias": layer.bias}
        h = functional_call(SAGEConv(4, 4), state, (h, edges))
        h = functional_call(PygBatchNorm(4).double(), {"module.weight": norm.weight, "module.bias": norm.bias}, (h,))
        h = F.normalize(h.relu())
    assert_same(model(x, edges), h @ model.deep.last.weight + model.deep.last.bias, [x, *trained(model)])


def test_a_deep_gat_of_pyg_layers():
    edges, x = random_edges(9, 30), noise(9, 3)
    edges = edges[:, edges[0] != edges[1]].unique(dim=1)  # PyG keeps loops that repeat
    model = randomise(GAT(3, 4, 2, heads=2, num_layers=2, norm="layer", residual=True, jumping="max"))
    h, layers = x @ model.deep.input.weight, []
    for layer, skip, norm in zip(model.deep.layers, model.deep.skips, model.deep.norms, strict=True):
        state = {
            "lin.weight": layer.weight.t(),
            "att_src": layer.attention_source[None],
            "att_dst": layer.attention_target[None],
            "bias": layer.bias,
        }
        h = functional_call(GATConv(8, 4, heads=2), state, (h, edges)) + h @ skip.weight
        h = F.layer_norm(h, (8,), norm.weight, norm.bias).relu()
        layers.append(h)
    seen = JumpingKnowledge("max")(layers)
    assert_same(model(x, edges), seen @ model.deep.last.weight + model.deep.last.bias, [x, *trained(model)])


@pytest.mark.parametrize("name", MODELS)
def test_sparse_features_equal_dense_ones(name):
    x, dense = random_operator(6, 3, 14)
    model = randomise(MODELS[name](3, 4, 2, norm="batch", residual=True, jumping="max"))
    edges = random_edges(6, 12)
    assert_same(model(x, edges), model(dense, edges), trained(model))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "options",
    [{"norm": "batch", "residual": True, "jumping": "max"}, {"norm": "layer", "jumping": "cat", "row_norm": True}],
)
def test_replicas_equal_each_alone(name, options):
    models = [randomise(MODELS[name](3, 4, 2, num_layers=3, **options), seed) for seed in range(3)]
    graph = Graph(np.random.default_rng(0).random((9, 3)), random_edges(9, 20).numpy(), np.arange(9) % 2)
    stacked = {
        key: value.detach().requires_grad_(models[0].get_parameter(key).requires_grad)
        for key, value in stack_module_state(models)[0].items()
    }
    inputs = tuple(prepare(models[0], graph))
    with torch.no_grad():
        assert_stack_equals_a_loop_without_gradient(models, stacked, inputs)
    for model in models:
        model.eval()
    with torch.no_grad():
        assert_stack_equals_a_loop_without_gradient(models, stacked, inputs)


def assert_stack_equals_a_loop_without_gradient(models, stacked, inputs):
    together = torch.func.vmap(lambda state: functional_call(models[0], state, inputs))(stacked)
    torch.testing.assert_close(together, torch.stack([model(*inputs) for model in models]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_replicas_equal_each_alone(name):
    models = [randomise(MODELS[name](3, 4, 2, norm="layer", residual=True, jumping="cat"), seed) for seed in range(3)]
    stacked = {key: value.detach().requires_grad_() for key, value in stack_module_state(models)[0].items()}
    graph = Graph(np.random.default_rng(0).random((9, 3)), random_edges(9, 20).numpy(), np.arange(9) % 2)
    assert_stack_equals_a_loop(models, stacked, tuple(prepare(models[0], graph)))


@pytest.mark.parametrize("name", MODELS)
def test_replicas_draw_dropout_and_labels_as_alone(name):
    options = {"norm": "batch", "residual": True, "dropout": 0.5, "label_input": 0.5, "num_nodes": 9}
    models = [randomise(MODELS[name](3, 4, 2, **options), seed) for seed in range(3)]
    rng = np.random.default_rng(0)
    x = sparse.csr_array(rng.random((9, 3)) * rng.integers(2, size=(9, 3)))
    inputs = prepare(models[0], Graph(x, random_edges(9, 20).numpy(), np.arange(9) % 2))
    for seed, model in enumerate(models):
        model.start(inputs, torch.arange(9).roll(seed) % 3 - 1)
    assert_replicas_draw_as_alone(models, lambda model: model(*inputs))


@pytest.mark.parametrize("name", MODELS)
def test_without_the_options_layers_are_plain(name):
    plain = MODELS[name](3, 4, 2, num_layers=3)
    assert (plain.deep is None) == (name != "dirgcn")  # whose plain form is a stack too
    assert plain.deterministic
    assert not plain.identifies_nodes
    assert all(parameter.requires_grad for parameter in plain.parameters())


def test_depth_counts_convolutions():
    assert len(GCN(3, 4, 2, num_layers=5, norm="batch").deep.layers) == 4  # the last one gives the output
    assert len(GCN(3, 4, 2, num_layers=5, jumping="max").deep.layers) == 5
    assert len(GCN(3, 4, 2, num_layers=5, residual=True).deep.layers) == 5
    assert GCN(3, 4, 2, num_layers=5, jumping="cat").deep.last.weight.shape == (20, 2)
    assert GAT(3, 4, 2, num_layers=5, heads=3, jumping="cat").deep.last.weight.shape == (60, 2)


def test_deep_models_train_where_plain_ones_do_not():
    """Sixteen plain layers lose the signal; a residual stack with batch normalisation passes it on."""
    x, edges, y = noise(60, 5).detach(), random_edges(60, 150), torch.arange(60) % 2
    x[:, 0] += 3 * y
    losses = []
    for options in ({}, {"norm": "batch", "residual": True}):
        torch.manual_seed(0)
        model = GCN(5, 24, 2, num_layers=16, **options).double()
        optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
        for _ in range(60):
            optimiser.zero_grad()
            loss = model.loss(model(x, edges), y, torch.arange(60))
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[1] < 0.4 < 0.6 < losses[0]


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"norm": "group"}, "norm="),
        ({"jumping": "sum"}, "jumping="),
        ({"label_input": 1.0}, "label_input="),
        ({"label_input": 0.5}, "num_nodes"),
    ],
)
def test_options_that_make_no_sense(options, named):
    with pytest.raises(OptionError, match=named):
        GCN(3, 4, 2, **options)


def test_labels_as_input_cannot_vote_or_make_an_order():
    options = {"label_input": 0.5, "num_nodes": 9}
    with pytest.raises(OptionError, match="label_input"):
        NLGCN(3, 4, 2, order="learned", **options)
    with pytest.raises(OptionError, match="label_input"):
        NeighbourVote(GCN(3, 4, 2, **options), 2, 9, space=LearnedOrder(3))


def test_an_embedding_may_be_wider_than_the_number_of_classes():
    model = NLGCN(3, 4, 2, embedding_channels=6, label_input=0.5, num_nodes=9)
    assert model.local.deep.labels.weight.shape == (2, 4)
    assert model.identifies_nodes
    assert isinstance(model, NonLocal)
