import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from torch.func import vmap

from nlgnn.nn.kernels import sparse as sparse_module
from nlgnn.nn.kernels.dropout import Dropout
from nlgnn.nn.kernels.sparse import Operator, multiply, spmm
from nn_samples import assert_same, gradients, noise, random_operator, seeded_streams, seeds, with_seeds

sizes = st.integers(1, 8)


@given(sizes, sizes, st.integers(0, 20), sizes, seeds)
def test_spmm_equals_the_dense_product(rows, columns, entries, width, seed):
    operator, dense = random_operator(rows, columns, entries, seed)
    x = noise(columns, width, seed=seed)
    assert_same(spmm(operator, x), dense @ x, [x])


@given(sizes, sizes, st.integers(0, 20), seeds)
def test_the_transpose_is_the_transpose(rows, columns, entries, seed):
    operator, dense = random_operator(rows, columns, entries, seed)
    torch.testing.assert_close(operator.transpose.matrix.to_dense(), dense.t())


def test_nothing_is_said_to_users_about_csr():
    """Also when the first import falls into somebody's `catch_warnings`, which undoes filters."""
    code = """
import warnings
with warnings.catch_warnings():
    from nlgnn.nn.kernels.sparse import Operator, spmm
import torch
one = torch.tensor([0])
operator = Operator.from_coo(one, one, torch.ones(1), (1, 1))
spmm(operator.with_values(2 * operator.values), torch.ones(1, 1))
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_spmm_passes_gradcheck_twice():
    operator, _ = random_operator(5, 4, 9)
    assert torch.autograd.gradcheck(lambda x: spmm(operator, x), (noise(4, 3),))
    assert torch.autograd.gradgradcheck(lambda x: spmm(operator, x), (noise(4, 3),))


def test_entries_may_come_in_any_order_and_rows_say_where_they_are():
    operator = Operator.from_coo(
        torch.tensor([2, 0, 2]), torch.tensor([1, 1, 0]), torch.tensor([1.0, 2.0, 3.0]), (4, 2)
    )
    assert operator.shape == (4, 2)
    assert list(zip(operator.rows.tolist(), operator.columns.tolist(), operator.values.tolist(), strict=True)) == [
        (0, 1, 2.0),
        (2, 0, 3.0),
        (2, 1, 1.0),
    ]


def test_repeated_entries_stay_apart_and_add_up():
    operator = Operator.from_coo(torch.tensor([0, 0]), torch.tensor([1, 1]), torch.tensor([2.0, 3.0]), (1, 2))
    assert operator.values.tolist() == [2.0, 3.0]
    assert spmm(operator, torch.tensor([[7.0], [1.0]])).item() == 5.0


def test_from_scipy():
    matrix = sparse.random_array((5, 4), density=0.4, format="csr", rng=np.random.default_rng(0))
    operator = Operator.from_scipy(matrix)
    np.testing.assert_array_equal(operator.matrix.to_dense().numpy(), matrix.toarray())
    np.testing.assert_array_equal(operator.transpose.matrix.to_dense().numpy(), matrix.toarray().T)


@given(st.integers(0, 20), seeds)
def test_with_values_changes_both_forms(entries, seed):
    operator, _ = random_operator(5, 4, entries, seed)
    values = noise(entries, seed=seed + 1).detach()
    changed = operator.with_values(values)
    expected = torch.zeros(5, 4).double().index_put((operator.rows, operator.columns), values, accumulate=True)
    torch.testing.assert_close(changed.matrix.to_dense(), expected)
    torch.testing.assert_close(changed.transpose.matrix.to_dense(), expected.t())


def test_dropout_scales_what_it_keeps_and_forward_and_backward_agree():
    operator, _ = random_operator(40, 30, 600)
    dropped = operator.dropout(Dropout(0.25))
    kept = dropped.values != 0
    torch.testing.assert_close(dropped.values[kept], operator.values[kept] / 0.75)
    assert 0.65 < kept.double().mean() < 0.85
    torch.testing.assert_close(dropped.transpose.matrix.to_dense(), dropped.matrix.to_dense().t())
    x = noise(30, 2)
    assert_same(spmm(dropped, x), dropped.matrix.to_dense() @ x, [x])


def test_what_was_dropped_is_freed_without_a_collector_of_garbage():
    operator, x = random_operator(5, 4, 9)[0], noise(4, 2)
    dropped = operator.dropout(Dropout(0.5))
    values = weakref.ref(dropped.values)
    gc.disable()
    try:
        spmm(dropped, x).sum().backward()
        del dropped
        assert values() is None
    finally:
        gc.enable()


def test_dropout_keeps_the_expectation():
    operator = Operator.from_coo(torch.arange(3), torch.arange(3), torch.tensor([1.0, 2.0, -3.0]), (3, 3))
    mean = torch.stack([operator.dropout(Dropout(0.5)).values for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, operator.values, rtol=0.1, atol=0)


@pytest.fixture(params=["folded", "in groups", "one by one"])
def way(request, monkeypatch):
    """All ways in which a product for several replicas, of two columns each, is computed."""
    monkeypatch.setattr(sparse_module, "SMALL_PRODUCT", 10**9 if request.param == "folded" else -1)
    monkeypatch.setattr(sparse_module, "FOLDED_WIDTH", 4 if request.param == "in groups" else 3)
    return request.param


@pytest.mark.parametrize(("where", "entries"), [(0, 9), (1, 9), (2, 9), (1, 0)])
def test_vmap_equals_a_loop(way, where, entries):
    operator, dense = random_operator(5, 4, entries)
    x = noise(3, 4, 2)  # three replicas
    apart = x.movedim(0, where)
    together = vmap(lambda one: spmm(operator, one), in_dims=where)(apart)
    assert_same(together, dense @ x, [x])


def test_small_products_are_folded_into_one(way, monkeypatch):
    products = []
    monkeypatch.setattr(sparse_module, "multiply", lambda *args: products.append(1) or multiply(*args))
    operator, _ = random_operator(5, 4, 9)
    vmap(lambda one: spmm(operator, one))(noise(3, 4, 2))
    assert len(products) == {"folded": 1, "in groups": 2, "one by one": 3}[way]


def test_replicas_of_a_symmetric_matrix(way):
    _, dense = random_operator(5, 5, 9)
    operator = Operator.from_scipy(sparse.csr_array((dense + dense.t()).numpy()), symmetric=True)
    assert operator.transpose is operator
    x = noise(3, 5, 2)
    assert_same(vmap(lambda one: spmm(operator, one))(x), (dense + dense.t()) @ x, [x])


def test_values_of_a_symmetric_pattern_need_not_be_symmetric():
    operator = Operator.from_scipy(sparse.csr_array(np.ones((4, 4))), symmetric=True)
    values, x = noise(16).detach(), noise(4, 2)
    assert_same(spmm(operator.with_values(values), x), values.view(4, 4) @ x, [x])


def test_each_replica_may_have_values_of_its_own(way):
    operator, _ = random_operator(5, 4, 9)
    values, x = noise(3, 9).detach(), noise(3, 4, 2)
    own = operator.with_values(values)
    loop = [operator.with_values(one).matrix.to_dense() @ dense for one, dense in zip(values, x, strict=True)]
    assert_same(vmap(lambda one: spmm(own, one))(x), torch.stack(loop), [x])


def test_dropout_of_replicas_is_what_each_would_draw_alone():
    rates = [0.5, 0.0, 0.2]
    operator, dense = random_operator(6, 4, 14)
    x = noise(3, 4, 2)
    loop = with_seeds(
        [Dropout(rate) for rate in rates], lambda replica, dropout: spmm(operator.dropout(dropout), x[replica])
    )
    dropout = Dropout(max(rates))
    dropout.streams, dropout.replica = seeded_streams(rates), torch.arange(3)
    together = vmap(lambda one: spmm(operator.dropout(dropout), one), randomness="same")(x)
    assert_same(together, loop, [x])
    torch.testing.assert_close(loop[1], dense @ x[1])
    assert not loop[0].allclose(dense @ x[0])


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_any_layout_and_type_of_index(index, dtype):
    operator, dense = random_operator(5, 4, 9)
    operator = Operator(operator.pointers.to(index), operator.columns.to(index), operator.values, (5, 4)).to(dtype)
    assert operator.transpose.columns.dtype == operator.transpose_order.dtype == index
    layouts = {
        "transposed": noise(3, 4).t(),
        "some columns": noise(4, 6)[:, 1:4],
        "some rows": noise(8, 3)[::2],
        "one column": noise(4, 3)[:, 1:2],
        "one row for all": noise(1, 3).expand(4, 3),
        "one number a row": noise(4, 1).expand(4, 3),
        "no columns": noise(4, 0),
    }
    for name, x in layouts.items():
        x = x.detach().to(dtype).requires_grad_()
        product, expected = spmm(operator, x), dense.to(dtype) @ x
        torch.testing.assert_close(product, expected, msg=name)
        # The gradient of a sum has one number in memory for all.
        ours, theirs = (torch.autograd.grad(result.sum(), x)[0] for result in (product, expected))
        torch.testing.assert_close(ours, theirs, msg=name)


@pytest.mark.parametrize("shape", [(0, 4), (3, 4)])
def test_matrices_without_entries(way, shape):
    operator, dense = random_operator(*shape, 0)
    x = noise(2, shape[1], 2)
    assert_same(spmm(operator, x[0]), dense @ x[0], [x])
    assert_same(vmap(lambda one: spmm(operator, one))(x), dense @ x, [x])


def test_gradients_taken_inside_vmap_equal_a_loop():
    operator, _ = random_operator(5, 4, 9)
    x = noise(3, 4, 2).detach()

    def gradient(one):
        return torch.func.grad(lambda dense: spmm(operator, dense).sin().sum())(one)

    torch.testing.assert_close(vmap(gradient)(x), torch.stack([gradient(one) for one in x]))


def test_to_changes_the_type_of_both_forms():
    operator, dense = random_operator(5, 4, 9)
    single = operator.to(torch.float32)
    assert single.matrix.dtype == single.transpose.matrix.dtype == torch.float32
    x = noise(4, 2).detach().float().requires_grad_()
    torch.testing.assert_close(spmm(single, x), dense.float() @ x)
    torch.testing.assert_close(*gradients(spmm(single, x).double(), [x]), *gradients((dense.float() @ x).double(), [x]))


@pytest.mark.parametrize("symmetric", [False, True])
def test_to_keeps_values_and_pattern(symmetric):
    _, dense = random_operator(5, 5, 9)
    dense = dense + dense.t() if symmetric else dense
    operator = Operator.from_scipy(sparse.csr_array(dense.numpy()), symmetric)
    assert operator.to(torch.float64) is operator
    single = operator.to(device="cpu", dtype=torch.float32)
    assert (single.shape, single.symmetric, single.columns.dtype) == ((5, 5), symmetric, torch.int32)
    torch.testing.assert_close(single.matrix.to_dense(), dense.float())
    torch.testing.assert_close(single.transpose.matrix.to_dense(), dense.t().float())


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("symmetric", [False, True])
def test_copies_are_a_block_diagonal(number, symmetric):
    operator, dense = random_operator(4, 4, 9)
    if symmetric:
        operator = Operator.from_scipy(sparse.csr_array((dense + dense.T).numpy()), symmetric=True)
    copies = operator.copies(number)
    expected = torch.block_diag(*[operator.matrix.to_dense()] * number)
    for actual, wanted in ((copies, expected), (copies.transpose, expected.t())):
        torch.testing.assert_close(multiply(actual, actual.values, torch.eye(4 * number).double()), wanted)
    torch.testing.assert_close(copies.values[copies.transpose_order], copies.transpose.values)
    assert operator.copies(number) is copies


@pytest.mark.parametrize("width", [1, 40])
def test_wide_products_in_blocks_of_columns(width, monkeypatch):
    """Also of an operator whose rows and columns do not divide evenly."""
    monkeypatch.setattr(sparse_module, "BLOCK_ROWS", 7)
    monkeypatch.setattr(sparse_module, "BLOCK_ROW_ENTRIES", 1)
    operator, dense = random_operator(5, 40, 90)
    assert operator.column_blocks is not None
    assert operator.column_blocks.shape == (6 * 5, 40)
    assert random_operator(40, 5, 90)[0].column_blocks is None
    x = noise(40, width)
    assert_same(spmm(operator, x), dense @ x, [x])


@pytest.mark.parametrize("has_mkl", [False, True])
def test_products_with_a_vector(has_mkl, monkeypatch):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: has_mkl)
    operator, dense = random_operator(5, 4, 9)
    vector = noise(4).detach()
    torch.testing.assert_close(multiply(operator, operator.values, vector), dense @ vector)
