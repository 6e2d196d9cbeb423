"""The import hook of conftest.py is on: wrong shapes and types do not pass silently."""

import pytest
import torch
from jaxtyping import TypeCheckError

from nlgnn.nn import GCN, NLMLP, NonLocalAggregation
from nlgnn.nn.sparse import Operator

SQUARE = torch.ones(3, 3)


def test_right_types_pass():
    assert NonLocalAggregation(3)(SQUARE, torch.tensor([0, 0, 1])).shape == (3, 3)
    assert NLMLP(3, 4, 2, dropout=0)(SQUARE).shape == (3, 2)  # a whole number is a float


@pytest.mark.parametrize(
    ("z", "batch"),
    [
        (torch.ones(3), None),  # no matrix
        (torch.ones(3, 3, dtype=torch.long), None),  # no floats
        (SQUARE, torch.tensor([0, 0])),  # one graph number too few
        (SQUARE, torch.zeros(3)),  # graph numbers that are no whole numbers
        ([[1.0, 2.0, 3.0]], None),  # no tensor
    ],
)
def test_wrong_arguments_are_caught(z, batch):
    with pytest.raises(TypeCheckError, match=r"parameters of .*NonLocalAggregation.forward"):
        NonLocalAggregation(3)(z, batch)


def test_wrong_results_are_caught():
    one_row_too_few = torch.nn.AvgPool1d(2, stride=1)
    with pytest.raises(TypeCheckError, match=r"return value of nlgnn.*NonLocalAggregation"):
        NonLocalAggregation(3, convs=one_row_too_few)(SQUARE)


def test_static_and_class_methods_are_checked_too():
    with pytest.raises(TypeCheckError, match="from_coo"):
        Operator.from_coo(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(2), (2, 2))
    with pytest.raises(TypeCheckError, match=r"GCN.__init__"):
        GCN("3", 4, 2)


@pytest.mark.usefixtures("as_users_run_it")
def test_users_do_not_have_these_checks():
    assert NonLocalAggregation(3)(SQUARE, torch.zeros(3, dtype=torch.long)).shape == (3, 3)
    with pytest.raises(TypeError, match="not supported"):
        GCN("3", 4, 2)
