"""NonLocal and its three named forms, whole: logits, losses, options."""

import re

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch_geometric import nn as pyg

import reference
from each_of import each_of
from nlgnn.errors import DataError, OptionError
from nlgnn.graph.graph import Graph
from nlgnn.nn import CPGCN, GAT, GCN, LINKX, MLP, NLGAT, NLGCN, NLMLP, Model, NonLocal, SortedConv
from nlgnn.nn.inputs import prepare_plain
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.non_local import NonLocalOutput
from nlgnn.nn.versions import NonLocalVersion
from nn_samples import assert_same, noise, random_edges, randomise, seeds

MODELS = [NLMLP, NLGCN, NLGAT]
ROBUST = {"score_bias": True, "standardise_score": True, "zero_init": True, "head": "residual", "local_loss": 0.5}
TABLE = Graph(np.eye(4), np.array([[0, 1], [1, 2]]), np.array([0, 1, 0, 1]))


def parts_by_reference(model, x, edges):
    """z and zhat."""
    layers = [(layer.weight, layer.bias) for layer in model.local.layers]
    pairs = [(int(u), int(v)) for u, v in edges.t()]
    z = reference.mlp(x, layers) if isinstance(model, NLMLP) else reference.gcn(x, pairs, layers)
    score, first, _, _, second = model.order.score, *model.mixer.convs
    a = reference.scores(z, score.weight[0], 0.0 if score.bias is None else score.bias)
    factors = reference.standardised(a) if model.order.standardise else a
    kernels = [(first.weight, first.bias), (second.weight, second.bias)]
    return z, reference.aggregate(z, factors, reference.order(a), kernels)


@pytest.mark.parametrize("model_class", [NLMLP, NLGCN])
@given(seed=seeds, score_bias=st.booleans(), width=st.integers(1, 4))
def test_the_papers_form_equals_the_reference(model_class, seed, score_bias, width):
    model = randomise(model_class(3, 4, 2, embedding_channels=width, score_bias=score_bias), seed)
    x, edges = noise(7, 3, seed=seed), random_edges(7, 9, seed)
    expected = reference.concat_head(*parts_by_reference(model, x, edges), model.head.weight.t(), model.head.bias)
    assert_same(model(x, edges), expected, [x, *model.parameters()], tolerance=1e-8)


@pytest.mark.parametrize("model_class", [NLMLP, NLGCN])
@given(seed=seeds)
def test_the_robust_form_equals_the_reference(model_class, seed):
    model = randomise(model_class(3, 4, 2, **ROBUST), seed)  # randomised: zero_init would hide the convolutions
    x, edges = noise(7, 3, seed=seed), random_edges(7, 9, seed)
    z, zhat = parts_by_reference(model, x, edges)
    expected = reference.residual_head(z, zhat, model.head.weight.t())
    assert_same(model.eval()(x, edges), expected, [x, *model.parameters()], tolerance=1e-8)

    y, mask = torch.tensor([0, 1, 1, 0, 1, 0, 0]), torch.tensor([1, 1, 0, 1, 0, 0, 1], dtype=torch.bool)
    expected_loss = 0.5 * F.cross_entropy(expected[mask], y[mask]) + 0.5 * F.cross_entropy(z[mask], y[mask])
    loss = model.loss(model.train().training_output(x, edges), y, mask)
    assert_same(loss, expected_loss, list(model.parameters()), tolerance=1e-8)


