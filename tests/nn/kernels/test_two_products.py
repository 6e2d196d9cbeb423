import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import vmap

from nlgnn.nn.kernels import two_products
from nlgnn.nn.kernels.two_products import own_and_sent
from nn_samples import assert_same, noise, random_operator, seeds

sizes = st.integers(1, 8)
KINDS = ["fused", "composed"]


@pytest.fixture(params=KINDS)
def either_way(request, monkeypatch):
    """One operation, as for large graphs, or several."""
    monkeypatch.setattr(two_products, "SMALL_PRODUCT", -1 if request.param == "fused" else 50_000)


@pytest.mark.parametrize("kind", KINDS)
@given(nodes=sizes, entries=st.integers(0, 20), width=sizes, columns=sizes, seed=seeds)
def test_it_equals_dense_products(kind, nodes, entries, width, columns, seed):
    operator, dense = random_operator(nodes, nodes, entries, seed)
    tensors = [noise(nodes, columns, seed=seed), noise(columns, width, seed=1), noise(columns, width, seed=2)]
    x, own, sent = tensors
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_products, "SMALL_PRODUCT", -1 if kind == "fused" else 50_000)
        assert_same(own_and_sent(operator, x, own, sent), x @ own + dense @ (x @ sent), tensors, tolerance=1e-12)


@pytest.mark.usefixtures("either_way")
def test_gradients_are_those_of_differences():
    operator, _ = random_operator(5, 5, 9)
    inputs = (noise(5, 3), noise(3, 2, seed=1), noise(3, 2, seed=2))
    assert torch.autograd.gradcheck(lambda *tensors: own_and_sent(operator, *tensors), inputs)


@pytest.mark.usefixtures("either_way")
def test_features_need_no_gradient_and_weights_may_be_parts_of_one():
    operator, dense = random_operator(5, 5, 9)
    x, whole = noise(5, 3).detach(), noise(3, 4, seed=1)
    own, sent = whole.chunk(2, dim=1)
    assert_same(own_and_sent(operator, x, own, sent), x @ own + dense @ (x @ sent), [whole], tolerance=1e-12)


@pytest.mark.usefixtures("either_way")
@pytest.mark.parametrize("where", [0, 1, None])
def test_replicas_equal_each_alone(where):
    """None: all replicas read the same rows."""
    operator, _ = random_operator(5, 5, 9)
    x = noise(5, 3) if where is None else noise(4, 5, 3)
    own, sent = noise(4, 3, 2, seed=1), noise(4, 3, 2, seed=2)
    alone = torch.stack([own_and_sent(operator, x if where is None else x[r], own[r], sent[r]) for r in range(4)])
    moved = x if where is None else x.movedim(0, where)
    together = vmap(lambda *tensors: own_and_sent(operator, *tensors), in_dims=(where, 0, 0))(moved, own, sent)
    assert_same(together, alone, [x, own, sent], tolerance=1e-12)
