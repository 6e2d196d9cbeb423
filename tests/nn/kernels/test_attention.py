import weakref
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import functional_call, grad, stack_module_state, vmap
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch_geometric.nn import GATConv

from nlgnn.graph.features import FeaturesOnDisk
from nlgnn.nn import GAT
from nlgnn.nn.kernels.attention import Attention, GraphAttention, neighbourhoods
from nlgnn.nn.kernels.streamed import StreamedFeatures
from nn_samples import (
    assert_replicas_draw_as_alone,
    assert_same,
    gradients,
    noise,
    random_edges,
    random_operator,
    randomise,
    seeds,
)

multigraphs = given(st.integers(1, 9), st.integers(0, 30), seeds)


@multigraphs
def test_gat_agrees_with_pyg(num_nodes, num_edges, seed):
    edges, x = random_edges(num_nodes, num_edges, seed), noise(num_nodes, 3, seed=seed)
    model = randomise(GAT(3, 4, 2, heads=3))
    first, second = model.layers

    def theirs(convolution, ours, x):
        parameters = {
            "lin.weight": ours.weight.t(),
            "att_src": ours.attention_source[None],
            "att_dst": ours.attention_target[None],
            "bias": ours.bias,
        }
        return functional_call(convolution, parameters, (x, edges))

    hidden = theirs(GATConv(3, 4, heads=3), first, x).relu()
    assert_same(model(x, edges), theirs(GATConv(12, 2), second, hidden), [x, *model.parameters()])


@multigraphs
def test_attention_sums_to_one_a_receiver(num_nodes, num_edges, seed):
    operator = neighbourhoods(random_edges(num_nodes, num_edges, seed), num_nodes)
    layer = randomise(GraphAttention(2, 2))
    layer.weight.data, layer.bias.data = torch.eye(2).double(), torch.zeros(2).double()
    # The first number sent is 1 for all, so that what arrives is the sum of the weights; the second sets them apart.
    x = torch.cat([torch.ones(num_nodes, 1).double(), noise(num_nodes, 1, seed=seed)], dim=1)
    torch.testing.assert_close(layer(x, operator)[:, 0], torch.ones(num_nodes).double())


def test_without_attention_vectors_gat_takes_the_mean():
    edges, x = torch.tensor([[0, 1], [2, 2]]), noise(3, 3)
    layer = randomise(GraphAttention(3, 2))
    for vector in (layer.attention_source, layer.attention_target):
        torch.nn.init.zeros_(vector)
    h = x @ layer.weight
    expected = torch.stack([h[0], h[1], (h[0] + h[1] + h[2]) / 3]) + layer.bias
    torch.testing.assert_close(layer(x, neighbourhoods(edges, 3)), expected)


def test_gat_drops_attention_weights():
    layer = GraphAttention(1, 1, dropout=0.5)
    torch.nn.init.ones_(layer.weight)
    alone = neighbourhoods(torch.zeros(2, 0, dtype=torch.long), 200)  # each node has all its attention on itself
    assert set(layer(torch.ones(200, 1), alone).flatten().tolist()) == {0.0, 2.0}
    assert set(layer.eval()(torch.ones(200, 1), alone).flatten().tolist()) == {1.0}
    assert GAT(3, 4, 2, dropout=0.5).layers[0].dropout.p == 0.5


def test_elu_can_be_chosen():
    edges, x = random_edges(5, 9), noise(5, 3)
    relu, elu = randomise(GAT(3, 4, 2)), randomise(GAT(3, 4, 2, activation="elu"))
    hidden = torch.nn.functional.elu(elu.layers[0](x, neighbourhoods(edges, 5)))
    torch.testing.assert_close(elu(x, edges), elu.layers[1](hidden, neighbourhoods(edges, 5)))
    assert not torch.equal(elu(x, edges), relu(x, edges))


def literal_attention(pattern, h, vectors, bias, kept):
    """One node after another, one entry after another."""
    result = []
    for node in range(pattern.shape[0]):
        entries = (pattern.rows == node).nonzero()[:, 0]
        senders = pattern.columns[entries]
        scores = vectors[1] @ h[node] + h[senders] @ vectors[0]
        alpha = torch.nn.functional.leaky_relu(scores, 0.2).softmax(0)
        result.append((alpha * kept[entries]) @ h[senders] + bias)
    return torch.stack(result)


@given(st.integers(1, 8), st.integers(0, 30), st.integers(1, 9), st.booleans(), seeds)
def test_attention_and_its_gradients_equal_a_literal_version(num_nodes, entries, width, drops, seed):
    pattern, _ = random_operator(num_nodes, num_nodes, entries, seed)  # with repeated entries and an empty row
    inputs = [noise(num_nodes, width, seed=seed), noise(2, width, seed=seed + 1), noise(width, seed=seed + 2)]
    kept = noise(entries, seed=seed + 3).detach()
    expected = literal_attention(pattern, *inputs, kept if drops else torch.ones_like(kept))
    assert_same(Attention.apply(pattern, *inputs, kept if drops else None)[0], expected, inputs)


def test_where_scores_are_zero_the_slope_is_that_of_torch():
    pattern = neighbourhoods(random_edges(6, 9), 6)
    inputs = [noise(6, 3), torch.zeros(2, 3).double().requires_grad_(), noise(3)]
    expected = literal_attention(pattern, *inputs, torch.ones(len(pattern.columns)).double())
    assert_same(Attention.apply(pattern, *inputs, None)[0], expected, inputs)