@pytest.mark.parametrize("model_class", MODELS)
@given(seed=seeds)
def test_relabelling_nodes_permutes_the_logits(model_class, seed):
    """Property 1, as long as no two scores tie, as those of twins with the same neighbours do."""
    model, x, edges = randomise(model_class(3, 4, 2)), noise(8, 3, seed=seed), random_edges(8, 12, seed)
    scores, _ = model.sort_order(x, edges)
    assume(scores.sort().values.diff().min() > 1e-9)
    new_to_old = torch.randperm(8, generator=torch.Generator().manual_seed(seed))
    old_to_new = new_to_old.argsort()
    torch.testing.assert_close(model(x[new_to_old], old_to_new[edges]), model(x, edges)[new_to_old])


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_kernel_1_looks_at_a_nodes_own_embedding_only(kernel_size):
    """Property 3: derivatives of v's logits with respect to other nodes' features are zero, for kernel 1 alone."""
    model, x = randomise(NLMLP(3, 4, 2, kernel_size=kernel_size)), noise(6, 3).detach()
    influence = torch.autograd.functional.jacobian(model, x).abs().sum((1, 3))  # [6, 6]
    others = influence - influence.diag().diag()
    assert (others.max() == 0) == (kernel_size == 1)
    assert influence.diag().min() > 0


def test_gradients_reach_every_parameter():
    """Property 6, and that nothing is detached on the way."""
    model = randomise(NLMLP(3, 4, 2))
    model(noise(9, 3)).square().sum().backward()
    assert all(parameter.grad.any() for parameter in model.parameters())


def test_zero_embeddings_give_equal_logits_inside():
    """Property 8."""
    model = randomise(NLMLP(3, 4, 2))
    for parameter in model.local.parameters():
        torch.nn.init.zeros_(parameter)
    torch.nn.init.ones_(model.mixer.convs[0].bias)  # else ReLU may leave nothing that the ends could lack
    logits = model(noise(12, 3))
    torch.testing.assert_close(logits[4:-4], logits[4:5].expand(4, -1))
    assert not torch.allclose(logits[0], logits[4])


def test_graphs_in_a_batch_stay_apart():
    model, x, batch = randomise(NLMLP(3, 4, 2)), noise(7, 3), torch.tensor([1, 0, 0, 1, 0, 0, 1])
    together = model(x, None, batch=batch)
    for graph in (0, 1):
        torch.testing.assert_close(together[batch == graph], model(x[batch == graph]))


def count(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_size_of_the_released_configuration():
    model = NLMLP(1703, 48, 5, kernel_size=5, score_bias=True)
    assert count(model.local) == 82_037
    assert count(model) - count(model.local) == 321


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from([1, 3, 5]))
def test_size_in_general(f, C, k):
    model = NLMLP(2, 3, C, embedding_channels=f, kernel_size=k)
    assert count(model) - count(model.local) == f + 2 * (k * f**2 + f) + 2 * f * C + C


def conv_dropout(model):
    return model.mixer.convs[2].p


@pytest.mark.parametrize("model_class", MODELS)
def test_dropout_is_also_the_rate_between_the_convolutions(model_class):
    assert conv_dropout(model_class(3, 4, 2, dropout=0.8)) == 0.8
    assert conv_dropout(model_class(3, 4, 2, dropout=0.8, conv_dropout=0.0)) == 0.0
    assert conv_dropout(model_class(3, 4, 2, conv_dropout=0.3)) == 0.3
    assert model_class(3, 4, 2, conv_dropout=0.3).local.dropout.p == 0.0
    assert not model_class(3, 4, 2, conv_dropout=0.3).deterministic
    assert model_class(3, 4, 2).deterministic


@pytest.mark.parametrize("model_class", MODELS)
def test_robust_starts_as_its_local_part(model_class):
    model, x, edges = model_class(3, 4, 2, **ROBUST), torch.randn(6, 3), random_edges(6, 9)
    for _ in range(2):
        output = model.train().training_output(x, edges)
        assert isinstance(output, NonLocalOutput)
        assert torch.equal(output.logits, output.local)
        logits = model.eval()(x, edges)
        assert isinstance(logits, torch.Tensor)
        assert torch.equal(logits, model.local(x, edges))
        model.reset_parameters()


def test_loss_of_the_papers_form_is_the_cross_entropy_of_the_masked_nodes():
    model, y = randomise(NLMLP(3, 4, 2)), torch.tensor([0, 1, -1, 1])  # -1: unknown
    logits, mask = model(noise(4, 3)), torch.tensor([True, True, False, False])
    expected = -(logits.log_softmax(1)[0, 0] + logits.log_softmax(1)[1, 1]) / 2
    torch.testing.assert_close(model.loss(logits, y, mask), expected)


