import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from nn_samples import assert_same, gradients, noise, random_operator, seeds
from scipy import sparse
from torch.func import vmap

from nlgnn.nn.sparse import Operator, segment_softmax, spmm, spmm_values

sizes = st.integers(1, 8)


@given(sizes, sizes, st.integers(0, 20), sizes, seeds)
def test_spmm_equals_the_dense_product(rows, columns, entries, width, seed):
    operator, dense = random_operator(rows, columns, entries, seed)
    x = noise(columns, width, seed=seed)
    assert_same(spmm(operator, x), dense @ x, [x])


@given(sizes, sizes, st.integers(0, 20), seeds)
def test_the_transpose_is_the_transpose(rows, columns, entries, seed):
    operator, dense = random_operator(rows, columns, entries, seed)
    torch.testing.assert_close(operator.transposed.to_dense(), dense.t())


def test_nothing_is_said_to_users_about_csr():
    """Also when the first import falls into somebody's `catch_warnings`, which undoes filters."""
    code = """
import warnings
with warnings.catch_warnings():
    from nlgnn.nn.sparse import Operator, spmm
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
    np.testing.assert_array_equal(operator.transposed.to_dense().numpy(), matrix.toarray().T)


@given(st.integers(0, 20), seeds)
def test_with_values_changes_both_forms(entries, seed):
    operator, _ = random_operator(5, 4, entries, seed)
    values = noise(entries, seed=seed + 1).detach()
    changed = operator.with_values(values)
    expected = torch.zeros(5, 4).double().index_put((operator.rows, operator.columns), values, accumulate=True)
    torch.testing.assert_close(changed.matrix.to_dense(), expected)
    torch.testing.assert_close(changed.transposed.to_dense(), expected.t())


def test_dropout_scales_what_it_keeps_and_forward_and_backward_agree():
    operator, _ = random_operator(40, 30, 600)
    dropped = operator.dropout(0.25)
    kept = dropped.values != 0
    torch.testing.assert_close(dropped.values[kept], operator.values[kept] / 0.75)
    assert 0.65 < kept.double().mean() < 0.85
    torch.testing.assert_close(dropped.transposed.to_dense(), dropped.matrix.to_dense().t())
    x = noise(30, 2)
    assert_same(spmm(dropped, x), dropped.matrix.to_dense() @ x, [x])


def test_dropout_keeps_the_expectation():
    operator = Operator.from_coo(torch.arange(3), torch.arange(3), torch.tensor([1.0, 2.0, -3.0]), (3, 3))
    mean = torch.stack([operator.dropout(0.5).values for _ in range(4000)]).mean(0)
    torch.testing.assert_close(mean, operator.values, rtol=0.1, atol=0)
    assert operator.dropout(0.0) is operator


@pytest.mark.parametrize("where", [0, 1, 2])
def test_vmap_equals_a_loop(where):
    operator, _ = random_operator(5, 4, 9)
    x = noise(3, 4, 2)  # three replicas
    apart = x.movedim(0, where)
    together = vmap(lambda one: spmm(operator, one), in_dims=where)(apart)
    assert_same(together, torch.stack([spmm(operator, one) for one in x]), [x])


def test_gradients_taken_inside_vmap_equal_a_loop():
    operator, _ = random_operator(5, 4, 9)
    x = noise(3, 4, 2).detach()

    def gradient(one):
        return torch.func.grad(lambda dense: spmm(operator, dense).sin().sum())(one)

    torch.testing.assert_close(vmap(gradient)(x), torch.stack([gradient(one) for one in x]))


@given(sizes, sizes, st.integers(0, 20), sizes, seeds)
def test_spmm_values_equals_the_dense_product(rows, columns, entries, width, seed):
    operator, _ = random_operator(rows, columns, entries, seed)
    values, x = noise(entries, seed=seed + 1), noise(columns, width, seed=seed)
    empty = torch.zeros(rows, columns, dtype=torch.float64)
    dense = empty.index_put((operator.rows, operator.columns), values, accumulate=True)
    assert_same(spmm_values(operator, values, x), dense @ x, [values, x])


def test_spmm_values_passes_gradcheck():
    operator, _ = random_operator(5, 4, 9)
    assert torch.autograd.gradcheck(lambda v, x: spmm_values(operator, v, x), (noise(9), noise(4, 3)))


@given(st.integers(1, 20), st.integers(1, 3), seeds)
def test_segment_softmax_is_a_softmax_a_row(entries, heads, seed):
    operator, _ = random_operator(6, 4, entries, seed)
    values = noise(entries, heads, seed=seed)
    expected = torch.zeros_like(values)
    for row in operator.rows.unique():
        stored = operator.rows == row
        expected = expected.index_put((stored.nonzero()[:, 0],), values[stored].softmax(0))
    assert_same(segment_softmax(values, operator.rows, 6), expected, [values])


def test_segment_softmax_does_not_overflow():
    weights = segment_softmax(torch.tensor([[1000.0], [1000.0], [-1000.0]]), torch.tensor([0, 0, 1]), 2)
    assert weights[:, 0].tolist() == [0.5, 0.5, 1.0]


def test_to_changes_the_type_of_both_forms():
    operator, dense = random_operator(5, 4, 9)
    single = operator.to(torch.float32)
    assert single.matrix.dtype == single.transposed.dtype == torch.float32
    assert single.transpose_order.dtype == torch.int64
    x = noise(4, 2).detach().float().requires_grad_()
    torch.testing.assert_close(spmm(single, x), dense.float() @ x)
    torch.testing.assert_close(*gradients(spmm(single, x).double(), [x]), *gradients((dense.float() @ x).double(), [x]))
