"""Roofline: what products need is counted, and shares are those of the limit."""

from __future__ import annotations

import pytest
import torch

from benchmarks.cases import Case
from benchmarks.page import roof_rows
from benchmarks.roofline import dense_product, measure_roofline, roof, sparse_product
from benchmarks.steps import Problem
from nlgnn.nn.kernels import sparse
from nlgnn.nn.kernels.sparse import Operator


def test_dense_product() -> None:
    kernel = dense_product("x", torch.ones(3, 5), torch.ones(5, 2), calls=4)
    assert (kernel.flops, kernel.bytes, kernel.calls) == (2 * 30, 4 * (15 + 10 + 6), 4)


@pytest.mark.parametrize(("cache", "read"), [(1000, 2 * 4), (0, 3 * 4)])
def test_sparse_product_reads_rows_again_that_leave_the_cache(
    cache: int, read: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.roofline.CACHE", cache)
    rows, columns = torch.tensor([0, 0, 1]), torch.tensor([0, 1, 1])
    operator = Operator.from_coo(rows, columns, torch.ones(3), (2, 2))
    kernel = sparse_product("A", operator, torch.ones(2, 4), calls=1)
    assert kernel.flops == 2 * 3 * 4
    assert kernel.bytes == 4 * (2 * 3 + 2 + read + 2 * 4)
    assert sparse.SparseProduct.forward(operator, torch.ones(2, 4)).tolist() == [[2.0] * 4, [1.0] * 4]


def test_share() -> None:
    assert roof("x", 1, 10, 10, seconds=2.0, limit=1.0)["share"] == 0.5


@pytest.mark.parametrize("layers", [None, 2])
def test_rows(layers: int | None) -> None:
    result = measure_roofline(Problem.named("mushroom-body"), layers)
    *kernels, step = result["roofs"]
    assert step["what"] == "the whole step"
    assert step["limit"] == pytest.approx(sum(row["calls"] * row["limit"] for row in kernels))
    assert step["flops"] == sum(row["calls"] * row["flops"] for row in kernels)
    shown = roof_rows([Case("a", "", "mushroom-body", dict)], {"a": result})
    assert len(shown) == len(kernels) + 1