def test_wraps_a_model_of_pytorch_geometric():
    torch.manual_seed(0)
    local = pyg.GCN(4, 8, num_layers=2, out_channels=3)
    model = NonLocal(local, 3, 2, kernel_size=3)
    inputs = model.prepare(TABLE)
    logits = model(*inputs)
    z = local(*inputs)
    expected = model.head(torch.cat([z, model.mixer(z, model.order(z, inputs))], dim=1))
    torch.testing.assert_close(logits, expected)
    model.loss(logits, torch.tensor([0, 1, 0, 1]), torch.ones(4, dtype=torch.bool)).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert not model.deterministic  # who knows what is inside
    before = [parameter.clone() for parameter in local.parameters() if parameter.ndim > 1]
    model.reset_parameters()
    after = [parameter for parameter in local.parameters() if parameter.ndim > 1]
    assert not any(torch.equal(one, other) for one, other in zip(before, after, strict=True))


@pytest.mark.parametrize("model_class", MODELS)
def test_prepares_what_forward_takes(model_class):
    model = model_class(4, 5, 2)
    assert torch.equal(model(*model.prepare(TABLE)), model(*model.local.prepare(TABLE)))


@pytest.mark.parametrize("model_class", MODELS)
def test_an_unknown_option_is_refused_with_the_nearest_name(model_class):
    message = f"{model_class.__name__} has no option 'kernal_size'.\nDid you mean 'kernel_size'?"
    with pytest.raises(OptionError, match=re.escape(message)):
        model_class(3, 4, 2, kernal_size=5)


def test_an_option_of_another_local_part_is_unknown():
    assert NLGAT(3, 4, 2, heads=2).local.layers[0].heads == 2
    with pytest.raises(OptionError, match="NLMLP has no option 'heads'"):
        NLMLP(3, 4, 2, heads=2)