@pytest.mark.parametrize("size", [1e3, -1e3])
def test_large_scores_do_not_overflow(size):
    """Also where the largest scores of two neighbourhoods are far apart."""
    pattern = neighbourhoods(torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), 4)
    h = torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]) * size
    result = Attention.apply(pattern, h.requires_grad_(), torch.ones(2, 1), torch.zeros(1), None)[0]
    torch.testing.assert_close(result, h)
    assert gradients(result, [h])[0].isfinite().all()


@pytest.mark.parametrize("size", [0.1, 1e3])
@pytest.mark.parametrize("drops", [False, True])
def test_replicas_of_a_small_graph_are_computed_together_and_those_of_a_large_one_apart(size, drops, monkeypatch):
    pattern, _ = random_operator(6, 6, 20)
    stacked = [noise(5, 6, 3), noise(5, 2, 3, seed=1), noise(5, 3, seed=2)]
    stacked[0].data *= size
    kept = noise(5, 20, seed=3).detach() if drops else None
    literal_kept = kept if drops else torch.ones(5, 20).double()
    expected = torch.stack([literal_attention(pattern, *one) for one in zip(*stacked, literal_kept, strict=True)])
    for together in (20, 40, 1000):  # entries: 1, 2 and all of the replicas
        monkeypatch.setattr("nlgnn.nn.kernels.attention.TOGETHER", together)
        result = vmap(partial(Attention.apply, pattern), in_dims=(0, 0, 0, 0 if drops else None))(*stacked, kept)[0]
        assert_same(result, expected, stacked, tolerance=1e-9 * max(1, size))


def replicas(number, **options):
    models = [randomise(GAT(3, 4, 2, heads=3, **options), seed=100 * replica) for replica in range(number)]
    return models, stack_module_state(models)[0]


@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("sparse", [False, True])
def test_replicas_equal_a_loop_over_models(num_layers, sparse):
    models, stacked = replicas(3, num_layers=num_layers)
    operator, dense = random_operator(7, 3, 12)
    x, edges = operator if sparse else dense, neighbourhoods(random_edges(7, 12), 7)

    def result(state):
        return functional_call(models[0], state, (x, edges))

    loop = torch.stack([result(state) for state in apart(stacked)])
    assert_same(vmap(result)(stacked), loop, list(stacked.values()))

    def gradient(state):
        return grad(lambda own: result(own).sin().sum())(state)

    inside, loop = vmap(gradient)(stacked), [gradient(state) for state in apart(stacked)]
    for name, value in inside.items():
        torch.testing.assert_close(value, torch.stack([one[name] for one in loop]), rtol=0, atol=1e-9)


def apart(stacked):
    return [dict(zip(stacked, values, strict=True)) for values in zip(*stacked.values(), strict=True)]


def test_replicas_drop_what_they_would_drop_alone():
    models, _ = replicas(2, dropout=0.5)
    x, edges = noise(7, 3).detach(), neighbourhoods(random_edges(7, 12), 7)
    assert_replicas_draw_as_alone(models, lambda model: model(x, edges))


@pytest.mark.parametrize(("dropout", "num_layers"), [(0.0, 2), (0.5, 1), (0.5, 3)])
@pytest.mark.parametrize("form", ["dense", "sparse", "on disk"])
def test_recomputed_heads_are_the_same(dropout, num_layers, form, tmp_path):
    """Also which weights and units are dropped: memory must not decide about results."""
    model = randomise(GAT(5, 4, 2, heads=3, num_layers=num_layers, dropout=dropout, activation="elu"))
    sparse, dense = random_operator(7, 5, 14)
    np.save(tmp_path / "x.npy", dense.float())
    on_disk = FeaturesOnDisk.from_memmap(np.load(tmp_path / "x.npy", mmap_mode="r"), "x")
    x = {"dense": dense.requires_grad_(), "sparse": sparse, "on disk": StreamedFeatures(on_disk)}[form]
    edges = neighbourhoods(random_edges(7, 12), 7)
    torch.manual_seed(0)
    expected = model(x, edges)
    model.recompute = True
    torch.manual_seed(0)
    assert_same(model(x, edges), expected, [*model.parameters(), *([dense] if form == "dense" else [])])


class Watch(TorchDispatchMode):
    """Looks at every array that is made."""

    def __init__(self):
        super().__init__()
        self.arrays = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for tensor in tensors:
            if tensor.layout != torch.strided:  # made of arrays that are watched already
                continue
            storage = tensor.untyped_storage()
            self.arrays[weakref.ref(storage)] = len(storage) // tensor.element_size()
        return result

    def living(self):
        return [size for array, size in self.arrays.items() if array() is not None]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_what_is_held_in_memory(dropout):
    num_nodes, width, heads = 60, 8, 6
    model = GAT(3, width, 2, heads=heads, dropout=dropout)
    x, edges = torch.ones(num_nodes, 3), neighbourhoods(random_edges(num_nodes, 40), num_nodes)
    one_head = num_nodes * width
    kept = {}
    for model.recompute in (False, True):
        with Watch() as watch:
            result = model(x, edges)
            kept[model.recompute] = sum(size >= one_head for size in watch.living())
            result.sum().backward()
        # Neither all heads side by side nor a number an edge and channel.
        assert max(watch.arrays.values()) < min(heads * one_head, len(edges.columns) * width)
    assert kept[False] >= 2 * heads
    assert kept[True] == 0


def test_a_graph_without_nodes():
    model, edges = GAT(3, 4, 2), torch.zeros(2, 0, dtype=torch.long)
    assert model(torch.zeros(0, 3), edges).shape == (0, 2)
