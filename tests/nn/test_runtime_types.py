"""Tests that wrong shapes and types are caught where the import hook of conftest.py is on: see test_types.py."""

import os

import pytest
import torch
from jaxtyping import TypeCheckError

from each_of import each_of
from nlgnn.errors import OptionError
from nlgnn.nn import GCN, NLMLP, Ranking, SortedConv
from nlgnn.nn.kernels.sparse import Operator

pytestmark = pytest.mark.skipif(not os.environ.get("NLGNN_CHECK_TYPES"), reason="types are checked by test_types.py")
SQUARE = torch.ones(3, 3)
KEYS = Ranking(torch.arange(3.0))


def test_right_types_pass():
    assert SortedConv(3)(SQUARE, KEYS, torch.tensor([0, 0, 1])).shape == (3, 3)
    assert NLMLP(3, 4, 2, dropout=0)(SQUARE).shape == (3, 2)  # a whole number is a float


@each_of(
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
    with pytest.raises(TypeCheckError, match=r"parameters of .*SortedConv.forward"):
        SortedConv(3)(z, KEYS, batch)


def test_wrong_results_are_caught():
    one_row_too_few = torch.nn.AvgPool1d(2, stride=1)
    with pytest.raises(TypeCheckError, match=r"return value of nlgnn.*SortedConv"):
        SortedConv(3, convs=one_row_too_few)(SQUARE, KEYS)


def test_static_and_class_methods_are_checked_too():
    with pytest.raises(TypeCheckError, match="from_coo"):
        Operator.from_coo(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(2), (2, 2))


@pytest.mark.usefixtures("as_users_run_it")
def test_users_do_not_have_these_checks():
    assert SortedConv(3)(SQUARE, KEYS, torch.zeros(3, dtype=torch.long)).shape == (3, 3)
    with pytest.raises(OptionError, match="in_channels='three'"):
        GCN("three", 4, 2)