@pytest.mark.usefixtures("as_users_run_it")
@each_of(
    ("options", "message"),
    [
        ({"kernel_size": 4}, "kernel_size=4: a window needs a middle, so give an odd number"),
        ({"embedding_channels": -1}, "embedding_channels=-1"),
        ({"conv_dropout": 1.5}, "conv_dropout=1.5"),
        ({"local_loss": 1.5}, "local_loss=1.5"),
        ({"head": "tail"}, "head='tail': input should be 'concat' or 'residual'"),
        ({"head": "residual", "embedding_channels": 7}, "embedding=7, but head='residual'"),
        ({"local_loss": 0.5, "embedding_channels": 7}, "as logits of 2 classes"),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        NLMLP(3, 4, 2, **options)


def test_a_foreign_part_is_not_assumed_to_compute_the_same_in_training():
    convs = nn.Sequential(nn.BatchNorm1d(3), nn.Conv1d(3, 3, 1))
    assert not NonLocal(MLP(4, 5, 3), 3, 3, mixer=SortedConv(3, convs=convs)).deterministic
    assert NLMLP(4, 5, 3).deterministic


class Spared(Model):
    """A local model with a parameter that it does not want decayed."""

    def __init__(self):
        super().__init__()
        self.map, self.shift = nn.Linear(4, 3, bias=False), nn.Parameter(torch.zeros(3))

    def parameter_groups(self):
        return [{"params": [self.map.weight]}, {"params": [self.shift], "weight_decay": 0.0}]

    def forward(self, x, edge_index):
        return self.map(x) + self.shift


def test_what_a_local_model_spares_is_not_decayed():
    model = NonLocal(Spared(), 3, 2)
    groups = model.parameter_groups()
    assert [group["params"] for group in groups if "weight_decay" in group] == [[model.local.shift]]
    together = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(together) == sorted(map(id, model.parameters()))
    torch.optim.Adam(groups, lr=0.1, weight_decay=0.1)  # as torch takes them


def test_a_local_model_that_returns_more_than_an_embedding_is_refused():
    class Two(nn.Linear):
        def forward(self, x, edge_index):
            return super().forward(x), x

    with pytest.raises(OptionError, match="Two returns more than an embedding"):
        NonLocal(Two(4, 3), 3, 2)(*prepare_plain(TABLE))


@pytest.mark.parametrize("model_class", MODELS)
@pytest.mark.parametrize("order", ["score", "learned"])
def test_forward_returns_logits_in_training_too(model_class, order):
    model = model_class(4, 5, 2, order=order, local_loss=0.5).train()
    assert isinstance(model(*model.prepare(TABLE)), torch.Tensor)


def test_batch_is_passed_on_to_a_local_model_that_takes_it():
    class MeanOfGraph(nn.Module):
        def forward(self, x, edge_index=None, batch=None):
            sums = torch.zeros(2, 4).index_add(0, batch, x)
            return (sums / batch.bincount().unsqueeze(1))[batch]

    x, batch = torch.randn(6, 4), torch.tensor([0, 0, 1, 1, 1, 0])
    model = NonLocal(MeanOfGraph(), 4, 2)
    assert torch.equal(model.embed(x, None, batch=batch), model.local(x, batch=batch))
    assert model(x, None, batch=batch).shape == (6, 2)


@pytest.mark.usefixtures("as_users_run_it")
@pytest.mark.parametrize("model_class", MODELS)
def test_bad_batches_and_no_nodes_are_refused(model_class):
    model, no_edges = model_class(3, 4, 2), torch.zeros(2, 0, dtype=torch.long)
    for batch in (torch.tensor([0, -1]), torch.tensor([0]), torch.tensor([0.0, 1.0])):
        with pytest.raises(OptionError, match="batch"):
            model(torch.randn(2, 3), no_edges, batch=batch)
    with pytest.raises(DataError, match="no nodes"):
        model(torch.zeros(0, 3), no_edges)


@pytest.mark.parametrize(
    ("model_class", "nodes"), [(MLP, 20), (GCN, 20), (GAT, 20), *((model, 1200) for model in MODELS), (MODELS[0], 20)]
)
def test_bfloat16_autocast(model_class, nodes):
    torch.manual_seed(0)
    model, x, edges = model_class(5, 8, 3), torch.randn(nodes, 5), random_edges(nodes, 3 * nodes)
    expected = model(x, edges)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(x, edges)
        loss = model.loss(model.training_output(x, edges), torch.arange(nodes) % 3, torch.arange(nodes // 2))
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
    assert (logits.float() - expected).abs().mean() < 0.05 * expected.abs().mean()
    if isinstance(model, NonLocal):
        with torch.autocast("cpu", torch.bfloat16):
            assert model.ranking(x, edges).keys.dtype == torch.float32


def test_the_version_around_a_class_is_one_class():
    wrapped = NonLocalVersion.around(LINKX)
    assert wrapped is NonLocalVersion.around(LINKX)
    assert wrapped.__name__ == "NonLocalLINKX"
    model = wrapped(4, 5, 2, num_nodes=4, dropout=0.5)
    assert model.identifies_nodes
    assert not NLMLP(4, 5, 2).identifies_nodes
    assert model(*model.prepare(TABLE)).shape == (4, 2)


@pytest.mark.parametrize("part", [nn.Dropout(0.5), nn.AlphaDropout(0.2), nn.BatchNorm1d(3), Dropout(0.5)])
def test_a_model_with_anything_random_in_it_is_not_deterministic(part):
    model = MLP(3, 4, 2)
    assert model.deterministic
    model.part = part
    assert not model.deterministic


def test_a_class_from_elsewhere_is_not_assumed_to_be_deterministic():
    class Mine(Model):
        def forward(self, x, edge_index):
            return F.dropout(x, 0.5, self.training)

    assert not Mine().deterministic


def test_a_local_model_that_needs_pretraining_is_refused():
    with pytest.raises(OptionError, match="CPGCN needs pre-training"):
        NonLocal(CPGCN(3, 4, 2), 2, 2)
