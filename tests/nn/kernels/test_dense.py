"""Narrow products and losses equal torch's, in value and gradient, alone and for replicas."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import grad, vmap
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from nlgnn.nn import layers
from nlgnn.nn.layers import FEW_ROWS, NARROW, class_weights, cross_entropy, narrow_product, product
from nn_samples import assert_same, noise, seeds

sizes = st.integers(1, 6)


@given(st.integers(0, 9), sizes, sizes, seeds)
def test_the_product_is_torchs(n, width, out, seed):
    inputs = [noise(n, width, seed=seed), noise(width, out, seed=seed + 1)]
    assert_same(narrow_product(*inputs), inputs[0] @ inputs[1], inputs)


def test_the_product_passes_gradcheck_twice():
    inputs = (noise(4, 3), noise(3, 2))
    assert torch.autograd.gradcheck(narrow_product, inputs)
    assert torch.autograd.gradgradcheck(narrow_product, inputs)


class Products(TorchDispatchMode):
    """Counts products of matrices."""

    number = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.number += function in (torch.ops.aten.mm.default, torch.ops.aten.bmm.default)
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("wanted", [False, True])
def test_no_gradient_is_computed_for_features_that_want_none(wanted):
    x, weight = noise(5, 3).detach().requires_grad_(wanted), noise(3, 2)
    with Products() as products:
        narrow_product(x, weight).sum().backward()
    assert products.number == (3 if wanted else 2)


@pytest.fixture(params=[0, 10**9], autouse=True)
def few_rows(request, monkeypatch):
    """Every number of rows is many, or few: both ways are taken."""
    monkeypatch.setattr(layers, "FEW_ROWS", request.param)
    return request.param


@pytest.mark.parametrize("out", [NARROW - 1, NARROW, NARROW + 1])
def test_product_of_any_width(out, few_rows, monkeypatch):
    narrow = []
    monkeypatch.setattr(layers, "narrow_product", lambda *args: narrow.append(1) or narrow_product(*args))
    x, weight = noise(7, 3), noise(3, out)
    assert_same(product(x, weight), x @ weight, [x, weight])
    assert bool(narrow) == (out < NARROW and few_rows == 0)


@pytest.mark.parametrize("shared", [0, 1])
def test_what_replicas_share_is_taken_for_each(shared):
    inputs, dims = [noise(3, 5, 4), noise(3, 4, 2)], [0, 0]
    inputs[shared], dims[shared] = noise(*inputs[shared].shape[1:], seed=3), None
    each = [[one if dim is None else one[r] for one, dim in zip(inputs, dims, strict=True)] for r in range(3)]
    loop = torch.stack([x @ weight for x, weight in each])
    assert_same(vmap(narrow_product, in_dims=tuple(dims))(*inputs), loop, inputs)


def test_gradients_taken_inside_vmap_equal_a_loop():
    x, weight = noise(5, 4).detach(), noise(3, 4, 2).detach()
    ours = vmap(grad(lambda own: narrow_product(x, own).sin().sum()))(weight)
    theirs = [grad(lambda own: (x @ own).sin().sum())(own) for own in weight]
    torch.testing.assert_close(ours, torch.stack(theirs), rtol=0, atol=1e-9)


@given(st.integers(1, 9), st.integers(1, 5), st.booleans(), seeds)
def test_cross_entropy_is_torchs(n, classes, as_mask, seed):
    generator = torch.Generator().manual_seed(seed)
    logits, y = noise(n, classes, seed=seed), torch.randint(classes, (n,), generator=generator)
    chosen = torch.rand(n, generator=generator) < 0.5
    chosen[0] = True
    y[~chosen] = -1  # never looked at
    nodes = chosen if as_mask else chosen.nonzero().squeeze(1)
    assert_same(cross_entropy(logits, y, nodes), F.cross_entropy(logits[chosen], y[chosen]), [logits])


@pytest.mark.parametrize("rows", [9, FEW_ROWS])
def test_class_weights_count_nodes_as_often_as_copies_would(rows):
    logits, y = noise(rows, 3), torch.arange(rows) % 3
    y[0], nodes = -1, torch.arange(rows - 2)
    copies = torch.cat([nodes, nodes[y[nodes] == 1], nodes[y[nodes] == 1]])
    with class_weights(torch.tensor([1.0, 3.0, 1.0])):
        weighted = cross_entropy(logits, y, nodes)
    assert_same(weighted, cross_entropy(logits, y, copies), [logits])


def test_cross_entropy_counts_a_repeated_node_twice_and_does_not_overflow():
    logits, y = noise(4, 3), torch.tensor([0, 1, 2, 0])
    nodes = torch.tensor([3, 1, 3])
    large = (1e4 * logits).detach().requires_grad_()
    for given_logits in (logits, large):
        expected = F.cross_entropy(given_logits[nodes], y[nodes])
        assert_same(cross_entropy(given_logits, y, nodes), expected, [given_logits])


def test_cross_entropy_of_replicas_with_nodes_of_their_own():
    logits, y = noise(3, 6, 4), torch.tensor([0, 1, 2, 3, 0, 1])
    nodes = torch.tensor([[0, 1], [4, 2], [5, 3]])
    loop = [F.cross_entropy(one[own], y[own]) for one, own in zip(logits, nodes, strict=True)]
    together = vmap(lambda one, own: cross_entropy(one, y, own))(logits, nodes)
    assert_same(together, torch.stack(loop), [logits])
